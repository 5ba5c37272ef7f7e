"""Parts of checks of recorded runs: the positions of a call as options of a check, and the label of
a module.
"""

from unittest.mock import Mock

import numpy as np
import pytest

from pecli.checks.recorded.call_tokens import CallTokens
from pecli.checks.recorded.module_checks import TableCheck
from pecli.checks.recorded.run_tensors import RecordedCall
from pecli.checks.verify.batch_tables import count_rows_per_sequence


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        pytest.param(4, {"offset": 7}, id="a row for each token"),
        pytest.param(16, {}, id="a row for each position"),
    ],
)
def test_a_recorded_table_with_a_row_per_token_is_checked_from_the_first_tokens_position(
    rows: int, options: dict[str, int]
) -> None:
    """A model was called with four tokens at positions 7, 8, 9, 10. A table of 4 rows is that of these
    tokens, and is verified with the option `offset=7`. A table of 16 rows has those of all positions
    from 0 on, which needs no option of `pecli.verify`.
    """
    call = RecordedCall(positions=np.array([[7, 8, 9, 10]]))
    tokens = CallTokens(call, axes=1)  # one number per position; M-RoPE has three
    table = np.zeros((rows, 8))

    options_of_verify = tokens.options(table)
    assert options_of_verify == options


@pytest.mark.parametrize(
    ("layer_type", "label"),
    [("", "model.rotary_emb"), ("sliding_attention", "model.rotary_emb (sliding_attention)")],
    ids=["one type", "a type among several"],
)
def test_a_check_is_labelled_by_its_module_and_layer_type(layer_type: str, label: str) -> None:
    """A check concerns the tables of a rotary module. Its label is the name of the module, followed
    by the layer type in brackets if the model has several.
    """
    check = TableCheck(0, "model.rotary_emb", layer_type, (), tables=Mock(), weak=())
    assert check.label == label


COSINES_OF_A_SEQUENCE = np.cos(np.arange(12.0)).reshape(3, 4)  # 3 rows, all different
COSINES_OF_ANOTHER = np.cos(np.arange(12.0, 24.0)).reshape(3, 4)


def test_cosines_that_differ_by_sequence_have_rows_that_are_counted_in_each() -> None:
    """A model that heeds left padding makes other cosines for each sequence of a batch: here two of
    3 rows each. The search for their positions starts from 0, 1, 2 in both.
    """
    batch = np.stack([COSINES_OF_A_SEQUENCE, COSINES_OF_ANOTHER])
    counted = count_rows_per_sequence({"cos": batch})

    assert counted is not None
    assert counted.ids.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_equal_cosines_are_not_counted_as_those_of_sequences() -> None:
    """The array has the same 3 rows twice. These may be two heads or two copies as well as two
    sequences, so that no positions are supposed for sequences.
    """
    copies = np.stack([COSINES_OF_A_SEQUENCE, COSINES_OF_A_SEQUENCE])
    assert count_rows_per_sequence({"cos": copies}) is None
