"""A learned table before and after it was resized, with the grids that its rows may be."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.checks.file_problems import MAX_LISTED
from pecli.engine.arrays import Array, Floats, dtype_name, floating, widened
from pecli.errors import FileError, ParameterError, listed
from pecli.explain.storage import half_ulp
from pecli.files.load import Given, opened
from pecli.files.tensor_roles import role_of
from pecli.tensors.interpolation import Interpolation
from pecli.tensors.resize import TableGrid, check_table, checked_grid, resampled, wrong_rows

FLOAT32_STEP = 2.0**-24
PLACE_ROUNDINGS = 9
"""Roundings of a float32 place that an element may show: three operations on each of two axes, and
a cubic kernel changes by up to 1.5 times the spread of the table from row to row."""
STORAGE_ROUNDINGS = 2  #: the old table may have been rounded to the dtype, and the new one is


class LearnedTable(NamedTuple):
    """A learned table of a file."""

    label: str  #: the file, or a word for an array
    name: str
    rows: Array  #: (rows, dim)
    rounding: float  #: the largest error that printing the numbers made


def read_learned_table(given: Given, label: str) -> LearnedTable:
    """Return the only tensor of a file, or the only one with a name such as `pos_embed` or `wpe`.

    Raises:
        FileError: If there are several, and no name or several names state a learned table.
    """
    path, file = opened(given)
    source = path or label
    tensors = file.read_as("float32").tensors
    name = _find_name_of_learned(source, tensors)
    array = floating(label, tensors[name])
    check_table(source, array)
    rows = array.reshape(array.shape[-2:])  # (rows, dim), also of (1, rows, dim)
    return LearnedTable(label=source, name=name, rows=rows, rounding=file.rounding)


def _find_name_of_learned(source: str, tensors: Mapping[str, Array]) -> str:
    """Return the name of the learned table among tensors; raise FileError if it is not clear."""
    candidates = [*tensors]
    if len(tensors) > 1:
        candidates = [name for name in tensors if role_of(name) == "rows"]
    if len(candidates) != 1:
        problem = f"has {len(tensors)} tensors: {listed([*tensors], MAX_LISTED)}"
        raise FileError(source, problem, "name one: FILE:NAME")
    return candidates[0]


@dataclass(frozen=True)
class Resizing:
    """A table before and after it was resized, with the grids that its rows are supposed to be.

    Attributes:
        old: The table before, (rows, dim).
        new: The table after.
        grid: The grid of its rows before; rows along one axis are a grid of one column.
        to: The grid after.
        keep: The rows before the grid.
        limit: The largest error of float32 arithmetic and of the dtype.
        dtype: The dtype of the new table.
    """

    old: Floats
    new: Floats
    grid: TableGrid
    to: TableGrid
    keep: int
    limit: float
    dtype: str

    @property
    def is_on_grid(self) -> bool:
        return self.grid.width > 1 or self.to.width > 1

    @property
    def sizes(self) -> str:
        """The grids before and after in words; empty if rows are along one axis."""
        if not self.is_on_grid:
            return ""
        return f"{size_in_words(self.grid)} → {size_in_words(self.to)}, "

    @property
    def is_unchanged(self) -> bool:
        """True if the new table is the old one, up to rounding."""
        return self._is_new_table(self.old)

    def make(self, way: Interpolation) -> Floats:
        """Return the table that an interpolation makes, (keep + rows, dim).

        Raises:
            ParameterError: It cannot make one of this size: a slice cannot grow.
        """
        return widened(resampled(self.old, self.grid, self.to, self.keep, way))

    def fits(self, way: Interpolation) -> bool:
        """Return True if an interpolation makes the new table, up to rounding."""
        try:
            return self._is_new_table(self.make(way))
        except ParameterError:
            return False

    def _is_new_table(self, table: Floats) -> bool:
        if table.shape != self.new.shape:
            return False
        return bool(np.abs(table - self.new).max() <= self.limit)

    def on_columns(self, columns: Array) -> "Resizing":
        """Return both tables with some of their columns only."""
        old = np.ascontiguousarray(self.old[:, columns])
        new = np.ascontiguousarray(self.new[:, columns])
        return replace(self, old=old, new=new)


def find_resizings(
    before: LearnedTable, after: LearnedTable, grid: object, to: object, keep: int
) -> Iterator[Resizing]:
    """Yield both tables with each grid that the new one may have, the likeliest first.

    A table of 1 + 14x14 rows that became 1 + 576 has most likely the grid 24x24 now, but 18x32 or
    576x1 are possible as well.

    Args:
        before: The table that was resized.
        after: The resized table.
        grid: The grid of the old rows as the user states it, "14x14" or (14, 14); None if the rows
            are along one axis.
        to: The new grid in the same form, or the new number of rows; None if it is not stated.
        keep: The rows before the grid (CLS, registers), which are not resized.

    Raises:
        ParameterError: If the tables do not have as many rows as the grids have cells.
    """
    _check_sizes(before, after, keep)
    old_grid = _check_old_grid(before, grid, keep)
    limit = _bound_error_of_right_table(before, after, longer_side=max(old_grid))
    old = widened(before.rows)
    new = widened(after.rows)
    dtype = dtype_name(after.rows.dtype)
    for new_grid in _find_new_grids(after, old_grid, to, keep, is_on_grid=grid is not None):
        yield Resizing(
            old=old, new=new, grid=old_grid, to=new_grid, keep=keep, limit=limit, dtype=dtype
        )


def _bound_error_of_right_table(
    before: LearnedTable, after: LearnedTable, longer_side: int
) -> float:
    """Return the largest error of an element if the new table is right: all of it is rounding.

    Both tables may be text, with a few printed digits. An element of the new table is a weighted sum
    of old elements, whose absolute weights sum up to at most 2: it may have twice their error.

    Args:
        before: The table that was resized.
        after: The resized table.
        longer_side: The longer side of the old grid.
    """
    arithmetic = _bound_rounding(widened(before.rows), longer_side, dtype_name(after.rows.dtype))
    printing = after.rounding + 2 * before.rounding
    return arithmetic + printing


def _check_sizes(before: LearnedTable, after: LearnedTable, keep: int) -> None:
    """Raise ParameterError unless tables have as many columns, and more rows than those to keep."""
    rows, dim = before.rows.shape
    new_rows, new_dim = after.rows.shape
    if dim != new_dim:
        rule = f"the old one's are {dim}"
        raise ParameterError(after.label, f"of {new_dim} columns", rule)
    if keep >= min(rows, new_rows):
        rule = f"the tables have {rows} and {new_rows} rows, and one must be left"
        raise ParameterError("keep", keep, rule)


def _check_old_grid(before: LearnedTable, grid: object, keep: int) -> TableGrid:
    """Return the grid of the old rows, whose cells are the rows after those to keep.

    Args:
        before: The old table.
        grid: The grid as the user states it; None if the rows are along one axis.
        keep: The rows before the grid.
    """
    rows = len(before.rows)
    old_grid = TableGrid(rows - keep, 1) if grid is None else checked_grid("grid", grid)
    if rows != keep + old_grid.cells:
        raise wrong_rows(before.label, before.rows.shape, old_grid, keep)
    return old_grid


def _find_new_grids(
    after: LearnedTable, old: TableGrid, to: object, keep: int, *, is_on_grid: bool
) -> Iterator[TableGrid]:
    """Yield the new grid that is stated, or else all that have as many cells as there are rows.

    Those with nearly the proportions of the old grid come first: 576 cells of 14x14 are 24x24.

    Args:
        after: The resized table.
        old: The grid of the old rows.
        to: The new grid, or the number of rows, as the user states it; None if nothing is stated.
        keep: The rows before the grid.
        is_on_grid: False if rows are along one axis.
    """
    if not is_on_grid:
        yield _check_line_of_rows(after, to, keep)
    elif to is not None:
        yield _check_stated_grid(after, to, keep)
    else:
        possible_grids = _find_grids(len(after.rows) - keep)
        yield from sorted(possible_grids, key=lambda grid: _stretch(grid, old))


def _check_line_of_rows(after: LearnedTable, to: object, keep: int) -> TableGrid:
    """Return the rows of a table along one axis; `to` may only state how many there are."""
    rows = len(after.rows)
    if to is not None and str(to) != str(rows):
        rule = f"{after.label} has {rows} rows"
        raise ParameterError("to", to, rule, "a grid needs --grid, too")
    return TableGrid(rows - keep, 1)


def _check_stated_grid(after: LearnedTable, to: object, keep: int) -> TableGrid:
    """Return the new grid that the user states, which must have as many cells as the table has rows.

    A table without the rows for other tokens is accepted here: that is a mistake with a name.
    """
    new_grid = checked_grid("to", to)
    if len(after.rows) not in (keep + new_grid.cells, new_grid.cells):
        raise wrong_rows(after.label, after.rows.shape, new_grid, keep)
    return new_grid


def _find_grids(cells: int) -> Iterator[TableGrid]:
    for height in range(1, cells + 1):
        if cells % height == 0:
            yield TableGrid(height, cells // height)


def _stretch(grid: TableGrid, old: TableGrid) -> float:
    """Return how much the proportions of two grids differ; 0 if they are alike.

    It is the logarithm of their ratio, so that twice as wide counts like half as wide.
    """
    return abs(math.log(grid.height * old.width / (grid.width * old.height)))


def _bound_rounding(old: Floats, side: int, dtype: str) -> float:
    """Return the largest error of a table that is resized in float32 and stored in a dtype.

    float32 places rows at 13.99999 instead of 14, so that the error grows with the side of the grid
    and with the spread of the values.

    Args:
        old: The table before it is resized.
        side: The longer side of its grid.
        dtype: The dtype in which the new table is stored.
    """
    finite = old[np.isfinite(old)]
    if not finite.size:
        return 0.0
    spread = float(finite.max() - finite.min())
    placing_error = PLACE_ROUNDINGS * side * FLOAT32_STEP * spread
    largest = np.array([np.abs(finite).max()])
    (storage_error,) = half_ulp(largest, dtype)
    return placing_error + STORAGE_ROUNDINGS * float(storage_error)


def size_in_words(grid: TableGrid) -> str:
    """Return the size of a grid as options have it: `14x14`."""
    return f"{grid.height}x{grid.width}"
