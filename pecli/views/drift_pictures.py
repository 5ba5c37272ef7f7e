"""Figures of audits, runtimes and extensions: errors over positions, wavelengths before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pecli.checks.audit import Audit
from pecli.checks.extension import Extension
from pecli.checks.position_errors import ErrorCurve
from pecli.checks.runtimes import RuntimeComparison, RuntimeResult
from pecli.models.encoding import ModelEncodings
from pecli.views.pictures import figure, kinds
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.matplotlib_types import Figure
from pecli.views.pictures.panels import Chart, Curve, Level, Picture, Spread
from pecli.views.pictures.plot_sources import PlotRequest, of_model, of_scheme
from pecli.views.pictures.titles import labelled, sentence, title_of

ALIKE_RATIO = 3.0
"""Errors that differ by less at every position are drawn as one curve, in the range between them.

The axis spans about eight decades, of which a factor of 3 is a sixteenth. Of the fourteen recipes
of an audit, eight curves are left, each with a colour of its own.
"""

LINE_RATIO = 1.1
"""Errors that differ by less cannot be distinguished: the line is as wide as the range."""

MIN_LOG_TOLERANCE = 1e-150
MAX_LOG_TOLERANCE = 1e150
"""A logarithmic axis of float64 cannot be drawn much beyond these."""


TITLE_INCHES = 1.0
CHART_INCHES = 3.8
SINGLE_CHART_INCHES = 5.0
TEXT_INCHES = 2.0
"""Heights of a figure's title, of one of several charts, of a figure with one chart, and of one without."""


def audit_figure(audit: Audit) -> Figure:
    """Draw the largest error over positions, a curve per recipe."""
    return audits_figure({"": audit})


def audits_figure(audits: Mapping[str, Audit]) -> Figure:
    """Draw the largest error over positions, a panel per layer type."""
    return _render(audits_picture(audits))


def audits_picture(audits: Mapping[str, Audit]) -> Picture:
    """Return the largest error over positions, a curve per recipe and a panel per layer type.

    A recipe is a way of rounding, such as frequencies in float16, whose errors are compared.
    If no recipe has an error, the picture is a sentence that states it. A single panel has no title
    of its own: its title is that of the picture.
    """
    first_layer_type, first_audit = next(iter(audits.items()))
    axis = "distance" if first_audit.numbers.kind == "slopes" else "position"
    subject = f"largest error by {axis}"
    first_title = _title_of_layers(first_audit, first_layer_type or subject)
    if not any(map(_has_error, audits.values())):
        recipes = ", ".join(drift.recipe for drift in first_audit.drifts)
        return Picture(
            first_title,
            subtitle=f"No error to draw: {recipes} equals the exact table everywhere",
        )
    caption = _no_error_notes(audits)
    if len(audits) == 1:
        return _picture(first_title, [_audit_chart("", first_audit, axis)], caption)
    charts = []
    for layer_type, audit in audits.items():
        title = _title_of_layers(audit, layer_type or subject)
        charts.append(_audit_chart(title, audit, axis))
    return _picture(subject.capitalize(), charts, caption)


def _title_of_layers(audit: Audit, shows: str) -> str:
    """Return the scheme of an audit and what is drawn of it: «rope, base 10000: full_attention»."""
    source = labelled(of_scheme(audit.scheme))
    return title_of(source, shows)


def _has_error(audit: Audit) -> bool:
    return any(drift.max_abs_error for drift in audit.drifts)


def _no_error_notes(audits: Mapping[str, Audit]) -> str:
    """Return the recipes without a curve in each layer type: «full: no error: exact. swa: …»."""
    notes = [_no_error_note(layer_type, audit) for layer_type, audit in audits.items()]
    return ". ".join(filter(None, notes))


def _no_error_note(layer_type: str, audit: Audit) -> str:
    """Return the ways of rounding without an error: zero is not on a logarithmic axis."""
    recipes = [drift.recipe for drift in audit.drifts if not drift.max_abs_error]
    if not recipes:
        return ""
    note = f"no error: {', '.join(recipes)}"
    if layer_type:
        return f"{layer_type}: {note}"
    return sentence(note)


def _audit_chart(title: str, audit: Audit, axis: str) -> Chart:
    """Return the curves of all recipes that have errors."""
    curves = {drift.recipe: audit.curve(drift) for drift in audit.drifts if drift.max_abs_error}
    return _error_chart(title, curves, audit.tolerance, axis)


def runtimes_figure(comparison: RuntimeComparison) -> Figure:
    """Draw the largest error over positions, a curve per runtime and a panel per layer type."""
    charts = []
    for layer_type, results in comparison.layers.items():
        charts.append(_error_chart(layer_type, _runtime_curves(results), comparison.tolerance))
    title = f"{comparison.model}: what runtimes compute, compared with its definition"
    return _render(_picture(title, charts))


