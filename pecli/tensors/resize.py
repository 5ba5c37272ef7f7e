"""A learned table at another length, or on another grid, block by block: memory stays flat however long the table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.cast import is_floating
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.resample import taps
from pecli.engine.table import Table, table_of
from pecli.engine.text import quoted
from pecli.errors import KindError, ParameterError

MAX_IN_MEMORY = 1 << 30
"""Elements of a table that cannot be read in any order, such as a compressed one: it is held in memory."""
_ELEMENTS = 1 << 16
"""About as many are made at once, so that intermediate arrays stay in the cache."""


@dataclass(frozen=True)
class Resizing:
    """From which grid to which; a table along one axis is a grid of one column."""

    grid: tuple[int, int]
    to: tuple[int, int]
    kernel: str = "cubic"
    antialias: bool = False
    keep: int = 0
    """Rows at the beginning that belong to no cell of the grid, such as a class token's."""

    def fill(self, table: Table, start: int, out: Array) -> None:
        """Write rows start, start + 1, … of the resized table into `out`."""
        kept = max(0, min(self.keep - start, len(out)))
        if kept:
            table.fill(start, out[:kept])
        width = self.to[1]
        cells = max(self.to[1], self.grid[1] * -(-self.grid[0] // self.to[0]))  # for each new line of the grid
        together = max(1, _ELEMENTS // (cells * table.width))
        row = kept
        while row < len(out):
            line, inside = divmod(start + row - self.keep, width)
            lines = min(together, -(-(inside + len(out) - row) // width))
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite, or too large, may stand in a table
                made = self._lines(table, slice(line, line + lines)).reshape(-1, table.width)
                made = made[inside : inside + len(out) - row]
                out[row : row + len(made)] = round_to(made, table.dtype)
            row += len(made)

    def _lines(self, table: Table, part: slice) -> Floats:
        """Some lines of the new grid: first along its columns, then along those lines."""
        vertical = taps(self.grid[0], self.to[0], self.kernel, self.antialias, part)
        width = self.grid[1]
        count = vertical.rows.shape[1]
        reach = int(vertical.rows.max() - vertical.rows.min() + 1) * width * table.width
        step = count if reach <= 4 * _ELEMENTS else max(1, count * 4 * _ELEMENTS // reach)
        sums: Floats | None = None
        for tap in range(0, count, step):
            which = slice(tap, tap + step)
            rows = vertical.rows[:, which]
            first, last = int(rows.min()), int(rows.max())
            values = widened(table.read(self.keep + first * width, self.keep + (last + 1) * width))
            sums = vertical.added(sums, values.reshape(-1, width, table.width), first, which)
        assert sums is not None
        if width == self.to[1] == 1:
            return sums
        horizontal = taps(width, self.to[1], self.kernel, self.antialias)
        return np.moveaxis(horizontal.apply(np.ascontiguousarray(np.moveaxis(sums, 1, 0))), 0, 1)


def resize(table: Table, resizing: Resizing) -> Table:
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
    if resizing.grid == resizing.to:
        return table
    if table.in_order:
        if table.size > MAX_IN_MEMORY:
            limit = f"more than {MAX_IN_MEMORY:,} elements are resized only where they can be read in any order"
            raise ParameterError(label, f"of shape {table.shape}", limit, "convert it to .npy")
        table = table_of(table.name, table.array())
    return Table(table.name, table.dtype, (*table.shape[:-2], new, dim), partial(resizing.fill, table))


def row_norms(block: Array) -> Floats:
    """The norm of every row."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = widened(block)
        return np.asarray(np.sqrt(np.square(values, out=values).sum(axis=1)))


def norms_of(table: Table) -> Floats:
    """The norms of all rows of a table."""
    rows = max(1, _ELEMENTS // table.width)
    return np.concatenate(list(results_in_order(row_norms, table.blocks(rows))))
