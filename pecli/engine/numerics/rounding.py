"""One rounding from a value to the output dtype, to nearest, ties to even."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats
from pecli.engine.numerics.double_double import DoubleDouble, normal
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name, numpy_dtype

if TYPE_CHECKING:
    from numpy.typing import NDArray


_MIN_NORMAL = 2.0**-126
"""The smallest number for which bfloat16 has all its bits."""


def round_to(values: Floats, dtype: str) -> Array:
    """float64 values in the named dtype, each rounded once.

    >>> float(round_to(np.array([1 + 2**-8 + 2**-40]), "bfloat16")[0])
    1.0078125
    """
    if dtype == "bfloat16":
        return _bfloat16_bits(values).view(numpy_dtype(dtype))
    if dtype.startswith("float8"):
        return _odd_singles(values).view(np.float32).astype(numpy_dtype(dtype))
    with np.errstate(over="ignore"):
        return values.astype(numpy_dtype(dtype))


def _odd_singles(values: Floats) -> NDArray[np.uint32]:
    """The bits of float32 values, rounded to odd: another rounding, to fewer bits, cannot mistake them for a tie."""
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.uint32)
    inexact = (back != values) & np.isfinite(values)
    return np.where(inexact, (bits - (np.abs(back) > np.abs(values))) | 1, bits).astype(np.uint32)


def _bfloat16_bits(values: Floats) -> NDArray[np.uint16]:
    ordinary = np.abs(values) >= _MIN_NORMAL
    if not ordinary.all() and (values[~ordinary] != 0).any():
        return _any_bfloat16_bits(values)
    bits = values.view(np.uint64)  # to 8 significant bits where they are, which float32 then holds exactly
    rounded = bits >> np.uint64(45)
    rounded &= np.uint64(1)
    rounded += np.uint64((1 << 44) - 1)
    rounded += bits
    rounded &= np.uint64(2**64 - (1 << 45))
    with np.errstate(over="ignore"):
        return (rounded.view(np.float64).astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)


def _any_bfloat16_bits(values: Floats) -> NDArray[np.uint16]:
    """Not-a-numbers too, and numbers so small that bfloat16 has fewer bits for them."""
    bits = _odd_singles(values)
    rounded = ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)
    quiet = ((bits >> np.uint32(16)) | np.uint32(0x40)).astype(np.uint16)
    return np.where(np.isnan(values), quiet, rounded)


def widened(block: Array) -> Floats:
    """Any numbers as float64, signalling NaNs included, about which NumPy would warn."""
    with np.errstate(invalid="ignore"):
        return block.astype(np.float64)


def holds(dtype: str, values: Floats) -> bool:
    """Whether a dtype has every one of these values.

    >>> holds("bfloat16", np.array([1.5, 1 + 2**-7])), holds("bfloat16", np.array([1 + 2**-8]))
    (True, False)
    """
    return np.array_equal(widened(round_to(values, dtype)), values)


def narrowest(values: Floats, dtype: str) -> str:
    """The narrowest dtype that has the values of a table of another one: float32 may hold bfloat16 numbers."""
    for narrow in ("bfloat16", "float16", "float32"):
        if SIGNIFICAND_BITS[narrow] < SIGNIFICAND_BITS.get(dtype, SIGNIFICAND_BITS["float64"]) and holds(
            narrow, values
        ):
            return narrow
    return dtype


def as_dtype(values: Array, dtype: str) -> Array:
    """Values in another dtype, wider or narrower; a narrower one rounds."""
    if dtype_name(values.dtype) == dtype:
        return values
    return values.astype(numpy_dtype(dtype)) if dtype in ("float32", "float64") else round_to(widened(values), dtype)


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
