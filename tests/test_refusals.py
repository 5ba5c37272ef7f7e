"""The table refusals.txt: a call, the parameter that its error names, and a part of the message.

Rows were written by hand from the rules of parameters. A row with a call alone is accepted: it is
the neighbour of a refused one, just within the rule. NAMES has the names that the calls use. A
KindError is about a value of the wrong kind, any other ParameterError about a value out of its
range.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

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
from pecli.tensors.head_layout import HeadDivision
from pecli.views import file_summary
from pecli.views.pictures.figure_files import check_suffix
from tests.call_rows import result_of

XL = np.zeros((2, 4))


class Exchanged:
    """An array that only the DLPack protocol can read."""

    dtype = XL.dtype

    def __dlpack__(self, **options: Any) -> object:
        return XL.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


APPLIED = layers.RotaryPosEmbedding()
APPLIED.apply(XL, XL)
NAMES: dict[str, Any] = {
    **vars(layers),
    "np": np,
    "ml_dtypes": ml_dtypes,
    "pecli": pecli,
    "Bundle": Bundle,
    "Heads": HeadDivision,
    "Real": Real,
    "Whole": Whole,
    "add_bias": add_bias,
    "check_suffix": check_suffix,
    "converted": converted,
    "file_summary": file_summary,
    "indices": indices,
    "numbers": numbers,
    "table_of": table_of,
    "whole_positions": whole_positions,
    "LAST": 2**40,
    "X": np.ones((2, 5, 8), np.float32),
    "XL": XL,
    "EXCHANGED": Exchanged(),
    "Q": np.ones((4, 128), np.float32),
    "W": {"a": np.zeros((4, 4)), "b": np.zeros(4)},
    "QK": {"q_proj": np.zeros((32, 3)), "k_proj": np.zeros((12, 3))},
    "ROPE": pecli.Rope(6, 128),
    "TO_HALVES": ("interleaved", "halves"),
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
    "APPLIED": APPLIED,
    "ROTARY": layers.RotaryPosEmbedding(),
    "OF_FOUR": layers.RotaryPosEmbedding(4),
    "SHORT": layers.RotaryPosEmbedding(max_seq_len=50),
    "LEARNED": layers.LearnedPosEmbedding(6, 2),
    "FIXED": layers.SinusoidalPosEmbedding(seq_len=5, embed_dim=4),
}
"""Names that the rows use."""


class Refusal(NamedTuple):
    """A call that is refused, the parameter that the error names, and a part of its message."""

    call: str
    name: str
    message: str = ""
    kind: str = ""  #: `kind` for a KindError


def rows() -> Iterator[list[str]]:
    text = Path(__file__).with_name("refusals.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            yield line.split(" | ")


REFUSALS = [Refusal(*row) for row in rows() if len(row) > 1]
ACCEPTED = [row[0] for row in rows() if len(row) == 1]


@pytest.mark.parametrize(
    ("call", "parameter", "message", "kind"), REFUSALS, ids=[refusal.call for refusal in REFUSALS]
)
def test_a_refusal_names_its_parameter(call: str, parameter: str, message: str, kind: str) -> None:
    """Each row of refusals.txt is a call with a wrong argument, such as `pecli.Rope(4, 7)`, the
    parameter that the error must name, a part of its message, and maybe «kind», if the argument is
    of a wrong type (KindError). The message is one line.
    """
    error = KindError if kind else ParameterError
    with pytest.raises(error) as caught:
        result_of(call, NAMES)

    assert caught.value.name == parameter
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("call", ACCEPTED)
def test_a_value_just_within_the_rule_is_accepted(call: str) -> None:
    """Rows of refusals.txt without an error are calls whose value is just within a rule, such as the
    largest size that is allowed. The call must not raise; its result is not compared.
    """
    result_of(call, NAMES)


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (ParameterError, PecliError),
        (ParameterError, ValueError),
        (KindError, ParameterError),
        (KindError, TypeError),
        (FileError, PecliError),
    ],
)
def test_errors_are_those_that_python_users_catch(error: type, base: type) -> None:
    """ParameterError is about a wrong value, and KindError about one of a wrong type. Users who know
    Python's own functions catch ValueError and TypeError for these, and PecliError for any.
    """
    assert issubclass(error, base)


def test_an_error_of_a_file_is_no_error_of_a_value() -> None:
    """ParameterError is a ValueError. Were FileError one too, a user's `except ValueError` around a
    call would hide a missing file.
    """
    assert not issubclass(FileError, ValueError)


@pytest.mark.parametrize(
    ("key", "rule"), [("model_type", "must be a text"), ("rope_scaling", "must be an object")]
)
def test_a_configuration_of_arrays_is_refused(key: str, rule: str) -> None:
    """In a configuration, «model_type» is a text and «rope_scaling» an object; here they are arrays. To
    compare an array with a text gives an array, which would fail with a message of NumPy.
    """
    with pytest.raises(PecliError, match=rule):
        pecli.load_config({"model_type": "llama", key: np.arange(3)})
