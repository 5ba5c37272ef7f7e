"""Rows, channels or heads of an array in the order that they have in another one."""

from collections.abc import Iterator, Mapping
from enum import Enum
from itertools import chain
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, widened
from pecli.engine.edits import AddedRows, Channels, Edit, Heads, Rows, SomeRows
from pecli.explain.array_arrangements import Candidate, squeezed

MAX_MATCHED = 4096
"""Rows, channels or heads that are matched with each other."""

MATCHED_ELEMENTS = 2048
"""Elements of each row or channel that are compared to match it."""

FEW_MATCHED = 64
"""Rows that are matched before all are: if most match no expected one, there is no order."""

PROJECTIONS = 24
"""Random sums by which rows are compared: they find the nearest of thousands of rows."""

NEAR = 0.02
"""Share of the usual square of a row within which the row that it matches lies."""

MAX_PADDING = 0.25
"""Share of rows that may match no expected one: they are padding, which is one number."""

MIN_DIFFERENT = 4
"""Different rows that an order has to use: fewer repeat by chance."""


class SliceKind(Enum):
    """A kind of slices of an array (heads, rows, channels), by the axis along which it is cut."""

    HEADS = "heads"
    ROWS = "rows"
    CHANNELS = "channels"

    @classmethod
    def along(cls, axis: int, ndim: int) -> "SliceKind":
        """Return what lies along an axis of an array (rows, channels) or (heads, rows, channels)."""
        axis_from_the_last = ndim - 1 - axis
        return (cls.CHANNELS, cls.ROWS, cls.HEADS)[axis_from_the_last]


PERMUTED: Mapping[SliceKind, type[Channels | Heads]] = {
    SliceKind.CHANNELS: Channels,
    SliceKind.HEADS: Heads,
}
"""The edits that name another order of slices, except for rows, whose orders have names of their own."""


