"""Pieces in which many floats differ: passes over whole arrays, in their own dtype.

Where no error is larger than half the value, two floats have one sign, their difference is a float too, and their
distance in ULPs is the difference of their bits. The few elements for which that is not true are set aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare.error_summary import ErrorSummary, ulps_apart
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Indices, aligned_buffer, dtype_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_SPARSE = 1 / 64
"""Fraction of a piece up to which elements are set aside and measured one by one."""
MAX_CLOSE = 0.5
"""Relative error up to which two floats have one sign and an exact difference."""
MARGIN = 1 + 2.0**-20
"""Bound on the relative rounding error of a few operations in float32, as a factor."""


class BulkErrors:
    """Measures pieces of two float32 or float64 tables; elements it cannot measure are set aside."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        elements: int,
        tolerance: Tolerance,
        summary: ErrorSummary,
        set_aside: Callable[[Array, Array, Indices], None],
    ) -> None:
        self._tolerance, self._summary, self._set_aside = tolerance, summary, set_aside
        self._atol = dtype.type(min(tolerance.atol, float(np.finfo(dtype).max)))  # the largest float that is within
        if float(self._atol) > tolerance.atol:
            self._atol = np.nextafter(self._atol, dtype.type(0))
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._units_per_ratio = 2.0 ** SIGNIFICAND_BITS[dtype_name(dtype)] * MARGIN
        self._error, self._ratio = (aligned_buffer(elements, dtype) for _ in range(2))
        self._flags, self._unequal = (aligned_buffer(elements, np.bool_) for _ in range(2))

    def measure(self, ours: Array, theirs: Array, start: int) -> bool:
        """Compare flat arrays, whose first element is number `start` of the table. False, and nothing is recorded,
        where too many elements are far apart.
        """
        error, ratio = self._error[: ours.size], self._ratio[: ours.size]
        far, unequal = self._flags[: ours.size], self._unequal[: ours.size]
        np.divide(np.subtract(theirs, ours, out=error), ours, out=ratio)
        largest = _extreme(ratio)
        places = np.empty(0, np.intp)
        if not largest <= MAX_CLOSE:  # not a number, too: infinities, and zeros that are equal
            np.logical_not(np.less_equal(np.abs(ratio, out=ratio), MAX_CLOSE, out=far), out=far)
            np.logical_and(far, np.not_equal(error, 0, out=unequal), out=far)
            if np.count_nonzero(far) > MAX_SPARSE * far.size:
                return False
            places = np.flatnonzero(far)
            self._set_aside(ours[places], theirs[places], places + start)
            error[places] = ratio[places] = 0
            largest = max(0.0, float(np.fmax.reduce(ratio)))
        self._record(ours, theirs, start, largest, places)
        return True

    def _record(self, ours: Array, theirs: Array, start: int, largest: float, done: Indices) -> None:
        """Record errors, which are exact and have signs; those of elements that are done already are 0."""
        summary, tolerance, error = self._summary, self._tolerance, self._error[: ours.size]
        peak = _extreme(error)
        if summary.beats(peak, start):
            place = int(np.argmax(np.abs(error)))
            here = slice(place, place + 1)
            units = int(ulps_apart(ours[here], theirs[here])[0])
            summary.note(peak, start + place, float(ours[place]), float(theirs[place]), units)
        summary.relative = max(summary.relative, largest)
        bound = int(largest / (1 - largest) * self._units_per_ratio)  # no pair is further apart
        gap = None
        if 0 < tolerance.max_ulp < bound or (bound > summary.ulp and not self._few_further(ours, theirs)):
            gap = self._gap(ours, theirs, done)
            summary.ulp = max(summary.ulp, int(_extreme(gap)))
        if peak <= tolerance.atol or largest * MARGIN <= tolerance.rtol or bound <= tolerance.max_ulp:
            return
        off = self._unequal[: ours.size]
        if tolerance.rtol:
            limit = tolerance.atol + tolerance.rtol * np.abs(ours.astype(np.float64))
            np.greater(np.abs(error.astype(np.float64)), limit, out=off)
        elif tolerance.atol:
            np.greater(np.abs(error, out=error), self._atol, out=off)
        else:
            np.not_equal(error, 0, out=off)
        if tolerance.max_ulp and gap is not None:
            np.logical_and(off, np.abs(gap, out=gap) > tolerance.max_ulp, out=off)
        summary.fail_among(off, start)

    def _few_further(self, ours: Array, theirs: Array) -> bool:
        """Whether few elements may be further apart in ULPs than any before, by their ratios; these are measured."""
        ratio, further, below = (each[: ours.size] for each in (self._ratio, self._flags, self._unequal))
        wanted = self._summary.ulp + 1
        least = ratio.dtype.type(wanted / (self._units_per_ratio + wanted))
        np.logical_or(np.greater_equal(ratio, least, out=further), np.less_equal(ratio, -least, out=below), out=further)
        count = np.count_nonzero(further)
        if 0 < count <= MAX_SPARSE * ours.size:
            places = np.flatnonzero(further)
            self._summary.ulp = max(self._summary.ulp, int(ulps_apart(ours[places], theirs[places]).max()))
        return bool(count <= MAX_SPARSE * ours.size)

    def _gap(self, ours: Array, theirs: Array, done: Indices) -> NDArray[Any]:
        """The distances of floats of one sign in ULPs, with signs; they overwrite the ratios."""
        gap = self._ratio.view(self._signed)[: ours.size]
        np.subtract(theirs.view(self._signed), ours.view(self._signed), out=gap)
        gap[done] = 0
        lowest = np.iinfo(self._signed).min
        if np.minimum.reduce(gap) == lowest:  # 0 and −0, whose distance has no positive number
            gap[gap == lowest] = 0
        return gap


def _extreme(values: NDArray[Any]) -> float:
    """The largest absolute value; not a number where one element is none."""
    return max(float(np.maximum.reduce(values)), -float(np.minimum.reduce(values)))
