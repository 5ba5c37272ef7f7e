"""Functions of float32 numbers: correctly rounded to float32, and a power as PyTorch computes it.

NumPy's own float32 sines and powers depend on the processor. Here values are computed in float64, from additions and
multiplications that IEEE 754 fixes; where that leaves the rounding in doubt, exact angles or integers decide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles, round_to
from pecli.engine.numerics import Frequencies, phases, round_fixed
from pecli.engine.numerics.phases import SECTORS, Waves, round_waves

_PER_RADIAN = SECTORS / (2 * math.pi)
_MAX_REDUCED = 2.0**22  #: up to here, sectors are counted in 28 bits, and their count times `_STEP_HIGH` is exact
_HIGH_BITS = 30
_STEP_HIGH = (numerics.pi(_HIGH_BITS + 7) * 2 // SECTORS >> 7) / 2.0**_HIGH_BITS
"""The width of a sector in radians, to 25 bits."""
_STEP_LOW = (numerics.pi(120) * 2 // SECTORS - (int(_STEP_HIGH * 2**_HIGH_BITS) << (120 - _HIGH_BITS))) / 2.0**120

_ERROR = 2.0**-46  #: the relative error of a value, by its short series; 2**-46.5 by analysis
_STEP_ERROR = 2.0**-82
"""What each sector adds to the error of an angle: `_STEP_LOW` times their count is rounded to 53 bits."""

_MIN_EXPONENT, _MAX_EXPONENT = -172, 105
"""Exponents of float32 numbers, as 24-bit integers times a power of two; phases stay below 2**104."""


def waves_of(angles: Singles, parts: Sequence[str]) -> list[Singles]:
    """The cosines ("cos") or sines ("sin") of angles that are not negative, as many as there are parts."""
    large = angles >= _MAX_REDUCED if angles.max(initial=0) >= _MAX_REDUCED else None
    small = angles if large is None else np.where(large, np.float32(0), angles)
    x = small.astype(np.float64)  # from here on the nearest sector, and what is left of them
    count = np.rint(x * _PER_RADIAN)
    sector = count.astype(np.intp)
    sector &= SECTORS - 1
    x -= count * _STEP_HIGH
    x -= count * _STEP_LOW
    z = x * x
    versine = z * (1 / 24)
    versine -= 1 / 2
    versine *= z
    z *= z * (1 / 120) - 1 / 6
    z *= x
    x += z  # its sine
    count *= _STEP_ERROR
    waves, (cosines, sines) = [], phases.sectors()
    for part in parts:
        table, slopes = (sines.hi, cosines.hi) if part == "sin" else (cosines.hi, -sines.hi)
        value = table.take(sector)
        step = slopes.take(sector)
        step *= x
        step += value * versine
        value += step
        error = np.abs(value, out=step)
        error *= _ERROR
        error += count
        found = (value - error).astype(np.float32)
        open_ = found != (value + error).astype(np.float32)
        if large is not None:
            open_ |= large
        if open_.any():
            found[open_] = _exactly(angles[open_], part)
        waves.append(found)
    return waves


def _exactly(angles: Singles, part: str) -> Singles:
    """The same for a few, or for large ones: whole numbers are positions, powers of two their frequencies."""
    fractions, exponents = np.frexp(angles.astype(np.float64))
    whole = (fractions * 2.0**24).astype(np.uint64)
    columns = (exponents - (24 + _MIN_EXPONENT)).astype(np.intp)
    sine = np.full(len(whole), part == "sin")
    return round_waves(_powers_of_two(), whole, columns, sine, "float32").astype(np.float32)


@cache
def _powers_of_two() -> Waves:
    return Waves.of(_doublings(0))


def _doublings(extra: int) -> Frequencies:
    bits = 640 + extra  # 352 for the smallest after the product with a position, 105 for the largest, and a margin
    return Frequencies(tuple(1 << (bits + e) for e in range(_MIN_EXPONENT, _MAX_EXPONENT)), bits, _doublings)


def power(base: float, exponent: float) -> float:
    """base ** exponent of two float32 numbers, the base positive."""
    if exponent * math.log2(base) > 129:
        return math.inf
    about = base**exponent  # within a few units of the last place, whoever's pow it is
    low, high = round_single(about * (1 - 2.0**-48)), round_single(about * (1 + 2.0**-48))
    return low if low == high else round_fixed(numerics.power(Fraction(base), Fraction(exponent), 320), 320, "float32")


def log_single(value: float) -> float:
    """The natural logarithm of a positive float32 number."""
    return round_fixed(numerics.log(Fraction(value), 128), 128, "float32")


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


_TWO_VECTORS = 32  #: elements that PyTorch's loops take at once, with AVX-512
_RECIPROCAL_LN2 = np.float32(1.4426950408889634)
_LOG_TERMS = (0.240320354700088500976562, 0.285112679004669189453125, 0.400007992982864379882812)
_EXP_TERMS = (
    0.00136324646882712841033936,
    0.00836596917361021041870117,
    0.0416710823774337768554688,
    0.166665524244308471679688,
    0.499999850988388061523438,
)


class _Pair(NamedTuple):
    """The unevaluated sum of two float32 numbers."""

    hi: Singles
    lo: Singles


def _pair(hi: float, lo: float) -> _Pair:
    return _Pair(np.array(hi, np.float32), np.array(lo, np.float32))


_LN2 = _pair(0.69314718246459960938, -1.904654323148236017e-09)
_LN2_HIGH, _LN2_LOW = np.float32(0.693145751953125), np.float32(1.428606765330187045e-06)
_TWO_THIRDS = _pair(0.66666662693023681640625, 3.69183861259614332084311e-09)
_ONE = np.array(1, np.float32)


def torch_powers(base: float, exponents: Singles) -> Singles:
    """The powers of one base."""
    whole = len(exponents) // _TWO_VECTORS * _TWO_VECTORS
    found = np.empty_like(exponents)
    found[:whole] = _exp(_times(_log(np.full(whole, base, np.float32)), exponents[:whole]))
    found[whole:] = [power(round_single(base), float(exponent)) for exponent in exponents[whole:]]
    return found


def _log(x: Singles) -> _Pair:
    exponents = np.frexp(x * np.float32(1 / 0.75))[1] - 1
    m = np.ldexp(x, -exponents)
    ratio = _over(_sum(-_ONE, m), _sum(_ONE, m))
    square = _squared(ratio)
    series = _plus(_times(square, polynomial(_LOG_TERMS, square.hi)), _TWO_THIRDS)
    twice = _Pair(ratio.hi * np.float32(2), ratio.lo * np.float32(2))
    found = _plus_smaller(_times(_LN2, exponents.astype(np.float32)), twice)
    return _plus_smaller(found, _product(_product(square, ratio), series))


def _exp(x: _Pair) -> Singles:
    count = np.rint((x.hi + x.lo) * _RECIPROCAL_LN2)
    rest = x
    for part in (_LN2_HIGH, _LN2_LOW):
        high, low = _sum(rest.hi, count * -part)
        rest = _Pair(high, low + rest.lo)
    high = rest.hi + rest.lo
    rest = _Pair(high, (rest.hi - high) + rest.lo)
    tail = _plus(rest, _times(_squared(rest), polynomial(_EXP_TERMS, rest.hi)))
    high = _ONE + tail.hi
    found: Singles = np.ldexp(high + (((_ONE - high) + tail.hi) + tail.lo), count.astype(np.int32))
    return found


def _sum(a: Singles, b: Singles) -> _Pair:
    high = a + b
    back = high - a
    return _Pair(high, (a - (high - back)) + (b - back))


def _plus(a: _Pair, b: _Pair) -> _Pair:
    high, low = _sum(a.hi, b.hi)
    return _Pair(high, low + (a.lo + b.lo))


def _plus_smaller(a: _Pair, b: _Pair) -> _Pair:
    """For |a| ≥ |b|."""
    high = a.hi + b.hi
    return _Pair(high, (((a.hi - high) + b.hi) + a.lo) + b.lo)


def _times(a: _Pair, b: Singles) -> _Pair:
    high = a.hi * b
    return _Pair(high, fused(a.lo, b, fused(a.hi, b, -high)))


def _product(a: _Pair, b: _Pair) -> _Pair:
    high = a.hi * b.hi
    return _Pair(high, fused(a.hi, b.lo, fused(a.lo, b.hi, fused(a.hi, b.hi, -high))))


def _squared(a: _Pair) -> _Pair:
    high = a.hi * a.hi
    return _Pair(high, fused(a.hi + a.hi, a.lo, fused(a.hi, a.hi, -high)))


def _over(a: _Pair, b: _Pair) -> _Pair:
    inverse = _ONE / b.hi
    high = a.hi * inverse
    rest = fused(-b.lo, inverse, fused(-b.hi, inverse, _ONE))
    return _Pair(high, fused(high, rest, fused(a.lo, inverse, fused(inverse, a.hi, -high))))
