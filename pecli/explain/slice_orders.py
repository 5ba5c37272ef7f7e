"""Rows, channels or heads of an array in the order that they have in another one."""

from collections.abc import Iterator
from enum import Enum
from itertools import chain

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, widened
from pecli.engine.edits import AddedRows, Channels, Edit, Heads, Negated, Rows, SomeRows
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
    if not has_same_axes or expected.dtype.kind == "c":
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
    """Yield the expected slices in the order in which they were found, as they are or all negated.

    Of expected rows a b c d, the found rows d c b a are «reversed», and −d −c −b −a also «negated».

    Args:
        expected: The slices along the first axis, in their right order.
        found: Those of the other array, whose number may differ.
        kind: What they are: rows, channels or heads.
    """
    not_negated = _in_named_order(expected, found, kind, sign=1)
    if not_negated is not None:
        yield not_negated
    negated = _in_named_order(expected, found, kind, sign=-1)
    if negated is not None:
        yield negated._replace(edits=(Negated("all"), *negated.edits))


def _in_named_order(expected: Array, found: Array, kind: SliceKind, sign: int) -> Candidate | None:
    """Return the expected slices in the order of the found ones, with the edit that names this order.

    Of the rows a b c d, the order d c b a is «reversed», and 0 0 a b c d is «padded». None is returned if
    the found slices have the expected order, or one without a name.

    Args:
        expected: The slices along the first axis, in their right order.
        found: Those of the other array, whose number may differ.
        kind: What they are: rows, channels or heads.
        sign: −1 if the found slices are supposed to be negated, or else 1.
    """
    indices = _indices_of_matches(expected, found, sign)  # 3 2 1 0, or −1 −1 0 1 2 3
    name_of_order = _name_of_order(indices, len(expected), kind)
    if name_of_order is None:
        return None
    is_without_match = indices < 0
    padding = widened(found[is_without_match])
    if not _are_one_number(padding):  # Padding is one number, usually 0.
        return None
    reordered = _slices_at(indices, sign * widened(expected), padding)
    return Candidate((name_of_order,), reordered)


def _are_one_number(values: Floats) -> bool:
    """Return True if all values are equal, or if there are none."""
    return values.size == 0 or bool(np.ptp(values) == 0)


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
    places = _indices_of_matches(found, expected, sign=1)  # as they are, not negated
    are_all_found = places.min() >= 0
    are_in_order = (np.diff(places) > 0).all()
    if not (are_all_found and are_in_order):
        return
    with_added_rows = widened(found).copy()
    with_added_rows[places] = widened(expected)
    added = np.setdiff1d(np.arange(len(found)), places)
    yield Candidate((AddedRows(tuple(added.tolist())),), with_added_rows)


def _indices_of_matches(expected: Array, found: Array, sign: int) -> Indices:
    """Return for each found slice the index of the nearest expected slice; −1 if none is near.

    If the rows of a table are reversed, the indices of four rows are 3 2 1 0. Comparing thousands
    of rows with each other number by number takes minutes. So rows are compared by some random
    weighted sums: equal rows have equal sums, and other rows practically never do.

    Args:
        expected: The slices along the first axis that are looked for.
        found: The slices that should be some of them.
        sign: −1 if the found slices are supposed to be negated, or else 1.
    """
    expected_rows = sign * _as_rows(expected)
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


def _name_of_order(indices: Indices, count: int, kind: SliceKind) -> Edit | None:
    """Return the edit that names the order in which slices were found, such as «reversed» for 3 2 1 0.

    None is returned if the order has no name, and if too few slices were recognised.

    Args:
        indices: The index of the expected slice that each found one equals; −1 for none.
        count: The number of expected slices.
        kind: What they are: rows, channels or heads.
    """
    is_expected_order = np.array_equal(indices, np.arange(count))  # It needs no name.
    if is_expected_order or not _are_enough(indices, count):
        return None
    if kind is SliceKind.ROWS:
        return _order_of_rows(indices, count)
    return _permutation(indices, count, kind)


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


def _permutation(indices: Indices, count: int, kind: SliceKind) -> Channels | Heads | None:
    """Return the order of channels or heads, (1, 0, 2) if 0 and 1 are exchanged; None if some are missing."""
    if not np.array_equal(np.sort(indices), np.arange(count)):
        return None
    is_reversed = np.array_equal(indices, np.arange(count)[::-1])
    order = "reversed" if is_reversed else tuple(indices.tolist())
    return Channels(order) if kind is SliceKind.CHANNELS else Heads(order)


def _order_of_rows(indices: Indices, count: int) -> Rows | SomeRows | None:
    """Return the edit that names the order in which rows were found; None if the order has no name.

    Orders such as 3 2 1 0 are «reversed», «cut» and so on. Any other order of all rows is «permuted», as
    0 2 1 3 is. If only some are there, each once, they are listed: 4 1 2.

    Args:
        indices: The index of the expected row that each found row equals; −1 for padding.
        count: The number of expected rows.
    """
    regular_order = _regular_order(indices, count)
    if regular_order is not None:
        return regular_order
    has_padding = (indices < 0).any()
    is_each_there_once = not has_padding and len(np.unique(indices)) == len(indices)
    if not is_each_there_once:
        return None
    are_all_there = len(indices) == count
    return Rows("permuted") if are_all_there else SomeRows(tuple(indices.tolist()))


def _regular_order(indices: Indices, count: int) -> Rows | None:
    """Return the name of a regular order of rows, such as «reversed» for 3 2 1 0; None for any other order.

    Some names have a number, such as that of the rows of padding.

    Args:
        indices: The index of the expected row that each found row equals; −1 for padding.
        count: The number of expected rows.
    """
    length = len(indices)
    if np.array_equal(indices, np.arange(length)):  # 0 1 2 3 of six rows: four are left.
        return Rows("cut", length)
    padding_rows = int(np.count_nonzero(indices < 0))
    padding = np.full(padding_rows, -1)
    rows_in_order = np.arange(length - padding_rows)
    if np.array_equal(indices, np.append(padding, rows_in_order)):  # −1 −1 0 1 2 3: two of padding.
        return Rows("padded", padding_rows)
    if np.array_equal(indices, np.append(rows_in_order, padding)):  # 0 1 2 3 −1 −1
        return Rows("padded at the end", padding_rows)
    first_index = int(indices[0])
    if (indices == first_index).all():  # 2 2 2 2: row 2 is repeated.
        return Rows("constant", first_index)
    period = _period_of(indices)
    wrapped_rows = _wrapped_rows(first_index, period, length)
    if np.array_equal(indices, wrapped_rows):  # 0 1 2 0 1 2: they begin again after three rows.
        return Rows("wrapped", period)
    if np.array_equal(indices, np.arange(count)[::-1]):  # 3 2 1 0
        return Rows("reversed")
    return None


def _wrapped_rows(first: int, period: int, length: int) -> Indices:
    """Return the indices of rows that begin again after a period: 2 3 4 2 3 4 2 for 2, 3 and 7.

    Wrapped rows do not begin with padding (−1). If the found ones do, 0 stands in its place, so that
    they differ from these.
    """
    return max(first, 0) + np.arange(length) % period


def _period_of(indices: Indices) -> int:
    """Return after how many rows the first index comes again: 3 for 2 3 4 2 3 4; 1 if it never does."""
    is_first_again = indices[1:] == indices[0]
    index_of_first_true = int(is_first_again.argmax())  # argmax is 0 if all are False.
    return index_of_first_true + 1
