"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have.

Scalings of RoPE take their own steps in float32; in the recurrence the phases are divided by how much the scaling
slows each frequency, as ggml does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import accumulate, pairwise

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Floats, Indices, Singles, as_dtype, numpy_dtype
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.numerics.axis_tables import EXTRA_BITS, AxisRotation, Coordinates
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.float32_functions import as_bfloat16, power, round_single, waves_of
from pecli.engine.numerics.float32_phases import RoundedRotation
from pecli.engine.numerics.phases import TILE, Waves
from pecli.engine.runtimes.runtime import Phases
from pecli.engine.schemes import Recipe
from pecli.engine.schemes.grid_styles import AxisBlock

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 13
"""Elements dealt with at once, so that intermediate arrays stay in the cache."""
_MIN_ROTATED = 1 << 20
"""Elements of a block for which it pays to make small tables first."""


@dataclass(frozen=True, eq=False, repr=False)
class FrequencyRecipe:
    """What a recipe needs to know of a scheme: the frequencies base^(−i/denominator), and what else acts on them."""

    base: float
    denominator: Fraction
    count: int
    scale: float = 1.0
    amplitude: float = 1.0
    steps: Callable[[Singles], Singles] | None = None
    """From base^(i/denominator) to inverse frequencies, where that is more than a division."""
    scaled: Callable[[], Frequencies] | None = None
    """The exact frequencies after those steps."""
    phases: Phases | None = None
    """The angles as a runtime computes them, instead of all that."""


