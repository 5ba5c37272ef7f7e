"""What a check compared, as a picture: expected, found, and the difference of each table, or lines for a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pecli.checks.compare import Comparison
from pecli.checks.error_maps import ErrorMap, error_maps
from pecli.checks.verify.verification import Verification
from pecli.errors import PecliError, listed
from pecli.views.check_results import MAX_LISTED, reasons, worst_element
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Panel, Picture, typeset
from pecli.views.screen import printable, terminal

MAX_TABLES = 4
TERMINAL_LINES = 16
"""How much of a terminal the errors of a tensor take."""
MIN_ERROR, MIN_SHARE = 1e-280, 1e-16
"""The smallest error that has a colour of its own, and what colours reach down to, as a share of the largest."""


def comparison_picture(checked: Sequence[Any]) -> Picture:
    """The tables that are farthest off, in rows of three; those that are left out are named below them. What was
    checked are verifications, or problems that there are none, or a difference.
    """
    results = [each for each in checked if not isinstance(each, PecliError)]
    sides = ("expected", "found") if all(isinstance(each, Verification) for each in results) else ("A", "B")
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
    scales = {relative: _colours([each for each in maps if each.is_relative == relative]) for relative in (True, False)}
    panels = [panel for each in maps for panel in table_panels(each, sides, scales[each.is_relative])]
    nothing = "" if maps else "No element to draw, as all are equal, or none can be compared"
    words = [nothing, f"Left out: {listed(others, 2 * MAX_LISTED)}" if others else ""]
    title = "; ".join(_summary(result, sides) for result in sorted(results, key=bool)[:MAX_LISTED])
    return Picture(title, panels, 3, ". ".join(filter(None, words)))


def _summary(result: Any, sides: tuple[str, str]) -> str:
    """The verdict, the first reason, and the worst element of all."""
    verdict = "passed" if result.passed else "FAILED"
    if isinstance(result, Verification):
        names = f"{result.file}: {verdict}" if result.file else verdict
    else:
        names = f"A: {result.a}, B: {result.b}" if result.a or result.b else ""
    worst = max(result.tensors, key=lambda tensor: tensor.max_abs_error or 0.0, default=None)
    where = f"{worst.name}: {worst_element(worst, sides)}" if worst and worst.worst_index is not None else ""
    return ". ".join(map(printable, filter(None, [names, *reasons(result)[:1], where])))


def _colours(maps: Sequence[ErrorMap]) -> tuple[float, float]:
    """The ends of the colours of all differences; what is infinite cannot be drawn to scale."""
    every = np.concatenate([np.empty(0), *(np.append(each.errors, each.tolerance) for each in maps)])
    known = every[np.isfinite(every) & (every > 0)]
    low, high = (float(known.min()), max(float(known.max()), MIN_ERROR)) if known.size else (0.1, 1.0)
    return min(max(low, high * MIN_SHARE), high / 10), high


def table_panels(errors: ErrorMap, sides: tuple[str, str], scale: tuple[float, float]) -> list[Panel]:
    """What was expected, what was found, and the difference."""
    what = "vectors" if not errors.rows else "heads" if errors.rows == "query" else "matrices"
    name, worst = printable(errors.name), f", the worst of {errors.layers:,} {what}" if errors.layers > 1 else ""
    every = np.stack([errors.expected, errors.found])
    if not errors.rows:
        points = np.linspace(0, errors.shape[1] - 1, errors.expected.shape[1])
        curves = [Curve(side, points, values[0]) for side, values in zip(sides, every, strict=True)]
        positive = all(bool(np.all(curve.y > 0)) for curve in curves)
        return [
            Chart(f"{name}{worst}", curves, errors.columns, log_y=positive, share=0.7),
            difference_panel("difference", errors, sides, scale),
        ]
    known = every[np.isfinite(every)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    reach = float(f"{max(-low, high):.3g}")
    ends = (-reach, reach) if low < 0 < high else (low, high)
    pair = [
        HeatmapPanel(f"{name}, {side}", values, errors.rows, errors.columns, 0, errors.shape, ends, reduce="worst")
        for side, values in zip(sides, every, strict=True)
    ]
    return [*pair, difference_panel(f"difference{worst}", errors, sides, scale)]


def difference_panel(title: str, errors: ErrorMap, sides: tuple[str, str], scale: tuple[float, float]) -> Panel:
    """Errors on a logarithmic scale, none blank, with the tolerance that was applied."""
    one, other = sides
    meaning = f"|{one} − {other}|{f' / |{one}|' if errors.is_relative else ''}"
    cells = np.where(np.isfinite(errors.errors), errors.errors, np.nan)
    tolerance, allowed = errors.tolerance, errors.allowed
    words = [f"{typeset(allowed.atol)} + {typeset(allowed.rtol)}·|{one}|"] if allowed.atol and allowed.rtol else []
    words += [f"{allowed.max_ulp:,} ulp"] if allowed.max_ulp else []
    mixed = f", tolerance: {' or '.join(words)}" if words else ""
    if not errors.rows:
        y = np.where(cells[0] > 0, cells[0], np.nan)
        points = np.linspace(0, errors.shape[1] - 1, len(y))
        levels = [(f"tolerance {typeset(tolerance)}", tolerance)] if tolerance else []
        return Chart(title, [Curve("", points, y)], errors.columns, meaning + mixed, log_y=True, levels=levels)
    panel = HeatmapPanel(title, cells, errors.rows, errors.columns, 0, errors.shape, scale, log=True, reduce="max")
    marked = ("tolerance", tolerance) if tolerance else None
    return replace(panel, meaning=f"{meaning}, none: blank{mixed}", marked=marked)


def error_picture(result: Comparison, rows: int, columns: int) -> Picture | None:
    """The differences of a tensor alone, for a terminal; None where there are none."""
    for errors in error_maps(result, rows, columns):
        panel = difference_panel("", errors, ("A", "B"), _colours([errors]))
        pooled = f", maximum of {errors.shape[0] / rows:.0f} rows" if errors.shape[0] >= 1.5 * rows else ""
        return Picture(f"|A − B| of {errors.name}{pooled}", [panel])
    return None


def show(tensors: Sequence[Comparison]) -> None:
    """The differences of the worst tensor, in the terminal."""
    from pecli.views.pictures import terminal_render

    room = terminal()._replace(lines=TERMINAL_LINES)
    rows = (TERMINAL_LINES - 5) * (2 if room.colours else 1)
    worst = max(tensors, key=lambda tensor: tensor.max_abs_error or 0.0, default=None)
    picture = error_picture(worst, rows, room.columns) if worst else None
    if picture is not None:
        print("\n".join(["", *terminal_render.lines(picture, room)]))


def save(path: str, checked: Sequence[Any], about: Mapping[str, Any]) -> None:
    """What was expected, what was found, and the difference, in a file."""
    from pecli.views.pictures import figure, figure_files

    figure_files.save(figure.render(comparison_picture(checked)), path, about=about)
