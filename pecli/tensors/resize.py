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

_ELEMENTS = 1 << 16  # about as many are made at once, so that float64 copies stay in the cache
_SIDE = Whole(help="cells", low=1, high=1 << 24)
_KEPT = Whole(help="rows", low=0, high=1 << 24)
_METHOD = Choice(help="the kernel", options=("linear", "cubic"))
_FLAG = Flag(help="whether to average over more rows when shrinking")
_GRID = GridParameter("rows and columns")

Grid = tuple[int, int]


def resize(
    table: ArrayLike,
    to: int | str | Grid,
    *,
    grid: str | Grid | None = None,
    keep: int = 0,
    method: str | None = None,
    antialias: bool = False,
    name: str = "the table",
) -> Any:
    """A learned table resampled to another length, or to another grid: in float64, rounded once to its dtype.

    Args:
        table: (rows, dim) or (1, rows, dim).
        to: the new number of rows in all, or the new grid, as (rows, columns) or "24x24".
        grid: the grid that the rows are now.
        keep: rows at the beginning to leave alone: class and register tokens.
        method: the kernel, linear or cubic; cubic for a grid unless given, else linear.
        antialias: average over more rows when shrinking, as timm does; Hugging Face does not.
        name: what errors call the table.

    >>> resize(np.array([[0.0], [1.0], [2.0], [3.0]]), 2).tolist()
    [[0.5], [2.5]]
    """
    array = floating(name, table)
    if array.ndim < 2 or set(array.shape[:-2]) - {1} or not array.size:
        raise ParameterError(
            name, f"of shape {array.shape}", "a learned table is (rows, dim) or (1, rows, dim)"
        )
    rows, dim = array.shape[-2:]
    keep = _KEPT.check("keep", keep)
    old, new = _grids(rows, to, grid, keep)
    if rows != keep + old[0] * old[1]:
        asked = f"{keep} + " * bool(keep) + f"{old[0]}x{old[1]} are {keep + old[0] * old[1]}"
        rule = f"it has {rows} rows, and {asked}"
        raise ParameterError(name, f"of shape {array.shape}", rule, "check `grid` and `keep`")
    kernel = (
        ("linear" if grid is None else "cubic")
        if method is None
        else _METHOD.check("method", method)
    )
    if old == new:
        return like(table, array.copy())
    flat = array.reshape(rows, dim)
    out = np.empty((keep + new[0] * new[1], dim), array.dtype.newbyteorder("="))
    out[:keep] = flat[:keep]
    cells = flat[keep:].reshape(*old, dim)
    _resample(cells, out[keep:].reshape(*new, dim), kernel, _FLAG.check("antialias", antialias))
    return like(table, out.reshape(*array.shape[:-2], *out.shape))


def _grids(
    rows: int, to: int | str | Grid, grid: str | Grid | None, keep: int
) -> tuple[Grid, Grid]:
    """The grids before and after; rows along one axis are a grid of one column."""
    if grid is not None:
        return _grid("grid", grid), _grid("to", to)
    if isinstance(to, tuple) or (isinstance(to, str) and {*"xX×"} & {*to}):
        rule = f"rows become {to} from another grid"
        raise ParameterError("grid", "missing", rule, "give it, such as 14x14, and `keep`")
    if keep >= max(rows, 1):
        raise ParameterError(
            "keep", keep, f"the table has {rows} rows, and one must be left to resize"
        )
    wanted = _SIDE.parse("to", to) if isinstance(to, str) else _SIDE.check("to", to)
    if wanted <= keep:
        raise ParameterError("to", to, f"of these rows {keep} are kept, and one must be left")
    return (rows - keep, 1), (wanted - keep, 1)


def _grid(name: str, given: Any) -> Grid:
    sides = _GRID.check(name, given)
    if len(sides) != 2:
        raise ParameterError(name, spelled(sides), "it must be rows x columns, such as 14x14")
    return sides[0], sides[1]


def _resample(cells: Array, out: Array, kernel: str, antialias: bool) -> None:
    (height, width), (tall, wide) = cells.shape[:2], out.shape[:2]
    horizontal = taps(width, wide, kernel, antialias)
    lines = max(1, _ELEMENTS // (max(wide, width * -(-height // tall)) * cells.shape[2]))

    def resample_lines(line: int) -> None:
        vertical = taps(height, tall, kernel, antialias, slice(line, line + lines))
        first, last = int(vertical.rows.min()), int(vertical.rows.max())
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # a table may hold what is not finite, or too large
            sums = Taps(vertical.rows - first, vertical.weights).apply(
                widened(cells[first : last + 1])
            )
            if (width, wide) != (1, 1):
                sums = np.moveaxis(
                    horizontal.apply(np.ascontiguousarray(np.moveaxis(sums, 1, 0))), 0, 1
                )
            out[line : line + lines] = round_to(sums, dtype_name(out.dtype))

    work_through(resample_lines, range(0, tall, lines))


KERNELS = {"linear": 1, "cubic": 2}  # the kernels, with how far they reach


class Taps(NamedTuple):
    """For every new row, which old rows it is a weighted sum of, and their weights: both (new, taps).

    Rows are samples at the middle of equal cells (align_corners is false, as everywhere in vision models). The cubic
    kernel is Keys's, with the coefficient that torch uses: −0.75, or −0.5 with antialias, where the kernel is also
    stretched by the ratio of the sizes when a table shrinks.
    """

    rows: Indices
    weights: Floats

    def apply(self, values: Floats) -> Floats:
        sums = np.empty((len(self.rows), *values.shape[1:]))
        part = np.empty_like(sums)
        for number, (rows, weights) in enumerate(zip(self.rows.T, self.weights.T, strict=True)):
            target = part if number else sums
            np.take(
                values, rows, axis=0, out=target, mode="clip"
            )  # which checks no indices, and so needs no buffer
            target *= weights.reshape(-1, *([1] * (values.ndim - 1)))
            if number:
                sums += part
        return sums


def taps(
    old: int, new: int, kernel: str, antialias: bool = False, part: slice = slice(None)
) -> Taps:
    """How `old` rows become `new` ones, or some of the new ones.

    >>> taps(4, 2, "linear").weights.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    wanted = np.arange(*part.indices(new))
    if old == new:
        return Taps(wanted[:, None], np.ones((len(wanted), 1)))
    ratio = old / new
    stretch = max(ratio, 1.0) if antialias else 1.0
    reach = KERNELS[kernel] * stretch
    centre = (wanted.astype(np.float64) + 0.5) * ratio - 0.5
    if kernel == "linear" and not antialias:
        centre = np.clip(centre, 0, old - 1)
    first = np.floor(centre - reach + 1).astype(np.intp)
    rows = first[:, None] + np.arange(math.ceil(2 * reach) + antialias)
    weights = _kernel((rows - centre[:, None]) / stretch, kernel, -0.5 if antialias else -0.75)
    if antialias:  # rows outside of the table have no weight; else its first and last row go on
        weights[(rows < 0) | (rows >= old)] = 0
        weights /= weights.sum(axis=1, keepdims=True)
    return Taps(np.clip(rows, 0, old - 1), weights)


def _kernel(distance: Floats, kernel: str, a: float) -> Floats:
    x = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(0.0, 1 - x))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