class RecipeFiller:
    """Makes rows of cos and sin tables by a recipe. Rows do not depend on each other, so blocks may be cut anyhow."""

    def __init__(self, recipe: Recipe, frequencies: FrequencyRecipe) -> None:
        self._recipe, self._frequencies = recipe, frequencies
        self._amplitude = np.float32(frequencies.amplitude)

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`; see `Rotation.fill`."""
        rotation = self._rotation if out.size >= _MIN_ROTATED else None
        if rotation is None or not rotation.suits(first + len(out)):
            self.fill_at(part, np.arange(first, first + len(out), dtype=np.int64), out, dtype)
            return
        parts, count = part.split(","), self._frequencies.count
        if len(parts) == 2 and dtype == "float32" and self._amplitude == 1 and not self._recipe.table:
            rotation.fill(part, first, out, dtype)
            return
        step = max(1, TILE // count)
        for start in range(0, len(out), step):
            pairs = np.empty((min(step, len(out) - start), 2 * count), np.float32)
            rotation.fill("cos,sin", first + start, pairs, "float32")
            waves = [pairs[:, each == "sin" :: 2] for each in parts]
            self._write(waves, out[start : start + step], dtype)

    def fill_at(self, part: str, positions: Indices | Floats, out: Array, dtype: str) -> None:
        """Write the given positions into the rows of `out`."""
        parts = part.split(",")
        step = max(1, _CHUNK // max(1, self._frequencies.count))
        distinct = np.unique(self._places(positions))
        if 2 * len(distinct) < len(out):  # rows that far out are the same: make each of them once
            few = np.empty((len(distinct), out.shape[1]), out.dtype)
            self.fill_at(part, distinct.astype(np.float64), few, dtype)
            out[...] = few[np.searchsorted(distinct, self._places(positions))]
            return
        for start in range(0, len(out), step):
            angles = self.angles(positions[start : start + step])
            waves = _looked_up(angles, parts) if self._recipe.product == "bfloat16" else waves_of(angles, parts)
            self._write(waves, out[start : start + step], dtype)

    def _write(self, waves: list[Singles], out: Array, dtype: str) -> None:
        for k, values in enumerate(waves):
            if self._amplitude != 1:
                values *= self._amplitude
            target = out[:, k :: len(waves)]
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

    def angles(self, positions: Indices | Floats) -> Singles:
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

    def _places(self, positions: Indices | Floats) -> Singles:
        return _rounded(positions.astype(np.float32), self._recipe.positions)

    @cached_property
    def _rotation(self) -> RoundedRotation | None:
        """What makes many rows at once, where phases are plain float32 products of integers and frequencies."""
        given, recipe = self._frequencies, self._recipe
        plain = given.phases is None and given.scale == 1 and not recipe.recurrence
        return RoundedRotation(self.inv_freq) if plain and recipe.positions == recipe.product == "float32" else None

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
        before, after = numerics.geometric(given.base, given.denominator, given.count), given.scaled()
        pairs = zip(before.values, after.values[: given.count], strict=True)
        ratios = [Fraction(old << after.bits, new << before.bits) for old, new in pairs]
        return np.array([round_fixed(numerics.fixed(ratio, 128), 128, "float32") for ratio in ratios], np.float32)


def _rounded(values: Singles, dtype: str) -> Singles:
    """Values that only a dtype has, in float32; beyond the largest float16 they stay there."""
    if dtype == "float16":
        return np.clip(values, -MAX_FLOAT16, MAX_FLOAT16).astype(np.float16).astype(np.float32)
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

    def __init__(self, exact: Rotation | AxisRotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """See `Rotation.fill`."""
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)

    def at(self, part: str, positions: Indices, axes: Indices, dtype: str) -> Array:
        """See `Rotation.at`."""
        assert isinstance(self._exact, Rotation)
        return as_dtype(self._exact.at(part, positions, axes, self._through), dtype)


@dataclass(frozen=True)
class AxisFrequencies:
    """Some of the frequencies of a recipe, by number, that follow one axis of positions."""

    recipe: FrequencyRecipe
    indices: Sequence[int]
    axis: int
    columns: Sequence[int]
    """Which waves of the table they are."""


@dataclass(frozen=True, eq=False)
class AxisWaves:
    """Waves that each follow one axis of any positions: exact, and as recipes compute them."""

    coordinates: Coordinates
    make_waves: Callable[[Fraction], Waves]
    """The waves for positions in multiples of a unit; see `AxisRotation`."""
    frequencies: Sequence[AxisFrequencies]
    """The same as recipes make them."""
    in_turns: bool = False
    """Positions are turns, which recipes multiply by 2π."""

    @property
    def axes(self) -> list[int]:
        axis = {column: each.axis for each in self.frequencies for column in each.columns}
        return [axis[column] for column in range(len(axis))]

    def filler(self, recipe: Recipe) -> AxisFiller:
        """What makes the tables by a recipe."""
        if not recipe.is_exact:
            return AxisRecipeFiller(recipe, self)
        exact = AxisRotation(self.make_waves, self.axes, self.coordinates)
        return CastFiller(exact, recipe.table) if recipe.table else exact


def _block_recipe(
    block: AxisBlock, base: float, shift: float = 0.0, scale: float = 1.0, amplitude: float = 1.0
) -> FrequencyRecipe:
    last = max(block.indices, default=0)
    denominator = block.denominator - Fraction(shift) if last else Fraction(1)
    return FrequencyRecipe(base, denominator, last + 1, scale, amplitude)


def block_frequencies(blocks: Sequence[AxisBlock], base: float, shift: float = 0.0, scale: float = 1.0) -> Frequencies:
    """The frequencies of all blocks, one after the other."""
    recipes = [_block_recipe(block, base, shift) for block in blocks]
    every = [numerics.geometric(base, recipe.denominator, recipe.count, scale) for recipe in recipes]
    return numerics.joined([part.take(block.indices) for part, block in zip(every, blocks, strict=True)])


def block_waves(
    coordinates: Coordinates, blocks: Sequence[AxisBlock], base: float, shift: float = 0.0, scale: float = 1.0,
    amplitude: float = 1.0, *, in_turns: bool = False,
) -> AxisWaves:  # fmt: skip
    """Waves over a grid: of each block at the positions of its axis, times `scale`."""
    ends = pairwise(accumulate((block.pairs for block in blocks), initial=0))
    frequencies = [
        AxisFrequencies(_block_recipe(block, base, shift, scale, amplitude), block.indices, block.axis, range(*columns))
        for block, columns in zip(blocks, ends, strict=True)
    ]
    make = unit_waves(block_frequencies(blocks, base, shift, scale), scale, amplitude, in_turns=in_turns)
    return AxisWaves(coordinates, make, frequencies, in_turns)


def unit_waves(
    frequencies: Frequencies,
    scale: float = 1.0,
    amplitude: float | Callable[[int], int] = 1.0,
    *,
    in_turns: bool = False,
) -> Callable[[Fraction], Waves]:
    """The waves with these frequencies over positions in multiples of a unit."""
    finer = frequencies.more(EXTRA_BITS)

    def make(unit: Fraction) -> Waves:
        whole = unit * Fraction(scale)
        return Waves.of(finer, scale=whole, amplitude=amplitude, extra=EXTRA_BITS, in_turns=in_turns)

    return make


class AxisRecipeFiller:
    """Rows of cos and sin tables by a recipe, at any positions."""

    def __init__(self, recipe: Recipe, waves: AxisWaves) -> None:
        self._waves = waves
        self._fillers = [RecipeFiller(recipe, each.recipe) for each in waves.frequencies]
        factor = 2 * np.pi if waves.in_turns else 1.0
        self._positions = [waves.coordinates.floats(axis, factor) for axis in range(len(waves.coordinates.values))]

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """See `AxisRotation.fill`."""
        index, parts = self._waves.coordinates.index(first, first + len(out)), part.split(",")
        for k, single in enumerate(parts):
            target = out[:, k :: len(parts)]
            for filler, each in zip(self._fillers, self._waves.frequencies, strict=True):
                positions = self._positions[each.axis][index[each.axis]]
                every = np.empty((len(out), each.recipe.count), out.dtype)
                filler.fill_at(single, np.abs(positions), every, dtype)
                if single == "sin":
                    every[positions < 0] *= -1
                there = [(to, of) for to, of in zip(each.columns, each.indices, strict=True) if to < target.shape[1]]
                target[:, [to for to, _ in there]] = every[:, [of for _, of in there]]


RangeFiller = Rotation | RecipeFiller | CastFiller
"""What fills tables of cos and sin at consecutive positions."""
AxisFiller = AxisRotation | AxisRecipeFiller | CastFiller
"""What fills them at any positions."""
Filler = RangeFiller | AxisFiller
