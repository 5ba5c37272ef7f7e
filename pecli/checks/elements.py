"""Element against element: the errors of a piece of a table, fast where elements are close, exact everywhere.

Most pieces are equal, or off by little. Then the distance of two floats is the difference of their bits, and their
difference as floats is exact; a few passes over cache-sized arrays tell all. Elements for which that is not true
(far apart, of unlike sign, not finite) are set aside and measured one by one in float64.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.tally import Tally
from pecli.checks.tolerance import Tolerance
from pecli.engine.dtypes import KINDS, dtype_name
from pecli.engine.rounding import differ, round_to, widened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.arrays import Array, Flags, Floats, Ints, Places

PIECE_BYTES = 1 << 18
"""How much of a table is measured at once: with its scratch arrays it stays in a core's own cache."""


def ulps_apart(a: Array, b: Array) -> Ints:
    """How many floats of their dtype lie between two arrays, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    negative_a, size_a = _sign_and_size(a)
    negative_b, size_b = _sign_and_size(b)
    together = np.where(size_a > size_b, size_a - size_b, size_b - size_a)
    return np.asarray(np.where(negative_a == negative_b, together, size_a + size_b))


def _sign_and_size(a: Array) -> tuple[Flags, Ints]:
    bits = a.view(f"u{a.dtype.itemsize}").astype(np.uint64)
    sign = np.uint64(1 << (8 * a.dtype.itemsize - 1))
    return (bits & sign) != 0, bits & (sign - np.uint64(1))


class Bits:
    """How the bits of a floating dtype count: as integers, floats of one sign are in order and without gaps."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        precision = KINDS[dtype_name(dtype)]
        self.signed = np.dtype(f"i{dtype.itemsize}")
        self._unit = 1 << (precision - 1)  # bits of the fraction end here, those of the exponent begin
        self.close = self._unit
        """Finite floats fewer units apart have one sign, and their difference is a float too."""
        self.magnitude = np.array((1 << (8 * dtype.itemsize - 1)) - 1, self.signed)
        self.fraction = np.array(self._unit - 1, self.signed)
        self.normal = self._unit
        self.infinity = int(self.magnitude) // self._unit * self._unit
        self._exponent = 1 - (self.infinity // self._unit - 1) // 2 - (precision - 1)

    def spacing(self, bits: int) -> float:
        """From the float with these bits down to the next."""
        return math.ldexp(1.0, max(bits // self._unit, 1) - 1 + self._exponent)

    def largest_ratio(self, units: int, fraction: int) -> float:
        """A bound on the relative error of normal floats that are off by so many units, fewer than `close`, if none
        has a smaller fraction. An error that reaches into the next binade has its units doubled there.
        """
        return max(units / (self._unit + fraction), (units - 0.5) / (self._unit - 0.5))


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
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for low in range(0, ours.size, self._elements):
                piece = slice(low, low + self._elements)
                if not self._fast:
                    places = np.arange(start + low, start + min(ours.size, low + self._elements))
                    self._exactly(ours[piece], theirs[piece], places)
                elif not (self._equal_last and _same_bits(ours[piece], theirs[piece])):
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
            self._count(ours, theirs, start)

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
            odd = np.flatnonzero((gap >= self._bits.close) | (gap <= -self._bits.close) | ~np.isfinite(error))
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

    def _count(self, ours: Array, theirs: Array, start: int) -> None:
        """How many of the close elements are out of tolerance; those that are not close have a gap of 0 by now."""
        gap, tolerance = self._gap[: ours.size], self._tolerance
        exact = not (tolerance.max_ulp or tolerance.atol or tolerance.rtol)
        if exact and self.tally.first is not None and self.tally.first < start:
            self.tally.mismatched += int(np.count_nonzero(gap))
            return
        most = min(tolerance.max_ulp, self._bits.close)
        off = np.flatnonzero((gap > most) | (gap < -most))
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
        expected, found = _widest(ours), _widest(theirs)
        alike, error, ulps = _errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            passes |= (ulps <= np.uint64(tolerance.max_ulp)) & ~(np.isnan(expected) | np.isnan(found))
            tally.ulp = max(tally.ulp, int(ulps.max()))
        if not passes.all():
            tally.fail(int(np.count_nonzero(~passes)), int(places[int(np.argmin(passes))]))
        worst = int(error.argmax())
        ulp = None if ulps is None else int(ulps[worst])
        tally.note(float(error[worst]), int(places[worst]), _value(ours[worst]), _value(theirs[worst]), ulp)
        ratio = error / size
        tally.relative = max(tally.relative, float(np.max(ratio, initial=0, where=np.isfinite(ratio))))
        tally.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        tally.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))


def _extreme(values: Array) -> Any:
    """The largest absolute value; NaN if there is one."""
    return max(np.maximum.reduce(values).item(), -np.minimum.reduce(values).item())


def _same_bits(ours: Array, theirs: Array) -> bool:
    words = "u8" if ours.nbytes % 8 == 0 else "u1"
    return bool(np.array_equal(ours.view(words), theirs.view(words)))


def _errors(ours: Array, theirs: Array) -> tuple[Flags, Floats, Ints | None]:
    """Which elements are alike, their absolute errors, and the units of the last place between them, for floats."""
    if ours.dtype == theirs.dtype and ours.dtype.kind in "iub":
        return _integers_apart(ours, theirs)
    expected, found = _widest(ours), _widest(theirs)
    if ours.dtype == theirs.dtype and ours.dtype.kind != "c":
        alike = ~differ(ours, theirs)
    else:
        alike = np.asarray((expected == found) | (np.isnan(expected) & np.isnan(found)))
    error: Floats = np.abs(expected - found)
    error[alike | (expected == found)] = 0
    error[np.isnan(error)] = np.inf
    return alike, error, _units(ours, theirs)


def _units(ours: Array, theirs: Array) -> Ints | None:
    """Units of the last place of the dtype that was found, into which the expected value is rounded once."""
    if theirs.dtype.kind == "c":
        both = [np.asarray(part).astype(theirs.dtype) for part in (ours, theirs)]
        parts = [(each.real.copy(), each.imag.copy()) for each in both]
        return np.maximum(ulps_apart(parts[0][0], parts[1][0]), ulps_apart(parts[0][1], parts[1][1]))
    if theirs.dtype.kind in "iub" or ours.dtype.kind == "c":
        return None
    if ours.dtype != theirs.dtype:
        name = dtype_name(theirs.dtype)
        ours = round_to(widened(ours), name) if name in KINDS else widened(ours).astype(theirs.dtype)
    return ulps_apart(ours, theirs)


def _integers_apart(ours: Array, theirs: Array) -> tuple[Flags, Floats, None]:
    a, b = (each.view(np.uint8) if each.dtype.kind == "b" else each for each in (ours, theirs))
    unsigned = f"u{a.dtype.itemsize}"
    larger, smaller = np.maximum(a, b).view(unsigned), np.minimum(a, b).view(unsigned)
    return np.asarray(a == b), (larger - smaller).astype(np.float64), None


def _widest(values: Array) -> NDArray[Any]:
    return values.astype(np.complex128) if values.dtype.kind == "c" else widened(values)


def _value(element: Any) -> float | complex:
    """An element as a Python number."""
    kind = element.dtype.kind
    return int(element) if kind in "iub" else complex(element) if kind == "c" else float(element)
