"""`pecli.resize`: a learned table at another length, or on another grid, as vision models do it."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pecli.engine.arrays import (
    Array,
    Floats,
    Indices,
    dtype_name,
    floating,
    like,
    round_to,
    widened,
)
from pecli.engine.schemes.given_positions import GridParameter
from pecli.engine.schemes.parameters import Choice, Flag, Whole
from pecli.engine.table import work_through
from pecli.errors import ParameterError, spelled

_ELEMENTS = 1 << 16  # elements that are made at once, so that float64 copies stay in the cache
_SIDE = Whole(help="cells", low=1, high=1 << 24)
_KEPT = Whole(help="rows", low=0, high=1 << 24)
_METHOD = Choice(help="the kernel", options=("linear", "cubic"))
_FLAG = Flag(help="whether to average over more rows when shrinking")
_GRID = GridParameter("rows and columns")


class Grid(NamedTuple):
    """A grid of table rows, in row-major order."""

    height: int
    width: int

    @property
    def cells(self) -> int:
        return self.height * self.width


def resize(
    table: ArrayLike,
    to: int | str | tuple[int, int],
    *,
    grid: str | tuple[int, int] | None = None,
    keep: int = 0,
    method: str | None = None,
    antialias: bool = False,
    name: str = "the table",
) -> Any:
    """Resample a learned table to another length or grid: in float64, rounded once.

    Args:
        table: (rows, dim) or (1, rows, dim).
        to: the new number of rows in all, or the new grid as (rows, columns) or "24x24".
        grid: the grid that the rows are now.
        keep: rows at the beginning to leave as they are: class and register tokens.
        method: the kernel, linear or cubic; by default cubic for a grid, else linear.
        antialias: average over more rows when shrinking, as timm does; Hugging Face does not.
        name: the table's name in errors.

    Returns:
        An array of the kind and dtype of the table.

    Raises:
        ParameterError: the table is not of that grid, or an option breaks its rule.

    >>> resize(np.array([[0.0], [1.0], [2.0], [3.0]]), 2).tolist()
    [[0.5], [2.5]]
    """
    array = floating(name, table)
    if array.ndim < 2 or set(array.shape[:-2]) - {1} or not array.size:
        rule = "a learned table is (rows, dim) or (1, rows, dim)"
        raise ParameterError(name, f"of shape {array.shape}", rule)
    rows, dim = array.shape[-2:]
    keep = _KEPT.check("keep", keep)
    old, new = _grids(rows, to, grid, keep)
    if rows != keep + old.cells:
        raise _wrong_rows(name, array.shape, old, keep)
    kernel = "linear" if grid is None else "cubic"
    if method is not None:
        kernel = _METHOD.check("method", method)
    if old == new:
        return like(table, array.copy())
    flat = array.reshape(rows, dim)
    out = np.empty((keep + new.cells, dim), array.dtype.newbyteorder("="))
    out[:keep] = flat[:keep]
    cells = flat[keep:].reshape(*old, dim)
    new_cells = out[keep:].reshape(*new, dim)
    _resample(cells, new_cells, kernel, _FLAG.check("antialias", antialias))
    return like(table, out.reshape(*array.shape[:-2], *out.shape))


def _wrong_rows(name: str, shape: tuple[int, ...], grid: Grid, keep: int) -> ParameterError:
    cells = f"{grid.height}x{grid.width}"
    if keep:
        cells = f"{keep} + {cells}"
    rule = f"it has {shape[-2]} rows, and {cells} are {keep + grid.cells}"
    return ParameterError(name, f"of shape {shape}", rule, "check `grid` and `keep`")


def _grids(
    rows: int,
    to: int | str | tuple[int, int],
    grid: str | tuple[int, int] | None,
    keep: int,
) -> tuple[Grid, Grid]:
    """Return the grids before and after; rows along one axis are a grid of one column."""
    if grid is not None:
        return _checked_grid("grid", grid), _checked_grid("to", to)
    is_grid = isinstance(to, tuple) or (isinstance(to, str) and {"x", "X", "×"} & {*to})
    if is_grid:
        rule = f"rows become {to} from another grid"
        raise ParameterError("grid", "missing", rule, "give it, such as 14x14, and `keep`")
    if keep >= max(rows, 1):
        rule = f"the table has {rows} rows, and one must be left to resize"
        raise ParameterError("keep", keep, rule)
    length = _SIDE.parse("to", to) if isinstance(to, str) else _SIDE.check("to", to)
    if length <= keep:
        rule = f"of these rows {keep} are kept, and one must be left"
        raise ParameterError("to", to, rule)
    return Grid(rows - keep, 1), Grid(length - keep, 1)


def _checked_grid(name: str, value: object) -> Grid:
    sides = _GRID.check(name, value)
    if len(sides) != 2:
        raise ParameterError(name, spelled(sides), "it must be rows x columns, such as 14x14")
    return Grid(*sides)


def _resample(cells: Array, out: Array, kernel: str, antialias: bool) -> None:
    """Fill `out` (height, width, dim) with resampled cells, some lines at a time.

    A line is one row of the grid: `width` rows of the table. Sums are made down the columns first,
    then along the lines.
    """
    height, width, dim = cells.shape
    new_height, new_width, _ = out.shape
    horizontal = taps(width, new_width, kernel, antialias)
    old_lines_per_new_line = -(-height // new_height)  # rounded up
    elements_per_line = max(new_width, width * old_lines_per_new_line) * dim
    lines_at_once = max(1, _ELEMENTS // elements_per_line)

    def resample_lines(line: int) -> None:
        new_lines = slice(line, line + lines_at_once)
        vertical = taps(height, new_height, kernel, antialias, new_lines)
        # Only the old lines that these are made of are widened to float64.
        first_old = int(vertical.rows.min())
        last_old = int(vertical.rows.max())
        vertical_from_first = Taps(vertical.rows - first_old, vertical.weights)
        with np.errstate(over="ignore", invalid="ignore"):  # A table may hold infinities.
            sums = vertical_from_first.apply(widened(cells[first_old : last_old + 1]))
            if (width, new_width) != (1, 1):
                columns_first = np.ascontiguousarray(np.moveaxis(sums, 1, 0))
                sums = np.moveaxis(horizontal.apply(columns_first), 0, 1)
            out[new_lines] = round_to(sums, dtype_name(out.dtype))

    work_through(resample_lines, range(0, new_height, lines_at_once))


KERNELS = {"linear": 1, "cubic": 2}
"""The kernels, and how many rows they reach to each side."""
CUBIC = -0.75  # torch's coefficient of Keys's cubic kernel
ANTIALIASED_CUBIC = -0.5  # its coefficient with antialias


class Taps(NamedTuple):
    """The old rows that every new row is a weighted sum of, and their weights: both (new, taps).

    Rows are samples at the middle of equal cells: align_corners is false, as in all vision models.
    The cubic kernel is Keys's. With antialias, it is stretched by the ratio of the sizes when a
    table shrinks.
    """

    rows: Indices
    weights: Floats

    def apply(self, values: Floats) -> Floats:
        """Return the weighted sums of values along their first axis.

        They are added up tap by tap: the first tap of all new rows, then the second, …
        """
        sums = np.empty((len(self.rows), *values.shape[1:]))
        product = np.empty_like(sums)
        other_axes = [1] * (values.ndim - 1)
        for tap, (rows, weights) in enumerate(zip(self.rows.T, self.weights.T, strict=True)):
            is_first_tap = tap == 0
            target = sums if is_first_tap else product
            # mode="clip" checks no indices, and so needs no buffer.
            np.take(values, rows, axis=0, out=target, mode="clip")
            target *= weights.reshape(-1, *other_axes)
            if not is_first_tap:
                sums += product
        return sums


def taps(
    old: int, new: int, kernel: str, antialias: bool = False, part: slice = slice(None)
) -> Taps:
    """Return the taps by which `old` rows become `new` rows.

    Args:
        old: The number of rows now.
        new: The number of rows after resampling.
        kernel: "linear" or "cubic".
        antialias: Stretch the kernel if there are fewer new rows than old ones.
        part: Only these of the new rows.

    >>> taps(4, 2, "linear").weights.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    new_rows = np.arange(*part.indices(new))
    if old == new:
        return Taps(new_rows[:, None], np.ones((len(new_rows), 1)))
    ratio = old / new
    stretch = max(ratio, 1.0) if antialias else 1.0
    reach = KERNELS[kernel] * stretch
    # The middle of a new cell, in units of old rows: 4 rows become 2 at 0.5 and 2.5.
    centre = (new_rows.astype(np.float64) + 0.5) * ratio - 0.5
    if kernel == "linear" and not antialias:
        centre = np.clip(centre, 0, old - 1)
    first_row = np.floor(centre - reach + 1).astype(np.intp)
    # A stretched kernel has no whole reach, and may touch one row more.
    tap_count = math.ceil(2 * reach) + (1 if antialias else 0)
    rows = first_row[:, None] + np.arange(tap_count)
    distance = (rows - centre[:, None]) / stretch
    weights = _kernel(distance, kernel, ANTIALIASED_CUBIC if antialias else CUBIC)
    if antialias:
        # Rows outside of the table have no weight; without antialias its ends are repeated.
        weights[(rows < 0) | (rows >= old)] = 0
        weights /= weights.sum(axis=1, keepdims=True)
    return Taps(np.clip(rows, 0, old - 1), weights)


def _kernel(distance: Floats, kernel: str, a: float) -> Floats:
    """Return the weights at distances from the centre, in rows.

    The linear kernel is a triangle: 1 at distance 0, and 0 from 1 on. The cubic one is Keys's with
    the coefficient `a`, one polynomial up to distance 1 and another up to 2.
    """
    x = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(0.0, 1 - x))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
