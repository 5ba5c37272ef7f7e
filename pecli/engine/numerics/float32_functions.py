"""Functions of float32 numbers: correctly rounded to float32, and powers as PyTorch computes them.

NumPy's own float32 powers depend on the processor. Here values are computed in float64, with far
more bits than float32 has. If the last of them leave the rounding in doubt, integers decide.
"""

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles, round_to
from pecli.engine.numerics import round_fixed

_POWER_ERROR = 2.0**-48
"""Bound on the relative error of a float64 power; any library's pow is within a few ULPs."""
_POWER_BITS = 320
"""Bits of exact powers: the smallest float32 number is 2**-149, and keeps 171 bits."""
_INFINITE_LOG2 = 129
"""Powers beyond 2**129 are infinite in float32, whose largest number is below 2**128."""


def power(base: float, exponent: float) -> float:
    """Return base ** exponent of two float32 numbers, correctly rounded to float32.

    The power in float64 is off by at most 2**-48 of itself. If both ends of that interval round to
    one float32 number, so does the true power. Otherwise it is computed with 320 bits.

    Args:
        base: A positive number.
        exponent: Any number.
    """
    is_infinite = exponent * math.log2(base) > _INFINITE_LOG2
    if is_infinite:
        return math.inf
    approximate = base**exponent
    lower_end = round_single(approximate * (1 - _POWER_ERROR))
    upper_end = round_single(approximate * (1 + _POWER_ERROR))
    if lower_end == upper_end:
        return lower_end
    precise = numerics.power(Fraction(base), Fraction(exponent), _POWER_BITS)
    return round_fixed(precise, _POWER_BITS, "float32")


def log_single(value: float) -> float:
    """Return the natural logarithm of a positive float32 number, rounded to float32."""
    if math.isinf(value):
        return value
    return round_fixed(numerics.log(Fraction(value), 128), 128, "float32")


def fused(a: Singles, b: Singles, c: Singles) -> Singles:
    """Return a·b + c, rounded once, as a fused multiply-add does.

    The product of two float32 numbers is exact in float64. The sum is rounded to float64 first,
    which changes the result for one in 2**29 sums: those that become a tie of float32.
    """
    product: Floats = a.astype(np.float64) * b
    return np.asarray(product + c).astype(np.float32)


def polynomial(coefficients: Sequence[float], x: Singles) -> Singles:
    """Evaluate a polynomial by Horner's rule in fused float32 steps, the highest power first."""
    value = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = fused(value, x, np.array(coefficient, np.float32))
    return value


def round_single(value: float) -> float:
    """Return a number rounded to float32."""
    return float(round_to(np.array([value]), "float32")[0])


_TWO_VECTORS = 32
"""Elements that PyTorch's vector loops process at once, with AVX-512."""

# The constants of SLEEF's expkf, which its powf calls: e**x = 2**n · e**r with |r| ≤ ln(2)/2. The
# high part of ln 2 ends in zeros, so that n times it is exact.
_RECIPROCAL_LN2 = np.float32(1.4426950408889634)
_LN2_HIGH = np.float32(0.693145751953125)
_LN2_LOW = np.float32(1.428606765330187045e-06)
_EXP_COEFFICIENTS = (
    0.00136324646882712841033936,
    0.00836596917361021041870117,
    0.0416710823774337768554688,
    0.166665524244308471679688,
    0.499999850988388061523438,
)


class DoubleSingle(NamedTuple):
    """Numbers as sums of two float32 numbers, high + low: 1/3 is 0.33333334 − 9.9e-9."""

    high: Singles
    low: Singles


def torch_powers(base: float, exponents: Singles) -> Singles:
    """Return the powers of one base as PyTorch computes them on x86-64.

    Whole vectors are computed by SLEEF, as e to a sum of two float32 numbers, whose results are off
    by up to one ULP. The elements after the last whole vector are computed one by one: of 70
    exponents, SLEEF computes the first 64.
    """
    base = round_single(base)
    if math.isinf(base):  # NTK-aware scaling by 1e39 has a base that float32 cannot hold.
        return np.where(exponents == 0, np.float32(1), np.float32(np.inf))
    vector_end = len(exponents) // _TWO_VECTORS * _TWO_VECTORS
    powers = np.empty_like(exponents)
    powers[:vector_end] = _sleef_powers(base, exponents[:vector_end])
    powers[vector_end:] = [power(base, float(exponent)) for exponent in exponents[vector_end:]]
    return powers


