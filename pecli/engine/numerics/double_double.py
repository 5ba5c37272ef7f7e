"""Numbers of about 106 bits as unevaluated sums of two float64 numbers (Dekker, 1971).

The algorithms only add, subtract and multiply float64 numbers, which IEEE 754 rounds, so the
results are the same on every machine. They rest on two facts: the rounding error of a float64 sum
is itself a float64 number, and so is that of a product. For example, 1 + 2**-60 rounds to 1 and
leaves 2**-60, and the pair (1, 2**-60) holds the sum without error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, round_to

if TYPE_CHECKING:
    Index = int | slice | Indices | tuple[int | slice | Indices, ...]

_SPLITTER = 2.0**27 + 1
"""Veltkamp's constant: it splits the 53 bits of a float64 number into two halves of 26."""


@dataclass(eq=False)
class DoubleDouble:
    """Arrays of numbers hi + lo; hi is the sum rounded to float64, so |lo| is half a ULP at most."""

    hi: Floats
    lo: Floats

    @classmethod
    def fixed(cls, value: int, bits: int) -> DoubleDouble:
        """Return the fixed-point number value / 2**bits, rounded to two float64 numbers."""
        hi = value / (1 << bits)
        numerator, denominator = hi.as_integer_ratio()
        # The difference value / 2**bits − numerator / denominator, as one fraction of integers,
        # which Python rounds once.
        lo = (value * denominator - (numerator << bits)) / (denominator << bits)
        return cls(np.array(hi), np.array(lo))

    @classmethod
    def plain(cls, values: Floats) -> DoubleDouble:
        """Return float64 numbers with low parts of zero."""
        return cls(values, np.zeros_like(values))

    def __getitem__(self, index: Index) -> DoubleDouble:
        return DoubleDouble(self.hi[index], self.lo[index])

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.hi, -self.lo)

    def __add__(self, other: DoubleDouble) -> DoubleDouble:
        # High and low parts are added without error, then the four parts are joined in order of
        # their size. This keeps 104 bits of each term, also if the terms nearly cancel.
        high = exact_sum(self.hi, other.hi)
        low = exact_sum(self.lo, other.lo)
        joined = normal(high.hi, high.lo + low.hi)
        return normal(joined.hi, joined.lo + low.lo)

    def __sub__(self, other: DoubleDouble) -> DoubleDouble:
        return self + -other

    def __mul__(self, other: DoubleDouble) -> DoubleDouble:
        # (a + a')·(b + b') of 26-bit halves: each of the four products is exact, so their sum minus
        # the rounded product is the product's rounding error. lo·lo is too small to matter.
        product = self.hi * other.hi
        a, a_low = _split_into_halves(self.hi)
        b, b_low = _split_into_halves(other.hi)
        error = ((a * b - product) + a * b_low + a_low * b) + a_low * b_low
        return normal(product, error + (self.hi * other.lo + self.lo * other.hi))


def exact_sum(a: Floats, b: Floats) -> DoubleDouble:
    """Return a + b without error (Knuth's two-sum), whichever of the two is larger.

    `total - a` is the part of b that the sum holds; what a and b lost is added up. For a = 1 and
    b = 2**-60, total is 1 and holds nothing of b, so that the error is 0 + 2**-60.
    """
    total = a + b
    b_part = total - a
    a_part = total - b_part
    return DoubleDouble(total, (a - a_part) + (b - b_part))


def normal(hi: Floats, lo: Floats) -> DoubleDouble:
    """Return hi + lo without error, given |hi| ≥ |lo| (Dekker's fast two-sum)."""
    total = hi + lo
    return DoubleDouble(total, lo - (total - hi))


def _split_into_halves(a: Floats) -> tuple[Floats, Floats]:
    """Return a as a sum of two numbers of 26 bits (Veltkamp); products of halves are exact.

    `scaled` is about 2**27 times as large as a, so that the lower 27 bits of a are lost in the
    difference of both, and are missing when that is subtracted again.
    """
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def where(condition: Flags, if_true: DoubleDouble, if_false: DoubleDouble) -> DoubleDouble:
    """Return numbers of one array where a condition is True, and of another one elsewhere."""
    hi = np.where(condition, if_true.hi, if_false.hi)
    lo = np.where(condition, if_true.lo, if_false.lo)
    return DoubleDouble(hi, lo)


def round_double_double(values: DoubleDouble, dtype: str) -> Array:
    """Return values of 106 bits in the named dtype, each rounded once.

    Rounding to float64 and then to float32 is wrong next to a tie: 1 + 2**-24 + 2**-80 becomes
    1 + 2**-24 in float64, which is halfway between two float32 numbers and rounds to 1, although
    the value is above the tie and 1 + 2**-23 is nearer. So narrower dtypes are rounded from the
    float64 number that `_rounded_to_odd` returns.
    """
    if dtype == "float64":
        hi, _ = np.broadcast_arrays(np.asarray(values.hi), np.asarray(values.lo))
        return np.array(hi)
    return round_to(_rounded_to_odd(values), dtype)


def _rounded_to_odd(values: DoubleDouble) -> Floats:
    """Return float64 numbers that round to a narrower dtype as the numbers hi + lo do.

    The digits beyond float64 are cut off. If any of them was not 0, the last bit is set to 1. In
    decimal, with four digits, 1.2500001 becomes 1.251, which rounds to 1.3, as 1.2500001 does;
    1.250 would round to 1.2.
    """
    hi, lo = np.broadcast_arrays(np.asarray(values.hi), np.asarray(values.lo))
    is_inexact = lo != 0
    # If the signs differ, hi is further from 0 than hi + lo, and the next float towards 0 is needed.
    is_too_large = is_inexact & (np.signbit(lo) != np.signbit(hi))
    bits = np.array(hi).view(np.int64)
    bits -= is_too_large  # True is 1: bits that are one less are the next float towards 0.
    bits |= is_inexact  # True sets the last bit.
    return bits.view(np.float64)


def undecided(values: DoubleDouble, error: Floats, dtype: str) -> Flags:
    """Return True for each value whose error could change how it rounds to the dtype.

    The true number lies between value − error and value + error, and is decided if both round
    alike. In decimal, with 3 digits and an error of 0.0001, 1.2346 rounds to 1.23 at both ends;
    1.23496 rounds to 1.23 or 1.24, and is undecided.

    Args:
        values: The values hi + lo.
        error: The largest error of each value.
        dtype: The dtype to round to.
    """
    # The error is added to lo, because it would be lost in hi, which is much larger.
    lower_end = normal(values.hi, values.lo - error)
    upper_end = normal(values.hi, values.lo + error)
    if dtype == "float64":  # `hi` is the number rounded to float64.
        return np.asarray(lower_end.hi != upper_end.hi)
    lower = round_double_double(lower_end, dtype)
    upper = round_double_double(upper_end, dtype)
    return _have_different_bits(lower, upper)


def _have_different_bits(a: Array, b: Array) -> Flags:
    """Return True for elements that differ, also for −0 and 0, which are equal as numbers."""
    bits_dtype = f"u{a.dtype.itemsize}"
    return np.asarray(a.view(bits_dtype) != b.view(bits_dtype))
