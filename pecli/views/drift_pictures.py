"""Figures of audits, runtimes and extensions: errors over positions, wavelengths before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pecli.engine.arrays import Floats
from pecli.models.encoding import ModelEncodings
from pecli.views.pictures import figure, kinds
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.figure import Figure
from pecli.views.pictures.panels import Chart, Curve, Level, Picture
from pecli.views.pictures.subjects import PlotRequest, of_model, of_scheme
from pecli.views.pictures.titles import labelled, title_of

if TYPE_CHECKING:
    from pecli.checks.audit import Audit
    from pecli.checks.extension import Extension
    from pecli.checks.runtimes import RuntimeComparison, RuntimeResult

Points = tuple[Floats, Floats]
"""Positions and errors."""

MIN_LOG_TOLERANCE = 1e-150
MAX_LOG_TOLERANCE = 1e150
"""A logarithmic axis of float64 cannot be drawn much beyond these."""


TITLE_INCHES = 1.0
CHART_INCHES = 3.8
SINGLE_CHART_INCHES = 5.0
TEXT_INCHES = 2.0
"""Heights of a figure's title, of one of several charts, of a figure with one chart, and of one without."""


def audit_picture(audit: Audit) -> Figure:
    """Draw the largest error over positions, a curve per recipe."""
    return audits_picture({"": audit})


def audits_picture(audits: Mapping[str, Audit]) -> Figure:
    """Draw the largest error over positions, a curve per recipe and a panel per layer type.

    If no recipe has an error, the figure is a sentence that states it.
    """
    first = next(iter(audits.values()))
    axis = "distance" if first.numbers.kind == "slopes" else "position"
    shows = f"largest error by {axis}"
    titles = [
        title_of(labelled(of_scheme(audit.scheme)), layer_type or shows)
        for layer_type, audit in audits.items()
    ]
    if not any(map(_has_error, audits.values())):
        recipes = ", ".join(drift.recipe for drift in first.drifts)
        sentence = f"no error to draw: {recipes} equals the exact table everywhere"
        return _figure(titles[0], [], sentence)
    if len(audits) == 1:
        return _figure(titles[0], [_audit_chart("", first, axis)])
    charts = [
        _audit_chart(title, audit, axis)
        for title, audit in zip(titles, audits.values(), strict=True)
    ]
    return _figure(shows.capitalize(), charts)


def _has_error(audit: Audit) -> bool:
    return any(drift.max_abs_error for drift in audit.drifts)


def _audit_chart(title: str, audit: Audit, axis: str) -> Chart:
    """Return a curve per recipe. The legend names also those without a curve: 0 has no logarithm."""
    curves: dict[str, Points] = {}
    for drift in audit.drifts:
        name = drift.recipe
        if not drift.max_abs_error:
            name += " (no error)"
        curves[name] = audit.curve(drift)
    return _error_chart(title, curves, audit.tolerance, axis)


def runtimes_picture(comparison: RuntimeComparison) -> Figure:
    """Draw the largest error over positions, a curve per runtime and a panel per layer type."""
    charts = [
        _error_chart(layer_type, _runtime_curves(results), comparison.tolerance)
        for layer_type, results in comparison.layers.items()
    ]
    title = f"{comparison.model}: what runtimes compute, compared with its definition"
    return _figure(title, charts)


def _runtime_curves(results: Sequence[RuntimeResult]) -> dict[str, Points]:
    return {result.runtime: result.curve for result in results if result.curve is not None}


def _error_chart(
    title: str, curves: Mapping[str, Points], tolerance: float, axis: str = "position"
) -> Chart:
    """Return errors over positions on logarithmic axes, with the tolerance as a line.

    Curves with the same points are drawn once, with all their names.
    """
    levels: list[Level] = []
    if MIN_LOG_TOLERANCE < tolerance < MAX_LOG_TOLERANCE:
        levels.append(Level(f"tolerance {typeset(tolerance)}", tolerance))
    names_by_points: dict[tuple[bytes, bytes], list[str]] = {}
    for name, (positions, errors) in curves.items():
        key = (positions.tobytes(), errors.tobytes())
        names_by_points.setdefault(key, []).append(name)
    lines = [Curve(", ".join(names), *curves[names[0]]) for names in names_by_points.values()]
    return Chart(
        title, lines, axis, "largest absolute error", log_x=True, log_y=True, levels=levels
    )


def _figure(title: str, charts: Sequence[Chart], subtitle: str = "") -> Figure:
    """Render charts below each other, 8 inches wide; without any, only the title and the subtitle."""
    height = TITLE_INCHES + CHART_INCHES * len(charts)
    if not charts:
        height = TEXT_INCHES
    elif len(charts) == 1:
        height = SINGLE_CHART_INCHES
    return figure.render(Picture(title, charts, subtitle=subtitle), size=(8.0, height))


def extension_picture(extension: Extension) -> Figure:
    """Draw the wavelengths of a model before and after it is extended."""
    before = ModelEncodings(extension.model, None, (extension.before,), context=extension.longest)
    after = ModelEncodings(extension.model, None, (extension.after,), context=extension.to)
    subjects = of_model(before, extension.model) + of_model(after, extension.model)
    names = ["as it is", f"{extension.method}, factor {extension.factor:g}"]
    title = f"{extension.model}: wavelength of each rotary pair"
    picture = kinds.titled(labelled(subjects, names), PlotRequest(), "wavelengths", title)
    return figure.render(picture)
