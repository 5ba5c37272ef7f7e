"""The tables of rotary and sinusoidal schemes: cos and sin in their layouts, in order or at any positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes import EXACT, Recipe
from pecli.engine.schemes.positions import LAST_POSITION
from pecli.engine.table import ByPosition, Table
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from pecli.engine.schemes.recipe_tables import AxisFiller, AxisWaves, Filler, FrequencyRecipe


@dataclass(eq=False, repr=False)  # to freeze it and what derives from it takes a millisecond of every start
class _WaveRows:
    """What rows of cos and sin are made from."""

    recipe: Recipe
    waves: Callable[[], Waves]
    frequency_recipe: Callable[[], FrequencyRecipe]
    axis_waves: Callable[[], AxisWaves] | None
    """For positions that are not consecutive."""
    seq_len: int
    offset: int
    layout: str
    dtype: str

    def rotation(self) -> Rotation:
        """What makes the exact cos and sin."""
        return Rotation(self.waves, self.seq_len)

    @cached_property
    def filler(self) -> Filler:
        """What makes cos and sin of consecutive positions by the recipe."""
        return cos_sin_filler(self.recipe, self.rotation(), self.frequency_recipe)

    @cached_property
    def rows(self) -> Filler | AxisFiller:
        """What makes the rows of the tables."""
        return self.filler if self.axis_waves is None else self.axis_waves().filler(self.recipe)


@dataclass(eq=False, repr=False)
class RopeTables(_WaveRows):
    """cos and sin of `pairs` columns, or doubled; those from `rotating` on have angle 0."""

    pairs: int
    rotating: int

    def inverse_frequencies(self) -> list[float]:
        """As the recipe rounds them."""
        from pecli.engine.schemes.recipe_tables import RecipeFiller

        found = RecipeFiller(self.recipe, self.frequency_recipe()).inv_freq
        return [float(value) for value in found] + [0.0] * (self.pairs - self.rotating)

    def cos_sin(self) -> tuple[Table, Table]:
        """cos and sin, (seq_len, width)."""
        shape = (self.seq_len, self.pairs if self.layout == "compact" else 2 * self.pairs)

        return Table("cos", self.dtype, shape, _Rows(self, "cos")), Table("sin", self.dtype, shape, _Rows(self, "sin"))

    def lay_out(self, part: str, fill: Callable[[Array], None], out: Array) -> None:
        """Fill the pairs that rotate, and from them the rest of the rows."""
        if self.layout == "interleaved":
            single, double = out[:, 0::2], out[:, 1::2]
        else:
            single, double = out[:, : self.pairs], out[:, self.pairs :]
        fill(single[:, : self.rotating])
        single[:, self.rotating :] = 1 if part == "cos" else 0
        if self.layout != "compact":
            double[...] = single

    def at(self, position_ids: ArrayLike, axes: Sequence[int], count: int) -> dict[str, Array]:
        """cos and sin, one column per frequency, of positions (L,) or (count, L); each follows one axis."""
        ids = np.atleast_2d(np.asarray(position_ids))
        if ids.dtype.kind not in "iu" or ids.ndim != 2 or len(ids) not in (1, count):
            rule = f"they must be integers of shape (L,) or ({count}, L)"
            raise ParameterError("position_ids", f"of shape {ids.shape} and dtype {ids.dtype}", rule)
        if ids.size and not 0 <= ids.min() <= ids.max() <= LAST_POSITION:
            raise ParameterError("position_ids", f"{ids.min()} … {ids.max()}", "positions are from 0 to 2^40")
        follows = np.array(axes)[: self.rotating] if len(ids) > 1 else np.zeros(self.rotating, np.intp)
        found = {}
        for name in ("cos", "sin"):
            table = self.filler.at(name, ids.astype(np.int64), follows, self.dtype)
            rest = np.full((len(table), self.pairs - self.rotating), 1 - (name == "sin")).astype(table.dtype)
            found[name] = np.concatenate([table, rest], axis=1)
        return found

    def by_position(self, frequencies: list[float]) -> ByPosition:
        """cos and sin of each pair side by side; the layouts only repeat them."""
        count = self.rotating

        def read(start: int, stop: int) -> Array:
            out = np.empty((stop - start, 2 * count), numpy_dtype(self.dtype))
            self.rows.fill("cos,sin", self.offset + start, out, self.dtype)
            return out

        groups, names = np.arange(2 * count) // 2, ("cos", "sin") * count
        return ByPosition(self.offset, self.seq_len, "frequencies", frequencies[:count], groups, names, read)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Fills rows of cos or sin: consecutive ones, or, where a recipe makes each by itself, any at once."""

    tables: RopeTables
    part: str

    def __call__(self, start: int, out: Array) -> None:
        tables = self.tables
        tables.lay_out(
            self.part, lambda pairs: tables.rows.fill(self.part, tables.offset + start, pairs, tables.dtype), out
        )

    @property
    def gather(self) -> Callable[[Indices, Array], None] | None:
        """See `Table.pick`."""
        tables, fill_at = self.tables, getattr(self.tables.rows, "fill_at", None)
        if fill_at is None:
            return None

        def fill(rows: Indices, out: Array) -> None:
            tables.lay_out(self.part, lambda pairs: fill_at(self.part, rows + tables.offset, pairs, tables.dtype), out)

        return fill


