"""Pieces in which many floats differ: passes over whole arrays, in the dtype the processor computes in.

Where no error is larger than half the value, two floats have one sign, their difference is a float too, and their
distance in ULPs is the difference of their bits. The few elements for which that is not true are set aside; where
they are many, the exact maxima are sought among the elements whose rounded errors are close to the largest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.checks.compare.error_summary import ErrorSummary, ulps_apart, value_of
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Flags, Indices, aligned_buffer
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name
from pecli.engine.numerics.rounding import widened

if TYPE_CHECKING:
    from numpy.typing import NDArray


MAX_SPARSE = 1 / 64
"""Fraction of a piece up to which elements are set aside and measured one by one."""
MAX_CLOSE = 0.5
"""Relative error up to which two floats have one sign and an exact difference."""
ULP_CHUNK = 1 << 13
"""Elements whose ULP distances are computed at once: the temporary arrays stay in the cache."""


class _Piece(NamedTuple):
    """Flat arrays to compare, as stored and as reals; their start in the table, and elements measured already."""

    ours: Array
    theirs: Array
    expected: Array
    start: int
    done: list[Indices]


class BulkErrors:
    """Measures pieces of two tables of one floating dtype; elements it cannot measure are set aside."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        elements: int,
        tolerance: Tolerance,
        summary: ErrorSummary,
        set_aside: Callable[[Array, Array, Indices], None],
    ) -> None:
        self.real: np.dtype[Any] = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        self._summary, self._set_aside = summary, set_aside
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._sign_bit = 1 << (8 * dtype.itemsize - 1)
        self._units_per_ratio = 2.0 ** SIGNIFICAND_BITS[dtype_name(dtype)]
        self._error, self._ratio = (aligned_buffer(elements, self.real) for _ in range(2))
        self._wide = tuple(aligned_buffer(elements, self.real) for _ in range(2 if dtype.itemsize == 2 else 0))
        self._masks = ToleranceMasks(tolerance, self.real, elements)

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        expected, found = self._as_reals(ours, theirs)
        error, ratio = self._error[: ours.size], self._ratio[: ours.size]
        np.subtract(found, expected, out=error)
        piece = _Piece(ours, theirs, expected, start, done := [])
        peak = _extreme(error)
        if not peak < np.inf:
            done.append(np.flatnonzero(~np.isfinite(error)))
            bits = ours.view(self._signed), theirs.view(self._signed)
            unlike = done[0][bits[0][done[0]] != bits[1][done[0]]]
            self._set_aside(ours[unlike], theirs[unlike], unlike + start)
            error[done[0]] = 0
            peak = _extreme(error)
        np.divide(error, expected, out=ratio)
        largest = _extreme_number(ratio)
        if largest > MAX_CLOSE:
            far = self._masks.larger(ratio, MAX_CLOSE, int(MAX_SPARSE * ours.size))
            if far is None:
                self._far_apart(piece, (peak, largest))
                return
            done.append(far)
            self._set_aside(ours[far], theirs[far], far + start)
            error[far] = ratio[far] = 0
            if self._masks.has_atol_or_rtol or self._summary.beats(peak, start):
                peak = _extreme(error)
            known = self._summary.relative >= MAX_CLOSE and not self._masks.has_atol_or_rtol
            largest = MAX_CLOSE if known else _extreme_number(ratio)
        self._close(piece, (peak, largest))

    def _close(self, piece: _Piece, maxima: tuple[float, float]) -> None:
        """Record the largest errors, absolute and relative, which are exact, and count; elements measured already have
        error 0. The maxima may be larger than any error where that makes no difference.
        """
        ours, theirs, expected, start, done = piece
        (peak, largest), summary, masks = maxima, self._summary, self._masks
        error = self._error[: ours.size]
        if summary.beats(peak, start):
            place = int(np.argmax(np.abs(error)))
            self._note(ours, theirs, start, place, peak)
        summary.relative = max(summary.relative, largest)
        units = largest / (1 - largest) * self._units_per_ratio * MARGIN  # no pair is further apart
        gap = None
        if units > summary.ulp or 0 < masks.max_ulp < units:
            gap, most = self._gap(ours, theirs, done)
            summary.ulp, units = max(summary.ulp, most), most
        if masks.all_within(peak, largest, units):
            return
        if masks.max_ulp and gap is not None:
            masks.note_units(np.abs(gap, out=gap), 0)
        scratch = self._ratio[: ours.size]
        masks.count(summary, start, (ours, theirs), error, expected, scratch, exact=True, ratios=gap is None)

    def _gap(self, ours: Array, theirs: Array, done: list[Indices]) -> tuple[NDArray[Any], int]:
        """The distances of floats of one sign as signed units, and the largest; they overwrite the ratios."""
        gap = self._ratio.view(self._signed)[: ours.size]
        np.subtract(theirs.view(gap.dtype), ours.view(gap.dtype), out=gap)
        for places in done:
            gap[places] = 0
        most = int(_extreme(gap))
        if most == self._sign_bit:  # 0 and −0
            gap[gap == -most] = 0
            most = int(_extreme(gap))
        return gap, most

    def _far_apart(self, piece: _Piece, maxima: tuple[float, float]) -> None:
        """Record the errors of finite elements, many of which are far apart. Rounding is monotonic: the largest exact
        error is where the rounded one is largest, and the largest ratio where the rounded one nearly is.
        """
        ours, theirs, expected, start, done = piece
        (peak, largest), summary, masks = maxima, self._summary, self._masks
        error, ratio = self._error[: ours.size], self._ratio[: ours.size]
        np.abs(error, out=error)
        np.abs(ratio, out=ratio)
        if peak >= float(self.real.type(summary.error)):
            likely = np.flatnonzero(error == peak)
            exact = np.abs(widened(theirs[likely]) - widened(ours[likely]))
            self._note(ours, theirs, start, int(likely[int(exact.argmax())]), float(exact.max()))
        likeliest = largest
        if not largest < np.inf:  # where 0 is expected; float64 has the ratios that are too large for float32
            ratio[expected == 0 if self.real == np.float32 else np.isinf(ratio)] = 0
            likeliest = _extreme_number(ratio)
        if likeliest and likeliest * MARGIN >= summary.relative:
            likely = np.flatnonzero(ratio >= likeliest / MARGIN)
            size = widened(ours[likely])
            summary.note_ratios(np.abs(widened(theirs[likely]) - size), np.abs(size), self.real)
        for low in range(0, ours.size, ULP_CHUNK):
            sides = ours[low : low + ULP_CHUNK], theirs[low : low + ULP_CHUNK]
            if not masks.max_ulp and self._largest_bits(sides[0]) + self._largest_bits(sides[1]) <= summary.ulp:
                continue  # no two of them are further apart
            units = ulps_apart(*sides)
            for places in done:
                units[places[(places >= low) & (places < low + ULP_CHUNK)] - low] = 0
            summary.ulp = max(summary.ulp, int(np.maximum.reduce(units)))
            if masks.max_ulp:
                masks.note_units(units, low)
        if not masks.all_within(peak, largest, np.inf):
            masks.count(summary, start, (ours, theirs), error, expected, ratio, exact=False, ratios=False)

    def _largest_bits(self, values: Array) -> int:
        """The ULP distance from zero of the largest magnitude."""
        return int(np.maximum.reduce(values.view(self._signed) & (self._sign_bit - 1)))

    def _note(self, ours: Array, theirs: Array, start: int, place: int, error: float) -> None:
        here = slice(place, place + 1)
        units = int(ulps_apart(ours[here], theirs[here])[0])
        self._summary.note(error, start + place, value_of(ours[place]), value_of(theirs[place]), units)

    def _as_reals(self, ours: Array, theirs: Array) -> tuple[Array, Array]:
        """The elements in a dtype that the processor computes in."""
        if not self._wide:
            return ours, theirs
        wide = self._wide[0][: ours.size], self._wide[1][: ours.size]
        for narrow, out in zip((ours, theirs), wide, strict=True):
            if narrow.dtype == np.float16:
                _widen_half(narrow, out)
            else:  # bfloat16 is the upper half of float32
                bits = out.view(np.uint32)
                np.copyto(bits, narrow.view(np.uint16))
                np.left_shift(bits, 16, out=bits)
        return wide


