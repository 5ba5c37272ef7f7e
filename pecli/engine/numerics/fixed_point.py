"""Real numbers as Python integers: x stands for x / 2**bits.

Integers have as many digits as a computation needs, and are the same on every machine. With 4
bits, for example, 1/3 is 5 (5/16 = 0.3125) and π is 50 (50/16 = 3.125). Results are within a few
units of the last place, so callers request more bits than they need and round the rest away.
"""

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from pecli.engine.arrays import round_to

GUARD = 32
"""Bits that a computation has beyond those of its result, so that its own errors round away."""

_FLOAT64_BITS = 53


def round_shift(value: int, bits: int) -> int:
    """Return value / 2**bits, rounded to the nearest integer.

    >>> round_shift(7, 2), round_shift(5, 2)
    (2, 1)
    """
    half = (1 << bits) >> 1
    return (value + half) >> bits


def fixed(value: Fraction, bits: int) -> int:
    """Return a fraction as a fixed-point number, rounded to the nearest unit.

    >>> fixed(Fraction(1, 3), 4)
    5
    """
    in_half_units = (value.numerator << (bits + 1)) // value.denominator
    return (in_half_units + 1) >> 1


@cache
def pi(bits: int) -> int:
    """Return π as an integer over 2**bits, by the algorithm of Gauss and Legendre.

    It begins with a = 1, b = 1/√2 and t = 1/4. Step n = 0, 1, 2, … subtracts 2**n · (a − b)² / 4
    from t, and replaces a and b by their means, (a + b) / 2 and √(a·b). When a and b have become
    equal, π is (a + b)² / 4t. Each step doubles the number of correct digits; four give 40.

    >>> pi(64) / 2**64
    3.141592653589793
    """
    # Numbers are integers over 2**work_bits, and products of two of them over 2**(2 · work_bits).
    work_bits = bits + GUARD
    a = 1 << work_bits
    b = math.isqrt(1 << (2 * work_bits - 1))  # the root of 1/2
    t = 1 << (work_bits - 2)  # 1/4
    step = 0
    while a - b > 1:
        square = (a - b) ** 2
        t -= (square << step) >> (work_bits + 2)  # 2**step · square / 4
        arithmetic_mean = (a + b) >> 1
        geometric_mean = math.isqrt(a * b)
        a = arithmetic_mean
        b = geometric_mean
        step += 1
    result = (a + b) ** 2 // (4 * t)
    return round_shift(result, GUARD)


@lru_cache(maxsize=64)  # A table's base is needed again for every block of frequencies.
def log(value: Fraction, bits: int) -> int:
    """Return the natural logarithm of a positive fraction."""
    context = _decimal_context(bits)
    logarithm = context.ln(context.divide(value.numerator, value.denominator))
    return _from_decimal(logarithm, bits, context)


