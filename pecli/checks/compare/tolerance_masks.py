"""Which elements of a piece are out of tolerance: decided in the dtype at hand, and exactly where that leaves doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare.error_summary import Tally
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Flags, Indices
from pecli.engine.numerics.aligned_buffer import room_for
from pecli.engine.numerics.rounding import widened

if TYPE_CHECKING:
    from numpy.typing import NDArray


MARGIN = 1 + 2.0**-20
"""By more than this factor no number is off after a few operations in float32."""
TINY = 2.0**-140
"""By more than this none is that is so small that float32 has no full precision for it."""


class Limits:
    """A tolerance, and room to hold pieces of two tables against it."""

    def __init__(self, tolerance: Tolerance, real: np.dtype[Any], elements: int) -> None:
        self.max_ulp, self._atol, self._rtol = tolerance.max_ulp, tolerance.atol, tolerance.rtol
        self._real = real
        self._flags, self._sure, self._units = (room_for(elements, np.bool_) for _ in range(3))

    def all_within(self, peak: float, largest: float, units: float) -> bool:
        """Whether errors no larger than these, absolute, relative and in units, are all within the tolerance."""
        return peak * MARGIN <= self._atol or largest * MARGIN <= self._rtol or units <= self.max_ulp

    @property
    def counts_sizes(self) -> bool:
        """Whether an error may be as large as it likes if it is small enough in numbers, not only in units."""
        return bool(self._atol or self._rtol)

    def larger(self, values: Array, size: float, most: int) -> Indices | None:
        """Where values are larger than a size, whatever their sign; None if they are more than so many."""
        above, below = self._flags[: values.size], self._sure[: values.size]
        np.greater(values, size, out=above)
        np.less(values, -size, out=below)
        np.logical_or(above, below, out=above)
        return np.flatnonzero(above) if np.count_nonzero(above) <= most else None

    def note_units(self, units: NDArray[Any], low: int) -> None:
        """Keep which elements, from `low` on, are too many units apart; where none may be, units may have signs."""
        flags = self._units[low : low + units.size]
        if self.max_ulp:
            np.greater(units, min(self.max_ulp, int(np.iinfo(units.dtype).max)), out=flags)
        else:
            np.not_equal(units, 0, out=flags)

    def count(
        self,
        tally: Tally,
        start: int,
        sides: tuple[Array, Array],
        error: Array,
        expected: Array,
        room: Array,
        *,
        exact: bool,
        ratios: bool,
    ) -> None:
        """Add the finite elements that are out of tolerance; those done with have error 0. Errors are exact or rounded,
        and in `room` there may be their ratios; both are overwritten.
        """
        off = self._flags[: error.size]
        if not (self._atol or self._rtol):
            np.not_equal(error, 0, out=off)
        elif exact and not self._rtol:
            np.greater(np.abs(error, out=error), self._at_most(self._atol), out=off)
        elif self._doubtful(error, expected, room, off, ratios):
            self._decide(sides, error, off)
        if self.max_ulp:
            np.logical_and(off, self._units[: off.size], out=off)
        _add(tally, start, off)

    def count_units(self, tally: Tally, start: int, size: int) -> None:
        """Add the elements that `note_units` found to be too many units apart, where nothing else excuses them."""
        _add(tally, start, self._units[:size])

    def _doubtful(self, error: Array, expected: Array, room: Array, off: Flags, ratios: bool) -> bool:
        """Mark the errors that may be beyond atol + rtol·|expected|, apart from them those that surely are; whether
        there are any.
        """
        sure, real = self._sure[: off.size], self._real.type
        if self._rtol > np.finfo(self._real).max / 2:
            off[...], sure[...] = True, False
            return True
        if ratios and not self._atol:
            np.greater(np.abs(room, out=room), real(self._rtol / MARGIN), out=off)
            np.greater(room, real(self._rtol * MARGIN), out=sure)
            return True
        np.abs(error, out=error)
        if not self._rtol:
            np.greater(error, real(self._atol / MARGIN - TINY), out=off)
            np.greater(error, real(self._atol * MARGIN + TINY), out=sure)
            return True
        np.multiply(np.abs(expected, out=room), real(self._rtol / MARGIN), out=room)
        np.greater(error, np.add(room, real(self._atol / MARGIN - TINY), out=room), out=off)
        if not off.any():
            return False
        np.multiply(room, real(MARGIN**3), out=room)
        np.greater(error, np.add(room, real(4 * TINY), out=room), out=sure)
        return True

    def _decide(self, sides: tuple[Array, Array], error: Array, off: Flags) -> None:
        """Keep of the marked elements those that are beyond the tolerance, in float64 where that is not sure."""
        sure = self._sure[: off.size]
        doubtful = np.flatnonzero(np.logical_xor(off, sure, out=off))
        doubtful = doubtful[error[doubtful] != 0]
        ours, theirs = (widened(side[doubtful]) for side in sides)
        np.copyto(off, sure)
        off[doubtful] = np.abs(theirs - ours) > self._atol + self._rtol * np.abs(ours)

    def _at_most(self, value: float) -> Any:
        """The largest number of the dtype that is no larger."""
        rounded = self._real.type(value)
        return np.nextafter(rounded, self._real.type(0)) if rounded > value else rounded


def _add(tally: Tally, start: int, off: Flags) -> None:
    if count := int(np.count_nonzero(off)):
        known = tally.first is not None and tally.first < start
        tally.fail(count, start if known else start + int(off.argmax()))
