"""An array with other values than the expected ones: a factor, a constant per row, another mask."""

import math
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, widened, widest
from pecli.engine.edits import Edit, Mask, Negated, RowShift, Scaled
from pecli.explain.array_arrangements import Candidate
from pecli.explain.array_computation import as_floats, as_matrix
from pecli.explain.bias_computation import is_unmasked
from pecli.explain.computation import FLOAT32_FUNCTION
from pecli.explain.measure import least_squares_factor
from pecli.explain.numbers import plainest_number
from pecli.explain.storage import half_ulp
from pecli.explain.tables import observed_dtype

SOME_ELEMENTS = 1 << 14
"""Elements from which factors are estimated."""

FACTOR_ERROR = 1e-6
"""Relative error of a factor that is estimated from float32 numbers."""

SMALLEST_FACTOR = 1e-6
LARGEST_FACTOR = 1e6
"""Sizes of the factors by which programs multiply: others are those of unrelated arrays."""

FACTOR_SIGMAS = 5.0
"""Standard errors within which a factor is replaced by a plainer number."""

EVEN = 0.01
"""Share of the largest constant added to a row by which these have to vary: one that is the same is
an offset.
"""

MIN_SHIFTED = 0.25
"""Share of the rows to which a constant is added: fewer are wrong rows."""

MIN_CONSTANT_PER_ROW = 8.0
"""Size of a constant that is added to a row, in units of what rounding may add to an element of it:
the median of a few differences by rounding is always near to all of them.
"""


class ExpectedAndFound(NamedTuple):
    """Some elements of the expected array, and those of the array at hand, in float64."""

    expected: Floats
    found: Floats

    @property
    def is_finite(self) -> Flags:
        return np.asarray(np.isfinite(self.expected) & np.isfinite(self.found))

    @property
    def has_value(self) -> Flags:
        """True for elements that are finite in both arrays, and not 0 in both: others are masked or
        padding.
        """
        return np.asarray(self.is_finite & ((self.expected != 0) | (self.found != 0)))


