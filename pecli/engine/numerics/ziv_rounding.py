"""Correct rounding, element by element: more digits until there is no doubt left (Ziv, 1991).

The values are sines and cosines of algebraic numbers, never halfway between two floats, so the search ends; sin 0 =
0 and cos 0 = 1 are exact and decided at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, Ints
from pecli.engine.numerics import double_double, fixed_point, phases
from pecli.engine.numerics.double_double import Doubled
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.numerics.phases import Waves
from pecli.engine.numerics.rounding import round_doubled, round_fixed, undecided

_MAX_BITS = 1 << 16

FLOAT64_ERROR = 2.0**-50
"""The relative error of amplitude · `phases.cos_sin`; 2**-51.5 by analysis."""


def settle(waves: Waves, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
    """amplitude · sin or cos (where `sine` says so) of the given waves at the given positions, correctly rounded."""
    out = np.empty(len(positions), numpy_dtype(dtype))
    limbs = waves.limbs[:, columns]
    cosines, sines = phases.cos_sin(limbs, positions)
    value = double_double.multiply(_plain(np.where(sine, sines, cosines)), waves.factor)
    out[...] = round_doubled(value, dtype)
    open_ = np.flatnonzero(undecided(value, FLOAT64_ERROR * np.abs(value.hi), dtype))
    if open_.size:
        better = phases.cos_sin_doubled(limbs[:, open_], positions[open_])
        picked = (np.where(sine[open_], s, c) for c, s in zip(*better, strict=True))
        value = double_double.multiply(Doubled(*picked), waves.factor)
        out[open_] = round_doubled(value, dtype)
        open_ = open_[undecided(value, phases.PRODUCT_ERROR * np.abs(value.hi), dtype)]
    for k in open_:
        out[k] = _by_integers(waves, int(positions[k]), int(columns[k]), bool(sine[k]), dtype)
    return out


def _plain(values: Floats) -> Doubled:
    return Doubled(values, np.zeros_like(values))


def _by_integers(waves: Waves, position: int, column: int, sine: bool, dtype: str) -> float:
    """The last resort, in integers of as many bits as it takes."""
    extra = 0
    while extra <= _MAX_BITS:
        finer = waves.more(extra) if extra else waves
        low, high = (round_fixed(bound, scale, dtype) for bound, scale in _bounds(finer, position, column, sine))
        if low == high:
            return low
        extra = 2 * extra + finer.bits
    raise ArithmeticError(f"{extra} bits more do not decide how position {position} of wave {column} rounds")


def _bounds(waves: Waves, position: int, column: int, sine: bool) -> Iterator[tuple[int, int]]:
    """Two fixed-point numbers, with their bits, that the value lies between.

    The frequency is off by less than one unit, so the angle by less than 7·position units; near the top of a wave
    that hardly moves the value.
    """
    bits, work = waves.bits, 2 * waves.bits
    turns = position * waves.turns[column] % (1 << bits)
    cosine, sine_ = fixed_point.cos_sin(turns << bits, work)
    value, steepness = (sine_, cosine) if sine else (cosine, sine_)
    error = (abs(steepness) * 7 * (position + 1) >> bits) + (8 * (position + 1)) ** 2 if turns else 0
    for way in (-1, 1):
        bound = (value + way * error) * waves.amplitude + way * (abs(value) + error) * waves.amplitude_error
        yield bound, work + waves.amplitude_bits
