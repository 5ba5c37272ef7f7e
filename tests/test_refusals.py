"""One table of refusals, refusals.txt: a call, which parameter is named, and part of what is said of it.

A call alone is accepted: it is the neighbour of one that is refused, on the other side of a boundary.
"""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli import layers
from pecli.engine.application import add_bias
from pecli.engine.arrays import indices, numbers
from pecli.engine.schemes.bundle import Bundle
from pecli.engine.schemes.given_positions import whole_positions
from pecli.engine.schemes.parameters import Real, Whole
from pecli.engine.table import table_of
from pecli.errors import FileError, KindError, ParameterError, PecliError
from pecli.tensors.convert import converted
from pecli.tensors.head_layout import Heads
from pecli.views import file_summary
from pecli.views.pictures.figure_files import check_suffix

ROWS = [
    row.split(" | ")
    for row in Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8").splitlines()
]
XL = np.zeros((2, 4))
APPLIED = layers.RotaryPosEmbedding()
APPLIED.apply(XL, XL)
NAMES: dict[str, Any] = {
    **vars(layers),
    **{
        each.__name__: each
        for each in (Bundle, Heads, Real, Whole, add_bias, check_suffix, converted, indices)
    },
    **{
        "np": np,
        "pecli": pecli,
        "ml_dtypes": ml_dtypes,
        "LAST": 2**40,
        "X": np.ones((2, 5, 8), np.float32),
    },
    **{
        "whole_positions": whole_positions,
        "table_of": table_of,
        "file_summary": file_summary,
        "numbers": numbers,
    },
    "NO_LENGTH": {
        "model_type": "llama",
        "hidden_size": 512,
        "num_attention_heads": 8,
        "rope_theta": 10000.0,
    },
    "YARN": {"scaling": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "LONG": {"scaling": "longrope", "original_max_position_embeddings": 64},
    "FACTORS": {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4},
    "GRID": {"grid": (4, 4), "dim": 16, "style": "pixtral"},
    "MAE": {"dim": 16, "style": "mae"},
    **{
        "Q": np.ones((4, 128), np.float32),
        "ROPE": pecli.Rope(6, 128),
        "TO_HALVES": ("interleaved", "halves"),
    },
    **{
        "W": {"a": np.zeros((4, 4)), "b": np.zeros(4)},
        "QK": {"q_proj": np.zeros((32, 3)), "k_proj": np.zeros((12, 3))},
    },
    **{
        "XL": XL,
        "APPLIED": APPLIED,
        "ROTARY": layers.RotaryPosEmbedding(),
        "OF_FOUR": layers.RotaryPosEmbedding(4),
    },
    **{
        "SHORT": layers.RotaryPosEmbedding(max_seq_len=50),
        "LEARNED": layers.LearnedPosEmbedding(6, 2),
    },
    "FIXED": layers.SinusoidalPosEmbedding(seq_len=5, embed_dim=4),
}


def test_every_refusal_names_its_parameter() -> None:
    for row in (row for row in ROWS if len(row) > 1):
        code, name, rule = (*row, "")[:3]
        with pytest.raises(KindError if row[3:] else ParameterError) as caught:
            eval(code, dict(NAMES))
        assert (caught.value.name, rule in str(caught.value)) == (name, True), (
            f"{code}: {caught.value}"
        )
        assert "\n" not in str(caught.value)


def test_what_is_just_within_a_rule_is_accepted() -> None:
    accepted = [row[0] for row in ROWS if len(row) == 1 and row[0][:1] not in ("", "#")]
    assert len(accepted) > 20
    for code in accepted:
        eval(code, dict(NAMES))


def test_errors_are_those_that_python_users_catch() -> None:
    caught = {
        ParameterError: (PecliError, ValueError),
        KindError: (ParameterError, TypeError),
        FileError: (PecliError,),
    }
    assert all(issubclass(error, kind) for error, kinds in caught.items() for kind in kinds)
    assert not issubclass(FileError, ValueError)
    for key, rule in (("model_type", "must be a text"), ("rope_scaling", "must be an object")):
        with pytest.raises(PecliError, match=rule):
            pecli.load_config({"model_type": "llama", key: np.arange(3)})
