"""Words and objects of other libraries for dtypes, layouts and scalings, in Python as on the command line."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli


class OfTorch:
    def __repr__(self) -> str:
        return "torch.bfloat16"


@pytest.mark.parametrize(
    ("parameter", "said", "meant"),
    [
        *(("dtype", word, "float16") for word in ("fp16", "half", "F16", "f2", np.float16, np.dtype(np.float16))),
        *(("dtype", word, "bfloat16") for word in ("bf16", ml_dtypes.bfloat16, "torch.bfloat16", OfTorch())),
        *(("dtype", word, "float64") for word in ("double", float, np.float64)),
        *(("layout", word, "halves") for word in ("neox", "rotate_half", "half")),
        *(("layout", word, "interleaved") for word in ("gptj", "traditional")),
        ("scaling", "default", "none"),
    ],
)
def test_other_words(parameter: str, said: Any, meant: str) -> None:
    assert getattr(pecli.Rope(4, 8, **{parameter: said}), parameter) == meant


@pytest.mark.parametrize("said", [None, int, "int8", "f4,(", "", 3, np.int64, "flaot32"])
def test_what_is_no_dtype(said: Any) -> None:
    with pytest.raises(pecli.ParameterError, match="it must be one of float64, float32, float16, bfloat16"):
        pecli.Rope(4, 8, dtype=said)