@lru_cache(maxsize=64)
def exp(value: int, bits: int) -> int:
    """Return e ** value, where value is a fixed-point number with as many bits."""
    # e**x has 1.44 · x bits before the point, which a large result needs as well.
    integer_bits = max(0, (value >> bits) * 3 // 2)
    context = _decimal_context(bits + integer_bits)
    power_of_e = context.exp(context.divide(value, 1 << bits))
    return _from_decimal(power_of_e, bits, context)


def power(base: Fraction, exponent: Fraction, bits: int) -> int:
    """Return base ** exponent for a positive base."""
    # An error of the logarithm is multiplied by the exponent.
    exponent_bits = abs(exponent.numerator // exponent.denominator).bit_length()
    work = bits + GUARD + exponent_bits + 16
    logarithm = log(base, work) * exponent.numerator // exponent.denominator
    return round_shift(exp(logarithm, work), work - bits)


def cos_sin(turns: int, bits: int) -> tuple[int, int]:
    """Return the cosine and sine of an angle in turns; a full turn is 2π, or 360 degrees.

    The angle and both results are integers that stand for themselves / 2**bits. With 8 bits, 64 is a
    quarter turn, 64/256, whose cosine is 0 and whose sine is 256/256 = 1:

    >>> cos_sin(64, 8)
    (0, 256)

    The angle is split into whole quarter turns, which only swap and negate the results, and a
    remainder of at most an eighth of a turn: 0.3 turns are one quarter turn and 0.05 turns.
    """
    work_bits = bits + GUARD  # From here on, integers stand for themselves / 2**work_bits.
    angle = turns << GUARD
    quarter_turns = round_shift(angle, work_bits - 2)  # the nearest whole number of them
    quarter_turn = 1 << (work_bits - 2)
    remainder = angle - quarter_turns * quarter_turn

    # A product of two such integers is over 2**(2 · work_bits), and is shifted back.
    radians = (2 * pi(work_bits) * remainder) >> work_bits
    cosine, sine = _cos_sin_series(radians, work_bits)
    cosine = round_shift(cosine, GUARD)  # over 2**bits again
    sine = round_shift(sine, GUARD)
    for _ in range(quarter_turns % 4):
        # A quarter turn further, the cosine is minus the sine, and the sine is the cosine.
        cosine, sine = -sine, cosine
    return cosine, sine


def _cos_sin_series(x: int, bits: int) -> tuple[int, int]:
    """Return the cosine and sine of a small angle in radians; all are integers over 2**bits.

    Both are parts of the series Σ (ix)ᵏ/k! = cos x + i·sin x. Its terms are real numbers times 1,
    i, −1 and −i in turn.
    """
    sums_by_power_of_i = [0, 0, 0, 0]
    term = 1 << bits
    k = 0
    while term not in (0, -1):  # A negative term that is shifted right ends at −1.
        sums_by_power_of_i[k % 4] += term
        k += 1
        term = (term * x >> bits) // k
    plus_one, plus_i, minus_one, minus_i = sums_by_power_of_i
    return plus_one - minus_one, plus_i - minus_i


def round_fixed(value: int, bits: int, dtype: str) -> float:
    """Return value / 2**bits in the named dtype, rounded once, as a Python float.

    NumPy rounds float64 numbers to narrower dtypes, so that the value is first cut to 53 bits. It is
    cut in such a way that the result is that of one rounding (see `_cut_to_odd`).
    """
    if dtype == "float64":
        return value / (1 << bits)  # Python rounds quotients of integers correctly.
    magnitude = abs(value)
    dropped_bits = max(0, magnitude.bit_length() - _FLOAT64_BITS)
    cut_magnitude = _cut_to_odd(magnitude, dropped_bits)  # at most 53 bits
    cut_value = cut_magnitude if value > 0 else -cut_magnitude
    double = math.ldexp(cut_value, dropped_bits - bits)  # exact: cut_value · 2**(dropped − bits)
    return float(round_to(np.array([double]), dtype)[0])


def _cut_to_odd(magnitude: int, dropped_bits: int) -> int:
    """Return an integer without its lower bits, made odd if any of these was 1.

    The result can be rounded to fewer digits as if nothing had been cut off. In decimal, 1.2501 is
    nearer to 1.3 than to 1.2. Cut to 1.250, it would be in the middle, and might become 1.2; cut
    and made odd, it is 1.251, which rounds to 1.3. A middle of two shorter numbers is never odd.

    >>> bin(_cut_to_odd(0b1100_00, 2)), bin(_cut_to_odd(0b1100_01, 2))
    ('0b1100', '0b1101')
    """
    cut = magnitude >> dropped_bits
    loses_digits = cut << dropped_bits != magnitude
    return cut | int(loses_digits)  # `|` sets the last bit.


def _decimal_context(bits: int) -> Context:
    """Return a context with at least so many bits: log10 2 = 0.30103 digits per bit, and 10."""
    return Context(prec=bits * 302 // 1000 + 10)


def _from_decimal(number: Decimal, bits: int, context: Context) -> int:
    return round(context.multiply(number, 1 << bits))