def reordered_as_found(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield the array of a candidate with its rows, columns or heads reordered as those of a found array.

    If its rows are a b c d, and the rows of the found array are nearest to d c b a, its rows are reversed.
    Rows, columns and heads are reordered one kind at a time. Nothing is yielded for complex numbers.

    Args:
        candidate: An expected array, and the edits that made it.
        found: The array of a file.
    """
    # An axis of length 1 has no order. Without such axes, (1, 64, 32) and (64, 32) can be compared.
    expected = squeezed(candidate.array)
    squeezed_found = squeezed(found)
    has_same_axes = expected.ndim == squeezed_found.ndim and expected.ndim in (2, 3)
    if not has_same_axes or "c" in {expected.dtype.kind, found.dtype.kind}:
        return
    for axis in range(expected.ndim):
        for reordered in _reordered_along(axis, expected, squeezed_found):
            with_all_axes = reordered.array.reshape(found.shape)
            yield Candidate((*candidate.edits, *reordered.edits), with_all_axes)


def _reordered_along(axis: int, expected: Array, found: Array) -> Iterator[Candidate]:
    """Yield the expected array with its slices along one axis in the order of the found ones.

    Slices along axis 0 of (rows, columns) are the rows. If the rows a b c d are expected and d c b a are
    found, d c b a is yielded, with the edit «reversed».

    Args:
        axis: 0 for the rows of arrays (rows, columns), and 1 for their columns.
        expected: An array without axes of length 1.
        found: Another one with as many axes.
    """
    # The axis becomes the first one: expected_slices[2] is row 2 (or column 2, or head 2).
    expected_slices = np.moveaxis(expected, axis, 0)
    found_slices = np.moveaxis(found, axis, 0)
    if not _can_be_matched(expected_slices, found_slices):
        return
    kind = SliceKind.along(axis, expected.ndim)
    candidates = chain(
        _in_found_order(expected_slices, found_slices, kind),
        _with_added_rows(expected_slices, found_slices, kind),
    )
    for candidate in candidates:
        with_axis_in_place = np.moveaxis(candidate.array, 0, axis)
        yield candidate._replace(array=with_axis_in_place)


def _can_be_matched(sources: Array, targets: Array) -> bool:
    """Return True if slices along the first axis have one shape, and are not too many."""
    more = max(len(sources), len(targets))
    return sources.shape[1:] == targets.shape[1:] and more <= MAX_MATCHED


def _in_found_order(expected: Array, found: Array, kind: SliceKind) -> Iterator[Candidate]:
    """Yield the expected slices in the order of the found ones, once per edit that may name this order.

    Of the rows a b c d, the order d c b a is «reversed», and 0 0 a b c d is «padded». Nothing is yielded
    if the found slices have the expected order, which needs no name, or if too few were recognised.

    Args:
        expected: The slices along the first axis, in their right order.
        found: Those of the other array, whose number may differ.
        kind: What they are: rows, channels or heads.
    """
    indices = _indices_of_matches(expected, found)  # 3 2 1 0, or −1 −1 0 1 2 3
    padding = widened(found[indices < 0])
    is_expected_order = np.array_equal(indices, np.arange(len(expected)))
    has_one_padding = len(np.unique(padding)) <= 1  # Padding is one number, usually 0.
    if is_expected_order or not has_one_padding or not _are_enough(indices, len(expected)):
        return
    reordered = _slices_at(indices, widened(expected), padding)
    for name_of_order in _names_of_order(indices, len(expected), kind):
        yield Candidate((name_of_order,), reordered)


def _slices_at(indices: Indices, slices: Floats, padding: Floats) -> Floats:
    """Return slices in the order of their indices, with padding for each index −1.

    Of slices a b c, the indices −1 2 0 give padding, c and a.
    """
    # The first slice stands in for padding until it is replaced.
    reordered = slices[np.maximum(indices, 0)]
    reordered[indices < 0] = padding
    return reordered


def _with_added_rows(expected: Array, found: Array, kind: SliceKind) -> Iterator[Candidate]:
    """Yield the expected rows with others added between them, if the found array seems to be made so.

    If the expected rows a b c d are found as a x b c d y, then x and y, the rows 1 and 5, were added.
    A caller compares the result with the found array. So it has the expected numbers in a, b, c and d,
    which may differ slightly from the found ones, and copies of x and y, of which nothing is expected.

    Args:
        expected: The slices along the first axis, in their right order.
        found: Those of the other array.
        kind: What they are: rows, channels or heads. Nothing is yielded unless they are rows.
    """
    may_have_added_rows = MIN_DIFFERENT <= len(expected) < len(found)
    if kind is not SliceKind.ROWS or not may_have_added_rows:
        return
    # The place of each expected row among the found ones, 0 2 3 4; −1 for a row that is not there.
    places = _indices_of_matches(found, expected)
    # After −1, a first row that is not there is no step up either.
    are_all_in_order = (np.diff(places, prepend=-1) > 0).all()
    if not are_all_in_order:
        return
    with_added_rows = widened(found).copy()
    with_added_rows[places] = widened(expected)
    added = np.setdiff1d(np.arange(len(found)), places)
    yield Candidate((AddedRows(tuple(added.tolist())),), with_added_rows)


def _indices_of_matches(expected: Array, found: Array) -> Indices:
    """Return for each found slice the index of the nearest expected slice; −1 if none is near.

    If the rows of a table are reversed, the indices of four rows are 3 2 1 0. Comparing thousands
    of rows with each other number by number takes minutes. So rows are compared by some random
    weighted sums: equal rows have equal sums, and other rows practically never do.

    Args:
        expected: The slices along the first axis that are looked for.
        found: The slices that should be some of them.
    """
    expected_rows = _as_rows(expected)
    found_rows = _as_rows(found)
    weights = np.random.default_rng(0).normal(size=(expected_rows.shape[1], PROJECTIONS))
    expected_sums = expected_rows @ weights  # (slices, PROJECTIONS)
    found_sums = found_rows @ weights
    # A few slices show soon that arrays have nothing to do with each other.
    few_sums = found_sums[:: max(1, len(found_rows) // FEW_MATCHED)]
    share_without_match = np.mean(_nearest(expected_sums, few_sums) < 0)
    if share_without_match > 0.5:
        return np.full(len(found_rows), -1)
    return _nearest(expected_sums, found_sums)


def _as_rows(slices: Array) -> Floats:
    """Return some numbers of each slice as a row in float64, with 0 for a mask."""
    rows = slices.reshape(len(slices), -1)
    step = max(1, rows.shape[1] // MATCHED_ELEMENTS)
    wide = widened(rows[:, ::step])
    return np.where(np.isfinite(wide), wide, 0.0)


def _nearest(sources: Floats, targets: Floats) -> Indices:
    """Return the index of the source that is nearest to each target; −1 if none is near.

    Distances follow from |s − t|² = |s|² + |t|² − 2·s·t, which needs one product of matrices.
    """
    source_squares = (sources**2).sum(axis=1)
    target_squares = (targets**2).sum(axis=1)
    distances = source_squares + target_squares[:, None] - 2 * targets @ sources.T
    nearest = distances.argmin(axis=1)
    usual_square = float(target_squares.mean()) or 1.0
    is_near = distances[np.arange(len(targets)), nearest] < NEAR * usual_square
    return np.where(is_near, nearest, -1)


def _names_of_order(indices: Indices, count: int, kind: SliceKind) -> Iterator[Edit]:
    """Yield the edits that name the order in which slices were found, the most special name first.

    The order 3 2 1 0 of four rows is «reversed», and also «permuted». Nothing is yielded for an order
    without a name.

    Args:
        indices: The index of the expected slice that each found one equals; −1 for none.
        count: The number of expected slices.
        kind: What they are: rows, channels or heads.
    """
    if kind in PERMUTED:
        permuted_edit = PERMUTED[kind]
        if np.array_equal(indices, np.arange(count)[::-1]):
            yield permuted_edit("reversed")
        if np.array_equal(np.sort(indices), np.arange(count)):
            yield permuted_edit(tuple(indices.tolist()))
        return
    for regular in _regular_orders(indices, count):
        if np.array_equal(indices, regular.indices):
            yield regular.name
    yield from _listed_orders(indices, count)


def _are_enough(indices: Indices, count: int) -> bool:
    """Return True if most found slices equal an expected one, and use several of them, or only one.

    Few slices in a mixture, such as 0 1 1 0, may be chance.

    Args:
        indices: The index of the expected slice that each found one equals; −1 for none.
        count: The number of expected slices.
    """
    matched = indices[indices >= 0]
    is_constant = not np.ptp(indices)
    are_several = is_constant or len(np.unique(matched)) >= min(MIN_DIFFERENT, count)
    return are_several and len(matched) >= (1 - MAX_PADDING) * len(indices)


def _listed_orders(indices: Indices, count: int) -> Iterator[Rows | SomeRows]:
    """Yield the order in which rows were found if each is there once: of all, or of some, 4 1 2."""
    has_padding = indices.min() < 0
    is_some_repeated = len(np.unique(indices)) < len(indices)
    if has_padding or is_some_repeated:
        return
    are_all_there = len(indices) == count
    yield Rows("permuted") if are_all_there else SomeRows(tuple(indices.tolist()))


class RegularOrder(NamedTuple):
    """The name of a regular order of rows, and the index of the expected row in each place."""

    name: Rows
    indices: Indices


def _regular_orders(indices: Indices, count: int) -> Iterator[RegularOrder]:
    """Yield each regular order in which rows may have been found, as far as they have its numbers.

    If the first found row is row 2, it may be repeated in all of them. If two found rows are padding,
    these may be the first two, or the last two.

    Args:
        indices: The index of the expected row that each found row equals; −1 for padding.
        count: The number of expected rows.
    """
    length = len(indices)
    first_index = max(int(indices[0]), 0)  # Padding (−1) begins none of the orders that need it.
    padding_rows = int(np.count_nonzero(indices < 0))
    padding = np.full(padding_rows, -1)
    rows_in_order = np.arange(length - padding_rows)
    period = _period_of(indices)
    yield RegularOrder(
        Rows("cut", length), np.arange(length)
    )  # 0 1 2 3 of six rows: four are left.
    yield RegularOrder(Rows("padded", padding_rows), np.append(padding, rows_in_order))  # −1 −1 0 1
    yield RegularOrder(Rows("padded at the end", padding_rows), np.append(rows_in_order, padding))
    yield RegularOrder(Rows("constant", first_index), np.full(length, first_index))  # 2 2 2 2
    # 2 3 4 2 3 4: rows begin again after three.
    yield RegularOrder(Rows("wrapped", period), first_index + np.arange(length) % period)
    yield RegularOrder(Rows("reversed"), np.arange(count)[::-1])  # 3 2 1 0


def _period_of(indices: Indices) -> int:
    """Return after how many rows the first index comes again: 3 for 2 3 4 2 3 4; 1 if it never does."""
    is_first_again = indices[1:] == indices[0]
    index_of_first_true = int(is_first_again.argmax())  # argmax is 0 if all are False.
    return index_of_first_true + 1