def _evenly_spread_rows(expected: Array, found: Array) -> ExpectedAndFound:
    """Return some rows of both arrays, evenly spread: they show a factor as well as all rows do.

    Of 10,000 rows of 64 numbers, every 39th is taken, which makes about SOME_ELEMENTS numbers.
    """
    rows_of_expected = as_matrix(expected)
    rows_of_found = as_matrix(found)
    step = max(1, rows_of_found.size // SOME_ELEMENTS)
    return ExpectedAndFound(
        expected=as_floats(rows_of_expected[::step]), found=as_floats(rows_of_found[::step])
    )


def scaled(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield an expected array times the factor by which the found one seems to differ, such as −1 or 0.5."""
    sample = _evenly_spread_rows(candidate.array, found)
    factor = plain_factor(sample)
    if factor is not None and _is_mostly_near(sample, factor * sample.expected):
        edits = (*candidate.edits, *factor_edits(factor))
        yield Candidate(edits, factor * widest(candidate.array), is_computed=True)


def plain_factor(sides: ExpectedAndFound) -> float | None:
    """Return the factor by which the expected array seems to have been multiplied, such as −1 or 0.5.

    It is fitted to all elements. Rounded values make the fit 0.50000003 instead of 0.5, so that the
    plainest number within its error is returned.

    None is returned if the factor is 1, or if its size is not one that programs multiply by. Whether
    the factor explains every element is not tested here.
    """
    expected = np.where(sides.is_finite, sides.expected, 0.0)
    found = np.where(sides.is_finite, sides.found, 0.0)
    fitted = least_squares_factor(expected, found)
    size = abs(fitted)
    is_usual_size = SMALLEST_FACTOR < size < LARGEST_FACTOR
    if not is_usual_size:
        return None
    error = FACTOR_ERROR * size + FACTOR_SIGMAS * _standard_error(fitted, expected, found)
    factor = math.copysign(plainest_number(size, error), fitted)
    if math.isclose(factor, 1, rel_tol=FACTOR_ERROR):
        return None
    return factor


def _standard_error(factor: float, expected: Floats, found: Floats) -> float:
    """Return the standard error of a factor of least squares: √(Σ residual² / Σ expected² / n) for n elements."""
    residual_power = float(((found - factor * expected) ** 2).sum())
    power = float((expected**2).sum())
    return math.sqrt(residual_power / power / expected.size)


def factor_edits(factor: float) -> tuple[Edit, ...]:
    """Return a factor in the vocabulary of results: a sign, and a number if it is not 1."""
    edits: tuple[Edit, ...] = ()
    if factor < 0:
        edits = (Negated("all"),)
    if abs(factor) != 1:
        edits = (*edits, Scaled(abs(factor)))
    return edits


def _is_mostly_near(sample: ExpectedAndFound, changed: Floats) -> bool:
    """Return True if a change of the expected array, such as a factor, brings most of a sample near.

    Only then is the whole array changed and compared, which takes longer.

    Args:
        sample: Some elements of the expected array and of the found one.
        changed: The expected elements after the change.
    """
    largest = float(np.abs(sample.found[sample.is_finite]).max(initial=0.0))
    with np.errstate(all="ignore"):
        errors = np.abs(changed - sample.found)[sample.is_finite]
    return bool(errors.size) and float(np.median(errors)) <= EVEN * largest


def with_row_constants(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield the expected array plus one constant per row, if the found array seems to differ by these.

    Attention biases may differ so without any effect, since softmax(x + constant) is softmax(x). For
    three keys, ALiBi's last row is −2 −1 0 if it is counted from the query. Counted from the first
    key, it is 0 1 2: the constant is 2.
    """
    expected = candidate.array
    if not _may_be_biases(expected, found) or not _sample_differs_by_row_constants(expected, found):
        return
    every_row = ExpectedAndFound(widened(expected), widened(found))
    constants = _median_difference_per_row(every_row)  # (…, rows, 1)
    smallest_constants = MIN_CONSTANT_PER_ROW * _rounding_per_row(found)
    beyond_rounding = np.where(np.abs(constants) > smallest_constants, constants, 0.0)
    if not _vary_over_many_rows(beyond_rounding):
        return  # It is one offset for all rows, only a few rows are wrong, or rounding differs.
    # Masked elements and padding stay as they are.
    shifted = np.where(every_row.has_value, every_row.expected + constants, every_row.expected)
    yield Candidate((*candidate.edits, RowShift()), shifted, is_computed=True)


def _may_be_biases(expected: Array, found: Array) -> bool:
    """Return True for two arrays that may be rows of attention biases, one number per key.

    Those are floating-point numbers: integers are indices, and complex numbers cos + i·sin.
    """
    has_rows_of_keys = expected.ndim > 1 and expected.shape[-1] > 2
    are_floating = {expected.dtype.kind, found.dtype.kind}.isdisjoint("ciu")
    return has_rows_of_keys and are_floating


def _sample_differs_by_row_constants(expected: Array, found: Array) -> bool:
    """Return True if a sample of rows is nearly as found once a constant is added to each row.

    A sample is compared fast, before a large array is changed as a whole.
    """
    sample = _evenly_spread_rows(expected, found)
    return _is_mostly_near(sample, sample.expected + _median_difference_per_row(sample))


def _vary_over_many_rows(constants: Floats) -> bool:
    """Return True if the constants of rows are not all the same, and more than a quarter are not 0.

    0, 1, 2, 3 vary. 7, 7, 7, 7 are one offset, and 0, 0, 0, 7 are one wrong row.
    """
    smallest_visible = EVEN * np.abs(constants).max()
    share_of_rows = np.mean(np.abs(constants) > smallest_visible)
    return bool(np.ptp(constants) > smallest_visible and share_of_rows > MIN_SHIFTED)


def _rounding_per_row(found: Array) -> Floats:
    """Return by how much rounding moves an element of each row of the median size, (…, rows, 1).

    It is the error of a sum in float32, 2.4e-7 for an element of 1, and half a ULP of the dtype.
    """
    values = widened(found)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # The median of a row that is masked as a whole is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        sizes = np.where(np.isfinite(values), np.abs(values), np.nan)
        median_sizes = np.nan_to_num(np.nanmedian(sizes, axis=-1, keepdims=True))
    dtype = observed_dtype({"": found})
    return FLOAT32_FUNCTION * median_sizes + half_ulp(median_sizes, dtype)


def _median_difference_per_row(sides: ExpectedAndFound) -> Floats:
    """Return by how much each row is larger than expected, (…, rows, 1); 0 for rows that are all masked."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # The median of a row that is masked as a whole is NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        differences = np.where(sides.has_value, sides.found - sides.expected, np.nan)
        return np.nan_to_num(np.nanmedian(differences, axis=-1, keepdims=True))


def with_mask_value_of(candidate: Candidate, found: Array) -> Iterator[Candidate]:
    """Yield the expected attention bias, masked with the found array's number instead of its own.

    To hide a key, some programs use −inf and others −65504. Nothing is yielded if the two arrays hide
    different keys, or if they already use the same number.

    Args:
        candidate: The expected array, after the changes that are supposed already.
        found: The array of the file, of real numbers.
    """
    expected = widened(candidate.array)
    found_values = widened(found)
    is_masked = _is_masked(expected)
    hides_same_keys = np.array_equal(is_masked, _is_masked(found_values))
    has_same_masks = np.array_equal(expected[is_masked], found_values[is_masked])
    if hides_same_keys and not has_same_masks:
        first_mask, *_ = found_values[is_masked].tolist()
        with_found_mask = np.where(is_masked, found_values, expected)
        edits = (*candidate.edits, Mask(f"{first_mask:.2g}"))
        yield Candidate(edits, with_found_mask)


def _is_masked(biases: Floats) -> Flags:
    """Return True for each bias that hides a key, such as −inf and −65504."""
    return ~is_unmasked(biases)
