"""Errors of elements, measured by several threads, a piece at a time.

Most tables are equal, or differ in a few elements only: bits are compared first, and only what differs is measured.
"""

import ctypes
import math
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from pecli.compare.factors import Shape
from pecli.compare.tolerance import Tolerance
from pecli.engine import arrays
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Flags,
    Floats,
    Indices,
    dtype_name,
    round_to,
    widened,
    widest,
)

PIECE_BYTES = 1 << 18
"""Bytes whose bits are compared at once: with its scratch arrays, a piece stays in a core's own cache."""
_C_LIBRARY = ctypes.CDLL(None)
WHOLE_KINDS = "iub"  #: NumPy's kinds of integers and booleans, which have no ULPs
MIN_SHARE_TO_SCREEN = 1 / 8
"""Share of a piece's elements that must differ before they are screened for those to measure."""


class WorstElement(NamedTuple):
    """The element with the largest absolute error; of several, the first."""

    place: int
    error: float
    ulps: int | None
    expected: float | complex
    found: float | complex

    @property
    def rank(self) -> tuple[float, int]:
        """The larger, the worse: an error of 0.5 at place 3 is worse than the same at place 7."""
        return self.error, -self.place


class ElementErrors:
    """The errors of all elements of a tensor's parts.

    An element's *place* is its number when the elements of all parts are counted, part by part and copy by copy.

    Attributes:
        shape: The shape of each table.
        width: The length of a row; 1 for a vector, whose elements are its rows.
        row_lengths: The lengths of the axes before the last, such as heads and rows.
        row_count: The number of rows of each table.
        wrong_rows: True for rows that have an element out of tolerance in any copy.
        wrong_columns: By copy, True for the columns that have one.
        first_wrong_places: By copy, the place of the first element out of tolerance.
        mismatched: The number of elements out of tolerance.
        nonfinite_expected: Expected values that are infinite or NaN, of elements that differ.
        nonfinite_found: Found values that are, of elements that differ.
        worst: The element with the largest absolute error; None if all are equal.
    """

    def __init__(self, tolerance: Tolerance, shape: Shape, dtype: "np.dtype[Any]") -> None:
        """Start without any errors.

        Args:
            tolerance: The errors that pass.
            shape: The shape of each table.
            dtype: The dtype that was found; integers have no errors in ULPs.
        """
        self.tolerance = tolerance
        self.shape = shape
        is_vector = len(shape) < 2
        *row_lengths, self.width = (*shape, 1) if is_vector else shape
        self.row_lengths = tuple(row_lengths)
        self.row_count = math.prod(row_lengths)
        self.wrong_rows: Flags = np.zeros(self.row_count, bool)
        self.wrong_columns: dict[int, Flags] = {}  # only of copies that have wrong elements
        self.first_wrong_places: dict[int, int] = {}
        self.mismatched = 0
        self.max_abs_error = 0.0
        self.max_rel_error = 0.0
        self.max_ulp_error: int | None = None if dtype.kind in WHOLE_KINDS else 0
        # Infinite values and NaN are counted by themselves, as they have no finite error.
        self.nonfinite_expected = 0
        self.nonfinite_found = 0
        self.worst: WorstElement | None = None
        self._lock = Lock()

    def measure(self, expected: AnyArray, found: AnyArray, *, copy: int, first_row: int) -> None:
        """Add the errors of some rows to those of all elements.

        Several threads may call it at once: each measures its own rows, and a lock guards the sums.

        Args:
            expected: The expected rows.
            found: The rows that were found.
            copy: The number of the copy that has them, counting the copies of all parts.
            first_row: The number of the first of these rows in its copy.
        """
        expected = expected.reshape(-1)
        found = found.reshape(-1)
        if _have_equal_bytes(expected, found):  # the usual case
            return
        first_place = self._find_place(copy, first_row)
        with np.errstate(all="ignore"):
            is_wrong = self._measure_pieces(expected, found, first_place)
        if is_wrong.any():
            self._note_wrong(is_wrong.reshape(-1, self.width), copy, first_row)

    def _find_place(self, copy: int, row: int) -> int:
        """Return the place of the first element of a row in a copy.

        Row 5 of copy 2 of a table (64, 128) has 2 · 64 + 5 = 133 rows before it: its place is
        133 · 128 = 17,024.
        """
        rows_before = copy * self.row_count + row
        return rows_before * self.width

    def _measure_pieces(self, expected: Array, found: Array, first_place: int) -> Flags:
        """Add the errors of some rows, and return which of their elements are out of tolerance.

        Elements are compared in pieces that fit into a core's cache.

        Args:
            expected: The expected elements of the rows, (n,).
            found: The elements that were found.
            first_place: The number of the first of them, counting the elements of all rows.
        """
        is_wrong = np.zeros(expected.size, bool)
        elements_per_piece = PIECE_BYTES // max(4, expected.itemsize, found.itemsize)
        for low in range(0, expected.size, elements_per_piece):
            piece = slice(low, low + elements_per_piece)
            differs = _find_differing(expected[piece], found[piece])
            if differs.any():
                is_wrong[piece] = self._measure_piece(
                    expected[piece], found[piece], differs, first_place + low
                )
        return is_wrong

    def _measure_piece(
        self, expected: Array, found: Array, differs: Flags, first_place: int
    ) -> Flags:
        """Add the errors of one piece, and return which of its elements are out of tolerance.

        To measure an element is to find its absolute error, its relative error and its ULPs, which
        takes long. Most tables are equal except for a few elements, and these are measured. A table
        that was computed in another way differs nearly everywhere: then a screening decides about
        most elements by their absolute error, and leaves only some to be measured.

        Args:
            expected: The expected elements of the piece, (n,).
            found: The elements that were found.
            differs: True for elements whose bits differ.
            first_place: The place of the first element.
        """
        dtypes = {dtype_name(expected.dtype), dtype_name(found.dtype)}
        are_floats = dtypes.issubset(SIGNIFICAND_BITS)
        screening = _Screening.with_all_to_measure(differs)
        if are_floats and differs.mean() > MIN_SHARE_TO_SCREEN:
            screening = self._screen(expected, found, differs, first_place)
        to_measure = np.flatnonzero(screening.must_be_measured)
        is_wrong = screening.is_wrong
        if to_measure.size:
            # For these elements, measuring decides, whatever the screening has found.
            is_wrong[to_measure] = self._measure_elements(
                expected[to_measure], found[to_measure], first_place + to_measure
            )
        return is_wrong

    def _screen(
        self, expected: Array, found: Array, differs: Flags, first_place: int
    ) -> "_Screening":
        """Return which elements are out of tolerance, and which must still be measured.

        The rule |expected − found| > atol + rtol·|expected| takes little time, but an error in ULPs
        takes long. It is measured only for elements that may pass by it, or may have the largest error.

        Args:
            expected: Some expected elements, (n,).
            found: The elements that were found.
            differs: True for elements whose bits differ.
            first_place: The place of the first element.
        """
        wide_expected = widened(expected)
        wide_found = widened(found)
        error = np.abs(wide_expected - wide_found)
        has_infinity_or_nan = not np.isfinite(error.max())
        if has_infinity_or_nan:  # The rule is for finite errors only.
            return _Screening.with_all_to_measure(differs)
        size = np.abs(wide_expected)
        is_wrong = np.asarray(error > self._allowed_errors(size, wide_found))
        if is_wrong.any() and self._may_pass_by_ulps(expected, found):
            return _Screening.with_all_to_measure(differs)
        may_have_largest_error = self._may_have_largest_error(error, first_place)
        # The ratio of error and size also shows ULPs: more than n ULPs of float16 are a ratio of more than
        # n / (2048 + n). It is infinite if 0 is expected, or NaN for equal zeros: this compares as False.
        largest_known_ratio = self._find_largest_known_ratio(expected, found)
        may_have_largest_ratio = error / size > largest_known_ratio
        must_be_measured = may_have_largest_error | may_have_largest_ratio
        return _Screening(is_wrong, must_be_measured=must_be_measured)

    def _may_pass_by_ulps(self, expected: Array, found: Array) -> bool:
        """Return True if elements may pass although their absolute errors are too large.

        They do if they are few enough ULPs off, after the expected value is rounded to the dtype that
        was found. Of one dtype and with 0 ULPs allowed, elements that differ cannot.
        """
        return self.tolerance.max_ulp > 0 or expected.dtype != found.dtype

    def _allowed_errors(self, size: AnyArray, found: AnyArray) -> AnyArray:
        """Return the absolute errors that pass, atol + rtol·size, for the absolute values of what is expected."""
        sizes = self.tolerance.sizes(size, found)
        return np.asarray(self.tolerance.atol + self.tolerance.rtol * sizes)

    def _find_largest_known_ratio(self, expected: Array, found: Array) -> float:
        """Return the relative error above which an element may have the largest relative error, or most ULPs.

        Floats of p bits that are n ULPs apart have a relative error of more than n / (2^p + n). So an element of
        float16 (p = 11) can only have more than the 3 ULPs of another one if it is off by more than 4 / (2048 + 4).
        """
        ulps = self.max_ulp_error or 0
        if expected.dtype == found.dtype:
            # More than the others have. Of unlike dtypes, rounding may have added one ULP.
            ulps += 1
        bits = SIGNIFICAND_BITS[dtype_name(found.dtype)]
        smallest_ratio_of_more_ulps = ulps / ((1 << bits) + ulps)
        return min(self.max_rel_error, smallest_ratio_of_more_ulps)

    def _may_have_largest_error(self, error: Floats, first_place: int) -> Flags:
        """Return True for each element of a piece whose absolute error may be the largest so far.

        Of equal errors, that of the first element in the tensor counts. Threads measure pieces in any
        order, so that this piece may come before the one with the worst element so far.

        Args:
            error: The absolute errors.
            first_place: The number of the piece's first element, counting the elements of all rows.
        """
        # It is read once, since another thread may replace it. A worse element that is not known yet
        # does no harm: then too many elements are measured here, never too few.
        worst = self.worst
        if worst is None or first_place < worst.place:
            return np.asarray(error >= self.max_abs_error)
        return np.asarray(error > worst.error)

    def _measure_elements(self, expected: Array, found: Array, places: Indices) -> Flags:
        """Measure single elements, add their errors, and return which of them are out of tolerance.

        Args:
            expected: The expected elements.
            found: The elements that were found.
            places: Their numbers, counting the elements of all rows.
        """
        errors = _find_errors(expected, found)
        worst = _find_worst_element(expected, found, errors, places)
        wide_expected = widest(expected)
        wide_found = widest(found)
        self._add_errors(wide_expected, wide_found, errors, worst)
        return ~self._passes(wide_expected, wide_found, errors)

    def _add_errors(
        self, expected: AnyArray, found: AnyArray, errors: "_Errors", worst: WorstElement
    ) -> None:
        """Add the errors of some elements to the largest errors and the counts of all elements.

        Args:
            expected: The expected elements.
            found: The elements that were found.
            errors: Their errors.
            worst: The one with the largest absolute error.
        """
        ratio = errors.absolute / np.abs(expected)  # not finite if 0 is expected
        largest_ratio = float(np.max(ratio, initial=0, where=np.isfinite(ratio)))
        with self._lock:  # Other threads add the errors of other rows.
            self._raise_maxima(errors.ulps, largest_ratio, worst)
            self.nonfinite_expected += _count_nonfinite(expected, errors.alike)
            self.nonfinite_found += _count_nonfinite(found, errors.alike)

    def _raise_maxima(
        self, ulps: AnyArray | None, largest_ratio: float, worst: WorstElement
    ) -> None:
        """Replace the largest errors so far by those of some elements, if these are larger.

        Args:
            ulps: The errors in ULPs; None for elements that have none.
            largest_ratio: The largest relative error.
            worst: The element with the largest absolute error.
        """
        if ulps is not None:
            self.max_ulp_error = max(self.max_ulp_error or 0, int(ulps.max()))
        if self._is_worse(worst):
            self.worst = worst
            self.max_abs_error = worst.error
        self.max_rel_error = max(self.max_rel_error, largest_ratio)

    def _passes(self, expected: AnyArray, found: AnyArray, errors: "_Errors") -> Flags:
        """Return which elements are within atol + rtol·|expected|, or within `max_ulp` ULPs."""
        allowed = self._allowed_errors(np.abs(expected), found)
        is_within = np.isfinite(errors.absolute) & (errors.absolute <= allowed)
        # Elements that are equal, or NaN in both, pass in any case.
        passes: Flags = errors.alike | is_within
        if errors.ulps is not None:
            max_ulp = min(self.tolerance.max_ulp, int(np.iinfo(errors.ulps.dtype).max))
            # A NaN and a number may be few ULPs apart by their bits.
            is_nan = np.isnan(expected) | np.isnan(found)
            passes |= (errors.ulps <= max_ulp) & ~is_nan
        return passes

    def _is_worse(self, element: WorstElement) -> bool:
        """Return True if an error is the largest so far, or is as large as that of a later element."""
        if self.worst is None:
            return element.error > 0
        return element.rank > self.worst.rank

    def _note_wrong(self, is_wrong: Flags, copy: int, first_row: int) -> None:
        """Record which rows and columns of a copy have wrong elements, and its first wrong element.

        A tensor may hold several copies of a table. Rows are recorded for all copies together, columns
        and the first wrong element for each copy by itself.

        Args:
            is_wrong: True for elements out of tolerance, (rows, columns); at least one is wrong.
            copy: The number of the copy that has these rows.
            first_row: The number of the first of these rows in its copy.
        """
        rows = slice(first_row, first_row + len(is_wrong))
        wrong_columns = is_wrong.any(axis=0)
        # Elements are numbered row by row, also by `argmax`, which finds the first True.
        number_in_rows = int(is_wrong.argmax())
        first_wrong_place = self._find_place(copy, first_row) + number_in_rows
        with self._lock:  # Other threads record other rows, perhaps of the same copy.
            self.mismatched += int(np.count_nonzero(is_wrong))
            self.wrong_rows[rows] |= is_wrong.any(axis=1)
            columns_before = self.wrong_columns.get(copy, np.zeros(self.width, bool))
            self.wrong_columns[copy] = wrong_columns | columns_before
            place_before = self.first_wrong_places.get(copy, first_wrong_place)
            self.first_wrong_places[copy] = min(first_wrong_place, place_before)


