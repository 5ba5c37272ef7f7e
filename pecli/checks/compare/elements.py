"""Element against element: the errors of a piece of a table, fast where elements are close, exact everywhere.

Most pieces are equal, or off by little. Then the distance of two floats is the difference of their bits, and their
difference as floats is exact; a few passes over cache-sized arrays tell all. Elements for which that is not true
(far apart, of unlike sign, not finite) are set aside and measured one by one in float64.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare.floats import Bits, errors, ulps_apart, value_of, widest
from pecli.checks.compare.tally import Tally
from pecli.checks.tolerance import Tolerance
from pecli.engine.dtypes import KINDS, dtype_name
from pecli.engine.rounding import widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.arrays import Array, Floats, Places

PIECE_BYTES = 1 << 18
"""How much of a table is measured at once: with its scratch arrays it stays in a core's own cache."""
FEW = 1 / 16
"""Which share of a piece may be set aside; with more, all elements are taken as far apart."""


class Ruler:
    """Measures pieces of one pair of tables, expected and found; not to be shared between threads."""

    def __init__(self, expected: np.dtype[Any], found: np.dtype[Any], tolerance: Tolerance) -> None:
        self.tally, self._tolerance = Tally(), tolerance
        self._elements = PIECE_BYTES // max(expected.itemsize, found.itemsize)
        self._fast = expected == found and dtype_name(found) in KINDS
        self._equal_last = True
        if self._fast:
            self._bits = Bits(found)
            real = np.float64 if found.itemsize == 8 else np.float32
            self._gap = np.empty(self._elements, self._bits.signed)
            self._scratch = tuple(np.empty(self._elements, real) for _ in range(2 if found.itemsize > 2 else 4))

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        if self._fast and self._equal_last and _same_bits(ours, theirs):
            return
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for low in range(0, ours.size, self._elements):
                piece = slice(low, low + self._elements)
                if not self._fast:
                    places = np.arange(start + low, start + min(ours.size, low + self._elements))
                    self._exactly(ours[piece], theirs[piece], places)
                else:
                    self._closely(ours[piece], theirs[piece], start + low)

    def _closely(self, ours: Array, theirs: Array, start: int) -> None:
        """The differences of bits tell much; those of the values are looked at where they may be a new maximum."""
        gap = self._gap[: ours.size]
        np.subtract(theirs.view(gap.dtype), ours.view(gap.dtype), out=gap)
        most = _extreme(gap)
        self._equal_last = most == 0
        if most == 0:
            return
        if not self._nothing_new(ours, theirs, int(most)):
            most = self._values(ours, theirs, start, int(most))
        self.tally.ulp = max(self.tally.ulp, int(most))
        if most > self._tolerance.max_ulp:
            self._count(ours, theirs, start, self._gap[: ours.size])

    def _nothing_new(self, ours: Array, theirs: Array, most: int) -> bool:
        """Whether elements that are so many units off at most cannot have a larger error than one seen before."""
        if most >= self._bits.close:
            return False
        size = self._scratch[0].view(self._bits.signed)[: ours.size]
        np.bitwise_and(ours.view(size.dtype), self._bits.magnitude, out=size)
        top = int(np.maximum.reduce(size)) + most
        if top >= self._bits.infinity or most * self._bits.spacing(top) > self.tally.error:
            return False
        least = int(np.minimum.reduce(size))
        np.bitwise_and(size, self._bits.fraction, out=size)
        ratio = self._bits.largest_ratio(most, int(np.minimum.reduce(size)))
        if least < self._bits.normal:  # there a NaN of the other sign may seem close
            ratio = max(ratio, most / max(least, 1))
            np.bitwise_and(theirs.view(size.dtype), self._bits.magnitude, out=size)
            if int(np.maximum.reduce(size)) >= self._bits.infinity:
                return False
        return ratio <= self.tally.relative

    def _values(self, ours: Array, theirs: Array, start: int, most: int) -> int:
        """Note the largest errors; how many units close elements are off at most."""
        expected, found = self._as_reals(ours, theirs)
        gap, error, ratio = (each[: ours.size] for each in (self._gap, *self._scratch[:2]))
        np.subtract(found, expected, out=error)
        peak = _extreme(error)
        if most >= self._bits.close or not peak < np.inf:
            strange = (gap >= self._bits.close) | (gap <= -self._bits.close) | ~np.isfinite(error)
            if peak < np.inf and np.count_nonzero(strange) > FEW * ours.size:
                self._apart(ours, theirs, (expected, found), start)
                return 0
            odd = np.flatnonzero(strange)
            self._exactly(ours[odd], theirs[odd], odd + start)
            gap[odd] = error[odd] = 0
            most, peak = int(_extreme(gap)), _extreme(error)
        if peak > self.tally.error:
            place = int(np.argmax(np.abs(error)))
            ulp = abs(int(gap[place]))
            self.tally.note(float(peak), start + place, float(expected[place]), float(found[place]), ulp)
        np.divide(error, expected, out=ratio)
        largest = _extreme(ratio)
        if not largest < np.inf:  # 0 is expected: no relative error
            ratio[~np.isfinite(ratio)] = 0
            largest = _extreme(ratio)
        self.tally.relative = max(self.tally.relative, float(largest))
        return most

    def _apart(self, ours: Array, theirs: Array, reals: tuple[Array, Array], start: int) -> None:
        """Note the errors of finite elements, many of which are far apart. Rounding keeps order: only where the rounded
        error, or nearly the ratio, is largest, the exact one can be.
        """
        error, ratio = (each[: ours.size] for each in self._scratch[:2])
        np.divide(error, reals[0], out=ratio)
        for values in (error, ratio):
            np.abs(values, out=values)
        units = ulps_apart(ours, theirs)
        self.tally.ulp = max(self.tally.ulp, int(np.maximum.reduce(units)))
        peak = np.maximum.reduce(error)
        if peak >= error.dtype.type(self.tally.error):
            likely = np.flatnonzero(error == peak)
            exact = np.abs(widened(theirs[likely]) - widened(ours[likely]))
            place = int(likely[int(exact.argmax())])
            values_there = value_of(ours[place]), value_of(theirs[place])
            self.tally.note(float(exact.max()), start + place, *values_there, int(units[place]))
        largest = np.maximum.reduce(ratio)
        likely = np.flatnonzero(ratio >= largest * 0.999999) if largest < np.inf else np.arange(ours.size)
        self._note_ratios(np.abs(widened(theirs[likely]) - widened(ours[likely])), np.abs(widened(ours[likely])))
        self._count(ours, theirs, start, units)

    def _note_ratios(self, error: Floats, size: Floats) -> None:
        """Relative errors, rounded as those of close elements are."""
        ratio = error / size
        largest = float(np.max(ratio, initial=0, where=np.isfinite(ratio)))
        rounded = float(self._scratch[0].dtype.type(largest)) if self._fast else largest
        self.tally.relative = max(self.tally.relative, rounded if rounded < np.inf else largest)

    def _as_reals(self, ours: Array, theirs: Array) -> tuple[Array, Array]:
        """The elements in a dtype that the processor counts in."""
        if ours.dtype.itemsize > 2:
            return ours, theirs
        wide = tuple(each[: ours.size] for each in self._scratch[2:])
        for narrow, out in zip((ours, theirs), wide, strict=True):
            if narrow.dtype == np.float16:
                np.copyto(out, narrow)
            else:  # bfloat16 is the upper half of float32
                bits = out.view(np.uint32)
                np.copyto(bits, narrow.view(np.uint16))
                np.left_shift(bits, 16, out=bits)
        return wide[0], wide[1]

    def _count(self, ours: Array, theirs: Array, start: int, units: NDArray[Any]) -> None:
        """How many finite elements, so many units apart, are out of tolerance; what is done with already has 0."""
        tolerance = self._tolerance
        exact = not (tolerance.max_ulp or tolerance.atol or tolerance.rtol)
        if exact and self.tally.first is not None and self.tally.first < start:
            self.tally.mismatched += int(np.count_nonzero(units))
            return
        most = min(tolerance.max_ulp, int(np.iinfo(units.dtype).max))
        off = np.flatnonzero((units > most) | (units < -most) if units.dtype.kind == "i" else units > most)
        if tolerance.atol or tolerance.rtol:
            expected, found = widened(ours[off]), widened(theirs[off])
            off = off[np.abs(found - expected) > tolerance.atol + tolerance.rtol * np.abs(expected)]
        if off.size:
            self.tally.fail(off.size, start + int(off[0]))

    def _exactly(self, ours: Array, theirs: Array, places: Places) -> None:
        """Any elements, one by one."""
        if not ours.size:
            return
        tally, tolerance = self.tally, self._tolerance
        expected, found = widest(ours), widest(theirs)
        alike, error, ulps = errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            passes |= (ulps <= min(tolerance.max_ulp, int(np.iinfo(ulps.dtype).max))) & ~(
                np.isnan(expected) | np.isnan(found)
            )
            tally.ulp = max(tally.ulp, int(ulps.max()))
        if not passes.all():
            tally.fail(int(np.count_nonzero(~passes)), int(places[int(np.argmin(passes))]))
        worst = int(error.argmax())
        ulp = None if ulps is None else int(ulps[worst])
        tally.note(float(error[worst]), int(places[worst]), value_of(ours[worst]), value_of(theirs[worst]), ulp)
        self._note_ratios(error, size)
        tally.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        tally.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))


def _extreme(values: Array) -> Any:
    """The largest absolute value; NaN if there is one."""
    return max(np.maximum.reduce(values).item(), -np.minimum.reduce(values).item())


def _same_bits(ours: Array, theirs: Array) -> bool:
    words = "u8" if ours.nbytes % 8 == 0 else "u1"
    return bool(np.array_equal(ours.view(words), theirs.view(words)))
