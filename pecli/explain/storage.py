"""How values were kept: in which dtype, with how many decimals, in which steps, with how much noise; or computed."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import AnyArray, Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import holds
from pecli.explain.edits import Decimals, Dtype, Edit, FixedPoint, Noise

MAX_DECIMALS = 9
STEPS = tuple(1 / float(count) for bits in (7, 8, 15, 16) for count in ((1 << bits) - 1, 1 << bits))
"""Steps of fixed point: 1/127, 1/128, 1/255 and so on."""
SOME = 1 << 14
"""Values that are looked at."""


def grain(values: Floats) -> Edit | None:
    """The coarsest way of keeping numbers that has all of these; None where it is float32 or finer."""
    some = _some(values)
    if len(some) < 4:
        return None
    for dtype in ("bfloat16", "float16"):  # whose numbers have few decimals, too
        if holds(dtype, some):
            return Dtype(dtype)
    for digits in range(1, MAX_DECIMALS):
        if (np.abs(some - np.round(some, digits)) <= 2e-7 * np.maximum(np.abs(some), 10.0**-digits)).all():
            return Decimals(digits)
    for step in STEPS:
        size = float(np.abs(some).max())
        for unit in (step, step * size):
            ratio = some / unit
            if (np.abs(ratio - np.rint(ratio)) < 1e-3).all() and size > 8 * unit:
                return FixedPoint(unit)
    return None


def _some(values: AnyArray) -> Floats:
    flat = (
        np.concatenate([values.real.reshape(-1), values.imag.reshape(-1)])
        if np.iscomplexobj(values)
        else values.reshape(-1)
    )
    flat = flat[np.isfinite(flat)]
    return np.asarray(flat[:: max(1, len(flat) // SOME)], np.float64)


def precision(dtype: str) -> float:
    """Half a unit of the last place of 1, in a dtype."""
    return float(2.0 ** -SIGNIFICAND_BITS.get(dtype, 24))


def kept(values: AnyArray, dtype: str, noise: float, expected_dtype: str) -> tuple[Edit, ...]:
    """The edits that say how values were kept, beyond the dtype that was expected."""
    some = _some(values)
    size = float(np.sqrt(np.mean(np.abs(some) ** 2))) if len(some) else 0.0
    usual = max(precision(dtype), precision(expected_dtype)) * (size or 1.0)
    if not len(some) or noise <= 4 * usual:  # values that every dtype has are not rounded
        return ()
    found = grain(np.asarray(values))
    if isinstance(found, Dtype) and SIGNIFICAND_BITS[found.found] >= SIGNIFICAND_BITS.get(expected_dtype, 24):
        found = None
    if found is not None:
        return (found,)
    if noise > 8 * usual and math.isfinite(noise):
        return (Noise(float(f"{noise:.2g}")),)
    return ()
