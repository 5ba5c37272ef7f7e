"""Real numbers as Python integers: x stands for x / 2**bits.

The few functions that positional encodings need, to as many bits as asked for. Every result is within a few units of
the last place; callers ask for guard bits.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache

GUARD = 32


def round_shift(value: int, bits: int) -> int:
    """value / 2**bits, to the nearest integer."""
    return (value + (1 << bits >> 1)) >> bits


def fixed(value: Fraction, bits: int) -> int:
    """A fraction as a fixed-point number, to the nearest unit."""
    return ((value.numerator << (bits + 1)) // value.denominator + 1) >> 1


def _arctan_inverse(n: int, bits: int) -> int:
    """arctan(1/n)."""
    power = total = (1 << bits) // n
    k, square = 1, n * n
    while power:
        power //= -square
        k += 2
        total += power // k
    return total


@cache
def pi(bits: int) -> int:
    """Machin's formula."""
    work = bits + GUARD
    return round_shift(4 * (4 * _arctan_inverse(5, work) - _arctan_inverse(239, work)), GUARD)


def _log_near_one(value: int, bits: int) -> int:
    """ln(value) for 2/3 ≤ value ≤ 4/3, as 2·artanh((value − 1)/(value + 1))."""
    one = 1 << bits
    ratio = ((value - one) << bits) // (value + one)
    square = ratio * ratio >> bits
    total, power, k = 0, ratio, 1
    while power and power != -1:
        total += power // k
        power = power * square >> bits
        k += 2
    return 2 * total


@cache
def _log_two(bits: int) -> int:
    """ln 2 = 2·artanh(1/3)."""
    total, power, k = 0, (1 << bits) // 3, 1
    while power:
        total += power // k
        power //= 9
        k += 2
    return 2 * total


def log(value: Fraction, bits: int) -> int:
    """The natural logarithm of a positive fraction."""
    work = bits + GUARD
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    mantissa = value / Fraction(2) ** exponent  # in (1/2, 2)
    if mantissa > Fraction(4, 3):
        mantissa, exponent = mantissa / 2, exponent + 1
    elif mantissa < Fraction(2, 3):
        mantissa, exponent = mantissa * 2, exponent - 1
    return round_shift(_log_near_one(fixed(mantissa, work), work) + exponent * _log_two(work), GUARD)


def exp(value: int, bits: int) -> int:
    """e ** value; value is fixed-point too."""
    halvings = 16
    extra = max(0, (value >> bits) * 3 // 2)  # a large result needs its integer digits as well
    work = bits + GUARD + extra + 2 * halvings
    log_two = _log_two(work)
    turns, rest = divmod(value << (work - bits), log_two)
    rest >>= halvings
    total = term = 1 << work
    k = 1
    while term:
        term = (term * rest >> work) // k
        total += term
        k += 1
    for _ in range(halvings):
        total = total * total >> work
    return round_shift(total, work - bits - turns) if work - bits - turns > 0 else total << (turns + bits - work)


def power(base: Fraction, exponent: Fraction, bits: int) -> int:
    """base ** exponent for a positive base."""
    work = bits + GUARD + abs(exponent.numerator // exponent.denominator).bit_length() + 16
    product = log(base, work) * exponent.numerator // exponent.denominator
    return round_shift(exp(product, work), work - bits)


def cos_sin(turns: int, bits: int) -> tuple[int, int]:
    """Cosine and sine of an angle given in turns."""
    work = bits + GUARD
    quadrant, rest = divmod((turns << (GUARD + 2)) + (1 << (work - 1)), 1 << work)
    angle = (rest - (1 << (work - 1))) * pi(work) >> (work + 1)  # −π/4 … π/4
    square = angle * angle >> work
    cosine, sine = 0, 0
    term, k = 1 << work, 0
    while term:
        cosine += term
        term = term * square // -((k + 1) * (k + 2)) >> work
        k += 2
        if term == -1:
            break
    term, k = angle, 1
    while term and term != -1:
        sine += term
        term = term * square // -((k + 1) * (k + 2)) >> work
        k += 2
    cosine, sine = round_shift(cosine, GUARD), round_shift(sine, GUARD)
    return ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quadrant % 4]