def _sleef_powers(base: float, exponents: Singles) -> Singles:
    """Return base ** exponent as SLEEF's powf: e ** (exponent · ln base)."""
    log_base = numerics.log(Fraction(base), 128) / 2.0**128
    logarithms = log_base * exponents.astype(np.float64)
    high = logarithms.astype(np.float32)
    low = (logarithms - high).astype(np.float32)
    return _sleef_exp(DoubleSingle(high, low))


def _sleef_exp(x: DoubleSingle) -> Singles:
    """Return e**x, step by step as SLEEF's expkf in float32.

    e**x is 2**n · e**r, with n = x / ln 2 rounded, and the remainder r = x − n · ln 2. For x = 5,
    n is 7, r is 0.148, and e**5 is 128 · e**0.148.

    In the functions that this one calls, the order of sums must stay as it is in SLEEF: another
    order has other last bits.
    """
    n = np.rint((x.high + x.low) * _RECIPROCAL_LN2)
    r = _without_multiples_of_ln2(x, n)
    power_of_e: Singles = np.ldexp(_exp_of_remainder(r), n.astype(np.int32))
    return power_of_e


def _exp_of_remainder(r: DoubleSingle) -> Singles:
    """Return e**r for |r| ≤ ln(2)/2 = 0.35, as 1 + (r + terms) with the terms r²/2 + r³/6 + ….

    Each sum of high parts is rounded to float32. What it loses is added to the low part, and so
    counts in the last sum: 1 + 2**-30 is rounded to 1, and 2**-30 is kept.
    """
    exp_minus_one = _add(r, _exp_terms_from_square(r))
    one = np.float32(1)
    total = one + exp_minus_one.high
    lost = (one - total) + exp_minus_one.high  # exact, because the number added to 1 is below 1
    exp_r: Singles = total + (lost + exp_minus_one.low)
    return exp_r


def _add(a: DoubleSingle, b: DoubleSingle) -> DoubleSingle:
    """Return a + b. What the sum of the high parts loses by rounding is added to the low part."""
    high, lost = _two_sum(a.high, b.high)
    return DoubleSingle(high, lost + (a.low + b.low))


def _without_multiples_of_ln2(x: DoubleSingle, multiple: Singles) -> DoubleSingle:
    """Return x − multiple · ln 2, for an integer `multiple`.

    ln 2 is the sum of two float32 numbers, of which the first ends in zeros, so that its product is
    exact. What a sum loses by rounding is added to the low part.
    """
    high, low = x
    for ln2_part in (_LN2_HIGH, _LN2_LOW):
        high, sum_error = _two_sum(high, multiple * -ln2_part)
        low = sum_error + low
    total = high + low
    total_error = (high - total) + low
    return DoubleSingle(total, total_error)


def _exp_terms_from_square(r: DoubleSingle) -> DoubleSingle:
    """Return r² · (1/2 + r/6 + …): the series of e**r without its first terms 1 + r.

    fused(a, b, −a·b) is a·b, exactly, minus its rounded value: what the product lost by rounding.
    """
    square = r.high * r.high
    square_error = fused(r.high, r.high, -square)
    square_low = fused(r.high + r.high, r.low, square_error)  # (h + l)² = h² + 2·h·l + …
    series = polynomial(_EXP_COEFFICIENTS, r.high)
    terms = square * series
    terms_error = fused(square, series, -terms)
    terms_low = fused(square_low, series, terms_error)
    return DoubleSingle(terms, terms_low)


def _two_sum(a: Singles, b: Singles) -> tuple[Singles, Singles]:
    """Return a + b rounded to float32, and its rounding error (Knuth's TwoSum).

    2**24 + 1 is rounded to 2**24, and the error is 1.
    """
    total = a + b
    b_in_total = total - a
    a_in_total = total - b_in_total
    error = (a - a_in_total) + (b - b_in_total)
    return total, error
