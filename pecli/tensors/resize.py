"""`pecli.resize`: a learned table at another length, or on another grid, as vision models do it."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pecli.engine.arguments import text_of, within_limits
from pecli.engine.arrays import (
    Array,
    Floats,
    ForeignArray,
    dtype_name,
    floating,
    like,
    round_to,
    widened,
)
from pecli.engine.schemes.given_positions import GridParameter
from pecli.engine.schemes.parameters import Whole
from pecli.engine.table import work_through
from pecli.errors import ParameterError, spelled
from pecli.tensors.interpolation import Interpolation, Taps

_ELEMENTS = 1 << 16  # elements that are made at once, so that float64 copies stay in the cache
_SIDE = Whole(help="cells", low=1, high=1 << 24)
KEPT = Whole(help="rows", low=0, high=1 << 24)
_GRID = GridParameter("rows and columns")


class TableGrid(NamedTuple):
    """A grid of table rows, in row-major order."""

    height: int
    width: int

    @property
    def cells(self) -> int:
        return self.height * self.width


class ChangeOfGrid(NamedTuple):
    """The grid of a table before it is resized, and after it."""

    old: TableGrid
    new: TableGrid


@within_limits
def resize(
    table: ArrayLike,
    to: int | str | tuple[int, int],
    *,
    grid: str | tuple[int, int] | None = None,
    keep: int = 0,
    method: str | None = None,
    antialias: bool = False,
    align_corners: bool = False,
    scale_offset: float = 0.0,
    name: str = "the table",
) -> ForeignArray:
    """Resample a learned table to another length or grid: in float64, rounded once.

    Args:
        table: (rows, dim) or (1, rows, dim).
        to: the new number of rows in all, or the new grid as (rows, columns) or "24x24".
        grid: the grid that the rows are now.
        keep: rows at the beginning to leave as they are: class and register tokens.
        method: the kernel, linear or cubic; or nearest, slice (the first rows) or crop (those in
            the middle), which copy rows. By default cubic for a grid, else linear.
        antialias: torch's antialias: average over more rows when shrinking, and another cubic
            kernel, as timm and open_clip do; transformers mostly does not.
        align_corners: torch's align_corners: the first and the last row stay where they are, as in
            Qwen3-VL and with SciPy's zoom.
        scale_offset: what is added to the new size before it is divided by the old one, 0.1 in
            the code of DINO and DINOv2.
        name: the table's name in errors.

    Returns:
        An array of the kind and dtype of the table.

    Raises:
        ParameterError: the table is not of that grid, or an option breaks its rule.

    >>> resize(np.array([[0.0], [1.0], [2.0], [3.0]]), 2).tolist()
    [[0.5], [2.5]]
    """
    name = text_of("name", name)
    array = floating(name, table)
    check_table(name, array)
    *batch, rows, dim = array.shape
    keep = KEPT.check("keep", keep)
    change = _change_of_grid(rows, to, grid, keep)
    if rows != keep + change.old.cells:
        raise wrong_rows(name, array.shape, change.old, keep)
    if method is None:
        method = "linear" if grid is None else "cubic"
    interpolation = Interpolation(method, antialias, align_corners, scale_offset)
    new_table = resampled(array.reshape(rows, dim), change.old, change.new, keep, interpolation)
    return like(table, new_table.reshape(*batch, *new_table.shape))


def resampled(
    table: Array, old: TableGrid, new: TableGrid, keep: int, interpolation: Interpolation
) -> Array:
    """Return a table (rows, dim) on another grid; the first `keep` rows stay as they are.

    Of ViT's 197 rows, row 0 is the class token, and the others are the patches of a 14x14 grid,
    line by line.

    Raises:
        ParameterError: The interpolation cannot make so many rows.
    """
    interpolation.check_sizes(old.height, new.height)
    interpolation.check_sizes(old.width, new.width)
    if old == new:
        return table.copy()
    dim = table.shape[1]
    new_table = np.empty((keep + new.cells, dim), table.dtype.newbyteorder("="))
    new_table[:keep] = table[:keep]
    old_cells = table[keep:].reshape(old.height, old.width, dim)
    new_cells = new_table[keep:].reshape(new.height, new.width, dim)  # A view of the new table.
    _fill_resampled(old_cells, new_cells, interpolation)
    return new_table


def check_table(name: str, array: Array) -> None:
    """Raise ParameterError for an array that is not (rows, dim) or (1, rows, dim)."""
    holds_one_table = array.size == math.prod(array.shape[-2:]) > 0
    if array.ndim < 2 or not holds_one_table:
        rule = "a learned table is (rows, dim) or (1, rows, dim)"
        raise ParameterError(name, f"of shape {array.shape}", rule)


def wrong_rows(name: str, shape: tuple[int, ...], grid: TableGrid, keep: int) -> ParameterError:
    """Return the error for a table whose rows are not those of a grid."""
    cells = f"{grid.height}x{grid.width}"
    if keep:
        cells = f"{keep} + {cells}"
    rule = f"it has {shape[-2]} rows, and {cells} are {keep + grid.cells}"
    return ParameterError(name, f"of shape {shape}", rule, "check `grid` and `keep`")


def _change_of_grid(
    rows: int,
    to: int | str | tuple[int, int],
    grid: str | tuple[int, int] | None,
    keep: int,
) -> ChangeOfGrid:
    """Return the grids before and after, without the kept rows.

    197 rows with the grid 14x14 and 1 kept row become 24x24, for example. Rows along one axis are a
    grid of one column: 1024 rows that become 2048 are 1024x1 and 2048x1.

    Args:
        rows: The rows of the table now, the kept ones included.
        to: The new grid, or the new number of rows in all.
        grid: The grid now; None for rows along one axis.
        keep: The rows at the beginning that stay as they are.

    Raises:
        ParameterError: The new size does not go with the old one.
    """
    if grid is not None:
        return ChangeOfGrid(checked_grid("grid", grid), checked_grid("to", to))
    if _is_grid(to):
        rule = f"rows become {to} from another grid"
        raise ParameterError("grid", "missing", rule, "give it, such as 14x14, and `keep`")
    return _change_of_rows(rows, to, keep)


def _change_of_rows(rows: int, to: int | str | tuple[int, int], keep: int) -> ChangeOfGrid:
    """Return the numbers of rows before and after, without the kept ones, as grids of one column.

    1025 rows that become 2049, with 1 row kept, are 1024x1 and 2048x1.
    """
    if keep >= max(rows, 1):
        rule = f"the table has {rows} rows, and one must be left to resize"
        raise ParameterError("keep", keep, rule)
    new_rows = _SIDE.parse("to", to) if isinstance(to, str) else _SIDE.check("to", to)
    if new_rows <= keep:
        rule = f"of these rows {keep} are kept, and one must be left"
        raise ParameterError("to", to, rule)
    return ChangeOfGrid(TableGrid(rows - keep, 1), TableGrid(new_rows - keep, 1))


def _is_grid(size: int | str | tuple[int, int]) -> bool:
    """Return True for a grid, (24, 24) or "24x24", as opposed to a number of rows."""
    if isinstance(size, str):
        return not {"x", "X", "×"}.isdisjoint(size)
    return isinstance(size, tuple)


def checked_grid(name: str, value: object) -> TableGrid:
    """Return the grid (rows, columns) or "14x14" as a Grid, or raise a ParameterError."""
    sides = _GRID.check(name, value)
    if len(sides) != 2:
        raise ParameterError(name, spelled(sides), "it must be rows x columns, such as 14x14")
    return TableGrid(*sides)


def _fill_resampled(cells: Array, out: Array, interpolation: Interpolation) -> None:
    """Fill a new grid with the resampled cells of an old one.

    A cell is a vector (dim,), and a line is a row of cells. Cells are first summed down the columns
    of the grid, then along its lines. Threads compute a few lines at a time, so that the float64
    sums take little memory.

    Args:
        cells: The cells of the old grid, (height, width, dim).
        out: Where the new cells are written, (new height, new width, dim).
        interpolation: How each axis is resampled.
    """
    height, width, _ = cells.shape
    new_height, new_width, _ = out.shape
    # Taps are the old cells that each new cell is a sum of, with their weights.
    horizontal_taps = interpolation.taps(width, new_width)
    has_one_column = width == new_width == 1  # rows along one axis
    lines_at_once = _lines_at_once(cells, out)

    def fill_lines(first_line: int) -> None:
        """Fill the next `lines_at_once` lines of the new grid."""
        new_lines = slice(first_line, first_line + lines_at_once)
        vertical_taps = interpolation.taps(height, new_height, new_lines)
        with np.errstate(over="ignore", invalid="ignore"):  # A table may hold infinities.
            sums = _sums_of_lines(cells, vertical_taps)  # (new lines, width, dim)
            if not has_one_column:
                sums = _sums_along_lines(sums, horizontal_taps)  # (new lines, new width, dim)
            out[new_lines] = round_to(sums, dtype_name(out.dtype))

    work_through(fill_lines, range(0, new_height, lines_at_once))


def _lines_at_once(cells: Array, out: Array) -> int:
    """Return how many new lines are made at once, so that their sums have about _ELEMENTS numbers.

    A new line needs all old lines that it is made of, if they are more than the line itself: when
    32 lines become 8, these are 4 per new line.
    """
    height, width, dim = cells.shape
    new_height, new_width, _ = out.shape
    old_lines_per_new_line = math.ceil(height / new_height)
    elements_per_line: int = max(new_width, width * old_lines_per_new_line) * dim
    return max(1, _ELEMENTS // elements_per_line)


def _sums_of_lines(cells: Array, vertical: Taps) -> Floats:
    """Return weighted sums of the lines of a grid; only the lines that they need are widened.

    If they need the lines 5 to 8, these four are copied to float64, and are 0 to 3 there.
    """
    first_needed = int(vertical.rows.min())
    last_needed = int(vertical.rows.max())
    needed_lines = widened(cells[first_needed : last_needed + 1])
    rows_among_needed = vertical.rows - first_needed
    return vertical._replace(rows=rows_among_needed).apply(needed_lines)


def _sums_along_lines(lines: Floats, horizontal: Taps) -> Floats:
    """Return weighted sums of the cells within each line: (lines, width, dim) gets a new width."""
    by_column = np.ascontiguousarray(np.moveaxis(lines, 1, 0))
    return np.moveaxis(horizontal.apply(by_column), 0, 1)
