"""Tables of cos and sin as a recipe computes them, with the same `fill` as the exact ones have."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Array, Floats, Indices, Singles, as_dtype, numpy_dtype
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.numerics.axis_tables import AxisRotation, Coordinates
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.float32_functions import power, round_single, waves_of
from pecli.engine.runtimes.runtime import Phases, recurrence
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.schemes import Recipe

MAX_FLOAT16 = 65504.0
_CHUNK = 1 << 13  #: elements dealt with at once: few enough for the cache, many enough for threads


def geometric_phases(
    recipe: Recipe, base: float, denominator: Fraction, count: int,
    steps: Callable[[Singles], Singles] = reciprocal, scaled: Callable[[], Frequencies] | None = None,
) -> Phases:  # fmt: skip
    """The phases that a recipe makes of frequencies base^(−i/denominator), in float32. `steps` lead from
    base^(i/denominator) to inverse frequencies; where these are more than divisions, `scaled` gives the exact
    frequencies after them, and the recurrence divides phases by how much these are slowed, as ggml does."""
    single, over = round_single(base), np.float32(float(denominator))
    if not recipe.recurrence:
        powers = [power(single, float(np.float32(i) / over)) for i in range(count)]
        return partial(
            np.multiply, rounded(steps(np.array(powers, np.float32)), recipe.frequencies)
        )
    ratio, slowing = power(single, float(np.float32(-1) / over)), None
    if scaled is not None:
        before, after = numerics.geometric(base, denominator, count), scaled()
        pairs = zip(before.values, after.values[:count], strict=True)
        ratios = [
            numerics.fixed(Fraction(old << after.bits, new << before.bits), 128)
            for old, new in pairs
        ]
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
    """Makes rows of cos and sin by a recipe, at consecutive positions, or at coordinates along the axes of waves."""

    def __init__(
        self, scheme: Any, recipe: Recipe, axes: Sequence[int], coordinates: Coordinates | None
    ) -> None:
        self._scheme, self._recipe, self._axes, self._coordinates = (
            scheme,
            recipe,
            axes,
            coordinates,
        )
        self._amplitude, self._scale = (
            np.float32(scheme.amplitude_value),
            np.float32(scheme.value_of("scale", 1.0)),
        )
        factor = 2 * np.pi if scheme.in_turns else 1.0
        values = coordinates.values if coordinates else ()
        self._values = [np.array([float(value) for value in axis]) * factor for axis in values]

    @cached_property
    def _bands(self) -> list[Band]:
        bands, first = [], 0
        for phases, indices in self._scheme.recipe_phases(self._recipe):
            for axis, run in groupby(self._axes[first : first + len(indices)]):
                columns = range(first, first + len([*run]))
                picked, indices = indices[: len(columns)], indices[len(columns) :]
                bands.append(
                    Band(phases, axis, slice(picked.start, picked.stop, picked.step), columns)
                )
                first = columns.stop
        return bands

    def fill(self, part: str, first: int | Indices, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`, or those given; see `Rotation.fill`."""
        parts = part.split(",")
        positions: list[Indices | Floats]
        if self._coordinates is not None:
            index = self._coordinates.index(int(first), int(first) + len(out))
            positions = [values[rows] for values, rows in zip(self._values, index, strict=True)]
        else:
            positions = [
                np.arange(first, first + len(out), dtype=np.int64)
                if isinstance(first, int)
                else first
            ]
        for band in self._bands:
            places = rounded(positions[band.axis].astype(np.float32), self._recipe.positions)
            self._fill_band(band, parts, places, out, dtype)

    def _fill_band(
        self, band: Band, parts: list[str], places: Singles, out: Array, dtype: str
    ) -> None:
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
            for k, values in enumerate(waves):
                target = out[start : start + step, columns][:, k :: len(parts)]
                stored = as_dtype(
                    values[:, : target.shape[1]] * self._amplitude, self._recipe.table or "float32"
                )
                target[...] = as_dtype(stored, dtype)


class CastFiller:
    """The exact values, rounded to a dtype on the way."""

    def __init__(self, exact: Rotation | AxisRotation, through: str) -> None:
        self._exact, self._through = exact, through

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        narrow = np.empty(out.shape, numpy_dtype(self._through))
        self._exact.fill(part, first, narrow, self._through)
        out[...] = as_dtype(narrow, dtype)


Filler = Rotation | AxisRotation | RecipeFiller | CastFiller  #: what fills tables of cos and sin