class _Screening(NamedTuple):
    """The elements of a piece that are out of tolerance, and those that must be measured.

    Measuring an element decides anew whether it is out of tolerance.
    """

    is_wrong: Flags
    must_be_measured: Flags

    @classmethod
    def with_all_to_measure(cls, differs: Flags) -> "_Screening":
        """Return a screening that finds nothing wrong: all elements that differ must be measured."""
        return cls(is_wrong=np.zeros(differs.shape, bool), must_be_measured=differs)


def _have_equal_bytes(expected: Array, found: Array) -> bool:
    """Return True if two arrays of one dtype lie in memory as a whole and have the same bytes.

    The C library compares memory without a flag for every element, which takes three quarters of
    NumPy's time, and lets other threads run meanwhile. Of other arrays, such as every second column
    of a file, it is not known: then each element has to be looked at.
    """
    are_contiguous = expected.flags.c_contiguous and found.flags.c_contiguous
    if expected.dtype != found.dtype or not are_contiguous:
        return False
    order = _C_LIBRARY.memcmp(
        ctypes.c_void_p(expected.ctypes.data),
        ctypes.c_void_p(found.ctypes.data),
        ctypes.c_size_t(expected.nbytes),
    )
    return bool(order == 0)


def _find_differing(expected: Array, found: Array) -> Flags:
    """Return which elements differ in their bits.

    A NaN is like itself. Elements of unlike dtypes always differ.
    """
    if expected.dtype != found.dtype:
        return np.ones(expected.size, bool)
    bits = np.dtype(f"u{min(8, expected.itemsize)}")
    differ = expected.view(bits) != found.view(bits)
    if differ.size > expected.size:  # Complex numbers have several words each.
        differ = differ.reshape(expected.size, -1).any(axis=1)
    return np.asarray(differ)


