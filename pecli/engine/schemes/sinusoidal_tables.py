"""The table of sinusoidal schemes: sines and cosines in their layouts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves
from pecli.engine.schemes.by_position import ByPosition
from pecli.engine.schemes.recipes import FrequencyRecipe, Recipe
from pecli.engine.schemes.rope_tables import cos_sin_filler
from pecli.engine.table import Table
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.recipe_tables import Filler


@dataclass(frozen=True, eq=False, repr=False)
class SinusoidalTable:
    """What the table is made from."""

    recipe: Recipe
    waves: Callable[[], Waves]
    frequency_recipe: Callable[[], FrequencyRecipe]
    seq_len: int
    dim: int
    pairs: int
    layout: str
    cos_first: bool
    offset: int
    padding_idx: int | None
    dtype: str

    @cached_property
    def _filler(self) -> Filler:
        return cos_sin_filler(self.recipe, Rotation(self.waves, self.seq_len), self.frequency_recipe)

    @property
    def _parts(self) -> tuple[str, str]:
        return ("cos", "sin") if self.cos_first else ("sin", "cos")

    def table(self) -> Table:
        """(seq_len, dim)."""
        return Table("pe", self.dtype, (self.seq_len, self.dim), self._fill)

    def _fill(self, start: int, out: Array) -> None:
        first, half, parts = self.offset + start, self.pairs, self._parts
        if self.layout == "interleaved":
            self._filler.fill(",".join(parts), first, out, self.dtype)
        elif half:
            self._filler.fill(parts[0], first, out[:, :half], self.dtype)
            self._filler.fill(parts[1], first, out[:, half : 2 * half], self.dtype)
        if self.layout == "halves" and self.dim % 2:
            out[:, -1] = 0
        if self.padding_idx is not None and first <= self.padding_idx < first + len(out):
            out[self.padding_idx - first] = 0

    def by_position(self, frequencies: list[float]) -> ByPosition:
        """All columns but the zeros that pad an odd dim."""
        if not frequencies:
            raise ParameterError("dim", self.dim, "in halves, that leaves no frequency at all")
        table = self.table()
        columns = np.arange(self.dim - (self.layout == "halves" and self.dim % 2))
        if self.layout == "interleaved":
            groups, second = columns // 2, columns % 2
        else:
            second, groups = np.divmod(columns, len(frequencies))
        names = tuple(self._parts[k] for k in second)

        def read(start: int, stop: int) -> Array:
            return table.read(start, stop)[:, : len(columns)]

        return ByPosition(self.offset, self.seq_len, "frequencies", frequencies, groups, names, read)
