"""Tables that have two columns for every frequency, which must be alike apart from noise and damage."""

import math

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats

MAX_DOUBLED_SIGMAS = 7.5
"""Standard deviations of the noise by which two columns of a frequency may differ: normal noise exceeds
them once in 10^13 elements."""
MAX_WRONG = 0.2  #: share of the rows that may be wrong in a table that is right otherwise
TINY = 1e-300  #: keeps a limit above the error 0 of a table of zeros
EMPTY = 1e-3  #: share of the largest value below which rows and columns are zeros, apart from noise


class FormError(Exception):
    """A table does not have the form in which it was to be read."""


def take_one_column(both: Array, noise: float) -> Array:
    """Return one of the two columns that a file has for every frequency.

    Args:
        both: The first columns of all frequencies and then the second ones, (2, rows, frequencies).
        noise: The error by which they may differ (see `_take_first_within_noise`); 0 if they must be equal.

    Raises:
        FormError: They differ by more.
    """
    first: Array
    second: Array
    first, second = both
    if noise:
        return _take_first_within_noise(first, second, noise)
    # Most tables that are not doubled differ in the first row already.
    is_first_row_doubled = np.array_equal(first[:1], second[:1], equal_nan=True)
    if is_first_row_doubled and np.array_equal(first, second, equal_nan=True):
        return first
    raise FormError


def _take_first_within_noise(first: Array, second: Array, noise: float) -> Array:
    """Return the first of two columns per frequency, which must differ by noise only.

    Noise comes from coarse storage: after rounding to four decimals, both columns of a frequency
    may be off by half a unit. A few elements that differ by far more are damage; they become NaN.

    Args:
        first: The first columns, (rows, frequencies).
        second: The second columns.
        noise: The largest error of a column, root mean square, as a share of the largest value.
    """
    wide_first = np.asarray(first, np.float64)
    wide_second = np.asarray(second, np.float64)
    error = np.nan_to_num(np.abs(wide_first - wide_second), nan=np.inf)
    size = _measure_typical_size(wide_first)
    is_damaged = _is_damage(error, size)
    has_few_damaged_rows = np.mean(is_damaged.any(axis=1)) <= MAX_WRONG
    differs_by_noise = _measure_noisiest_column(error, is_damaged) < noise * (size + TINY)
    if not (has_few_damaged_rows and differs_by_noise):
        raise FormError
    one_column: Array = np.where(is_damaged, np.nan, wide_first)
    return one_column


def _measure_typical_size(table: Floats) -> float:
    """Return the largest absolute value of a typical row; a few damaged rows do not change it."""
    largest_by_row = np.fmax.reduce(np.abs(table), axis=1)  # `fmax` skips NaN unless all are NaN.
    return float(np.median(np.nan_to_num(largest_by_row)))


def _measure_noisiest_column(error: Floats, is_damaged: Flags) -> float:
    """Return the largest error of a column, root mean square, without its damaged elements.

    The average of all columns would hide a few fast ones that differ.
    """
    squares = (error**2).sum(axis=0, where=~is_damaged)
    return math.sqrt(squares.max(initial=0.0) / max(1, len(error)))


def _is_damage(error: Floats, size: float) -> Flags:
    """Return which errors are far larger than the noise of the others, and than 0.1 % of `size`.

    If errors are normal, their standard deviation is 1.5 times the median of |error|.
    """
    sigma = 1.5 * float(np.median(error))
    return np.asarray(error > max(EMPTY * size, MAX_DOUBLED_SIGMAS * sigma))
