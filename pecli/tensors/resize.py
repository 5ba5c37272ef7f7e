"""A learned table at another length, or on another grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.cast import is_floating
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.resample import taps
from pecli.engine.table import Table, table_of
from pecli.engine.text import quoted
from pecli.errors import KindError, ParameterError

LARGEST = 1 << 30
"""Elements of a table that is resized; it is held in memory."""


@dataclass(frozen=True)
class Resizing:
    """From which grid to which; a table along one axis is a grid of one column."""

    grid: tuple[int, int]
    to: tuple[int, int]
    kernel: str = "cubic"
    antialias: bool = False
    keep: int = 0
    """Rows at the beginning that belong to no cell of the grid, such as a class token's."""

    def apply(self, values: Floats) -> Floats:
        """The new rows of (rows, dim) values."""
        kept, cells = values[: self.keep], values[self.keep :]
        for axis, (old, new) in enumerate(zip(self.grid, self.to, strict=True)):
            grid = cells.reshape(*(self.grid if not axis else (self.to[0], self.grid[1])), -1)
            moved = taps(old, new, self.kernel, self.antialias).apply(np.moveaxis(grid, axis, 0))
            cells = np.moveaxis(moved, 0, axis)
        return np.concatenate([kept, cells.reshape(-1, values.shape[1])])


@dataclass(frozen=True)
class Resized:
    """The new table, and the norms of the rows before and after."""

    table: Table
    before: Floats
    after: Floats


def resize(table: Table, resizing: Resizing) -> Resized:
    """A learned table, (rows, dim) or (1, rows, dim), resampled in float64 and rounded once."""
    label = f"the tensor {quoted(table.name)}"
    if not is_floating(table):
        raise KindError(label, f"of dtype {table.dtype}", "a learned table has floating elements")
    if len(table.shape) < 2 or set(table.shape[:-2]) - {1} or not table.size:
        raise ParameterError(label, f"of shape {table.shape}", "a learned table is (rows, dim) or (1, rows, dim)")
    rows, dim = table.shape[-2:]
    old, new = (resizing.keep + side[0] * side[1] for side in (resizing.grid, resizing.to))
    if rows != old:
        asked = f"{resizing.keep} + " * bool(resizing.keep) + f"{resizing.grid[0]}x{resizing.grid[1]} are {old}"
        raise ParameterError(
            label, f"of shape {table.shape}", f"it has {rows} rows, and {asked}", "check `grid` and `keep`"
        )
    if max(old, new) * dim > LARGEST:
        raise ParameterError("to", f"{new} rows", f"with {dim} columns that is more than {LARGEST:,} elements")
    before = table.array().reshape(rows, dim)
    values = widened(before)
    shape = (*table.shape[:-2], new, dim)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, or too large, may stand in a table
        made: Array = before if resizing.grid == resizing.to else round_to(resizing.apply(values), table.dtype)
        return Resized(table_of(table.name, made.reshape(shape)), _norms(values), _norms(widened(made)))


def _norms(values: Floats) -> Floats:
    return np.asarray(np.sqrt(np.square(values).sum(axis=1)))
