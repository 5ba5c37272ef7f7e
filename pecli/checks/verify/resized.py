"""A learned table compared with the table that it was resized from: which interpolation was used."""

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple

import numpy as np

from pecli.checks.doubts import AnyInterpolation
from pecli.checks.file_problems import MAX_LISTED
from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison, compare_arrays, problems_of
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, Floats, as_dtype, dtype_name, floating, widened
from pecli.engine.named_values import JsonObject
from pecli.errors import FileError, KindError, ParameterError, listed
from pecli.explain.storage import half_ulp
from pecli.files.load import Given, opened
from pecli.files.tensor_roles import role_of
from pecli.tensors.interpolation import (
    ANTIALIASED_CUBIC,
    CUBIC,
    PROJECTS,
    Interpolation,
    known_interpolations,
)
from pecli.tensors.resize import KEPT, Grid, check_table, checked_grid, resampled, wrong_rows

COLUMNS_TRIED = 8  #: columns with which interpolations are told apart, before all are compared
FLOAT32_STEP = 2.0**-24
PLACE_ROUNDINGS = 9
"""Roundings of a float32 place that an element may show: three operations on each of two axes, and
a cubic kernel changes by up to 1.5 times the spread of the table from row to row."""
STORAGE_ROUNDINGS = 2  #: the old table may have been rounded to the dtype, and the new one is
MOST_ALIKE = 6  #: interpolations that a line names as making the same table
GRIDS_WITH_MISTAKES = 2
"""New grids with which mistakes are searched for: of 72 rows that were 5x6, 8x9 and 9x8."""
OTHER_TOKENS = (1, 2, 5)  #: rows for other tokens beside a grid: a class token, and registers


@dataclass(frozen=True, repr=False)
class ResizeVerification(Verification):
    """The answer for a table that was resized.

    Attributes:
        interpolations: The ways that make this table, those of known projects first; all of them
            make the same. Empty if none does.
    """

    interpolations: tuple[Interpolation, ...] = ()

    def as_json(self) -> JsonObject:
        fields = dict(super().as_json())
        fields["interpolations"] = [
            {**asdict(way), "projects": PROJECTS.get(way, ""), "options": way.options}
            for way in self.interpolations
        ]
        return fields


def verify_resized(
    new: Given,
    tolerance: Tolerance,
    *,
    resized_from: Given,
    grid: object = None,
    to: object = None,
    keep: int | None = None,
    method: str | None = None,
    antialias: bool = False,
    align_corners: bool = False,
    scale_offset: float = 0.0,
    **others: object,
) -> ResizeVerification:
    """Compare a table with those that known interpolations make of an older one.

    Args:
        new: The table that was resized, (rows, dim) or (1, rows, dim).
        tolerance: The errors that pass; if it is exact, those of float32 arithmetic pass.
        resized_from: The table before.
        grid: Its grid, rows x columns; None if its rows are along one axis.
        to: The new grid, or number of rows; by default the one that fits best.
        keep: Rows at the beginning that stay as they are.
        method: The interpolation that is required, with `antialias`, `align_corners` and
            `scale_offset` as in `pecli.resize`; by default any that a project uses.
        antialias: See `method`.
        align_corners: See `method`.
        scale_offset: See `method`.
        others: Options that do not go with a resized table.

    Raises:
        FileError: A file has several tables.
        ParameterError: The tables are not of that grid, or an option breaks its rule.
    """
    for name, value in others.items():
        if value is not None:
            raise KindError(name, "given", "it does not go with a resized table", "leave it out")
    required = _required(method, antialias, align_corners, scale_offset)
    after = _learned_table(new, "the new table")
    before = _learned_table(resized_from, "the old table")
    resizings = list(_resizings(before, after, grid, to, KEPT.check("keep", keep or 0)))
    with np.errstate(invalid="ignore", over="ignore"):  # A table may hold infinities.
        finding = _find_interpolation(resizings)
        result = _compared(finding, required, tolerance, after.name)
    readings = {}
    if finding.ways:
        readings[result.name] = finding.resizing.sizes + _in_words(finding.ways)
    answer = ResizeVerification(
        file=after.label,
        scheme=f"resized from {before.label}",
        tensors=(result,),
        problems=problems_of([result]),
        reasons=_reasons(finding, required, result),
        readings=readings,
        interpolations=finding.ways,
    )
    if result.passed and required is None and len(finding.ways) > MOST_ALIKE:
        return answer.with_doubts([AnyInterpolation()])
    return answer


