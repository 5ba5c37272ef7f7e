"""Functions of float32 numbers, correctly rounded to float32.

NumPy's own float32 sines and powers depend on the processor. Here values are computed in float64, from additions and
multiplications that IEEE 754 fixes; where that leaves the rounding in doubt, exact angles or integers decide.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine import fixed, frequencies, phases
from pecli.engine.frequencies import Frequencies
from pecli.engine.phases import SECTORS, Waves
from pecli.engine.rounding import round_fixed, round_to
from pecli.engine.settle import settle

if TYPE_CHECKING:
    from pecli.engine.arrays import Flags, Floats, Singles

_PER_RADIAN = SECTORS / (2 * math.pi)
_LARGE = 2.0**22
"""Up to here, sectors are counted in 28 bits, and their count times `_STEP_HIGH` is exact."""
_HIGH_BITS = 30
_STEP_HIGH = (fixed.pi(_HIGH_BITS + 7) * 2 // SECTORS >> 7) / 2.0**_HIGH_BITS
"""The width of a sector in radians, to 25 bits."""
_STEP_LOW = (fixed.pi(120) * 2 // SECTORS - (int(_STEP_HIGH * 2**_HIGH_BITS) << (120 - _HIGH_BITS))) / 2.0**120

_ERROR = 2.0**-46
"""The relative error of a value, by its short series; 2**-46.5 by analysis."""
_STEP_ERROR = 2.0**-82
"""What each sector adds to the error of an angle: `_STEP_LOW` times their count is rounded to 53 bits."""

_LOWEST, _HIGHEST = -172, 105
"""Exponents of float32 numbers, as 24-bit integers times a power of two; phases stay below 2**104."""


def waves_of(angles: Singles, *, sine: bool) -> Singles:
    """The sine or the cosine of angles that are not negative."""
    large = bool(angles.max(initial=0) >= _LARGE)
    near = np.where(angles < _LARGE, angles, np.float32(0)) if large else angles
    value, error = _approximate(near.astype(np.float64), sine)
    found = (value - error).astype(np.float32)
    open_ = found != (value + error).astype(np.float32)
    if large:
        open_ |= angles >= _LARGE
    if open_.any():
        found[open_] = _settled(angles, open_, sine)
    return found


def _approximate(x: Floats, sine: bool) -> tuple[Floats, Floats]:
    """The values in float64, and bounds on their errors; `x` is used up."""
    count = np.rint(x * _PER_RADIAN)
    sector = count.astype(np.intp)
    sector &= SECTORS - 1
    x -= count * _STEP_HIGH
    x -= count * _STEP_LOW
    z = x * x
    versine = z * (1 / 24)
    versine -= 1 / 2
    versine *= z
    z *= (z * (1 / 120)) - 1 / 6
    z *= x
    x += z  # sin x
    cosines, sines = phases.sectors()
    value, slope = (sines.hi, cosines.hi) if sine else (cosines.hi, -sines.hi)
    value = value.take(sector)
    versine *= value
    x *= slope.take(sector)
    x += versine
    value += x
    error = np.abs(value)
    error *= _ERROR
    count *= _STEP_ERROR
    error += count
    return value, error


def _settled(angles: Singles, places: Flags, sine: bool) -> Singles:
    """The same for a few, or for large ones: whole numbers are positions, powers of two their frequencies."""
    parts, exponents = np.frexp(angles[places].astype(np.float64))
    whole = (parts * 2.0**24).astype(np.uint64)
    columns = (exponents - (24 + _LOWEST)).astype(np.intp)
    found: Singles = settle(_powers_of_two(), whole, columns, np.full(len(whole), sine), "float32").astype(np.float32)
    return found


@cache
def _powers_of_two() -> Waves:
    return frequencies.waves(_doublings(0))


def _doublings(extra: int) -> Frequencies:
    bits = 640 + extra  # 352 for the smallest after the product with a position, 105 for the largest, and a margin
    return Frequencies(tuple(1 << (bits + e) for e in range(_LOWEST, _HIGHEST)), bits, _doublings)


def power(base: float, exponent: float) -> float:
    """base ** exponent of two float32 numbers, the base positive."""
    if exponent * math.log2(base) > 129:
        return math.inf
    about = base**exponent  # within a few units of the last place, whoever's pow it is
    low, high = round_single(about * (1 - 2.0**-48)), round_single(about * (1 + 2.0**-48))
    return low if low == high else round_fixed(fixed.power(Fraction(base), Fraction(exponent), 320), 320, "float32")


def round_single(value: float) -> float:
    """A number as float32."""
    return float(round_to(np.array([value]), "float32")[0])


def rounded(values: Singles, dtype: str) -> Singles:
    """float32 values with the precision of a narrower dtype."""
    return values if dtype == "float32" else round_to(values.astype(np.float64), dtype).astype(np.float32)
