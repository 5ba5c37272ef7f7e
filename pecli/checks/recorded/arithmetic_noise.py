"""Errors that a model's own arithmetic makes: they are no mistakes."""

from collections.abc import Iterable

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, dtype_name, widened

ANGLE_ERROR = 5e-7
"""Error of an angle per position in float32 arithmetic, in radians.

A frequency of 1 is exact. One below it has the rounding errors of an exponent such as 2·5/96, of
the power, and of the product with the position, about 2^-24 each; that of the exponent is
multiplied by ln(base), 14 for a base of a million.
"""
ROUNDINGS = 4
"""Half ULPs that a rotation may be off: those of the table, of two products, and of their sum."""
FLOAT32_BITS = SIGNIFICAND_BITS["float32"]


def bound_table_noise(tables: Iterable[Array], last_position: int) -> float:
    """Return the error that a model's cosines and sines may have up to a position."""
    coarsest = max(map(_half_ulp, tables))
    return ROUNDINGS * coarsest + ANGLE_ERROR * last_position


def bound_rotation_noise(before: Array, after: Array, last_position: int) -> float:
    """Return the error that a model's rotation may have: that of its table, times the values.

    Both channels of a pair contribute, √2 times the larger one at most.
    """
    largest = max(_find_largest(before), _find_largest(after))
    return float(np.sqrt(2.0) * largest * bound_table_noise((before, after), last_position))


def _half_ulp(array: Array) -> float:
    """Return half an ULP of 1 in an array's dtype; angles are float32 at best."""
    bits = SIGNIFICAND_BITS.get(dtype_name(array.dtype), FLOAT32_BITS)
    return float(2.0 ** -min(bits, FLOAT32_BITS))


def _find_largest(array: Array) -> float:
    magnitudes = np.abs(widened(array))
    return float(magnitudes[np.isfinite(magnitudes)].max(initial=0.0))