def _widen_half(narrow: Array, out: Array) -> None:
    """float16 to float32 by bits: the sign, a shifted exponent and fraction, and a power of 2 for the bias. NumPy's own
    conversion takes several times as long; it is used where there are infinities or NaNs.
    """
    bits = out.view(np.int32)
    np.copyto(bits, narrow.view(np.int16))  # copies of the sign in front
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, np.int32(-0x70002000), out=bits)
    np.multiply(out, np.float32(2.0**112), out=out)
    if _extreme(out) >= 65536:
        np.copyto(out, narrow)


def _extreme(values: Array) -> Any:
    """The largest absolute value; NaN if there is one."""
    return max(np.maximum.reduce(values).item(), -np.minimum.reduce(values).item())


def _extreme_number(values: Array) -> float:
    """The largest absolute value of those that are numbers."""
    most = max(np.fmax.reduce(values).item(), -np.fmin.reduce(values).item())
    return most if most == most else 0.0


MARGIN = 1 + 2.0**-20
"""Bound on the relative rounding error of a few operations in float32, as a factor."""
TINY = 2.0**-140
"""Bound on the absolute error of numbers below the normal range of float32."""


class ToleranceMasks:
    """Which elements of a piece are out of tolerance: decided in their dtype, or in float64 where in doubt."""

    def __init__(self, tolerance: Tolerance, real: np.dtype[Any], elements: int) -> None:
        self.max_ulp, self._atol, self._rtol = tolerance.max_ulp, tolerance.atol, tolerance.rtol
        self._real = real
        self._flags, self._sure, self._units = (aligned_buffer(elements, np.bool_) for _ in range(3))

    def all_within(self, peak: float, largest: float, units: float) -> bool:
        """Whether errors up to these, absolute, relative and in ULPs, are all within the tolerance."""
        return peak * MARGIN <= self._atol or largest * MARGIN <= self._rtol or units <= self.max_ulp

    @property
    def has_atol_or_rtol(self) -> bool:
        """Whether the tolerance has an absolute or relative part, beside that in ULPs."""
        return bool(self._atol or self._rtol)

    def larger(self, values: Array, size: float, most: int) -> Indices | None:
        """Where magnitudes are larger than `size`; None if they are more than `most`."""
        above, below = self._flags[: values.size], self._sure[: values.size]
        np.greater(values, size, out=above)
        np.less(values, -size, out=below)
        np.logical_or(above, below, out=above)
        return np.flatnonzero(above) if np.count_nonzero(above) <= most else None

    def note_units(self, units: NDArray[Any], low: int) -> None:
        """Mark the elements, from `low` on, that are too many ULPs apart; with max_ulp 0, units may be signed."""
        flags = self._units[low : low + units.size]
        if self.max_ulp:
            np.greater(units, min(self.max_ulp, int(np.iinfo(units.dtype).max)), out=flags)
        else:
            np.not_equal(units, 0, out=flags)

    def count(
        self,
        summary: ErrorSummary,
        start: int,
        sides: tuple[Array, Array],
        error: Array,
        expected: Array,
        scratch: Array,
        *,
        exact: bool,
        ratios: bool,
    ) -> None:
        """Count the finite elements out of tolerance; those measured already have error 0. Errors are exact or rounded,
        and `scratch` may hold their ratios; both are overwritten.
        """
        off = self._flags[: error.size]
        if not (self._atol or self._rtol):
            np.not_equal(error, 0, out=off)
        elif exact and not self._rtol:
            np.greater(np.abs(error, out=error), self._at_most(self._atol), out=off)
        elif self._doubtful(error, expected, scratch, off, ratios):
            self._decide(sides, error, off)
        if self.max_ulp:
            np.logical_and(off, self._units[: off.size], out=off)
        _add(summary, start, off)

    def _doubtful(self, error: Array, expected: Array, scratch: Array, off: Flags, ratios: bool) -> bool:
        """Mark the errors that may exceed atol + rtol·|expected|, and separately those that surely do; whether there
        are any.
        """
        sure, real = self._sure[: off.size], self._real.type
        if self._rtol > np.finfo(self._real).max / 2:
            off[...], sure[...] = True, False
            return True
        if ratios and not self._atol:
            np.greater(np.abs(scratch, out=scratch), real(self._rtol / MARGIN), out=off)
            np.greater(scratch, real(self._rtol * MARGIN), out=sure)
            return True
        np.abs(error, out=error)
        if not self._rtol:
            np.greater(error, real(self._atol / MARGIN - TINY), out=off)
            np.greater(error, real(self._atol * MARGIN + TINY), out=sure)
            return True
        np.multiply(np.abs(expected, out=scratch), real(self._rtol / MARGIN), out=scratch)
        np.greater(error, np.add(scratch, real(self._atol / MARGIN - TINY), out=scratch), out=off)
        if not off.any():
            return False
        np.multiply(scratch, real(MARGIN**3), out=scratch)
        np.greater(error, np.add(scratch, real(4 * TINY), out=scratch), out=sure)
        return True

    def _decide(self, sides: tuple[Array, Array], error: Array, off: Flags) -> None:
        """Keep the marked elements that exceed the tolerance, decided in float64 where that is not sure."""
        sure = self._sure[: off.size]
        doubtful = np.flatnonzero(np.logical_xor(off, sure, out=off))
        doubtful = doubtful[error[doubtful] != 0]
        ours, theirs = (widened(side[doubtful]) for side in sides)
        np.copyto(off, sure)
        off[doubtful] = np.abs(theirs - ours) > self._atol + self._rtol * np.abs(ours)

    def _at_most(self, value: float) -> Any:
        """The value rounded towards zero."""
        rounded = self._real.type(value)
        return np.nextafter(rounded, self._real.type(0)) if rounded > value else rounded


def _add(summary: ErrorSummary, start: int, off: Flags) -> None:
    if count := int(np.count_nonzero(off)):
        known = summary.first is not None and summary.first < start
        summary.fail(count, start if known else start + int(off.argmax()))
