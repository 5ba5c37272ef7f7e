"""The outcome of a check as a picture: expected and found values of each table, and their difference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pecli.checks.diff import Difference
from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.engine.arrays import Floats
from pecli.engine.grouping import grouped
from pecli.errors import PecliError, listed
from pecli.views.check_results import VERDICTS, reasons, status_of
from pecli.views.pictures import figure, figure_files, terminal_render
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.downsample import Reduction
from pecli.views.pictures.error_map import ErrorMap, error_maps
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
from pecli.views.tensor_lines import COMPARED, MAX_LISTED, VERIFIED, SideNames, worst_element

MAX_MAPS = 4  #: Maps after which a picture shows no further tensor.
ACROSS = 3  #: Panels per table: expected, found, difference.
CHART_SHARE = 0.7  #: The height of a vector's charts, as a share of a table's.
TERMINAL_LINES = 16  #: Lines of a terminal for the errors of a tensor.
FRAME_LINES = 5  #: Lines of these for the title, the axes and the colour bar.
MIN_ERROR = 1e-280  #: The smallest error that has a colour.
MIN_SHARE = 1e-16  #: The smallest error that has a colour, as a share of the largest.


def comparison_picture(checked: "Sequence[Verification | Difference | PecliError]") -> Picture:
    """Return a picture of wrong tables, each as a row: expected values, found values, difference.

    The tables that are farthest off come first. The caption names tensors that are left out, and
    files that could not be checked.

    Args:
        checked: Verifications, or a difference; or the errors that kept files from being checked.
    """
    errors = [outcome for outcome in checked if isinstance(outcome, PecliError)]
    results = [outcome for outcome in checked if not isinstance(outcome, PecliError)]
    are_verifications = all(isinstance(result, Verification) for result in results)
    sides = VERIFIED if are_verifications else COMPARED
    drawn = _drawn_tensors(results)
    left_out = [printable(str(error)) for error in errors] + drawn.left_out
    return Picture(
        _title(results, sides),
        _panels(drawn.maps, sides),
        across=ACROSS,
        subtitle=_caption(drawn.maps, left_out),
    )


class _DrawnTensors(NamedTuple):
    """The maps of the tensors that a picture shows, and the names of those that it does not."""

    maps: list[ErrorMap]
    left_out: list[str]


def _drawn_tensors(results: "Sequence[Verification | Difference]") -> _DrawnTensors:
    """Return the maps of the worst tensors, as many as a picture has room for.

    The last tensor for which there is room has all its maps, even if they exceed MAX_MAPS. A tensor
    without errors has no map, and is left out like those for which there is no room.
    """
    maps: list[ErrorMap] = []
    left_out = []
    for tensor in _worst_first(results):
        has_room = len(maps) < MAX_MAPS
        tensor_maps = _named_maps(tensor) if has_room else []
        if tensor_maps:
            maps += tensor_maps
        else:
            left_out.append(_left_out(tensor))
    return _DrawnTensors(maps, left_out)


def _title(results: "Sequence[Verification | Difference]", sides: SideNames) -> str:
    """Return a summary of a few results, those that failed first."""
    failures_first = sorted(results, key=bool)
    return "; ".join(_summary(result, sides) for result in failures_first[:MAX_LISTED])


def _caption(maps: Sequence[ErrorMap], left_out: Sequence[str]) -> str:
    """Return the text below the panels: what is not drawn, and why."""
    sentences = []
    if any(not errors.is_vector for errors in maps):
        sentences.append("Ring: the largest error of a table")
    if not maps:
        sentences.append("No element to draw, as all are equal, or none can be compared")
    if left_out:
        sentences.append(f"Left out: {listed(left_out, 2 * MAX_LISTED)}")
    return ". ".join(sentences)


class _DrawnTensor(NamedTuple):
    """A compared tensor."""

    comparison: Comparison
    prefix: str  #: The name of its file in front of its own, if there are several files.


def _named_maps(tensor: _DrawnTensor) -> list[ErrorMap]:
    """Return the maps of a tensor, with its file in their names."""
    maps = error_maps(tensor.comparison)
    return [replace(errors, name=tensor.prefix + errors.name) for errors in maps]


def _worst_first(results: "Sequence[Verification | Difference]") -> list[_DrawnTensor]:
    """Return the tensors of all results: those that failed, then by their largest error."""
    tensors = []
    for result in results:
        prefix = _file_prefix(result) if len(results) > 1 else ""
        tensors += [_DrawnTensor(comparison, prefix) for comparison in result.tensors]
    return sorted(tensors, key=_rank)


def _file_prefix(result: "Verification | Difference") -> str:
    """Return the name of a file, to be put in front of its tensors' names."""
    assert isinstance(result, Verification), "only verifications are of several files"
    return f"{printable(result.file)} "