def _reasons(
    finding: "_Finding", required: Interpolation | None, result: Comparison
) -> tuple[str, ...]:
    """Return why the table is wrong: a mistake, or an interpolation that is not the required one."""
    if required is None or result.passed or not finding.ways:
        return finding.mistakes
    return (f"it is resized by {_in_words(finding.ways)}, not by {required}",)


def _required(
    method: str | None, antialias: bool, align_corners: bool, scale_offset: float
) -> Interpolation | None:
    """Return the interpolation that options state; None if any that a project uses will do.

    Raises:
        ParameterError: If options of a method are given without it.
    """
    if method is not None:
        return Interpolation(
            method=method,
            antialias=antialias,
            align_corners=align_corners,
            scale_offset=scale_offset,
        )
    if antialias or align_corners or scale_offset:
        rule = "antialias, align_corners and scale_offset belong to a method"
        raise ParameterError("method", "missing", rule, "add it, such as cubic")
    return None


class _Table(NamedTuple):
    """A learned table of a file."""

    label: str  #: the file, or a word for an array
    name: str
    rows: Array  #: (rows, dim)
    rounding: float  #: the largest error that printing the numbers made


def _learned_table(given: Given, label: str) -> _Table:
    """Return the only tensor of a file, or the only one with a name such as `pos_embed` or `wpe`.

    Raises:
        FileError: If there are several, and no name or several names state a learned table.
    """
    path, file = opened(given)
    tensors = file.read_as("float32").tensors
    if len(tensors) > 1:
        learned = {name: array for name, array in tensors.items() if role_of(name) == "rows"}
        if len(learned) != 1:
            names = listed(list(tensors), MAX_LISTED)
            problem = f"has {len(tensors)} tensors: {names}"
            raise FileError(path or label, problem, "name one: FILE:NAME")
        tensors = learned
    name, values = next(iter(tensors.items()))
    array = floating(label, values)
    check_table(path or label, array)
    return _Table(
        label=path or label, name=name, rows=array.reshape(array.shape[-2:]), rounding=file.rounding
    )


@dataclass(frozen=True)
class _Resizing:
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
    grid: Grid
    to: Grid
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
        return f"{_size(self.grid)} → {_size(self.to)}, "

    @property
    def is_unchanged(self) -> bool:
        """True if the new table is the old one, up to rounding."""
        return self._is_new_table(self.old)

    def made(self, way: Interpolation) -> Floats:
        """Return the table that an interpolation makes, (keep + rows, dim).

        Raises:
            ParameterError: It cannot make one of this size: a slice cannot grow.
        """
        return widened(resampled(self.old, self.grid, self.to, self.keep, way))

    def fits(self, way: Interpolation) -> bool:
        """Return True if an interpolation makes the new table, up to rounding."""
        try:
            return self._is_new_table(self.made(way))
        except ParameterError:
            return False

    def _is_new_table(self, table: Floats) -> bool:
        if table.shape != self.new.shape:
            return False
        return bool(np.abs(table - self.new).max() <= self.limit)

    def on_columns(self, columns: Array) -> "_Resizing":
        """Return both tables with some of their columns only."""
        old = np.ascontiguousarray(self.old[:, columns])
        new = np.ascontiguousarray(self.new[:, columns])
        return replace(self, old=old, new=new)


