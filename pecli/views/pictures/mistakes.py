"""The outcome of a check as a picture: expected and found values of each table, and their difference."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pecli.checks.verification import Verification
from pecli.compare.comparison import Comparison
from pecli.engine.arrays import Floats
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
from pecli.views.tensor_lines import COMPARED, MAX_LISTED, VERIFIED, Sides, worst_element

if TYPE_CHECKING:
    from pecli.checks.diff import Difference

MAX_TABLES = 4  #: Tables that a picture shows.
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
    results = []
    left_out = []
    for outcome in checked:
        if isinstance(outcome, PecliError):
            left_out.append(printable(str(outcome)))
        else:
            results.append(outcome)
    maps: list[ErrorMap] = []
    for tensor in _worst_first(results):
        tensor_maps = _named_maps(tensor) if len(maps) < MAX_TABLES else []
        maps += tensor_maps
        if not tensor_maps:
            left_out.append(_left_out(tensor))
    is_verified = all(isinstance(result, Verification) for result in results)
    sides = VERIFIED if is_verified else COMPARED
    failures_first = sorted(results, key=bool)
    title = "; ".join(_summary(result, sides) for result in failures_first[:MAX_LISTED])
    return Picture(title, _panels(maps, sides), ACROSS, _caption(maps, left_out))


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


class _Tensor(NamedTuple):
    """A compared tensor."""

    comparison: Comparison
    prefix: str  #: The name of its file in front of its own, if there are several files.


def _named_maps(tensor: _Tensor) -> list[ErrorMap]:
    """Return the maps of a tensor, with its file in their names."""
    maps = error_maps(tensor.comparison)
    return [replace(errors, name=tensor.prefix + errors.name) for errors in maps]


def _worst_first(results: "Sequence[Verification | Difference]") -> list[_Tensor]:
    """Return the tensors of all results: those that failed, then by their largest error."""
    tensors = []
    for result in results:
        prefix = ""
        if len(results) > 1:
            assert isinstance(result, Verification), "only verifications are of several files"
            prefix = f"{printable(result.file)} "
        tensors += [_Tensor(comparison, prefix) for comparison in result.tensors]

    def rank(tensor: _Tensor) -> tuple[bool, float]:
        # False sorts before True, and a large error before a small one.
        return tensor.comparison.passed, -tensor.comparison.largest_error

    return sorted(tensors, key=rank)


def _left_out(tensor: _Tensor) -> str:
    """Return the name of a tensor that is not drawn, and why."""
    comparison = tensor.comparison
    reason = comparison.problem
    if not reason and comparison.passed:
        reason = "no error" if comparison.worst_index is None else "within tolerance"
    name = f"{tensor.prefix}{printable(comparison.name)}"
    return f"{name} ({reason})" if reason else name


def _summary(result: "Verification | Difference", sides: Sides) -> str:
    """Return the verdict, the first reason and the worst element of a result."""
    sentences = [_verdict(result), *reasons(result)[:1]]
    worst = max(result.tensors, key=lambda tensor: tensor.largest_error, default=None)
    if worst is not None and worst.worst_index is not None:
        sentences.append(f"{worst.name}: {worst_element(worst, sides)}")
    return ". ".join(map(printable, filter(None, sentences)))


def _verdict(result: "Verification | Difference") -> str:
    if isinstance(result, Verification):
        verdict = VERDICTS[status_of(result)].text
        return f"{result.file}: {verdict}" if result.file else verdict
    files = {"A": result.a, "B": result.b}
    return ", ".join(f"{side}: {file}" for side, file in files.items() if file)


class ColourScale(NamedTuple):
    """The ends of the logarithmic colours of differences."""

    low: float
    high: float


def _panels(maps: Sequence[ErrorMap], sides: Sides) -> list[Panel]:
    """Return the panels of all tables; absolute and relative errors have a scale each."""
    scales = {}
    for is_relative in (True, False):
        same_kind = [errors for errors in maps if errors.is_relative == is_relative]
        scales[is_relative] = _colour_scale(same_kind)
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


def table_panels(errors: ErrorMap, sides: Sides, scale: ColourScale) -> list[Panel]:
    """Return the panels of a table: both sides and their difference, or charts of a vector."""
    name = printable(errors.name)
    worst = _worst_of(errors)
    if errors.is_vector:
        return [
            _sides_chart(f"{name}{worst}", errors, sides),
            difference_panel("difference", errors, sides, scale),
        ]
    pair = []
    for side, values in zip(sides, (errors.expected, errors.found), strict=True):
        pair.append(_error_heatmap(f"{name}, {side}", values, errors, Reduction.WORST))
    return [*on_one_scale(pair), difference_panel(f"difference{worst}", errors, sides, scale)]


def _worst_of(errors: ErrorMap) -> str:
    """Return «, the worst of 32 heads» if a cell is the worst element of several matrices."""
    if errors.layers <= 1:
        return ""
    nouns = {"": "vectors", "query": "heads"}  # by the name of the rows, which vectors lack
    return f", the worst of {errors.layers:,} {nouns.get(errors.rows, 'matrices')}"


def _points(errors: ErrorMap) -> Floats:
    """Return the indices of the elements of a vector that are drawn."""
    return np.linspace(0, errors.shape[1] - 1, errors.errors.shape[1])


def _sides_chart(title: str, errors: ErrorMap, sides: Sides) -> Chart:
    """Return both sides of a vector as curves; frequencies and slopes fall over several decades."""
    curves = []
    for side, values in zip(sides, (errors.expected, errors.found), strict=True):
        curves.append(Curve(side, _points(errors), values[0]))
    is_positive = all(bool(np.all(curve.y > 0)) for curve in curves)
    return Chart(title, curves, errors.columns, log_y=is_positive, share=CHART_SHARE)


def _error_heatmap(
    title: str, values: Floats, errors: ErrorMap, reduction: Reduction
) -> HeatmapPanel:
    """Return values of a map of errors as a panel, with a ring around the worst element."""
    return HeatmapPanel(
        title,
        values,
        errors.rows,
        errors.columns,
        table_shape=errors.shape,
        reduction=reduction,
        worst=errors.worst,
    )


def difference_panel(title: str, errors: ErrorMap, sides: Sides, scale: ColourScale) -> Panel:
    """Return the errors of a table as a heatmap, or those of a vector as a chart.

    Both are logarithmic, and mark the tolerance. Elements without an error are left blank.
    """
    values = np.where(np.isfinite(errors.errors), errors.errors, np.nan)
    meaning = f"|{sides[0]} − {sides[1]}|"
    if errors.is_relative:
        meaning += f" / |{sides[0]}|"
    mixed_tolerance = _mixed_tolerance(errors, sides)
    if errors.is_vector:
        return _difference_chart(title, errors, values[0], meaning + mixed_tolerance)
    panel = _error_heatmap(title, values, errors, Reduction.MAX)
    return replace(
        panel,
        limits=scale,
        log=True,
        meaning=f"{meaning}, none: blank{mixed_tolerance}",
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


def _mixed_tolerance(errors: ErrorMap, sides: Sides) -> str:
    """Return a tolerance that is not one number for all elements, in words."""
    allowed = errors.allowed
    words = []
    if allowed.atol and allowed.rtol:
        words.append(f"{typeset(allowed.atol)} + {typeset(allowed.rtol)}·|{sides[0]}|")
    if allowed.max_ulp:
        words.append(f"{allowed.max_ulp:,} ulp")
    return f", tolerance: {' or '.join(words)}" if words else ""


def error_picture(result: Comparison, rows: int, columns: int) -> Picture | None:
    """Return only the differences of a tensor, for a terminal; None if there are none."""
    errors = next(error_maps(result, rows, columns), None)
    if errors is None:
        return None
    panel = difference_panel("", errors, COMPARED, _colour_scale([errors]))
    return Picture(f"|A − B| of {errors.name}", [panel])


def show(tensors: Sequence[Comparison]) -> None:
    """Print the differences of the worst tensor in the terminal."""
    worst = max(tensors, key=lambda tensor: tensor.largest_error, default=None)
    if worst is None:
        return
    room = terminal()._replace(lines=TERMINAL_LINES)
    value_lines = TERMINAL_LINES - FRAME_LINES
    rows = value_lines * 2 if room.colours else value_lines  # Half blocks show two rows per line.
    picture = error_picture(worst, rows, room.columns)
    if picture is not None:
        print("\n".join(["", *terminal_render.lines(picture, room)]))


def save(
    path: str,
    checked: "Sequence[Verification | Difference | PecliError]",
    about: Mapping[str, object],
) -> None:
    """Write the picture of a comparison to a file; `about` is the command that made it."""
    figure_files.save(figure.render(comparison_picture(checked)), path, about=about)