def _rank(tensor: _DrawnTensor) -> tuple[bool, float]:
    """Return a key to sort by: False comes before True, and a large error before a small one."""
    return tensor.comparison.passed, -tensor.comparison.largest_error


def _left_out(tensor: _DrawnTensor) -> str:
    """Return the name of a tensor that is not drawn, and why."""
    comparison = tensor.comparison
    reason = comparison.problem
    if not reason and comparison.passed:
        reason = "no error" if comparison.worst_index is None else "within tolerance"
    name = f"{tensor.prefix}{printable(comparison.name)}"
    return f"{name} ({reason})" if reason else name


def _summary(result: "Verification | Difference", sides: SideNames) -> str:
    """Return the verdict, the first reason and the worst element of a result."""
    sentences = [_verdict(result), *reasons(result)[:1]]
    worst = max(result.tensors, key=lambda tensor: tensor.largest_error, default=None)
    if worst is not None and worst.worst_index is not None:
        sentences.append(f"{worst.name}: {worst_element(worst, sides)}")
    return ". ".join(map(printable, filter(None, sentences)))


def _verdict(result: "Verification | Difference") -> str:
    """Return «rope.npz: FAILED», or the names of both sides: «A: rope.npz, B: plain.npz»."""
    if isinstance(result, Verification):
        verdict = VERDICTS[status_of(result)].text
        if result.file:
            return f"{result.file}: {verdict}"
        return verdict
    sides = []
    if result.a:
        sides.append(f"A: {result.a}")
    if result.b:
        sides.append(f"B: {result.b}")
    return ", ".join(sides)


class ColourScale(NamedTuple):
    """The ends of the logarithmic colours of differences."""

    low: float
    high: float


def _panels(maps: Sequence[ErrorMap], sides: SideNames) -> list[Panel]:
    """Return the panels of all tables; absolute and relative errors have a scale each."""
    groups = grouped(maps, lambda errors: errors.is_relative)
    scales = {is_relative: _colour_scale(group) for is_relative, group in groups.items()}
    panels: list[Panel] = []
    for errors in maps:
        panels += table_panels(errors, sides, scales[errors.is_relative])
    return panels


def _colour_scale(maps: Sequence[ErrorMap]) -> ColourScale:
    """Return the scale of all differences, from the smallest to the largest, at least a decade.

    The tolerance is on the scale, too. Infinite differences cannot be drawn to scale.
    """
    values = [np.append(errors.errors, errors.tolerance) for errors in maps]
    numbers = np.concatenate([np.empty(0), *values])
    positive = numbers[np.isfinite(numbers) & (numbers > 0)]
    if not positive.size:
        return ColourScale(0.1, 1.0)
    high = max(float(positive.max()), MIN_ERROR)
    low = max(float(positive.min()), high * MIN_SHARE)
    return ColourScale(min(low, high / 10), high)


def table_panels(errors: ErrorMap, sides: SideNames, scale: ColourScale) -> list[Panel]:
    """Return the panels of a table: the expected values, the found ones, and their difference.

    A vector, such as frequencies, has two charts instead: both sides as curves, and their difference.

    Args:
        errors: The values of both sides, and their differences.
        sides: The names of both sides.
        scale: The colours of differences.
    """
    name = printable(errors.name)
    note = _note_on_worst_matrix(errors)  # «, the worst of 32 heads»
    if errors.is_vector:
        chart = _sides_chart(f"{name}{note}", errors, sides)
        return [chart, difference_panel("difference", errors, sides, scale)]
    # If cells stand for several elements each, they show those with the largest errors.
    worst = Reduction.WORST
    expected = _error_heatmap(f"{name}, {sides.expected}", errors.expected, errors, worst)
    found = _error_heatmap(f"{name}, {sides.found}", errors.found, errors, worst)
    difference = difference_panel(f"difference{note}", errors, sides, scale)
    # A colour means the same value in both.
    return [*on_one_scale([expected, found]), difference]


def _note_on_worst_matrix(errors: ErrorMap) -> str:
    """Return «, the worst of 32 heads» if a cell is the worst element of several matrices."""
    if errors.layers <= 1:
        return ""
    noun = "matrices"
    if errors.is_vector:
        noun = "vectors"
    elif errors.rows == "query":
        noun = "heads"
    return f", the worst of {errors.layers:,} {noun}"