def _resizings(
    before: _Table, after: _Table, grid: object, to: object, keep: int
) -> Iterator[_Resizing]:
    """Yield both tables with each grid that the new one may have, the likeliest first.

    A table of 1 + 14x14 rows that became 1 + 576 has most likely the grid 24x24 now, but 18x32 or
    576x1 are possible as well.

    Args:
        before: The table that was resized.
        after: The resized table.
        grid: The grid of the old rows, such as "14x14"; None if they are along one axis.
        to: The new grid, if the user states it.
        keep: The rows before the grid (CLS, registers), which are not resized.

    Raises:
        ParameterError: If the tables do not have as many rows as the grids have cells.
    """
    rows, dim = before.rows.shape
    new_rows, new_dim = after.rows.shape
    if dim != new_dim:
        rule = f"the old one's are {dim}"
        raise ParameterError(after.label, f"of {new_dim} columns", rule)
    if keep >= min(rows, new_rows):
        rule = f"the tables have {rows} and {new_rows} rows, and one must be left"
        raise ParameterError("keep", keep, rule)
    old_grid = Grid(rows - keep, 1) if grid is None else checked_grid("grid", grid)
    if rows != keep + old_grid.cells:
        raise wrong_rows(before.label, before.rows.shape, old_grid, keep)
    old = widened(before.rows)
    new = widened(after.rows)
    dtype = dtype_name(after.rows.dtype)
    limit = _rounding(old, max(old_grid), dtype) + after.rounding + 2 * before.rounding
    for new_grid in _new_grids(after, old_grid, to, keep, is_on_grid=grid is not None):
        yield _Resizing(
            old=old, new=new, grid=old_grid, to=new_grid, keep=keep, limit=limit, dtype=dtype
        )


def _new_grids(
    after: _Table, old: Grid, to: object, keep: int, *, is_on_grid: bool
) -> Iterator[Grid]:
    """Yield the new grid that is stated, or else all that have as many cells as there are rows.

    Those with nearly the proportions of the old grid come first: 576 cells of 14x14 are 24x24.
    """
    if not is_on_grid:
        yield _line_of_rows(after, to, keep)
    elif to is not None:
        yield _stated_grid(after, to, keep)
    else:
        grids = _grids_of(len(after.rows) - keep)
        yield from sorted(grids, key=lambda grid: _stretch(grid, old))


def _line_of_rows(after: _Table, to: object, keep: int) -> Grid:
    """Return the rows of a table along one axis; `to` may only state how many there are."""
    rows = len(after.rows)
    if to is not None and str(to) != str(rows):
        rule = f"{after.label} has {rows} rows"
        raise ParameterError("to", to, rule, "a grid needs --grid, too")
    return Grid(rows - keep, 1)


def _stated_grid(after: _Table, to: object, keep: int) -> Grid:
    """Return the new grid that the user states, which must have as many cells as the table has rows.

    A table without the rows for other tokens is accepted here: that is a mistake with a name.
    """
    new_grid = checked_grid("to", to)
    if len(after.rows) not in (keep + new_grid.cells, new_grid.cells):
        raise wrong_rows(after.label, after.rows.shape, new_grid, keep)
    return new_grid


