"""The table of sinusoidal schemes: sines and cosines in their layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes.by_position import ByPosition
from pecli.engine.schemes.recipes import FrequencyRecipe, Recipe
from pecli.engine.schemes.rope_tables import cos_sin_filler
from pecli.engine.table import Table
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.recipe_tables import AxisFiller, AxisWaves, Filler


@dataclass(frozen=True, eq=False, repr=False)
class SinusoidalTable:
    """What the table is made from."""

    recipe: Recipe
    waves: Callable[[], Waves]
    frequency_recipe: Callable[[], FrequencyRecipe]
    seq_len: int
    dim: int
    blocks: tuple[int, ...]
    """Pairs of sines and cosines; in halves, those of each block follow each other."""
    layout: str
    cos_first: bool
    offset: int
    padding_idx: int | None
    dtype: str
    axis_waves: Callable[[], AxisWaves] | None = None
    """For positions that are no range."""
    keep: int = 0
    """Rows of zeros at the start."""

    @cached_property
    def _filler(self) -> Filler | AxisFiller:
        if self.axis_waves is not None:
            return self.axis_waves().filler(self.recipe)
        return cos_sin_filler(self.recipe, Rotation(self.waves, self.seq_len), self.frequency_recipe)

    @property
    def _parts(self) -> tuple[str, str]:
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    def table(self) -> Table:
        """(seq_len, dim)."""
        return Table("pe", self.dtype, (self.seq_len, self.dim), self._fill)

    def _fill(self, start: int, out: Array) -> None:
        first, parts = self.offset + start, self._parts
        if self.layout == "interleaved":
            self._filler.fill(",".join(parts), first, out, self.dtype)
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
                self._filler.fill(part, first, out[:, k * count : (k + 1) * count], self.dtype)
            return
        pairs = np.empty((len(out), count), out.dtype)
        for k, part in enumerate(parts):
            self._filler.fill(part, first, pairs, self.dtype)
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