class _Errors(NamedTuple):
    alike: Flags
    absolute: Floats
    ulps: AnyArray | None  #: None unless the elements found are floats


def _find_errors(expected: Array, found: Array) -> _Errors:
    """Return which elements are equal, their absolute errors, and their errors in ULPs.

    There are no ULPs for integers, nor for real numbers that should be complex.
    """
    if expected.dtype == found.dtype and expected.dtype.kind in WHOLE_KINDS:
        return _measure_integers(expected, found)
    alike, error = arrays.absolute_errors(expected, found)
    is_integer = found.dtype.kind in WHOLE_KINDS
    is_complex = found.dtype.kind == "c"
    is_real_of_complex = expected.dtype.kind == "c" and not is_complex
    if is_integer or is_real_of_complex:
        return _Errors(alike=alike, absolute=error, ulps=None)
    measure = _measure_complex_ulps if is_complex else _measure_ulps
    ulps = measure(expected, found)
    ulps[alike] = 0
    return _Errors(alike=alike, absolute=error, ulps=ulps)


def _find_worst_element(
    expected: Array, found: Array, errors: _Errors, places: Indices
) -> WorstElement:
    """Return the element with the largest absolute error; a NaN counts as the largest."""
    index = int(errors.absolute.argmax())
    return WorstElement(
        place=int(places[index]),
        error=float(errors.absolute[index]),
        ulps=None if errors.ulps is None else int(errors.ulps[index]),
        expected=+expected[index].item(),  # The sign makes numbers of booleans.
        found=+found[index].item(),
    )


