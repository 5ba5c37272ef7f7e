"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have.

Scalings of RoPE take their own steps in float32; in the recurrence the phases are divided by how much the scaling
slows each frequency, as ggml does.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache, cached_property

import numpy as np

from pecli.engine.arrays import Array, Indices, Singles
from pecli.engine.numerics import fixed_point, geometric
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.numerics.float32_functions import as_bfloat16, power, round_single, waves_of
from pecli.engine.numerics.rounding import as_dtype, round_fixed
from pecli.engine.schemes.recipes import FrequencyRecipe, Recipe

_CHUNK = 1 << 13
"""Elements dealt with at once, so that intermediate arrays stay in the cache."""


class RecipeFiller:
    """Makes rows of cos and sin tables by a recipe. Rows do not depend on each other, so blocks may be cut anyhow."""

    def __init__(self, recipe: Recipe, frequencies: FrequencyRecipe) -> None:
        self._recipe, self._frequencies = recipe, frequencies
        self._amplitude = np.float32(frequencies.amplitude)

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`; see `Rotation.fill`."""
        self.fill_at(part, np.arange(first, first + len(out), dtype=np.int64), out, dtype)

    def fill_at(self, part: str, positions: Indices, out: Array, dtype: str) -> None:
        """Write the given positions into the rows of `out`."""
        parts = part.split(",")
        step = max(1, _CHUNK // max(1, self._frequencies.count))
        distinct = np.unique(self._places(positions))
        if 2 * len(distinct) < len(out):  # rows that far out are the same: make each of them once
            few = np.empty((len(distinct), out.shape[1]), out.dtype)
            self.fill_at(part, distinct.astype(np.int64), few, dtype)
            out[...] = few[np.searchsorted(distinct, self._places(positions))]
            return
        for start in range(0, len(out), step):
            angles = self.angles(positions[start : start + step])
            waves = _looked_up(angles, parts) if self._recipe.product == "bfloat16" else waves_of(angles, parts)
            for k, values in enumerate(waves):
                if self._amplitude != 1:
                    values *= self._amplitude
                target = out[start : start + step, k :: len(parts)]
                kept: Array = values[:, : target.shape[1]]
                if self._recipe.table:
                    kept = as_dtype(kept, self._recipe.table)
                target[...] = as_dtype(kept, dtype)

    def at(self, part: str, positions: Indices, axes: Indices, dtype: str) -> Array:
        """The cos or sin of a few positions; see `Rotation.at`."""
        out = np.empty((positions.shape[1], len(axes)), numpy_dtype(dtype))
        whole = np.empty_like(out)
        for axis, places in enumerate(positions):
            self.fill_at(part, places, whole, dtype)
            out[:, axes == axis] = whole[:, axes == axis]
        return out

    def angles(self, positions: Indices) -> Singles:
        """The phases, in float32: one row per position."""
        places = self._places(positions)[:, None]
        if self._frequencies.phases is not None:
            return self._frequencies.phases.angles(places)
        if self._frequencies.scale != 1:
            places = places * np.float32(self._frequencies.scale)
        if not self._recipe.recurrence:
            return _rounded(places * self.inv_freq, self._recipe.product)
        found = np.full((len(places), self._frequencies.count), self._ratio)
        found[:, :1] = places
        np.multiply.accumulate(found, axis=1, out=found)
        return found if self._slowing is None else found / self._slowing

    def _places(self, positions: Indices) -> Singles:
        return _rounded(positions.astype(np.float32), self._recipe.positions)

    @cached_property
    def inv_freq(self) -> Singles:
        """What positions are multiplied by, in effect."""
        given = self._frequencies
        if given.phases is not None:
            return given.phases.angles(np.ones((1, 1), np.float32)).reshape(-1)
        if self._recipe.recurrence:
            steps = np.full(given.count, self._ratio)
            steps[:1] = 1
            np.multiply.accumulate(steps, out=steps)
            return steps if self._slowing is None else steps / self._slowing
        exponents = np.arange(given.count, dtype=np.float32) / np.float32(float(given.denominator))
        base = round_single(given.base)
        powers = np.array([power(base, float(exponent)) for exponent in exponents], np.float32)
        return _rounded(given.steps(powers) if given.steps else np.float32(1) / powers, self._recipe.frequencies)

    @cached_property
    def _ratio(self) -> np.float32:
        """Of a frequency to the one before."""
        exponent = np.float32(-1) / np.float32(float(self._frequencies.denominator))
        return np.float32(power(round_single(self._frequencies.base), float(exponent)))

    @cached_property
    def _slowing(self) -> Singles | None:
        """How many times slower scaling makes each frequency."""
        given = self._frequencies
        if given.scaled is None:
            return None
        before, after = geometric.geometric(given.base, given.denominator, given.count), given.scaled()
        pairs = zip(before.values, after.values[: given.count], strict=True)
        ratios = [Fraction(old << after.bits, new << before.bits) for old, new in pairs]
        return np.array([round_fixed(fixed_point.fixed(ratio, 128), 128, "float32") for ratio in ratios], np.float32)


def _rounded(values: Singles, dtype: str) -> Singles:
    """Values that only a dtype has, in float32."""
    return as_bfloat16(values) if dtype == "bfloat16" else values


def _looked_up(angles: Singles, parts: list[str]) -> list[Singles]:
    """The waves of angles that are bfloat16 numbers, of which there are few."""
    patterns = angles.view(np.uint32) >> np.uint32(16)
    return [_bfloat16_waves(part)[patterns] for part in parts]


@cache
def _bfloat16_waves(part: str) -> Singles:
    """The cosines or sines of all bfloat16 numbers from 0 to 2**104, which no phase reaches."""
    patterns = np.arange((104 + 127) << 7, dtype=np.uint32) << np.uint32(16)
    (waves,) = waves_of(patterns.view(np.float32), [part])
    return waves


class CastFiller:
    """The exact values, rounded to a dtype on the way."""

    def __init__(self, exact: Rotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """See `Rotation.fill`."""
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)

    def at(self, part: str, positions: Indices, axes: Indices, dtype: str) -> Array:
        """See `Rotation.at`."""
        return as_dtype(self._exact.at(part, positions, axes, self._through), dtype)


Filler = Rotation | RecipeFiller | CastFiller
"""What fills tables of cos and sin."""
