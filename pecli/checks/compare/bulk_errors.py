"""Pieces in which many floats differ: passes over whole arrays, in the dtype the processor counts in.

Where no error is larger than half the value, two floats have one sign, their difference is a float too, and their
distance in units is the difference of their bits. The few elements for which that is not true are set aside; where
they are many, all maxima are sought among those that come near them when rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.checks.compare.error_summary import Tally
from pecli.checks.compare.tolerance_masks import MARGIN, Limits
from pecli.checks.compare.ulp import ulps_apart, value_of
from pecli.checks.compare.ulp_screen import Steps
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.aligned_buffer import room_for
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name
from pecli.engine.numerics.rounding import widened

if TYPE_CHECKING:
    from numpy.typing import NDArray


FEW = 1 / 64
"""Which share of a piece is worth setting aside."""
CLOSE = 0.5
"""The largest relative error of floats that are surely of one sign, and whose difference is exact."""
AT_ONCE = 1 << 13
"""Elements whose bits are counted at once: the temporary arrays of that stay in the cache."""


class _Piece(NamedTuple):
    """Flat arrays to compare, as they are and as reals; where in the table they start, and what is done with."""

    ours: Array
    theirs: Array
    expected: Array
    start: int
    done: list[Indices]


class Crowd:
    """Measures pieces of two tables of one floating dtype; what it does not measure it sets aside."""

    def __init__(
        self,
        dtype: np.dtype[Any],
        elements: int,
        tolerance: Tolerance,
        tally: Tally,
        set_aside: Callable[[Array, Array, Indices], None],
    ) -> None:
        self.real: np.dtype[Any] = np.dtype(np.float64 if dtype.itemsize == 8 else np.float32)
        self._tally, self._set_aside = tally, set_aside
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._apart_zeros = 1 << (8 * dtype.itemsize - 1)  # how far the bits of 0 and −0 are
        self._most_units = 2.0 ** SIGNIFICAND_BITS[dtype_name(dtype)]
        self._room = room_for(2 * elements, self.real)
        self._error, self._ratio = self._room[:elements], self._room[elements:]
        self._steps = Steps(dtype)
        self._wide = tuple(room_for(elements, self.real) for _ in range(2 if dtype.itemsize == 2 else 0))
        self._limits = Limits(tolerance, self.real, elements)

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        if self._steps.worth_it(self._tally.ulp):
            told = self._nothing_new(ours, theirs, start)
            self._steps.was_worth_it(told)
            if told:
                return
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
        if largest > CLOSE:
            far = self._limits.larger(ratio, CLOSE, int(FEW * ours.size))
            if far is None:
                self._apart(piece, (peak, largest))
                return
            done.append(far)
            self._set_aside(ours[far], theirs[far], far + start)
            error[far] = ratio[far] = 0
            if self._limits.counts_sizes or self._tally.beats(peak, start):
                peak = _extreme(error)
            known = self._tally.relative >= CLOSE and not self._limits.counts_sizes
            largest = CLOSE if known else _extreme_number(ratio)
        self._close(piece, (peak, largest))

    def _nothing_new(self, ours: Array, theirs: Array, start: int) -> bool:
        """Whether the bits tell all: no error is larger than one known, and what is out of tolerance is counted."""
        tally, limits = self._tally, self._limits
        gap = self._room.view(self._signed)[: 2 * ours.size]
        bounds = self._steps.bounds(ours, theirs, tally.ulp, gap)
        if bounds is None or tally.beats(bounds[0], start) or bounds[1] > tally.relative:
            return False
        error, ratio, zeros = bounds
        if not limits.all_within(error, np.inf if zeros else ratio, tally.ulp):
            if limits.counts_sizes:
                return False
            gap = gap[: ours.size]
            limits.note_units(np.abs(gap, out=gap) if limits.max_ulp else gap, 0)
            limits.count_units(tally, start, ours.size)
        return True

    def _close(self, piece: _Piece, maxima: tuple[float, float]) -> None:
        """Note the largest errors, absolute and relative, which are exact, and count; what is done with has error 0.
        The maxima may be larger than any error where that makes no difference.
        """
        ours, theirs, expected, start, done = piece
        (peak, largest), tally, limits = maxima, self._tally, self._limits
        error = self._error[: ours.size]
        if tally.beats(peak, start):
            place = int(np.argmax(np.abs(error)))
            self._note(ours, theirs, start, place, peak)
        tally.relative = max(tally.relative, largest)
        units = largest / (1 - largest) * self._most_units * MARGIN  # no pair is further apart
        gap = None
        if units > tally.ulp or 0 < limits.max_ulp < units:
            gap, most = self._gap(ours, theirs, done)
            tally.ulp, units = max(tally.ulp, most), most
        if limits.all_within(peak, largest, units):
            return
        if limits.max_ulp and gap is not None:
            limits.note_units(np.abs(gap, out=gap), 0)
        room = self._ratio[: ours.size]
        limits.count(tally, start, (ours, theirs), error, expected, room, exact=True, ratios=gap is None)

    def _gap(self, ours: Array, theirs: Array, done: list[Indices]) -> tuple[NDArray[Any], int]:
        """The distances of floats of one sign as signed units, and the largest; it takes the place of the ratios."""
        gap = self._ratio.view(self._signed)[: ours.size]
        np.subtract(theirs.view(gap.dtype), ours.view(gap.dtype), out=gap)
        for places in done:
            gap[places] = 0
        most = int(_extreme(gap))
        if most == self._apart_zeros:
            gap[gap == -most] = 0
            most = int(_extreme(gap))
        return gap, most

    def _apart(self, piece: _Piece, maxima: tuple[float, float]) -> None:
        """Note the errors of finite elements, many of which are far apart. Rounding keeps order: only where the rounded
        error, or nearly the ratio, is largest, the exact one can be.
        """
        ours, theirs, expected, start, done = piece
        (peak, largest), tally, limits = maxima, self._tally, self._limits
        error, ratio = self._error[: ours.size], self._ratio[: ours.size]
        np.abs(error, out=error)
        np.abs(ratio, out=ratio)
        if peak >= float(self.real.type(tally.error)):
            likely = np.flatnonzero(error == peak)
            exact = np.abs(widened(theirs[likely]) - widened(ours[likely]))
            self._note(ours, theirs, start, int(likely[int(exact.argmax())]), float(exact.max()))
        likeliest = largest
        if not largest < np.inf:  # where 0 is expected; float64 has the ratios that are too large for float32
            ratio[expected == 0 if self.real == np.float32 else np.isinf(ratio)] = 0
            likeliest = _extreme_number(ratio)
        if likeliest and likeliest * MARGIN >= tally.relative:
            likely = np.flatnonzero(ratio >= likeliest / MARGIN)
            size = widened(ours[likely])
            tally.note_ratios(np.abs(widened(theirs[likely]) - size), np.abs(size), self.real)
        for low in range(0, ours.size, AT_ONCE):
            sides = ours[low : low + AT_ONCE], theirs[low : low + AT_ONCE]
            if not limits.max_ulp and self._largest_bits(sides[0]) + self._largest_bits(sides[1]) <= tally.ulp:
                continue  # no two of them are further apart
            units = ulps_apart(*sides)
            for places in done:
                units[places[(places >= low) & (places < low + AT_ONCE)] - low] = 0
            tally.ulp = max(tally.ulp, int(np.maximum.reduce(units)))
            if limits.max_ulp:
                limits.note_units(units, low)
        if not limits.all_within(peak, largest, np.inf):
            limits.count(tally, start, (ours, theirs), error, expected, ratio, exact=False, ratios=False)

    def _largest_bits(self, values: Array) -> int:
        """How many units the float that is furthest from zero is away from it."""
        return int(np.maximum.reduce(values.view(self._signed) & (self._apart_zeros - 1)))

    def _note(self, ours: Array, theirs: Array, start: int, place: int, error: float) -> None:
        here = slice(place, place + 1)
        units = int(ulps_apart(ours[here], theirs[here])[0])
        self._tally.note(error, start + place, value_of(ours[place]), value_of(theirs[place]), units)

    def _as_reals(self, ours: Array, theirs: Array) -> tuple[Array, Array]:
        """The elements in a dtype that the processor counts in."""
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
    """The same numbers as float32, by their bits: the sign, a shifted exponent and fraction, and a power of 2 for the
    other bias. NumPy's own way takes several times as long; it is taken where there are infinities, or NaNs.
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