def _points(errors: ErrorMap) -> Floats:
    """Return the indices of the elements of a vector that are drawn."""
    return np.linspace(0, errors.shape[1] - 1, errors.errors.shape[1])


def _sides_chart(title: str, errors: ErrorMap, sides: SideNames) -> Chart:
    """Return both sides of a vector as curves.

    Frequencies and slopes fall over several decades, so that the axis of positive numbers is
    logarithmic.
    """
    (expected,) = errors.expected
    (found,) = errors.found
    points = _points(errors)
    curves = [Curve(sides.expected, points, expected), Curve(sides.found, points, found)]
    is_positive = bool(np.all(expected > 0) and np.all(found > 0))
    return Chart(title, curves, errors.columns, log_y=is_positive, share=CHART_SHARE)


def _error_heatmap(
    title: str, values: Floats, errors: ErrorMap, reduction: Reduction
) -> HeatmapPanel:
    """Return values of a map of errors as a panel, with a ring around the worst element."""
    return HeatmapPanel(
        title=title,
        values=values,
        rows=errors.rows,
        columns=errors.columns,
        table_shape=errors.shape,
        reduction=reduction,
        worst=errors.worst,
    )


def difference_panel(title: str, errors: ErrorMap, sides: SideNames, scale: ColourScale) -> Panel:
    """Return the errors of a table as a heatmap, or those of a vector as a chart.

    Both are logarithmic, and mark the tolerance. Elements without an error are left blank.
    """
    values = np.where(np.isfinite(errors.errors), errors.errors, np.nan)
    formula = f"|{sides.expected} − {sides.found}|"
    if errors.is_relative:
        formula += f" / |{sides.expected}|"
    mixed_tolerance = _mixed_tolerance(errors, sides)
    if errors.is_vector:
        return _difference_chart(title, errors, values[0], formula + mixed_tolerance)
    panel = _error_heatmap(title, values, errors, Reduction.MAX)
    return replace(
        panel,
        limits=scale,
        log=True,
        meaning=f"{formula}, none: blank{mixed_tolerance}",
        marked=Level("tolerance", errors.tolerance) if errors.tolerance else None,
    )


def _difference_chart(title: str, errors: ErrorMap, values: Floats, meaning: str) -> Chart:
    """Return the errors of a vector as a curve, with the tolerance as a level."""
    positive = np.where(values > 0, values, np.nan)
    levels = []
    if errors.tolerance:
        levels.append(Level(f"tolerance {typeset(errors.tolerance)}", errors.tolerance))
    curve = Curve("", _points(errors), positive)
    return Chart(title, [curve], errors.columns, meaning, log_y=True, levels=levels)


def _mixed_tolerance(errors: ErrorMap, sides: SideNames) -> str:
    """Return a tolerance that is not one number for all elements, in words.

    For example «, tolerance: 1e-6 + 1e-3·|expected| or 2 ulp».
    """
    allowed = errors.allowed
    words = []
    if allowed.atol and allowed.rtol:
        words.append(f"{typeset(allowed.atol)} + {typeset(allowed.rtol)}·|{sides.expected}|")
    if allowed.max_ulp:
        words.append(f"{allowed.max_ulp:,} ulp")
    if words:
        return f", tolerance: {' or '.join(words)}"
    return ""


def error_picture(result: Comparison, rows: int, columns: int) -> Picture | None:
    """Return only the differences of a tensor, for a terminal; None if there are none."""
    errors = next(error_maps(result, rows, columns), None)
    if errors is None:
        return None
    panel = difference_panel("", errors, COMPARED, _colour_scale([errors]))
    return Picture(f"|A − B| of {errors.name}", [panel])


def show(tensors: Sequence[Comparison]) -> None:
    """Print a heatmap of the differences of the worst tensor in the terminal, if there is one."""
    worst = max(tensors, key=lambda tensor: tensor.largest_error, default=None)
    if worst is None:
        return
    room = terminal()._replace(lines=TERMINAL_LINES)
    rows = TERMINAL_LINES - FRAME_LINES
    if room.colours:
        rows *= 2  # Half blocks show two rows per line.
    picture = error_picture(worst, rows, room.columns)
    if picture is not None:
        print()
        print("\n".join(terminal_render.lines(picture, room)))


def save(
    path: str,
    checked: "Sequence[Verification | Difference | PecliError]",
    about: Mapping[str, object],
) -> None:
    """Write the picture of a comparison to a file; `about` is the command that made it."""
    figure_files.save(figure.render(comparison_picture(checked)), path, about=about)
