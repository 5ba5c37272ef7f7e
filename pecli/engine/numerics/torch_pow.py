"""base ** x in float32, as PyTorch computes it on a CPU: off by one unit of the last place now and then.

Whole vectors go through SLEEF's powf of 1.0 ULP: a logarithm in pairs of float32 numbers, times x, and a polynomial
for the exponential. A unit of the last place of a frequency is 1e-3 of a cosine at position 131,071, so that the
correctly rounded power would not do. What does not fill two vectors goes through the C library's powf, which is
correctly rounded but for cases that are too rare to matter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import fused, polynomial, power, round_single

_TWO_VECTORS = 32
"""Elements that PyTorch's loops take at once, with AVX-512."""
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
