"""A learned table compared with the table that it was resized from: which interpolation was used."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np

from pecli.checks.doubts import AnyInterpolation
from pecli.checks.verification import Verification
from pecli.checks.verify.resizing import Resizing, find_resizings, read_learned_table
from pecli.checks.verify.resizing_mistakes import describe_appended_rows, find_mistake
from pecli.checks.verify.resizing_ways import (
    MOST_ALIKE,
    describe_ways,
    find_fitting_ways,
    find_nearest_way,
)
from pecli.checks.verify.table_settings import refuse_options
from pecli.compare.comparison import Comparison, compare_arrays, problems_of
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import Array, Floats, as_dtype
from pecli.engine.named_values import JsonObject, NamedValues
from pecli.errors import ParameterError
from pecli.files.load import Given
from pecli.tensors.interpolation import PROJECTS, Interpolation
from pecli.tensors.resize import KEPT

COLUMNS_TRIED = 8  #: columns with which interpolations are told apart, before all are compared
GRIDS_WITH_MISTAKES = 2
"""New grids with which mistakes are searched for: of 72 rows that were 5x6, 8x9 and 9x8."""


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
    keep: int = 0,
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
    refuse_options(others, "it does not go with a resized table", "leave it out")
    required = _read_required(method, antialias, align_corners, scale_offset)
    after = read_learned_table(new, "the new table")
    before = read_learned_table(resized_from, "the old table")
    resizings = list(find_resizings(before, after, grid, to, KEPT.check("keep", keep)))
    with np.errstate(invalid="ignore", over="ignore"):  # A table may hold infinities.
        finding = _find_interpolation(resizings)
        result = _compare_columns(finding, required, tolerance, after.name)
    readings = {}
    if finding.ways:
        readings[result.name] = finding.resizing.sizes + describe_ways(finding.ways)
    answer = ResizeVerification(
        file=after.label,
        scheme=f"resized from {before.label}",
        tensors=(result,),
        problems=problems_of([result]),
        reasons=_find_reasons(finding, required, result),
        readings=readings,
        interpolations=finding.ways,
    )
    if required is None and len(finding.ways) > MOST_ALIKE:
        return answer.with_doubts([AnyInterpolation()])
    return answer


def _find_reasons(
    finding: "_Finding", required: Interpolation | None, result: Comparison
) -> tuple[str, ...]:
    """Return why the table is wrong: a mistake, or an interpolation that is not the required one.

    There is no reason if the table is right, or if only the tolerance is too small.
    """
    if not finding.ways:
        return (finding.problem,)
    if required is None or result.passed:
        return ()
    return (f"it is resized by {describe_ways(finding.ways)}, not by {required}",)


def _read_required(
    method: str | None, antialias: bool, align_corners: bool, scale_offset: float
) -> Interpolation | None:
    """Return the interpolation that options state; None if any that a project uses will do.

    Raises:
        ParameterError: If options of a method are given without it.
    """
    how: NamedValues = {
        "antialias": antialias,
        "align_corners": align_corners,
        "scale_offset": scale_offset,
    }
    if method is not None:
        return Interpolation(method=method, **how)
    if any(how.values()):
        rule = "antialias, align_corners and scale_offset belong to a method"
        raise ParameterError("method", "missing", rule, "add it, such as cubic")
    return None


class _Finding(NamedTuple):
    """The interpolations that make the new table, or else what is wrong with it.

    Attributes:
        resizing: Both tables, with the grids with which they fit.
        nearest: The first of the ways, or else the interpolation with the smallest errors.
        ways: The interpolations that make the new table; several may make the same.
        problem: A sentence on what is wrong; empty if there are ways.
    """

    resizing: Resizing
    nearest: Interpolation
    ways: tuple[Interpolation, ...] = ()
    problem: str = ""


def _find_interpolation(resizings: Sequence[Resizing]) -> _Finding:
    """Return the interpolations that make the new table; if there are none, what is wrong with it.

    A few columns decide: a table has hundreds, and the same interpolation made all of them. If the
    table is wrong, it is then compared with what the nearest interpolation makes.

    Args:
        resizings: Both tables with each grid that the new one may have, the likeliest first. A
            known mistake is searched for with the first few only.
    """
    columns = _find_varying_columns(resizings[0].old)
    for resizing in resizings:
        ways = find_fitting_ways(resizing.on_columns(columns))
        if ways:
            return _Finding(resizing, nearest=ways[0], ways=ways)
    for resizing in resizings[:GRIDS_WITH_MISTAKES]:
        sample = resizing.on_columns(columns)
        mistake = find_mistake(sample)
        if mistake:
            return _Finding(resizing, nearest=find_nearest_way(sample), problem=mistake)
    likeliest = resizings[0]
    nearest = find_nearest_way(likeliest.on_columns(columns))
    problem = describe_appended_rows(likeliest) or _describe_unknown_mistake(likeliest, nearest)
    return _Finding(likeliest, nearest=nearest, problem=problem)


def _describe_unknown_mistake(resizing: Resizing, nearest: Interpolation) -> str:
    """Return that no interpolation makes a table, with advice if its rows were taken for a line."""
    problem = f"no known interpolation makes this table; {nearest} comes nearest"
    if resizing.is_on_grid:
        return problem
    return f"{problem}; if the rows are a grid, add --grid HxW, and --keep N for other tokens"


def _compare_columns(
    finding: _Finding, required: Interpolation | None, tolerance: Tolerance, name: str
) -> Comparison:
    """Compare all columns with those of the required interpolation, or of the one that fits best."""
    resizing = finding.resizing
    expected = as_dtype(resizing.make(required or finding.nearest), resizing.dtype)
    allowed = tolerance.or_absolute(resizing.limit)
    return compare_arrays(expected, as_dtype(resizing.new, resizing.dtype), allowed, name=name)


def _find_varying_columns(table: Floats) -> Array:
    """Return the columns that vary most, which distinguish interpolations best."""
    spread = np.nan_to_num(table.max(axis=0) - table.min(axis=0), posinf=0)
    return np.sort(np.argsort(-spread, kind="stable")[:COLUMNS_TRIED])
