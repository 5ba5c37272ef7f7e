"""Exact numbers: real numbers as Python integers, as pairs of float64 arrays, and geometric frequencies.

In fixed point, x stands for x / 2**bits; results are within a few units of the last place, and callers ask for guard
bits. Frequencies are radians per position; scalings act on them between `geometric` and `phases.Waves.of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Context
from fractions import Fraction
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, round_to
from pecli.errors import ParameterError

GUARD = 32  #: bits that a computation has beyond those of its result


def round_shift(value: int, bits: int) -> int:
    """value / 2**bits, to the nearest integer."""
    return (value + (1 << bits >> 1)) >> bits


def fixed(value: Fraction, bits: int) -> int:
    """A fraction as a fixed-point number, to the nearest unit."""
    return ((value.numerator << (bits + 1)) // value.denominator + 1) >> 1


@cache
def pi(bits: int) -> int:
    """By arithmetic and geometric means (Gauss, Legendre), each of which doubles the digits."""
    work, step = bits + GUARD, 0
    a, b, rest = 1 << work, math.isqrt(1 << (2 * work - 1)), 1 << (work - 2)
    while a - b > 1:
        rest -= (a - b) ** 2 << step >> (work + 2)
        a, b, step = (a + b) >> 1, math.isqrt(a * b), step + 1
    return round_shift((a + b) ** 2 // (4 * rest), GUARD)


@lru_cache(maxsize=64)  # of the same bases again and again
def log(value: Fraction, bits: int) -> int:
    """The natural logarithm of a positive fraction."""
    context = Context(prec=bits * 302 // 1000 + 10)
    logarithm = context.ln(context.divide(value.numerator, value.denominator))
    return round(context.multiply(logarithm, 1 << bits))


@lru_cache(maxsize=64)
def exp(value: int, bits: int) -> int:
    """e ** value; value is fixed-point too."""
    digits = bits + max(
        0, (value >> bits) * 3 // 2
    )  # a large result needs its integer digits as well
    context = Context(prec=digits * 302 // 1000 + 10)
    return round(context.multiply(context.exp(context.divide(value, 1 << bits)), 1 << bits))


def power(base: Fraction, exponent: Fraction, bits: int) -> int:
    """base ** exponent for a positive base."""
    work = bits + GUARD + abs(exponent.numerator // exponent.denominator).bit_length() + 16
    return round_shift(
        exp(log(base, work) * exponent.numerator // exponent.denominator, work), work - bits
    )


def cos_sin(turns: int, bits: int) -> tuple[int, int]:
    """Cosine and sine of an angle given in turns."""
    work = bits + GUARD
    quadrant, rest = divmod((turns << (GUARD + 2)) + (1 << (work - 1)), 1 << work)
    angle = (rest - (1 << (work - 1))) * pi(work) >> (work + 1)  # −π/4 … π/4
    sums, term, k = [0, 0, 0, 0], 1 << work, 0
    while term not in (0, -1):
        sums[k % 4] += term  # of exp(i·angle), times 1, i, −1 and −i
        k += 1
        term = (term * angle >> work) // k
    cosine, sine = round_shift(sums[0] - sums[2], GUARD), round_shift(sums[1] - sums[3], GUARD)
    return ((cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine))[quadrant % 4]


@dataclass(eq=False)
class DoubleDouble:
    """Numbers of about 106 bits as unevaluated sums of two float64 arrays (Dekker, 1971); hi is the sum, rounded. Only
    additions and multiplications are used, which IEEE 754 rounds, so the results are the same on every machine."""

    hi: Floats
    lo: Floats

    @classmethod
    def fixed(cls, value: int, bits: int) -> DoubleDouble:
        hi = value / (1 << bits)
        numerator, denominator = hi.as_integer_ratio()
        lo = (value * denominator - (numerator << bits)) / (denominator << bits)
        return cls(np.array(hi), np.array(lo))

    @classmethod
    def plain(cls, values: Floats) -> DoubleDouble:
        return cls(values, np.zeros_like(values))

    def __getitem__(self, index: Any) -> DoubleDouble:
        return DoubleDouble(self.hi[index], self.lo[index])

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.hi, -self.lo)

    def __add__(self, other: DoubleDouble) -> DoubleDouble:
        total, small = exact_sum(self.hi, other.hi), exact_sum(self.lo, other.lo)
        first = normal(total.hi, total.lo + small.hi)
        return normal(first.hi, first.lo + small.lo)

    def __sub__(self, other: DoubleDouble) -> DoubleDouble:
        return self + -other

    def __mul__(self, other: DoubleDouble) -> DoubleDouble:
        product = self.hi * other.hi
        (a, a_low), (b, b_low) = _halves(self.hi), _halves(other.hi)
        rest = ((a * b - product) + a * b_low + a_low * b) + a_low * b_low
        return normal(product, rest + (self.hi * other.lo + self.lo * other.hi))


def exact_sum(a: Floats, b: Floats) -> DoubleDouble:
    """a + b without error (Knuth)."""
    total = a + b
    part = total - a
    return DoubleDouble(total, (a - (total - part)) + (b - part))


def normal(hi: Floats, lo: Floats) -> DoubleDouble:
    """hi + lo with hi rounded, given |hi| ≥ |lo|."""
    total = hi + lo
    return DoubleDouble(total, lo - (total - hi))


def _halves(a: Floats) -> tuple[Floats, Floats]:
    """a as a sum of two numbers of 26 bits, whose products are exact."""
    scaled = (2.0**27 + 1) * a
    high = scaled - (scaled - a)
    return high, a - high


def round_double_double(values: DoubleDouble, dtype: str) -> Array:
    """Values of 106 bits in the named dtype, each rounded once."""
    hi, lo = np.broadcast_arrays(np.asarray(values.hi), np.asarray(values.lo))
    if dtype == "float64":
        return np.array(hi)
    bits = np.array(hi).view(np.int64)
    toward_zero = (lo != 0) & (np.signbit(lo) != np.signbit(hi))
    return round_to(np.where(lo != 0, (bits - toward_zero) | 1, bits).view(np.float64), dtype)


def undecided(values: DoubleDouble, error: Floats, dtype: str) -> Flags:
    """Where an error of that size leaves open which way a value rounds."""
    if dtype == "float64":
        return np.asarray(values.hi + (values.lo - error) != values.hi + (values.lo + error))
    below, above = (
        round_double_double(normal(values.hi, values.lo + way), dtype) for way in (-error, error)
    )
    bits = f"u{below.dtype.itemsize}"
    return np.asarray(below.view(bits) != above.view(bits))


def round_fixed(value: int, bits: int, dtype: str) -> float:
    """The fixed-point number value / 2**bits in the named dtype, rounded once, as a Python float."""
    if dtype == "float64":
        return value / (1 << bits)
    spare = max(0, abs(value).bit_length() - 53)
    odd = (abs(value) >> spare) | (value % (1 << spare) != 0)  # rounded to odd, as above
    double = math.ldexp(odd if value > 0 else -odd, spare - bits)
    return float(round_to(np.array([double]), dtype)[0])


POSITION_BITS = (
    64  #: of a position, which is at most 2**40, or of its numerator where it is no integer
)
MAX_FREQUENCY = (
    2.0**64
)  #: frequencies stay below this, so that a base below 1 has a limit that makes sense


class Frequencies(NamedTuple):
    """Radians per position, each an integer over 2**bits."""

    values: tuple[int, ...]
    bits: int

    def take(self, indices: Sequence[int]) -> Frequencies:
        return Frequencies(tuple(self.values[k] for k in indices), self.bits)

    def floats(self) -> list[float]:
        return [value / (1 << self.bits) for value in self.values]


def check_base(base: float, largest_exponent: float, scale: float = 1.0) -> None:
    """A base below 1 makes frequencies that grow; they have to stay below MAX_FREQUENCY."""
    if max(0.0, -largest_exponent * math.log2(base)) + math.log2(scale) >= math.log2(MAX_FREQUENCY):
        at_fault = ("scale", scale) if base >= 1 else ("base", base)
        raise ParameterError(
            at_fault[0], f"{at_fault[1]:g}", "frequencies must stay below 2^64 radians per position"
        )


def geometric(
    base: float,
    denominator: Fraction,
    count: int,
    scale: float = 1.0,
    log_base: Callable[[int], int] | None = None,
) -> Frequencies:
    """base ** (−i / denominator) for i = 0 … count − 1, precise enough for positions times `scale`. Where the base is
    not a float, `log_base` gives its logarithm to any number of bits, and `base` does not count."""
    log_base = log_base or partial(log, Fraction(base))
    steps = min(float((count - 1) / denominator), 1e6) if count > 1 else 0.0
    log2 = log_base(64) / 2**64 / math.log(2)
    smallest = 2.0 ** max(-1074.0, -steps * log2) if log2 > 0 else 1.0
    growth = max(0, int(-steps * log2)) + count.bit_length()  # what the steps add to an error
    bits = bits_for(smallest) + 64 + growth + abs(math.frexp(scale)[1])
    values, work = [1 << bits], bits + 2 * GUARD
    if count > 1:
        ratio = round_shift(exp(int(-log_base(work) / denominator), work), work - bits)
        for _ in range(count - 1):
            values.append(values[-1] * ratio >> bits)
    return Frequencies(tuple(values), bits)


def joined(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of all parts, one part after the other."""
    bits = max((part.bits for part in parts), default=0)
    return Frequencies(
        tuple(value << (bits - part.bits) for part in parts for value in part.values), bits
    )


extra_bits = ContextVar(
    "extra_bits", default=0
)  #: that frequencies and amplitudes have beyond the usual ones


def bits_for(smallest: float) -> int:
    """How many bits frequencies need so that even the smallest has 110 good ones after the product with a position."""
    zeros = max(0, -int(np.floor(np.log2(smallest)))) if smallest > 0 else 1100
    return -(-(POSITION_BITS + 120 + min(zeros, 1100) + extra_bits.get()) // 32) * 32
