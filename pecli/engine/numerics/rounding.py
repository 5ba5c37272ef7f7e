"""One rounding from exact numbers to the output dtype, to nearest, ties to even."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, round_to
from pecli.engine.numerics.double_double import DoubleDouble, normal


def round_double_double(values: DoubleDouble, dtype: str) -> Array:
    """Values of 106 bits in the named dtype, each rounded once."""
    hi, lo = np.broadcast_arrays(np.asarray(values.hi), np.asarray(values.lo))
    if dtype == "float64":
        return np.array(hi)
    bits = np.array(hi).view(np.int64)
    toward_zero = (lo != 0) & (np.signbit(lo) != np.signbit(hi))
    odd = np.where(lo != 0, (bits - toward_zero) | 1, bits)
    return round_to(odd.view(np.float64), dtype)


def differ(a: Array, b: Array) -> Flags:
    """Where two arrays of one dtype differ in their bits."""
    unsigned = f"u{a.dtype.itemsize}"
    return np.asarray(a.view(unsigned) != b.view(unsigned))


def undecided(values: DoubleDouble, error: Floats, dtype: str) -> Flags:
    """Where an error of that size leaves open which way a value rounds."""
    if dtype == "float64":
        return np.asarray(values.hi + (values.lo - error) != values.hi + (values.lo + error))
    below, above = normal(values.hi, values.lo - error), normal(values.hi, values.lo + error)
    return differ(round_double_double(below, dtype), round_double_double(above, dtype))


def round_fixed(value: int, bits: int, dtype: str) -> float:
    """The fixed-point number value / 2**bits in the named dtype, rounded once, as a Python float."""
    if value == 0:
        return 0.0
    if dtype == "float64":
        return value / (1 << bits)
    spare = abs(value).bit_length() - 53
    if spare > 0:  # round to odd, as above
        sticky = (abs(value) & ((1 << spare) - 1)) != 0
        odd = (abs(value) >> spare) | sticky
        double = math.ldexp(odd if value > 0 else -odd, spare - bits)
    else:
        double = math.ldexp(value, -bits)
    return float(round_to(np.array([double]), dtype)[0])
