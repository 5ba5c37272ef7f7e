"""Known mistakes with which ports resize a table: each is a resizing with other grids or other rows."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.verify.resizing import Resizing, size_in_words
from pecli.checks.verify.resizing_ways import describe_ways, find_fitting_ways
from pecli.engine.arrays import Floats
from pecli.tensors.interpolation import ANTIALIASED_CUBIC, CUBIC
from pecli.tensors.resize import TableGrid

OTHER_TOKENS = (1, 2, 5)  #: rows for other tokens beside a grid: a class token, and registers


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
    if _differs_in_other_tokens_only(resizing):
        return f"{_describe_other_tokens(resizing)} are not the old ones"
    for mistake in _make_known_mistakes(resizing):
        ways = find_fitting_ways(mistake.resizing, mistake.coefficient)
        if ways:
            return f"{mistake.reason}; the interpolation is {describe_ways(ways)}"
    return _advise_on_grid(resizing)


def _differs_in_other_tokens_only(resizing: Resizing) -> bool:
    """Return True if the rows of the grid are right, and those before it are not."""
    same_start = resizing.new.copy()
    same_start[: resizing.keep] = resizing.old[: resizing.keep]
    return bool(find_fitting_ways(replace(resizing, new=same_start)))


def _make_known_mistakes(resizing: Resizing) -> Iterator[_Mistake]:
    """Yield wrong ways to resize a table, each as the resizing that a port made by mistake.

    They are Pillow's cubic kernel, swapped axes, rows resized as a line instead of a grid, and rows
    of other tokens (CLS, registers) that are resized with the patches, or lost.
    """
    kernel = f"the cubic kernel has the coefficient {ANTIALIASED_CUBIC}, not torch's {CUBIC}"
    yield _Mistake(reason=kernel, resizing=resizing, coefficient=ANTIALIASED_CUBIC)
    if resizing.is_on_grid:
        yield from _make_swapped_axes(resizing)
        line = TableGrid(resizing.grid.cells, 1)
        new_line = TableGrid(len(resizing.new) - resizing.keep, 1)
        yield _Mistake(
            "rows are resized along one axis, as if they were no grid",
            replace(resizing, grid=line, to=new_line),
        )
    # Without other tokens, these are the resizing itself and the line, neither of which fits.
    other_tokens = _describe_other_tokens(resizing)
    line_of_all = TableGrid(len(resizing.old), 1)
    new_line_of_all = TableGrid(len(resizing.new), 1)
    yield _Mistake(
        f"{other_tokens} are resized as well, along one axis with the others",
        replace(resizing, grid=line_of_all, to=new_line_of_all, keep=0),
    )
    patches_only = resizing.old[resizing.keep :]
    yield _Mistake(f"{other_tokens} are missing", replace(resizing, old=patches_only, keep=0))


def _describe_other_tokens(resizing: Resizing) -> str:
    return f"rows for other tokens ({resizing.keep} at the start)"


def _make_swapped_axes(resizing: Resizing) -> Iterator[_Mistake]:
    """Yield mistakes that exchange the rows and the columns of the old or the new grid.

    If a grid 2x3 becomes 4x6, the old rows may be taken for 3x2, the new ones made for 6x4, or
    written column by column. Of a square grid, some of these are no mistake; but then they were
    tried before, and do not fit.
    """
    swapped = "rows and columns are swapped"
    has_all_rows = len(resizing.new) == resizing.keep + resizing.to.cells
    if has_all_rows:
        row_by_row = _with_columns_as_rows(resizing.new, resizing.to, resizing.keep)
        yield _Mistake(
            f"{swapped}: the new rows come column by column", replace(resizing, new=row_by_row)
        )
    old_swapped = TableGrid(resizing.grid.width, resizing.grid.height)  # 3x2 for 2x3
    new_swapped = TableGrid(resizing.to.width, resizing.to.height)
    old_size = size_in_words(old_swapped)
    new_size = size_in_words(new_swapped)
    yield _Mistake(
        f"{swapped}: the old rows are taken for {old_size}", replace(resizing, grid=old_swapped)
    )
    yield _Mistake(
        f"{swapped}: the new rows are made for {new_size}", replace(resizing, to=new_swapped)
    )
    yield _Mistake(
        f"{swapped}: {old_size} becomes {new_size}",
        replace(resizing, grid=old_swapped, to=new_swapped),
    )


def _with_columns_as_rows(table: Floats, grid: TableGrid, keep: int) -> Floats:
    """Return a table row by row whose cells were written down the columns of its grid.

    Cells a d b e c f of the grid 2x3 become a b c d e f.
    """
    by_column = table[keep:].reshape(grid.width, grid.height, -1)
    cells = by_column.swapaxes(0, 1).reshape(grid.cells, -1)
    return np.concatenate((table[:keep], cells))


def _advise_on_grid(resizing: Resizing) -> str:
    """Return advice if rows were taken for a line, and both tables may be square grids; else nothing.

    197 rows that became 577 are likely a class token and 14 × 14 patches that became 24 × 24.
    """
    if resizing.is_on_grid or resizing.keep:
        return ""
    for keep in (0, *OTHER_TOKENS):
        side = _find_side_of_square(len(resizing.old) - keep)
        new_side = _find_side_of_square(len(resizing.new) - keep)
        if side > 1 and new_side > 1:
            return f"the rows may be a grid: add --grid {side}x{side} --keep {keep}"
    return ""


def _find_side_of_square(cells: int) -> int:
    """Return the side of a square grid of so many cells; 0 if there is none."""
    side = math.isqrt(max(cells, 0))
    return side if side**2 == cells else 0
