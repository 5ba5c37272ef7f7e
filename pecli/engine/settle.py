"""Correct rounding, element by element: more digits until there is no doubt left (Ziv, 1991).

The values are sines and cosines of algebraic numbers, never halfway between two floats, so the search ends; sin 0 =
0 and cos 0 = 1 are exact and decided at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.engine import doubled, fixed, phases
from pecli.engine.doubled import Doubled
from pecli.engine.dtypes import numpy_dtype
from pecli.engine.phases import Waves
from pecli.engine.rounding import round_doubled, round_fixed, undecided

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Flags, Floats, Ints, Places

FLOAT64_ERROR = 2.0**-50
"""The relative error of amplitude · `phases.cos_sin`; 2**-51.5 by analysis."""


def settle(waves: Waves, positions: Ints, columns: Places, sine: Flags, dtype: str) -> Array:
    """amplitude · sin or cos (where `sine` says so) of the given waves at the given positions, correctly rounded."""
    out = np.empty(len(positions), numpy_dtype(dtype))
    limbs = waves.limbs[:, columns]
    cosines, sines = phases.cos_sin(limbs, positions)
    value = doubled.multiply(_plain(np.where(sine, sines, cosines)), waves.factor)
    out[...] = round_doubled(value, dtype)
    open_ = np.flatnonzero(undecided(value, FLOAT64_ERROR * np.abs(value.hi), dtype))
    if open_.size:
        better = phases.cos_sin_doubled(limbs[:, open_], positions[open_])
        picked = (np.where(sine[open_], s, c) for c, s in zip(*better, strict=True))
        value = doubled.multiply(Doubled(*picked), waves.factor)
        out[open_] = round_doubled(value, dtype)
        open_ = open_[undecided(value, phases.PRODUCT_ERROR * np.abs(value.hi), dtype)]
    for k in open_:
        out[k] = _by_integers(waves, int(positions[k]), int(columns[k]), bool(sine[k]), dtype)
    return out


def _plain(values: Floats) -> Doubled:
    return Doubled(values, np.zeros_like(values))


def _by_integers(waves: Waves, position: int, column: int, sine: bool, dtype: str) -> float:
    """The last resort, in integers; the error is the frequency's own, at most half a unit of its last place."""
    bits = waves.bits
    turns = position * waves.turns[column] % (1 << bits)
    value = fixed.cos_sin(turns, bits)[sine] * waves.amplitude
    error = (position * 7 + 8) * max(1, waves.amplitude)
    scale = bits + waves.amplitude_bits
    low, high = (round_fixed(value + way * error, scale, dtype) for way in (-1, 1))
    if low != high and turns:
        raise ArithmeticError(f"{bits} bits do not decide how position {position} of wave {column} rounds")
    return round_fixed(value, scale, dtype)