def cos_sin_filler(recipe: Recipe, exact: Rotation, frequencies: Callable[[], FrequencyRecipe]) -> Filler:
    """What fills tables of cos and sin; recipes that are not exact are imported when they are asked for."""
    if recipe == EXACT:
        return exact
    from pecli.engine.schemes.recipe_tables import CastFiller, RecipeFiller

    return CastFiller(exact, recipe.table) if recipe.is_exact else RecipeFiller(recipe, frequencies())


def vector(name: str, dtype: str, values: Callable[[], Sequence[float]], count: int) -> Table:
    """A tensor of few numbers, computed when they are asked for."""

    def fill(start: int, out: Array) -> None:
        out[:, 0] = values()[start : start + len(out)]

    return Table(name, dtype, (count,), fill)


@dataclass(eq=False, repr=False)
class SinusoidalTable(_WaveRows):
    """Sines and cosines in one table."""

    dim: int
    blocks: tuple[int, ...]
    """Pairs of sines and cosines; in halves, those of each block follow each other."""
    cos_first: bool
    padding_idx: int | None
    keep: int
    """Rows of zeros at the start."""

    @property
    def _parts(self) -> tuple[str, str]:
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    def table(self) -> Table:
        """(seq_len, dim)."""
        return Table("pe", self.dtype, (self.seq_len, self.dim), self._fill)

    def _fill(self, start: int, out: Array) -> None:
        first, parts = self.offset + start, self._parts
        if self.layout == "interleaved":
            self.rows.fill(",".join(parts), first, out, self.dtype)
        elif sum(self.blocks):
            self._fill_halves(parts, first, out)
        if self.layout == "halves" and self.dim % 2:
            out[:, -1] = 0
        out[: max(0, self.keep - start)] = 0
        if self.padding_idx is not None:
            out[self._padding_rows(first, len(out))] = 0

    def _fill_halves(self, parts: tuple[str, str], first: int, out: Array) -> None:
        count = sum(self.blocks)
        if len(self.blocks) == 1:
            for k, part in enumerate(parts):
                self.rows.fill(part, first, out[:, k * count : (k + 1) * count], self.dtype)
            return
        pairs = np.empty((len(out), count), out.dtype)
        for k, part in enumerate(parts):
            self.rows.fill(part, first, pairs, self.dtype)
            done = 0
            for size in self.blocks:
                out[:, 2 * done + k * size : 2 * done + (k + 1) * size] = pairs[:, done : done + size]
                done += size

    def _padding_rows(self, first: int, count: int) -> Indices:
        """The rows of the padding position, of `count` rows."""
        if self.axis_waves is None:
            return np.flatnonzero(np.arange(first, first + count) == self.padding_idx)
        coordinates = self.axis_waves().coordinates
        values, (index,) = coordinates.values[0], coordinates.index(first, first + count)
        return np.flatnonzero(np.isin(index, [k for k, value in enumerate(values) if value == self.padding_idx]))

    def by_position(self, frequencies: list[float]) -> ByPosition:
        """All columns but the zeros that pad an odd dim."""
        if not frequencies:
            raise ParameterError("dim", self.dim, "in halves, that leaves no frequency at all")
        table = self.table()
        columns = np.arange(self.dim - (self.layout == "halves" and self.dim % 2))
        if self.layout == "interleaved":
            groups, second = columns // 2, columns % 2
        else:
            starts = np.cumsum((0, *self.blocks))
            groups = np.concatenate([np.tile(np.arange(*ends), 2) for ends in pairwise(starts)])
            second = np.concatenate([np.repeat([0, 1], size) for size in self.blocks])
        names = tuple(self._parts[k] for k in second)

        def read(start: int, stop: int) -> Array:
            return table.read(start, stop)[:, : len(columns)]

        return ByPosition(self.offset, self.seq_len, "frequencies", frequencies, groups, names, read)
