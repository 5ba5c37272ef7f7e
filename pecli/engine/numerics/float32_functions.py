"""Functions of float32 numbers: correctly rounded to float32, and a power as PyTorch computes it.

NumPy's own float32 sines and powers depend on the processor. Here values are computed in float64, with far more bits
than count; where the last of them leave the rounding in doubt, exact angles or integers decide.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles, round_to
from pecli.engine.numerics import Frequencies, bits_for, round_fixed
from pecli.engine.numerics.correct_rounding import round_waves
from pecli.engine.numerics.phases import Waves

_DROPPED = 29  #: bits of a float64 that float32 does not have
_ERROR = (
    1 << 8
)  #: units of the last bit: a bound on the error of float64 sines, which is a few, whoever's they are

_MIN_EXPONENT, _MAX_EXPONENT = -172, 105
"""Exponents of float32 numbers, as 24-bit integers times a power of two; phases stay below 2**104."""


def waves_of(angles: Singles, parts: Sequence[str]) -> list[Singles]:
    """The cosines ("cos") or sines ("sin") of angles that are not negative, as many as there are parts."""
    x, waves = angles.astype(np.float64), []
    for part in parts:
        value = np.sin(x) if part == "sin" else np.cos(x)
        rounded = value.astype(np.float32)
        doubt = (value.view(np.int64) + (_ERROR - (1 << (_DROPPED - 1)))) & ((1 << _DROPPED) - 1)
        open_ = doubt <= 2 * _ERROR  # so close to a tie
        if open_.any():
            rounded[open_] = _exactly(angles[open_], part)
        waves.append(rounded)
    return waves


def _exactly(angles: Singles, part: str) -> Singles:
    """The same for a few: whole numbers are positions, powers of two their frequencies."""
    fractions, exponents = np.frexp(angles.astype(np.float64))
    whole = (fractions * 2.0**24).astype(np.uint64)
    columns = (exponents - (24 + _MIN_EXPONENT)).astype(np.intp)
    sine = np.full(len(whole), part == "sin")
    return round_waves(
        _known_powers_of_two(), _powers_of_two, whole, columns, sine, "float32"
    ).astype(np.float32)


def _powers_of_two() -> Waves:
    bits = 640 + bits_for(
        1.0
    )  # 352 for the smallest after the product with a position, 105 for the largest
    return Waves.of(
        Frequencies(tuple(1 << (bits + e) for e in range(_MIN_EXPONENT, _MAX_EXPONENT)), bits)
    )


_known_powers_of_two = cache(_powers_of_two)


def power(base: float, exponent: float) -> float:
    """base ** exponent of two float32 numbers, the base positive."""
    if exponent * math.log2(base) > 129:
        return math.inf
    about = base**exponent  # within a few units of the last place, whoever's pow it is
    low, high = round_single(about * (1 - 2.0**-48)), round_single(about * (1 + 2.0**-48))
    return (
        low
        if low == high
        else round_fixed(numerics.power(Fraction(base), Fraction(exponent), 320), 320, "float32")
    )


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


_TWO_VECTORS = 32  #: elements that PyTorch's loops take at once, with AVX-512
_RECIPROCAL_LN2 = np.float32(1.4426950408889634)
_EXP_TERMS = (
    0.00136324646882712841033936, 0.00836596917361021041870117, 0.0416710823774337768554688, 0.166665524244308471679688,
    0.499999850988388061523438,
)  # fmt: skip
_LN2_HIGH, _LN2_LOW = np.float32(0.693145751953125), np.float32(1.428606765330187045e-06)


def torch_powers(base: float, exponents: Singles) -> Singles:
    """The powers of one base, where whole vectors are those of SLEEF: exp of a sum of two float32 numbers."""
    whole = len(exponents) // _TWO_VECTORS * _TWO_VECTORS
    powers, base = np.empty_like(exponents), round_single(base)
    logarithms = numerics.log(Fraction(base), 128) / 2.0**128 * exponents[:whole].astype(np.float64)
    high = logarithms.astype(np.float32)
    powers[:whole] = _exp(high, (logarithms - high).astype(np.float32))
    powers[whole:] = [power(base, float(exponent)) for exponent in exponents[whole:]]
    return powers


def _exp(high: Singles, low: Singles) -> Singles:
    one, count = np.float32(1), np.rint((high + low) * _RECIPROCAL_LN2)
    for part in (_LN2_HIGH, _LN2_LOW):
        high, rest = _sum(high, count * -part)
        low = rest + low
    total = high + low
    high, low = total, (high - total) + low
    square = high * high
    square_low = fused(high + high, low, fused(high, high, -square))
    series = polynomial(_EXP_TERMS, high)
    term = square * series
    tail, rest = _sum(high, term)
    tail_low = rest + (low + fused(square_low, series, fused(square, series, -term)))
    total = one + tail
    found: Singles = np.ldexp(total + (((one - total) + tail) + tail_low), count.astype(np.int32))
    return found


def _sum(a: Singles, b: Singles) -> tuple[Singles, Singles]:
    """The sum of two float32 numbers, rounded, and what that leaves out."""
    total = a + b
    back = total - a
    return total, (a - (total - back)) + (b - back)
