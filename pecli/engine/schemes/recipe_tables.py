"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have.

Scalings of RoPE take their own steps in float32; in the recurrence the phases are divided by how much the scaling
slows each frequency, as ggml does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Floats, Indices, Singles, as_dtype, numpy_dtype
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.numerics.axis_tables import AxisRotation, Coordinates
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.float32_functions import power, round_single, waves_of
from pecli.engine.numerics.rounded_phases import RoundedRotation
from pecli.engine.runtimes.runtime import Phases, Products, recurrence
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.schemes import Recipe

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 13  #: elements dealt with at once: few enough for the cache, many enough for threads


def geometric_phases(
    recipe: Recipe, base: float, denominator: Fraction, count: int,
    steps: Callable[[Singles], Singles] = reciprocal, scaled: Callable[[], Frequencies] | None = None,
) -> Phases:  # fmt: skip
    """The phases that a recipe makes of frequencies base^(−i/denominator), in float32.

    `steps` lead from base^(i/denominator) to inverse frequencies; where these are more than divisions, `scaled` gives
    the exact frequencies after them.
    """
    single, over = round_single(base), np.float32(float(denominator))
    if not recipe.recurrence:
        powers = [power(single, float(np.float32(i) / over)) for i in range(count)]
        return Products(rounded(steps(np.array(powers, np.float32)), recipe.frequencies))
    ratio, slowing = power(single, float(np.float32(-1) / over)), None
    if scaled is not None:
        before, after = numerics.geometric(base, denominator, count), scaled()
        pairs = zip(before.values, after.values[:count], strict=True)
        ratios = [numerics.fixed(Fraction(old << after.bits, new << before.bits), 128) for old, new in pairs]
        slowing = np.array([round_fixed(value, 128, "float32") for value in ratios], np.float32)
    return partial(recurrence, pairs=count, ratio=ratio, divisors=slowing)


def rounded(values: Singles, dtype: str) -> Singles:
    """Values that only a dtype has, in float32; beyond the largest float16 they stay there."""
    if dtype not in ("float16", "bfloat16"):
        return values
    if dtype == "float16":
        values = np.clip(values, -MAX_FLOAT16, MAX_FLOAT16)
    return values.astype(numpy_dtype(dtype)).astype(np.float32)


class Band(NamedTuple):
    """Some of a recipe's phases that follow one axis of positions; `first` is the number of their first wave."""

    phases: Phases
    axis: int
    picked: list[int]
    first: int


def _bands(parts: Iterable[tuple[Phases, range]], axes: Sequence[int]) -> Iterator[Band]:
    """The waves in order, given the axis of each, as bands of one axis."""
    first = 0
    for phases, indices in parts:
        for axis, run in groupby(zip(indices, axes[first : first + len(indices)], strict=True), key=itemgetter(1)):
            picked = [index for index, _ in run]
            yield Band(phases, axis, picked, first)
            first += len(picked)


class RecipeFiller:
    """Makes rows of cos and sin tables by a recipe, at consecutive positions or at given coordinates, times a scale.

    `parts` gives phases, and which of them there are; `axes` the axis of positions that each follows. Rows do not
    depend on each other, so blocks may be cut anyhow.
    """

    def __init__(
        self, recipe: Recipe, parts: Callable[[], Iterable[tuple[Phases, range]]], axes: Sequence[int],
        amplitude: float, scale: float, coordinates: Coordinates | None, *, in_turns: bool,
    ) -> None:  # fmt: skip
        self._recipe, self._parts, self._axes, self._coordinates = recipe, parts, axes, coordinates
        self._amplitude, self._scale = np.float32(amplitude), np.float32(scale)
        factor = 2 * np.pi if in_turns else 1.0
        values = coordinates.values if coordinates else ()
        self._values = [np.array([float(value) for value in axis]) * factor for axis in values]

    @cached_property
    def _bands(self) -> list[Band]:
        return [*_bands(self._parts(), self._axes)]

    @cached_property
    def _rotation(self) -> RoundedRotation | None:
        """What makes many rows at once, where phases are float32 products of positions and frequencies."""
        match self._bands:
            case [Band(Products(inv_freq), picked=picked)] if self._scale == 1:
                plain = self._recipe.positions == self._recipe.product == "float32"
                return RoundedRotation(inv_freq[picked]) if plain else None
        return None

    def fill(self, part: str, first: int | Indices, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`, or those given; see `Rotation.fill`."""
        parts = part.split(",")
        positions: list[Indices | Floats]
        if self._coordinates is not None:
            index = self._coordinates.index(int(first), int(first) + len(out))
            positions = [values[rows] for values, rows in zip(self._values, index, strict=True)]
        elif isinstance(first, int) and len(parts) == 2 and self._rotation and self._rotation.suits(first, len(out)):
            waves = np.empty(out.shape, np.float32)
            self._rotation.fill(part, first, waves, "float32")
            self._write([waves], out, dtype)
            return
        else:
            positions = [np.arange(first, first + len(out), dtype=np.int64) if isinstance(first, int) else first]
        for band in self._bands:
            places = rounded(positions[band.axis].astype(np.float32), self._recipe.positions)
            self._fill_band(band, parts, places, out, dtype)

    def _fill_band(self, band: Band, parts: list[str], places: Singles, out: Array, dtype: str) -> None:
        pairs, step = len(band.picked), band.picked[1] - band.picked[0] if len(band.picked) > 1 else 1
        picked = slice(band.picked[0], band.picked[-1] + 1, step)
        columns = slice(band.first * len(parts), (band.first + pairs) * len(parts))
        distinct, rows = np.unique(places, return_inverse=True)
        if 2 * len(distinct) < len(out):  # rows that far out are the same: make each of them once
            few = np.empty((len(distinct), out.shape[1]), out.dtype)
            self._fill_band(band, parts, distinct, few, dtype)
            out[:, columns] = few[:, columns][rows.reshape(-1)]
            return
        step = max(1, _CHUNK // max(1, pairs))
        for start in range(0, len(out), step):
            some = places[start : start + step]
            angles = band.phases(np.abs(some)[:, None] * self._scale)[:, picked]
            angles = rounded(angles, self._recipe.product)
            if self._recipe.product == "bfloat16":  # of which there are few
                patterns = angles.view(np.uint32) >> np.uint32(16)
                waves = [_bfloat16_waves(part)[patterns] for part in parts]
            else:
                waves = waves_of(angles, parts)
            if (negative := np.signbit(some)).any() and "sin" in parts:
                waves[parts.index("sin")][negative] *= -1
            self._write(waves, out[start : start + step, columns], dtype)

    def _write(self, waves: list[Singles], out: Array, dtype: str) -> None:
        for k, values in enumerate(waves):
            if self._amplitude != 1:
                values *= self._amplitude
            target = out[:, k :: len(waves)]
            stored = as_dtype(values[:, : target.shape[1]], self._recipe.table or "float32")
            target[...] = as_dtype(stored, dtype)


@cache
def _bfloat16_waves(part: str) -> Singles:
    """The cosines or sines of all bfloat16 numbers from 0 to 2**104, which no phase reaches."""
    patterns = np.arange((104 + 127) << 7, dtype=np.uint32) << np.uint32(16)
    (waves,) = waves_of(patterns.view(np.float32), [part])
    return waves


class CastFiller:
    """The exact values, rounded to a dtype on the way."""

    def __init__(self, exact: Rotation | AxisRotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)


Filler = Rotation | AxisRotation | RecipeFiller | CastFiller  #: what fills tables of cos and sin
