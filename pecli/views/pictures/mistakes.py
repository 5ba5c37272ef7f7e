"""What a check compared, as a picture: expected, found, and the difference of each table, or lines for a vector. A cell
of a large table shows the element farthest off, so that the three belong together, and no wrong element is lost."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.checks.verification import Verification
from pecli.compare.comparison import READ_BYTES, Comparison
from pecli.compare.part import Part, slabs
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Floats, Indices, absolute_errors, widest
from pecli.errors import PecliError, listed
from pecli.files.tensor_roles import role_of
from pecli.views.check_results import reasons
from pecli.views.pictures import figure, figure_files, terminal_render
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.panels import (
    Chart,
    Curve,
    HeatmapPanel,
    Level,
    Panel,
    Picture,
    on_one_scale,
)
from pecli.views.screen import printable, terminal
from pecli.views.tensor_lines import MAX_LISTED, worst_element

MAX_TABLES = 4
TERMINAL_LINES = 16  #: How much of a terminal the errors of a tensor take
MIN_ERROR, MIN_SHARE = 1e-280, 1e-16
"""The smallest error that has a colour of its own, and what colours reach down to, as a share of the largest."""
MAX_ROWS = MAX_COLUMNS = 192  #: Cells of a map; a picture has as many pixels for each of three
MAX_POINTS = 4096  #: Elements of a vector that are drawn


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """A table of a tensor, or a vector (one row), cell by cell."""

    name: str
    shape: tuple[int, int]  #: rows and columns of the table
    expected: Floats
    found: Floats
    errors: Floats  #: |expected − found|; relative where the tolerance is
    allowed: Tolerance
    is_relative: bool  #: where the size of what is expected is what the tolerance goes by
    rows: str
    columns: str
    layers: int = 1  #: matrices over which a cell is the worst: heads, copies

    @property
    def tolerance(self) -> float:
        """The largest error that passes, where it is the same for all elements; else 0."""
        mixed = self.allowed.atol > 0 < self.allowed.rtol or self.allowed.max_ulp > 0
        return 0.0 if mixed else self.allowed.atol or self.allowed.rtol


def error_maps(
    result: Comparison, rows: int = MAX_ROWS, columns: int = MAX_COLUMNS
) -> Iterator[ErrorMap]:
    """The tables of a tensor that has errors: one, or cosines and sines."""
    parts: dict[str, list[Part]] = {}
    for part in result.parts if result.worst_index is not None else ():
        parts.setdefault(part.name or result.name, []).append(part)
    for name, some in parts.items():
        label = result.name if len(parts) == 1 else f"{result.name}: {name}"
        yield _error_map(label, some, result, (rows, columns))


def _error_map(
    label: str, parts: list[Part], result: Comparison, most: tuple[int, int]
) -> ErrorMap:
    shape = parts[0].expected.shape
    flat = len(shape) < 2
    height, width = (math.prod(shape), 1) if flat else shape[-2:]
    down, across = min(height, MAX_POINTS if flat else most[0]), min(width, most[1])
    cells = np.full((3, down, across), -1.0)
    relative = result.allowed.rtol > 0 and not result.allowed.atol
    for part in parts:
        for slab in slabs(shape[:-1] or shape, max(1, READ_BYTES // (8 * width))):
            ours = widest(part.rows(slab)).reshape(slab.length, width)
            lines = np.arange(slab.start, slab.start + slab.length) % height * down // height
            for at in np.ndindex(part.copies):
                theirs = widest(part.decoded(part.found[(*at, *slab.at)]))
                theirs = theirs.reshape(slab.length, width)
                _keep_worst(cells, lines, ours, theirs, relative)
    cells = cells.swapaxes(1, 2) if flat else cells
    expected, found, errors = cells if not result.sides_swapped else cells[[1, 0, 2]]
    found_row = math.prod(result.shape[-1:])  # within which columns are doubled
    copies = [
        size
        for size, step in zip(parts[0].copies, parts[0].view.steps, strict=False)
        if step >= found_row
    ]
    layers = len(parts) * math.prod((*copies, *shape[:-2]))
    size = (1, height) if flat else (height, width)
    axes = _axes(label, expected, shape)
    return ErrorMap(label, size, expected, found, errors, result.allowed, relative, *axes, layers)


def _keep_worst(
    cells: Floats, lines: Indices, ours: AnyArray, theirs: AnyArray, relative: bool
) -> None:
    """Put elements into their cells that are farther off than those which are there; `lines` are the cells of rows."""
    width, across = ours.shape[1], cells.shape[2]
    errors = absolute_errors(ours, theirs)[1]
    if relative:
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(errors == 0, 0.0, errors / np.abs(ours))
    columns = np.arange(width) * across // width
    worst = np.full(cells.shape[1:], -1.0)
    np.maximum.at(
        worst,
        lines,
        np.maximum.reduceat(errors, np.flatnonzero(np.diff(columns, prepend=-1)), axis=1),
    )
    worst[worst <= cells[2]] = np.nan  # nothing new
    row, column = np.nonzero(errors == worst[lines][:, columns])
    for values, cell in zip((ours.real, theirs.real, errors), cells, strict=True):
        cell[lines[row], columns[column]] = values[row, column]


def _axes(name: str, expected: Floats, shape: tuple[int, ...]) -> tuple[str, str]:
    """What rows and columns are, going by what the tensor is called and whether its columns are doubled."""
    role = role_of(name.rpartition(": ")[2])
    if len(shape) < 2:
        return "", {"inv_freq": "pair", "slopes": "head"}.get(role or "", "element")
    if len(shape) > 2 and (role == "bias" or shape[-2] == shape[-1]):
        return "query", "key"
    half, row = shape[-1] // 2, expected[-1]
    whole = expected.shape[1] == shape[-1] and not shape[-1] % 2
    doubled = whole and any(map(np.array_equal, (row[:half], row[::2]), (row[half:], row[1::2])))
    return "position", "pair" if role in ("cos", "sin") and not doubled else "channel"


def comparison_picture(checked: Sequence[Any]) -> Picture:
    """The tables that are farthest off, in rows of three; those that are left out are named below them. What was
    checked are verifications, or problems that there are none, or a difference."""
    results = [each for each in checked if not isinstance(each, PecliError)]
    sides = (
        ("expected", "found")
        if all(isinstance(each, Verification) for each in results)
        else ("A", "B")
    )
    tensors = [(result, tensor) for result in results for tensor in result.tensors]
    tensors.sort(key=lambda each: (each[1].passed, -(each[1].max_abs_error or 0.0)))
    maps: list[ErrorMap] = []
    others = [printable(str(problem)) for problem in checked if isinstance(problem, PecliError)]
    for result, tensor in tensors:
        prefix = f"{printable(result.file)} " if len(results) > 1 else ""
        found = list(error_maps(tensor)) if len(maps) < MAX_TABLES else []
        maps += [replace(each, name=f"{prefix}{each.name}") for each in found]
        if not found:
            passed = "no error" if tensor.worst_index is None else "within tolerance"
            why = tensor.problem or (passed if tensor.passed else "")
            others.append(f"{prefix}{printable(tensor.name)}{f' ({why})' if why else ''}")
    scales = {
        relative: _colours([each for each in maps if each.is_relative == relative])
        for relative in (True, False)
    }
    panels = [
        panel for each in maps for panel in table_panels(each, sides, scales[each.is_relative])
    ]
    nothing = "" if maps else "No element to draw, as all are equal, or none can be compared"
    words = [nothing, f"Left out: {listed(others, 2 * MAX_LISTED)}" if others else ""]
    title = "; ".join(_summary(result, sides) for result in sorted(results, key=bool)[:MAX_LISTED])
    return Picture(title, panels, 3, ". ".join(filter(None, words)))


def _summary(result: Any, sides: tuple[str, str]) -> str:
    verdict = "passed" if result.passed else "FAILED"
    if isinstance(result, Verification):
        names = f"{result.file}: {verdict}" if result.file else verdict
    else:
        files = {"A": result.a, "B": result.b}
        names = ", ".join(f"{side}: {file}" for side, file in files.items() if file)
    worst = max(result.tensors, key=lambda tensor: tensor.max_abs_error or 0.0, default=None)
    where = (
        f"{worst.name}: {worst_element(worst, sides)}"
        if worst and worst.worst_index is not None
        else ""
    )
    return ". ".join(map(printable, filter(None, [names, *reasons(result)[:1], where])))


def _colours(maps: Sequence[ErrorMap]) -> tuple[float, float]:
    """The ends of the colours of all differences; what is infinite cannot be drawn to scale."""
    every = np.concatenate(
        [np.empty(0), *(np.append(each.errors, each.tolerance) for each in maps)]
    )
    known = every[np.isfinite(every) & (every > 0)]
    low, high = (
        (float(known.min()), max(float(known.max()), MIN_ERROR)) if known.size else (0.1, 1.0)
    )
    return min(max(low, high * MIN_SHARE), high / 10), high


def table_panels(
    errors: ErrorMap, sides: tuple[str, str], scale: tuple[float, float]
) -> list[Panel]:
    """What was expected, what was found, and the difference."""
    what = "vectors" if not errors.rows else "heads" if errors.rows == "query" else "matrices"
    name, worst = (
        printable(errors.name),
        f", the worst of {errors.layers:,} {what}" if errors.layers > 1 else "",
    )
    every = np.stack([errors.expected, errors.found])
    if not errors.rows:
        points = np.linspace(0, errors.shape[1] - 1, errors.expected.shape[1])
        curves = [Curve(side, points, values[0]) for side, values in zip(sides, every, strict=True)]
        positive = all(bool(np.all(curve.y > 0)) for curve in curves)
        chart = Chart(f"{name}{worst}", curves, errors.columns, log_y=positive, share=0.7)
        return [chart, difference_panel("difference", errors, sides, scale)]
    pair = [
        HeatmapPanel(
            f"{name}, {side}",
            values,
            errors.rows,
            errors.columns,
            0,
            errors.shape,
            reduction=Reduction.WORST,
        )
        for side, values in zip(sides, every, strict=True)
    ]
    return [*on_one_scale(pair), difference_panel(f"difference{worst}", errors, sides, scale)]


def difference_panel(
    title: str, errors: ErrorMap, sides: tuple[str, str], scale: tuple[float, float]
) -> Panel:
    """Errors on a logarithmic scale, none blank, with the tolerance that was applied."""
    one, other = sides
    meaning = f"|{one} − {other}|{f' / |{one}|' if errors.is_relative else ''}"
    cells = np.where(np.isfinite(errors.errors), errors.errors, np.nan)
    tolerance, allowed = errors.tolerance, errors.allowed
    words = (
        [f"{typeset(allowed.atol)} + {typeset(allowed.rtol)}·|{one}|"]
        if allowed.atol and allowed.rtol
        else []
    )
    words += [f"{allowed.max_ulp:,} ulp"] if allowed.max_ulp else []
    mixed = f", tolerance: {' or '.join(words)}" if words else ""
    if not errors.rows:
        y = np.where(cells[0] > 0, cells[0], np.nan)
        points = np.linspace(0, errors.shape[1] - 1, len(y))
        levels = [Level(f"tolerance {typeset(tolerance)}", tolerance)] if tolerance else []
        return Chart(
            title,
            [Curve("", points, y)],
            errors.columns,
            meaning + mixed,
            log_y=True,
            levels=levels,
        )
    panel = HeatmapPanel(
        title,
        cells,
        errors.rows,
        errors.columns,
        0,
        errors.shape,
        scale,
        log=True,
        reduction=Reduction.MAX,
    )
    marked = Level("tolerance", tolerance) if tolerance else None
    return replace(panel, meaning=f"{meaning}, none: blank{mixed}", marked=marked)


def error_picture(result: Comparison, rows: int, columns: int) -> Picture | None:
    """The differences of a tensor alone, for a terminal; None where there are none."""
    for errors in error_maps(result, rows, columns):
        panel = difference_panel("", errors, ("A", "B"), _colours([errors]))
        pooled = (
            f", maximum of {errors.shape[0] / rows:.0f} rows"
            if errors.shape[0] >= 1.5 * rows
            else ""
        )
        return Picture(f"|A − B| of {errors.name}{pooled}", [panel])
    return None


def show(tensors: Sequence[Comparison]) -> None:
    """The differences of the worst tensor, in the terminal."""
    room = terminal()._replace(lines=TERMINAL_LINES)
    rows = (TERMINAL_LINES - 5) * (2 if room.colours else 1)
    worst = max(tensors, key=lambda tensor: tensor.max_abs_error or 0.0, default=None)
    picture = error_picture(worst, rows, room.columns) if worst else None
    if picture is not None:
        print("\n".join(["", *terminal_render.lines(picture, room)]))


def save(path: str, checked: Sequence[Any], about: Mapping[str, Any]) -> None:
    """What was expected, what was found, and the difference, in a file."""
    figure_files.save(figure.render(comparison_picture(checked)), path, about=about)