def _runtime_curves(results: Sequence[RuntimeResult]) -> dict[str, ErrorCurve]:
    return {result.runtime: result.curve for result in results if result.curve is not None}


def _error_chart(
    title: str, curves: Mapping[str, ErrorCurve], tolerance: float, axis: str = "position"
) -> Chart:
    """Return errors over positions on logarithmic axes, with the tolerance as a horizontal line.

    Args:
        title: The title of the chart.
        curves: The errors of each recipe or runtime.
        tolerance: The largest error that is allowed; one that the axis cannot show is left out.
        axis: The name of the horizontal axis.
    """
    tolerance_lines: list[Level] = []
    if MIN_LOG_TOLERANCE < tolerance < MAX_LOG_TOLERANCE:
        tolerance_lines.append(Level(f"tolerance {typeset(tolerance)}", tolerance))
    return Chart(
        title,
        merged_curves(curves),
        axis,
        "largest absolute error",
        log_x=True,
        log_y=True,
        levels=tolerance_lines,
    )


_Group = dict[str, ErrorCurve]
"""Curves that nearly coincide, by the names of their recipes or runtimes."""


def _fitting_group(curve: ErrorCurve, groups: list[_Group]) -> _Group:
    """Return the first group with all of whose curves a curve nearly coincides, or else add a new one."""
    for group in groups:
        if all(_nearly_coincide(curve, member) for member in group.values()):
            return group
    groups.append({})
    return groups[-1]


def merged_curves(curves: Mapping[str, ErrorCurve]) -> list[Curve]:
    """Return a curve per recipe or runtime, the worst first; nearly equal ones are drawn as one.

    Many recipes round alike, and their curves would hide each other. One that nearly coincides with
    all curves of a group joins it, and the group is one curve with all their names. The worst has
    the largest error on average over the logarithmic axis.
    """
    groups: list[_Group] = []
    for name in sorted(curves, key=lambda name: -_mean_log_error(curves[name])):
        group = _fitting_group(curves[name], groups)
        group[name] = curves[name]
    return [_group_curve(", ".join(group), list(group.values())) for group in groups]


def _mean_log_error(curve: ErrorCurve) -> float:
    """Return the mean logarithm of a curve's errors; −inf if it has none."""
    errors = curve.errors[np.isfinite(curve.errors)]
    if errors.size:
        return float(np.log(errors).mean())
    return -np.inf


def _nearly_coincide(first: ErrorCurve, second: ErrorCurve) -> bool:
    """Return True if errors differ by less than `ALIKE_RATIO`, and are missing at the same places."""
    if not np.array_equal(first.positions, second.positions):
        return False
    is_error = np.isfinite(first.errors)
    if not np.array_equal(is_error, np.isfinite(second.errors)):
        return False
    larger = np.maximum(first.errors, second.errors)[is_error]
    smaller = np.minimum(first.errors, second.errors)[is_error]
    return bool(np.all(larger / smaller < ALIKE_RATIO))


def _group_curve(label: str, group: Sequence[ErrorCurve]) -> Curve:
    """Return curves that nearly coincide as one: their maximum, and the range down to their minimum."""
    errors = np.stack([curve.errors for curve in group])
    low = errors.min(axis=0)
    high = errors.max(axis=0)
    is_wider_than_line = bool(np.any(high > LINE_RATIO * low))
    spread = Spread(low, high) if is_wider_than_line else None
    return Curve(label, group[0].positions, high, spread=spread)


def _picture(title: str, charts: Sequence[Chart], subtitle: str = "") -> Picture:
    """Return charts below each other, with the meaning of shaded ranges, if a curve has one."""
    shading = ""
    if any(map(_has_spread, charts)):
        shading = f"Shaded: curves within a factor of {ALIKE_RATIO:g} of each other"
    return Picture(title, charts, subtitle=". ".join(filter(None, [subtitle, shading])))


def _has_spread(chart: Chart) -> bool:
    return any(curve.spread is not None for curve in chart.curves)


def _render(picture: Picture) -> Figure:
    """Draw charts 8 inches wide; without any, only the title and the subtitle."""
    count = len(picture.panels)
    height = TITLE_INCHES + CHART_INCHES * count
    if count == 0:
        height = TEXT_INCHES
    elif count == 1:
        height = SINGLE_CHART_INCHES
    return figure.render(picture, size=(8.0, height))


def extension_figure(extension: Extension) -> Figure:
    """Draw the wavelengths of a model before and after it is extended."""
    before = ModelEncodings(extension.model, None, (extension.before,), context=extension.longest)
    after = ModelEncodings(extension.model, None, (extension.after,), context=extension.to)
    sources = of_model(before, extension.model) + of_model(after, extension.model)
    names = ["as it is", f"{extension.method}, factor {extension.factor:g}"]
    title = f"{extension.model}: wavelength of each rotary pair"
    picture = kinds.titled(labelled(sources, names), PlotRequest(), "wavelengths", title)
    return figure.render(picture)
