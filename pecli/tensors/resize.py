"""A learned table at another length, or on another grid, block by block: memory stays flat however long the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, round_to, widened
from pecli.engine.table import Table, is_floating, results_in_order, table_of
from pecli.errors import KindError, ParameterError, quoted

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
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # a table may hold values that are not finite, or too large
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


KERNELS = {"linear": 1, "cubic": 2}
"""The kernels, with how far they reach."""


class Taps(NamedTuple):
    """For every new row, which old rows it is a weighted sum of, and their weights: both (new, taps).

    Rows are samples at the middle of equal cells (align_corners is false, as everywhere in vision models). The cubic
    kernel is Keys's, with the coefficient that torch uses: −0.75, or −0.5 with antialias, where the kernel is also
    stretched by the ratio of the sizes when a table shrinks.
    """

    rows: Indices
    weights: Floats

    def apply(self, values: Floats) -> Floats:
        """The new rows of (old, …) values."""
        return self.added(None, values, 0, slice(None))

    def added(self, sums: Floats | None, values: Floats, first: int, which: slice) -> Floats:
        """The sums so far, and what some taps add to them; row 0 of the values is the old row `first`."""
        part = np.empty((len(self.rows), *values.shape[1:]))
        for rows, weights in zip(self.rows.T[which], self.weights.T[which], strict=True):
            np.take(values, rows - first, axis=0, out=part, mode="clip")
            part *= weights.reshape(-1, *([1] * (values.ndim - 1)))
            if sums is None:
                sums = part + 0.0  # a sum from 0 on, in which −0 does not last
            else:
                sums += part
        assert sums is not None
        return sums


def taps(old: int, new: int, kernel: str, antialias: bool = False, part: slice = slice(None)) -> Taps:
    """How `old` rows become `new` ones, or some of the new ones.

    >>> taps(4, 2, "linear").weights.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    wanted = np.arange(*part.indices(new))
    if old == new:
        return Taps(wanted[:, None], np.ones((len(wanted), 1)))
    ratio = old / new
    centre = (wanted.astype(np.float64) + 0.5) * ratio - 0.5
    if not antialias:
        return _plain(centre, old, kernel)
    stretch = max(ratio, 1.0)
    reach = KERNELS[kernel] * stretch
    first = np.floor(centre - reach + 1).astype(np.intp)
    rows = first[:, None] + np.arange(math.ceil(2 * reach) + 1)
    weights = _kernel((rows - centre[:, None]) / stretch, kernel, -0.5)
    weights[(rows < 0) | (rows >= old)] = 0  # rows outside of the table have no weight
    return Taps(np.clip(rows, 0, old - 1), weights / weights.sum(axis=1, keepdims=True))


def _plain(centre: Floats, old: int, kernel: str) -> Taps:
    """As many taps as the kernel is wide; outside the table its first and last row go on."""
    if kernel == "linear":
        centre = np.clip(centre, 0, old - 1)
    reach = KERNELS[kernel]
    rows = np.floor(centre).astype(np.intp)[:, None] + np.arange(1 - reach, 1 + reach)
    return Taps(np.clip(rows, 0, old - 1), _kernel(rows - centre[:, None], kernel, -0.75))


def _kernel(distance: Floats, kernel: str, a: float) -> Floats:
    x = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(0.0, 1 - x))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
