"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have.

Scalings of RoPE take their own steps in float32; in the recurrence the phases are divided by how much the scaling
slows each frequency, as ggml does.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Flags, Floats, Indices, Ints, Singles, aligned_buffer, as_dtype, numpy_dtype
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.numerics.axis_tables import AxisRotation, Coordinates
from pecli.engine.numerics.cos_sin_tables import Factors, Rotation, Tile
from pecli.engine.numerics.float32_functions import power, round_single, waves_of
from pecli.engine.numerics.phases import Waves
from pecli.engine.runtimes.runtime import Phases, Products, recurrence
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.schemes import Recipe

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 13  #: elements dealt with at once: few enough for the cache, many enough for threads
_MAX_PHASE = 2.0**17  #: below which positions are float32 numbers, and |d| is at most 2**-8
_MIN_LAST_PHASE = 2.0**-14  #: values below 2**-22 are always in doubt: then at most one in 256 of a column
_MIN_WAVES = 1 << 18  #: of a block, for which it pays to make small tables first
_BITS = 149  #: after the binary point of any float32 number
_COUNT = 1 << 16  #: positions that the small tables are made for


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
    """Some of a recipe's phases that follow one axis of positions, and the columns that they have among all waves."""

    phases: Phases
    axis: int
    picked: slice
    columns: range


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
        bands, first = [], 0
        for phases, indices in self._parts():
            axes = self._axes[first : first + len(indices)]
            for axis, run in groupby(zip(indices, axes, strict=True), key=itemgetter(1)):
                picked = [index for index, _ in run]
                step = picked[1] - picked[0] if len(picked) > 1 else 1
                every = slice(picked[0], picked[-1] + 1, step)
                bands.append(Band(phases, axis, every, range(first, first + len(picked))))
                first += len(picked)
        return bands

    @cached_property
    def _rotation(self) -> "RoundedRotation | None":
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
        columns = slice(band.columns.start * len(parts), band.columns.stop * len(parts))
        distinct, rows = np.unique(places, return_inverse=True)
        if 2 * len(distinct) < len(out):  # rows that far out are the same: make each of them once
            few = np.empty((len(distinct), out.shape[1]), out.dtype)
            self._fill_band(band, parts, distinct, few, dtype)
            out[:, columns] = few[:, columns][rows.reshape(-1)]
            return
        step = max(1, _CHUNK // max(1, len(band.columns)))
        for start in range(0, len(out), step):
            some = places[start : start + step]
            angles = band.phases(np.abs(some)[:, None] * self._scale)[:, band.picked]
            waves = waves_of(rounded(angles, self._recipe.product), parts)
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


class CastFiller:
    """The exact values, rounded to a dtype on the way."""

    def __init__(self, exact: Rotation | AxisRotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)


class RoundedRotation(Rotation):
    """Makes many rows of cos and sin at once, of float32 products of positions and frequencies, in pairs.

    The product t of two float32 numbers is exact in float64, and so is d = float32(t) − t, what its rounding adds to
    the phase. exp(i·t) is a product of small tables, as in the exact tables; times a short series for exp(i·d), it has
    the phase that was rounded. The few values that this leaves in doubt are computed from that phase itself.
    """

    def __init__(self, frequencies: Singles) -> None:
        numbers = tuple(int(Fraction(value) * (1 << _BITS)) for value in frequencies.tolist())
        super().__init__(lambda: Waves.of(Frequencies(numbers, _BITS)), _COUNT)
        self._frequencies = frequencies.astype(np.float64)

    def suits(self, first: int, rows: int) -> bool:
        """Whether so many rows can be made this way, and faster than one by one."""
        least, most = self._frequencies.min(initial=np.inf), self._frequencies.max(initial=1)
        last, many = first + rows - 1, rows * len(self._frequencies) >= _MIN_WAVES
        return bool(many and first >= 0 and most * last < _MAX_PHASE and least * last >= _MIN_LAST_PHASE)

    def _new_tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        return _RoundedTile(factors, columns, self._frequencies[factors.columns])

    def _decided(self, positions: Ints, columns: Indices, sine: Flags, dtype: str) -> Array:
        angles = (positions.astype(np.float64) * self._frequencies[columns]).astype(np.float32)
        cosines, sines = waves_of(angles, ("cos", "sin"))
        return np.where(sine, sines, cosines)


class _RoundedTile(Tile):
    """Pairs of cos and sin whose phases are rounded to float32.

    In units of 2**-53, exp(i·d) is off by 1, of which its series cut short is a tenth, and the product adds √5: with
    what the tables are off by, 19 in all, below the 32 that are half a unit of the test.
    """

    def __init__(self, factors: Factors, columns: int, frequencies: Floats) -> None:
        super().__init__(factors, columns, "float32")
        shape = factors.height, len(frequencies)
        self._frequencies = -frequencies if factors.part == "sin,cos" else frequencies  # which turn the other way
        self._buffers = [aligned_buffer(shape[0] * shape[1], np.float64).reshape(shape) for _ in range(3)]
        self._turn_by = aligned_buffer(shape[0] * shape[1], np.complex128).reshape(shape)

    def _adjust(self, first: int, values: Floats) -> None:
        """Turn the values by what rounding adds to their phases."""
        pairs = values.view(np.complex128).reshape(-1, len(self._frequencies))
        turn = self._turn_by[: len(pairs)]
        off, square, series = (buffer[: len(pairs)] for buffer in self._buffers)
        np.multiply(np.arange(first, first + len(pairs), dtype=np.float64)[:, None], self._frequencies, off)
        np.subtract(off.astype(np.float32), off, off)
        np.multiply(off, off, square)
        np.multiply(square, 1 / 24, series)
        series -= 1 / 2
        series *= square
        np.add(series, 1, turn.real)
        np.multiply(square, 1 / 120, series)
        series -= 1 / 6
        series *= square
        series *= off
        np.add(series, off, turn.imag)
        np.multiply(pairs, turn, pairs)


Filler = Rotation | AxisRotation | RecipeFiller | CastFiller  #: what fills tables of cos and sin