def _grids_of(cells: int) -> Iterator[Grid]:
    for height in range(1, cells + 1):
        if cells % height == 0:
            yield Grid(height, cells // height)


def _stretch(grid: Grid, old: Grid) -> float:
    """Return how much the proportions of two grids differ; 0 if they are alike."""
    return abs(math.log(grid.height * old.width / (grid.width * old.height)))


def _rounding(old: Floats, side: int, dtype: str) -> float:
    """Return the largest error of a table that is resized in float32 and stored in a dtype.

    float32 places rows at 13.99999 instead of 14, so that the error grows with the side of the grid
    and with the spread of the values. `side` is the longer side of the old grid.
    """
    finite = old[np.isfinite(old)]
    if not finite.size:
        return 0.0
    spread = float(finite.max() - finite.min())
    largest = np.abs(finite).max(keepdims=True).reshape(1)
    stored = float(half_ulp(largest, dtype)[0])
    places = PLACE_ROUNDINGS * side * FLOAT32_STEP * spread
    return places + STORAGE_ROUNDINGS * stored


class _Finding(NamedTuple):
    """The interpolations that make a table, or else the mistakes that do."""

    resizing: _Resizing
    ways: tuple[Interpolation, ...]
    mistakes: tuple[str, ...]
    nearest: Interpolation  #: the first of the ways, or else the one with the smallest errors


def _find_interpolation(resizings: Sequence[_Resizing]) -> _Finding:
    """Return the interpolations that make the new table; if there are none, the mistake that does.

    Each resizing supposes another new grid. A few columns decide: a table has hundreds, and the
    same interpolation made all of them.
    """
    columns = _varying_columns(resizings[0].old)
    samples = [resizing.on_columns(columns) for resizing in resizings]
    for resizing, sample in zip(resizings, samples, strict=True):
        ways = _fitting_ways(sample)
        if ways:
            return _Finding(resizing=resizing, ways=ways, mistakes=(), nearest=ways[0])
    for resizing, sample in [*zip(resizings, samples, strict=True)][:GRIDS_WITH_MISTAKES]:
        mistakes = tuple(_mistakes(sample))
        if mistakes:
            return _Finding(resizing=resizing, ways=(), mistakes=mistakes, nearest=_nearest(sample))
    nearest = _nearest(samples[0])
    unexplained = f"no known interpolation makes this table; {nearest} comes nearest"
    return _Finding(resizing=resizings[0], ways=(), mistakes=(unexplained,), nearest=nearest)


def _compared(
    finding: _Finding, required: Interpolation | None, tolerance: Tolerance, name: str
) -> Comparison:
    """Compare all columns with those of the required interpolation, or of the one that fits best."""
    resizing = finding.resizing
    expected = as_dtype(resizing.made(required or finding.nearest), resizing.dtype)
    allowed = tolerance.or_absolute(resizing.limit)
    return compare_arrays(expected, as_dtype(resizing.new, resizing.dtype), allowed, name=name)


def _varying_columns(table: Floats) -> Array:
    """Return the columns that vary most, which distinguish interpolations best."""
    spread = np.nan_to_num(table.max(axis=0) - table.min(axis=0), posinf=0)
    return np.sort(np.argsort(-spread, kind="stable")[:COLUMNS_TRIED])


def _fitting_ways(resizing: _Resizing, coefficient: float = CUBIC) -> tuple[Interpolation, ...]:
    """Return the known interpolations that make the new table, with this coefficient if cubic."""
    ways = []
    for way in known_interpolations():
        if resizing.fits(replace(way, coefficient=coefficient)):
            ways.append(way)
    return tuple(ways)


def _nearest(resizing: _Resizing) -> Interpolation:
    """Return the interpolation whose table has the smallest mean error."""
    errors = {}
    for way in known_interpolations():
        with suppress(ParameterError):  # A slice cannot grow.
            table = resizing.made(way)
            if table.shape == resizing.new.shape:
                errors[way] = float(np.nan_to_num(np.abs(table - resizing.new)).mean())
    return min(errors, key=lambda way: errors[way], default=Interpolation())


def _in_words(ways: tuple[Interpolation, ...]) -> str:
    """Return the words for interpolations that all make the same table.

    «cubic, as in transformers' ViT, …» or «slice (crop would make the same table)», for example.
    """
    if len(ways) > MOST_ALIKE:
        return "as most interpolations make it"
    first, *others = ways
    words = str(first)
    if first in PROJECTS:
        words += f", as in {PROJECTS[first]}"
    if others:
        same = " and ".join(map(str, others))
        words += f" ({same} would make the same table)"
    return words


class _Mistake(NamedTuple):
    """A known mistake, and the resizing that made the new table if it is the one.

    Attributes:
        reason: The mistake, in words.
        resizing: The resizing with other grids, or with other rows of the old or the new table.
        coefficient: Of the cubic kernel.
    """

    reason: str
    resizing: _Resizing
    coefficient: float = CUBIC


def _mistakes(resizing: _Resizing) -> Iterator[str]:
    """Yield the first known mistake that makes the new table, in words; nothing if none does.

    «rows and columns are swapped: 3x2 becomes 6x4; the interpolation is cubic», for example.
    """
    if resizing.is_unchanged and resizing.grid != resizing.to:
        yield "it is the old table: it is not resized"
        return
    if _differs_in_other_tokens_only(resizing):
        yield f"{_other_tokens(resizing)} are not the old ones"
        return
    for mistake in _known_mistakes(resizing):
        ways = _fitting_ways(mistake.resizing, mistake.coefficient)
        if ways:
            yield f"{mistake.reason}; the interpolation is {_in_words(ways)}"
            return
    yield from _grid_not_stated(resizing)


def _differs_in_other_tokens_only(resizing: _Resizing) -> bool:
    """Return True if the rows of the grid are right, and those before it are not."""
    if not resizing.keep:
        return False
    same_start = resizing.new.copy()
    same_start[: resizing.keep] = resizing.old[: resizing.keep]
    return bool(_fitting_ways(replace(resizing, new=same_start)))


def _known_mistakes(resizing: _Resizing) -> Iterator[_Mistake]:
    """Yield wrong ways to resize a table, each as the resizing that a port made by mistake.

    They are Pillow's cubic kernel, swapped axes, rows resized as a line instead of a grid, and rows
    of other tokens (CLS, registers) that are resized with the patches, or lost.
    """
    reason = f"the cubic kernel has the coefficient {ANTIALIASED_CUBIC}, not torch's {CUBIC}"
    yield _Mistake(reason=reason, resizing=resizing, coefficient=ANTIALIASED_CUBIC)
    new_rows = len(resizing.new)
    if resizing.is_on_grid:
        yield from _swapped_axes(resizing)
        line = Grid(resizing.grid.cells, 1)
        new_line = Grid(new_rows - resizing.keep, 1)
        yield _Mistake(
            "rows are resized along one axis, as if they were no grid",
            replace(resizing, grid=line, to=new_line),
        )
    if resizing.keep:
        every_row = Grid(len(resizing.old), 1)
        yield _Mistake(
            f"{_other_tokens(resizing)} are resized as well, along one axis with the others",
            replace(resizing, grid=every_row, to=Grid(new_rows, 1), keep=0),
        )
        yield _Mistake(
            f"{_other_tokens(resizing)} are missing",
            replace(resizing, old=resizing.old[resizing.keep :], keep=0),
        )


def _other_tokens(resizing: _Resizing) -> str:
    return f"rows for other tokens ({resizing.keep} at the start)"


def _swapped_axes(resizing: _Resizing) -> Iterator[_Mistake]:
    """Yield mistakes that exchange the rows and the columns of the old or the new grid.

    If a grid 2x3 becomes 4x6, the old rows may be taken for 3x2, the new ones made for 6x4, or
    written column by column. Of a square grid, some of these are no mistake; but then they were
    tried before, and do not fit.
    """
    old_swapped = Grid(resizing.grid.width, resizing.grid.height)
    new_swapped = Grid(resizing.to.width, resizing.to.height)
    swapped = "rows and columns are swapped"
    if len(resizing.new) == resizing.keep + resizing.to.cells:
        row_by_row = _with_columns_as_rows(resizing.new, resizing.to, resizing.keep)
        yield _Mistake(
            f"{swapped}: the new rows come column by column", replace(resizing, new=row_by_row)
        )
    yield _Mistake(
        f"{swapped}: the old rows are taken for {_size(old_swapped)}",
        replace(resizing, grid=old_swapped),
    )
    yield _Mistake(
        f"{swapped}: the new rows are made for {_size(new_swapped)}",
        replace(resizing, to=new_swapped),
    )
    yield _Mistake(
        f"{swapped}: {_size(old_swapped)} becomes {_size(new_swapped)}",
        replace(resizing, grid=old_swapped, to=new_swapped),
    )


def _with_columns_as_rows(table: Floats, grid: Grid, keep: int) -> Floats:
    """Return a table row by row whose cells were written down the columns of its grid.

    Cells a d b e c f of the grid 2x3 become a b c d e f.
    """
    by_column = table[keep:].reshape(grid.width, grid.height, -1)
    cells = by_column.swapaxes(0, 1).reshape(grid.cells, -1)
    return np.concatenate((table[:keep], cells))


def _size(grid: Grid) -> str:
    return f"{grid.height}x{grid.width}"


def _grid_not_stated(resizing: _Resizing) -> Iterator[str]:
    """Yield advice if rows were taken for a line, and both tables may be square grids.

    197 rows that became 577 are likely a class token and 14 × 14 patches that became 24 × 24.
    """
    if resizing.is_on_grid or resizing.keep:
        return
    for keep in (0, *OTHER_TOKENS):
        side = _side_of_square(len(resizing.old) - keep)
        new_side = _side_of_square(len(resizing.new) - keep)
        if side > 1 and new_side > 1:
            yield f"the rows may be a grid: add --grid {side}x{side} --keep {keep}"
            return


def _side_of_square(cells: int) -> int:
    """Return the side of a square grid of so many cells; 0 if there is none."""
    side = math.isqrt(max(cells, 0))
    return side if side**2 == cells else 0