def _count_nonfinite(values: AnyArray, alike: Flags) -> int:
    """Return how many values are infinite or NaN, of those that differ from the other side.

    Args:
        values: The expected or the found values.
        alike: True for values that are equal on both sides, two NaN included.
    """
    is_nonfinite = ~np.isfinite(values) & ~alike
    return int(np.count_nonzero(is_nonfinite))


def _measure_integers(expected: Array, found: Array) -> _Errors:
    """Return the errors of integers, or of booleans as 0 and 1.

    −128 and 127 are 255 apart, which int8 cannot hold: 127 − (−128) becomes −1, whose bits are those
    of 255 in uint8. So the larger of two numbers minus the smaller is computed without signs.
    """
    if expected.dtype.kind == "b":
        expected = expected.view(np.uint8)
        found = found.view(np.uint8)
    unsigned = f"u{expected.dtype.itemsize}"
    larger = np.maximum(expected, found).view(unsigned)
    smaller = np.minimum(expected, found).view(unsigned)
    apart: AnyArray = larger - smaller
    return _Errors(
        alike=np.asarray(expected == found), absolute=apart.astype(np.float64), ulps=None
    )


def _measure_ulps(expected: Array, found: Array) -> AnyArray:
    if expected.dtype != found.dtype:
        expected = round_to(widened(expected), dtype_name(found.dtype))
    return arrays.ulps_apart(expected, found)


def _measure_complex_ulps(expected: Array, found: Array) -> AnyArray:
    """Return the larger of the ULPs between real parts and between imaginary parts."""
    rounded: AnyArray = expected.astype(found.dtype)
    real = arrays.ulps_apart(rounded.real.copy(), found.real.copy())
    imaginary = arrays.ulps_apart(rounded.imag.copy(), found.imag.copy())
    return np.maximum(real, imaginary)
