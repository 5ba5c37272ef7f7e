"""`RowPositions`: the positions of a tensor's rows, as a range from an offset, or as ids of a batch
or of several axes.

Its span goes from the first position to the one past the last; seq_len is the length of a table
that holds them. All expected numbers are counted by hand.
"""

import numpy as np
import pytest

from pecli.tensors.inputs import Input
from pecli.tensors.row_positions import RowPositions, row_positions


def positions_with_ids(*shape: int) -> RowPositions:
    return RowPositions(ids=np.zeros(shape, int))


@pytest.mark.parametrize(
    ("rows", "length", "span"),
    [
        pytest.param(RowPositions(3), 2, (3, 5), id="from an offset"),
        pytest.param(RowPositions(ids=np.array([4, 2])), 2, (2, 5), id="with ids"),
        pytest.param(RowPositions(ids=np.array([], int)), 0, (0, 0), id="no rows"),
    ],
)
def test_the_span_of_rows_goes_from_the_first_position_to_one_past_the_last(
    rows: RowPositions, length: int, span: tuple[int, int]
) -> None:
    """Two rows from an offset of 3 on have the positions 3 and 4; two rows with ids are at 4 and 2;
    and no rows have an empty span. Counted by hand.
    """
    assert rows.span(length) == span


def test_a_table_for_ids_has_rows_up_to_the_largest_id() -> None:
    """A tensor of two rows has the ids 4 and 2, which need the rows 0 to 4 of a table."""
    rows = RowPositions(ids=np.array([4, 2]))
    assert rows.table_rows(length=2, rope_parameters=()) == 5


def test_a_table_for_an_offset_has_as_many_rows_as_the_tensor_and_at_least_one() -> None:
    """The first row of a table is the offset's, so that an offset of 9 adds none to the two rows of a
    tensor. A tensor without rows still has a table of one, as schemes have no empty tables.
    """
    assert RowPositions(offset=9).table_rows(length=2, rope_parameters=()) == 2
    assert RowPositions(offset=9).table_rows(length=0, rope_parameters=()) == 1


@pytest.mark.parametrize("name", ["grid", "positions"])
def test_a_table_of_a_scheme_with_a_grid_or_positions_is_given_no_length(name: str) -> None:
    """A parameter `grid` or `positions` of the scheme determines the rows already."""
    rows = RowPositions(ids=np.array([4, 2]))
    assert rows.table_rows(length=2, rope_parameters=(name,)) is None


@pytest.mark.parametrize(
    ("shape", "axes", "arranged"),
    [
        ((4,), 1, (1, 1, 4)),
        ((2, 4), 1, (1, 2, 4)),
        ((4,), 3, (1, 1, 4)),
        ((3, 4), 3, (3, 1, 4)),
        ((1, 4), 3, (1, 1, 4)),
        ((3, 2, 4), 3, (3, 2, 4)),
        ((0,), 1, (1, 1, 0)),
    ],
)
def test_ids_are_arranged_as_axes_batch_and_length(
    shape: tuple[int, ...], axes: int, arranged: tuple[int, ...]
) -> None:
    """Axes are 1, or 3 for M-RoPE (time, rows, columns). Missing axes of ids get length 1, which
    broadcasts: ids of one prompt count for the whole batch, and ids without axes for all three.
    """
    found = positions_with_ids(*shape).arranged(axes)
    assert found is not None
    assert found.shape == arranged


def test_a_mask_counts_tokens_and_leaves_padding_at_the_last_count() -> None:
    """The three ones are tokens 0, 1 and 2; padding before them has 0, after them 2, and is marked
    as no token.
    """
    rows = row_positions(attention_mask=[0, 0, 1, 1, 1, 0])
    assert rows.ids is not None
    assert rows.ids.tolist() == [0, 0, 0, 1, 2, 2]

    places = rows.positions_of(Input(np.zeros((6, 4)), "x"), -2)
    assert places.is_token.tolist() == [[False, False, True, True, True, False]]


def test_length_and_channels_are_read_from_a_sequence_on_another_axis() -> None:
    """Of the shape (2, 3, 4), the sequence is the third axis from the end: 2 positions; channels are
    always the last axis, 4.
    """
    length, dim = Input(np.zeros((2, 3, 4)), "x").checked_sequence_shape(-3)
    assert length == 2
    assert dim == 4
