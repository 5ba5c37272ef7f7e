"""Functions of float32 numbers, correctly rounded to float32.

NumPy's own float32 sines and powers depend on the processor. Here values are computed in float64, from additions and
multiplications that IEEE 754 fixes; where that leaves the rounding in doubt, exact angles or integers decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from pecli.engine.arrays import Floats, Singles
from pecli.engine.numerics import fixed_point, geometric, phases
from pecli.engine.numerics.geometric import Frequencies
from pecli.engine.numerics.phases import SECTORS, Waves
from pecli.engine.numerics.rounding import round_fixed, round_to
from pecli.engine.numerics.ziv_rounding import settle

_PER_RADIAN = SECTORS / (2 * math.pi)
_LARGE = 2.0**22
"""Up to here, sectors are counted in 28 bits, and their count times `_STEP_HIGH` is exact."""
_HIGH_BITS = 30
_STEP_HIGH = (fixed_point.pi(_HIGH_BITS + 7) * 2 // SECTORS >> 7) / 2.0**_HIGH_BITS
"""The width of a sector in radians, to 25 bits."""
_STEP_LOW = (fixed_point.pi(120) * 2 // SECTORS - (int(_STEP_HIGH * 2**_HIGH_BITS) << (120 - _HIGH_BITS))) / 2.0**120

_ERROR = 2.0**-46
"""The relative error of a value, by its short series; 2**-46.5 by analysis."""
_STEP_ERROR = 2.0**-82
"""What each sector adds to the error of an angle: `_STEP_LOW` times their count is rounded to 53 bits."""

_LOWEST, _HIGHEST = -172, 105
"""Exponents of float32 numbers, as 24-bit integers times a power of two; phases stay below 2**104."""


def waves_of(angles: Singles, parts: Sequence[str]) -> list[Singles]:
    """The cosines ("cos") or sines ("sin") of angles that are not negative, as many as there are parts."""
    large = angles >= _LARGE if angles.max(initial=0) >= _LARGE else None
    small = angles if large is None else np.where(large, np.float32(0), angles)
    turned = _Turned(small.astype(np.float64))
    waves = []
    for part in parts:
        value, error = turned.wave(part)
        found = (value - error).astype(np.float32)
        open_ = found != (value + error).astype(np.float32)
        if large is not None:
            open_ |= large
        if open_.any():
            found[open_] = _settled(angles[open_], part)
        waves.append(found)
    return waves


class _Turned:
    """Angles as the nearest sector and what is left of them, in float64."""

    def __init__(self, x: Floats) -> None:
        count = np.rint(x * _PER_RADIAN)
        self._sector = count.astype(np.intp)
        self._sector &= SECTORS - 1
        x -= count * _STEP_HIGH
        x -= count * _STEP_LOW
        z = x * x
        self._versine = z * (1 / 24)
        self._versine -= 1 / 2
        self._versine *= z
        z *= z * (1 / 120) - 1 / 6
        z *= x
        x += z
        self._sine = x
        count *= _STEP_ERROR
        self._error = count

    def wave(self, part: str) -> tuple[Floats, Floats]:
        """The values, and bounds on their errors."""
        cosines, sines = phases.sectors()
        table, slopes = (sines.hi, cosines.hi) if part == "sin" else (cosines.hi, -sines.hi)
        value = table.take(self._sector)
        step = slopes.take(self._sector)
        step *= self._sine
        step += value * self._versine
        value += step
        error = np.abs(value, out=step)
        error *= _ERROR
        error += self._error
        return value, error


def _settled(angles: Singles, part: str) -> Singles:
    """The same for a few, or for large ones: whole numbers are positions, powers of two their frequencies."""
    fractions, exponents = np.frexp(angles.astype(np.float64))
    whole = (fractions * 2.0**24).astype(np.uint64)
    columns = (exponents - (24 + _LOWEST)).astype(np.intp)
    sine = np.full(len(whole), part == "sin")
    return settle(_powers_of_two(), whole, columns, sine, "float32").astype(np.float32)


@cache
def _powers_of_two() -> Waves:
    return geometric.waves(_doublings(0))


def _doublings(extra: int) -> Frequencies:
    bits = 640 + extra  # 352 for the smallest after the product with a position, 105 for the largest, and a margin
    return Frequencies(tuple(1 << (bits + e) for e in range(_LOWEST, _HIGHEST)), bits, _doublings)


def power(base: float, exponent: float) -> float:
    """base ** exponent of two float32 numbers, the base positive."""
    if exponent * math.log2(base) > 129:
        return math.inf
    about = base**exponent  # within a few units of the last place, whoever's pow it is
    low, high = round_single(about * (1 - 2.0**-48)), round_single(about * (1 + 2.0**-48))
    return (
        low if low == high else round_fixed(fixed_point.power(Fraction(base), Fraction(exponent), 320), 320, "float32")
    )


def log_single(value: float) -> float:
    """The natural logarithm of a positive float32 number."""
    return round_fixed(fixed_point.log(Fraction(value), 128), 128, "float32")


def fused(a: Singles, b: Singles, c: Singles) -> Singles:
    """a·b + c, rounded once (but for ties of the sum in float64, one in 2**29)."""
    product: Floats = a.astype(np.float64) * b
    return np.asarray(product + c).astype(np.float32)


def polynomial(terms: Sequence[float], x: Singles) -> Singles:
    """Horner's rule, the highest power first, in fused float32 steps."""
    found = np.full_like(x, terms[0])
    for term in terms[1:]:
        found = fused(found, x, np.array(term, np.float32))
    return found


def round_single(value: float) -> float:
    """A number as float32."""
    return float(round_to(np.array([value]), "float32")[0])


def as_bfloat16(values: Singles) -> Singles:
    """Finite float32 values, rounded to the precision of bfloat16."""
    bits = values.view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    bits &= np.uint32(0xFFFF0000)
    return bits.view(np.float32)
