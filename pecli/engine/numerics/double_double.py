"""Numbers of about 106 bits as unevaluated sums of two float64 arrays, hi + lo (Dekker, 1971).

Only additions and multiplications of whole arrays are used, each rounded by IEEE 754, so the results are the same on
every machine.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats

_SPLITTER = np.float64(2**27 + 1)


class DoubleDouble(NamedTuple):
    """hi + lo, where hi is the sum rounded to float64."""

    hi: Floats
    lo: Floats

    def __neg__(self) -> DoubleDouble:
        return DoubleDouble(-self.hi, -self.lo)

    def take(self, index: Any) -> DoubleDouble:
        """The elements at an index, of both parts."""
        return DoubleDouble(self.hi[index], self.lo[index])


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
    scaled = _SPLITTER * a
    high = scaled - (scaled - a)
    return high, a - high


def exact_product(a: Floats, b: Floats) -> DoubleDouble:
    """a · b without error."""
    product = a * b
    a_high, a_low = _halves(a)
    b_high, b_low = _halves(b)
    return DoubleDouble(product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low)


def add(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a + b."""
    total = exact_sum(a.hi, b.hi)
    small = exact_sum(a.lo, b.lo)
    first = normal(total.hi, total.lo + small.hi)
    return normal(first.hi, first.lo + small.lo)


def multiply(a: DoubleDouble, b: DoubleDouble) -> DoubleDouble:
    """a · b."""
    product = exact_product(a.hi, b.hi)
    return normal(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi))


def scaled(a: DoubleDouble, factor: Floats) -> DoubleDouble:
    """a · factor, the factor being plain float64."""
    product = exact_product(a.hi, factor)
    return normal(product.hi, product.lo + a.lo * factor)


def constant(value: int, bits: int) -> DoubleDouble:
    """The fixed-point number value / 2**bits."""
    hi = value / (1 << bits)
    numerator, denominator = hi.as_integer_ratio()
    lo = (value * denominator - (numerator << bits)) / (denominator << bits)
    return DoubleDouble(np.array(hi), np.array(lo))
