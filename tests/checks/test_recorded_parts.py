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


@pytest.mark.parametrize(("rows", "options"), [(4, {"offset": 7}), (16, {})])
def test_only_a_table_with_a_row_per_token_begins_where_the_tokens_do(
    rows: int, options: dict[str, int]
) -> None:
    """The call has four tokens at 7, 8, 9, 10; a table of 16 rows is that of all positions."""
    tokens = CallTokens(RecordedCall(positions=np.arange(7, 11)[None]), axes=1)
    assert tokens.options(np.zeros((rows, 8))) == options


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


def test_rows_are_counted_in_every_sequence_if_their_cosines_differ() -> None:
    """A search for the positions starts from 0, 1, 2 in both sequences."""
    cosines = np.cos(np.arange(24.0)).reshape(2, 3, 4)
    counted = count_rows_per_sequence({"cos": cosines})

    assert counted is not None
    assert counted.ids.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_rows_are_not_counted_if_all_sequences_are_alike() -> None:
    """Two sequences of a batch have other positions, hence other tables, each of 3 rows. Two equal
    tables may as well be two heads or two copies, so that nothing is said about sequences.
    """
    cosines = np.cos(np.arange(12.0)).reshape(1, 3, 4)
    assert count_rows_per_sequence({"cos": np.repeat(cosines, 2, axis=0)}) is None
