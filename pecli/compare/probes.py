"""A few rows of a table, by which readings are told apart before one of them is compared whole."""

import math
from typing import Any

import numpy as np

from pecli.compare.factors import Shape
from pecli.compare.part import Part
from pecli.engine.arrays import AnyArray, Indices, widest

PROBED_FIRST_ROWS = 4  #: first positions that are probed, beside one in the middle and the last
PROBED_GROUPS = 16  #: heads, or sequences of a batch, that are probed
PROBED_ELEMENTS = 1 << 16  #: elements of a vector that are probed
MAX_ERROR = 2.0  #: error that an element counts for if it is further off, or not a number


def take_found_probes(part: Part) -> AnyArray:
    """Return the probed rows of the first and of the last copies in a tensor.

    Of 8 copies of a table (64, 128), (8, 64, 128), these are copies 0 and 7 and rows 0, 1, 2, 3, 32
    and 63 of each: (2, 6, 128).
    """
    # A step of 7 selects copies 0 and 7 of 8; a single copy is selected by a step of 1.
    first_and_last = tuple(slice(None, None, max(1, count - 1)) for count in part.copies)
    copies = part.found[first_and_last]
    table_shape = part.expected.shape
    probed_rows: list[Any] = [..., *np.ix_(*_choose_indices(table_shape))]
    if len(table_shape) > 1:
        probed_rows.append(slice(None))  # all columns of the rows
    return widest(part.decoded(copies[tuple(probed_rows)]))


def take_expected_probes(part: Part) -> AnyArray:
    """Return the probed rows of the expected table, of which only these are computed.

    Of a table (64, 128) they are (6, 128).
    """
    shape = part.expected.shape
    probed = np.ix_(*_choose_indices(shape))
    if isinstance(part.expected, np.ndarray):
        return widest(part.expected[probed])
    rows = np.ravel_multi_index(probed, shape[:-1] or shape)
    values = widest(part.expected.pick(rows.reshape(-1)))
    return values.reshape(*rows.shape, *shape[len(probed) :])


def measure_mean_error(part: Part) -> float:
    """Return the mean absolute error of a few rows of a table, by which ways to read it are compared.

    An element that is infinite on both sides is right. One that is not a number, or is off by more
    than 2, as no cosine can be, counts as MAX_ERROR, so that no single element decides.

    Args:
        part: The expected table, which is not empty, and its elements in a tensor.
    """
    expected = take_expected_probes(part)
    with np.errstate(invalid="ignore", over="ignore"):
        found = part.as_in_table(take_found_probes(part))
        error = np.where(expected == found, 0.0, np.abs(expected - found))
    return float(np.minimum(np.nan_to_num(error, nan=MAX_ERROR), MAX_ERROR).mean())


def _choose_indices(shape: Shape) -> tuple[Indices, ...]:
    """Return the probed indices along each axis of a table except the last.

    Of a bias (32, 4096, 4096), these are 16 of the heads, and the rows 0, 1, 2, 3, 2048 and 4095. Of a vector, they
    are its first elements.
    """
    if len(shape) < 2:
        return (np.arange(min(math.prod(shape), PROBED_ELEMENTS)),)
    *outer_lengths, row_count, _ = shape
    rows = np.unique(np.r_[: min(PROBED_FIRST_ROWS, row_count), row_count // 2, row_count - 1])
    heads_and_sequences = [_spread_indices(length) for length in outer_lengths]
    return (*heads_and_sequences, rows)


def _spread_indices(count: int) -> Indices:
    """Return some of the first `count` indices, at equal distances, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, PROBED_GROUPS)).astype(np.intp))
