"""Known mistakes with which ports resize a table: each is a resizing with other grids or other rows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.verify.resizing import Resizing, size_in_words
from pecli.checks.verify.resizing_ways import describe_ways, find_fitting_ways
from pecli.engine.arrays import Floats
from pecli.tensors.interpolation import ANTIALIASED_CUBIC, CUBIC
from pecli.tensors.resize import TableGrid

SWAPPED = "rows and columns are swapped"


class _Mistake(NamedTuple):
    """A known mistake, and the resizing that made the new table if it is the one.

    Attributes:
        reason: The mistake, in words.
        resizing: The resizing with other grids, or with other rows of the old or the new table.
        coefficient: Of the cubic kernel.
    """

    reason: str
    resizing: Resizing
    coefficient: float = CUBIC


def find_mistake(resizing: Resizing) -> str:
    """Return the first known mistake that makes the new table, in words; empty if none does.

    «rows and columns are swapped: 3x2 becomes 6x4; the interpolation is cubic», for example.

    Args:
        resizing: Both tables; no known interpolation makes the new one with these grids.
    """
    if resizing.is_unchanged:
        return "it is the old table: it is not resized"
    for mistake in _make_known_mistakes(resizing):
        ways = find_fitting_ways(mistake.resizing, mistake.coefficient)
        if ways:
            return f"{mistake.reason}; the interpolation is {describe_ways(ways)}"
    return ""


def describe_appended_rows(resizing: Resizing) -> str:
    """Return that a new table begins with the old one, and what follows; empty if it does not.

    A port may append new rows to 128 old ones, or repeat these, instead of resizing them. All columns
    are compared, to the last bit.
    """
    old_count = len(resizing.old)
    if not np.array_equal(resizing.new[:old_count], resizing.old):
        return ""
    every_row = np.arange(len(resizing.new))
    is_tiled = np.array_equal(resizing.new, resizing.old[every_row % old_count])
    rest = "repeat it" if is_tiled else "are others"
    return f"it begins with the old table, unchanged, and not resized; the rows after {rest}"


def _make_known_mistakes(resizing: Resizing) -> Iterator[_Mistake]:
    """Yield known mistakes, each with the resizing that has made the new table if it is the one.

    A port may use the kernel of Pillow, write the new rows column by column, exchange height and width,
    or resize rows of a grid as a line. Rows beside the grid, such as that of a class token, may be
    others than before, resized with the others, or missing.
    """
    yield _replace_other_tokens(resizing)
    yield _use_kernel_of_pillow(resizing)
    if resizing.is_on_grid:
        yield from _write_columns_as_rows(resizing)
        yield from _swap_height_and_width(resizing)
        yield _resize_grid_as_line(resizing)
    # Without rows beside the grid, some of these are no mistakes. But then they do not fit the new
    # table: the caller has found before that no right resizing does.
    yield _resize_all_rows_as_line(resizing)
    yield _leave_out_other_tokens(resizing)


def _replace_other_tokens(resizing: Resizing) -> _Mistake:
    """Return the mistake to change the rows before the grid, which are to stay as they are."""
    with_old_start = resizing.new.copy()
    with_old_start[: resizing.keep] = resizing.old[: resizing.keep]
    reason = f"{_describe_other_tokens(resizing)} are not the old ones"
    return _Mistake(reason, replace(resizing, new=with_old_start))


def _use_kernel_of_pillow(resizing: Resizing) -> _Mistake:
    """Return the mistake to use Pillow's cubic kernel instead of torch's."""
    reason = f"the cubic kernel has the coefficient {ANTIALIASED_CUBIC}, not torch's {CUBIC}"
    return _Mistake(reason, resizing, coefficient=ANTIALIASED_CUBIC)


def _resize_grid_as_line(resizing: Resizing) -> _Mistake:
    """Return the mistake to resize a grid along one axis: 4 rows to 16 instead of 2x2 to 4x4."""
    line = TableGrid(resizing.grid.cells, 1)
    new_line = TableGrid(len(resizing.new) - resizing.keep, 1)
    reason = "rows are resized along one axis, as if they were no grid"
    return _Mistake(reason, replace(resizing, grid=line, to=new_line))


def _resize_all_rows_as_line(resizing: Resizing) -> _Mistake:
    """Return the mistake to resize the rows of CLS and of patches along one axis: 1 + 4 to 1 + 16."""
    line = TableGrid(len(resizing.old), 1)
    new_line = TableGrid(len(resizing.new), 1)
    other_tokens = _describe_other_tokens(resizing)
    reason = f"{other_tokens} are resized as well, along one axis with the others"
    return _Mistake(reason, replace(resizing, grid=line, to=new_line, keep=0))


def _leave_out_other_tokens(resizing: Resizing) -> _Mistake:
    """Return the mistake to leave out the rows of other tokens: 1 + 4 rows become 16."""
    patches_only = resizing.old[resizing.keep :]
    reason = f"{_describe_other_tokens(resizing)} are missing"
    return _Mistake(reason, replace(resizing, old=patches_only, keep=0))


def _describe_other_tokens(resizing: Resizing) -> str:
    return f"rows for other tokens ({resizing.keep} at the start)"


def _write_columns_as_rows(resizing: Resizing) -> Iterator[_Mistake]:
    """Yield the mistake to write the cells of the right new grid column by column, not row by row.

    A new table that lacks cells or rows of other tokens cannot be put in order, and yields nothing.
    """
    has_all_rows = len(resizing.new) == resizing.keep + resizing.to.cells
    if has_all_rows:
        row_by_row = _with_columns_as_rows(resizing.new, resizing.to, resizing.keep)
        reason = f"{SWAPPED}: the new rows come column by column"
        yield _Mistake(reason, replace(resizing, new=row_by_row))


def _swap_height_and_width(resizing: Resizing) -> Iterator[_Mistake]:
    """Yield the mistakes to take the height of a grid for its width: of the old grid, the new, or both.

    If 2x3 should become 4x6, these are 3x2 to 4x6, 2x3 to 6x4, and 3x2 to 6x4. Of a square grid,
    some are no mistake, but then they do not fit the new table: no right resizing does.
    """
    old_swapped = _swap_sides(resizing.grid)
    new_swapped = _swap_sides(resizing.to)
    old_size = size_in_words(old_swapped)
    new_size = size_in_words(new_swapped)
    swapped_before = replace(resizing, grid=old_swapped)
    swapped_after = replace(resizing, to=new_swapped)
    swapped_in_both = replace(resizing, grid=old_swapped, to=new_swapped)
    yield _Mistake(f"{SWAPPED}: the old rows are taken for {old_size}", swapped_before)
    yield _Mistake(f"{SWAPPED}: the new rows are made for {new_size}", swapped_after)
    yield _Mistake(f"{SWAPPED}: {old_size} becomes {new_size}", swapped_in_both)


def _swap_sides(grid: TableGrid) -> TableGrid:
    """Return a grid with height and width exchanged: 3x2 for 2x3."""
    return TableGrid(grid.width, grid.height)


def _with_columns_as_rows(table: Floats, grid: TableGrid, keep: int) -> Floats:
    """Return a table row by row whose cells were written down the columns of its grid.

    Cells a d b e c f of the grid 2x3 become a b c d e f.
    """
    by_column = table[keep:].reshape(grid.width, grid.height, -1)
    cells = by_column.swapaxes(0, 1).reshape(grid.cells, -1)
    return np.concatenate((table[:keep], cells))
