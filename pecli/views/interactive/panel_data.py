"""The panels of a picture as traces and layouts of plotly."""

import base64
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.named_values import JsonObject
from pecli.views.pictures import palettes
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.figure_chart import BAND_SHADES, MAX_POINTS, SPREAD_SHADE
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Panel, Spread
from pecli.views.pictures.theme import theme

_COLOUR_STEPS = 33
"""Colours of a colour scale; the browser interpolates between them."""


def plotly_panel(panel: Panel, *, dark: bool) -> JsonObject:
    """Return the title, traces and layout of a panel, as plotly's JavaScript takes them."""
    if isinstance(panel, HeatmapPanel):
        return _heatmap(panel)
    return _plotly_chart(panel, dark=dark)


def _heatmap(panel: HeatmapPanel) -> JsonObject:
    """Return the title, the trace and the layout of a heatmap."""
    trace = _heatmap_trace(panel)
    if panel.log:
        trace = {**trace, **_logarithmic_colours(panel)}
    title = ": ".join(filter(None, [panel.title, panel.meaning]))
    return {"title": title, "data": [trace], "layout": _heatmap_layout(panel)}


def _heatmap_layout(panel: HeatmapPanel) -> JsonObject:
    """Return the axes of a heatmap: row 0 is at the top, and a square matrix has square elements."""
    row_name, column_name = panel.axis_names(*panel.values.shape)
    x_axis: JsonObject = {"title": {"text": column_name}}
    y_axis: JsonObject = {"title": {"text": row_name}, "autorange": "reversed"}
    if panel.is_square:
        x_axis["constrain"] = "domain"
        y_axis |= {"scaleanchor": "x", "constrain": "domain"}
    return {"xaxis": x_axis, "yaxis": y_axis}


def _heatmap_trace(panel: HeatmapPanel) -> JsonObject:
    """Return the values of a heatmap on a linear scale of colours.

    A drawn row stands for rows / drawn_rows of the table: 4, if 400 of them are drawn in 100.
    """
    drawn_rows, drawn_columns = panel.values.shape
    rows, columns = panel.shape
    low, high = panel.ends
    palette = palettes.DIVERGING if panel.is_centred else palettes.SEQUENTIAL
    return {
        "type": "heatmap",
        "z": _packed(_finite_or_nan(panel.values)),
        "x0": 0,
        "dx": columns / drawn_columns,
        "y0": panel.first_row,
        "dy": rows / drawn_rows,
        "zmin": low,
        "zmax": high,
        "colorscale": _colour_scale(palette),
        "colorbar": {"thickness": 12},
        "hovertemplate": _hover_text(panel, "z"),
    }


def _hover_text(panel: HeatmapPanel, variable: str) -> str:
    """Return what is shown of an element under the mouse; plotly inserts the variable."""
    place = f"{panel.rows} %{{y}}<br>{panel.columns} %{{x}}"
    return f"{place}<br>%{{{variable}:.7g}}<extra></extra>"


def _logarithmic_colours(panel: HeatmapPanel) -> JsonObject:
    """Return the parts of a heatmap's trace that differ if its colours are logarithmic.

    plotly has no such scale, so that its colours are those of the logarithms; the values themselves
    are shown under the mouse.
    """
    values = _finite_or_nan(panel.values)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log10(values)
    low, high = panel.ends
    return {
        "z": _packed(_finite_or_nan(logarithms)),
        "customdata": _packed(values),
        "hovertemplate": _hover_text(panel, "customdata"),
        "zmin": float(np.log10(low)),
        "zmax": float(np.log10(high)),
        "colorbar": {"thickness": 12, "tickprefix": "10^"},
    }


def _finite_or_nan(values: Floats) -> Floats:
    """Return the values with NaN instead of infinities, for which plotly has no colour."""
    return np.where(np.isfinite(values), values, np.nan)


def _packed(values: Floats) -> JsonObject:
    """Return an array as plotly reads it from base64: a fifth of the size of its digits."""
    singles = np.ascontiguousarray(values, "<f4")
    rows, columns = singles.shape
    encoded = base64.b64encode(singles.tobytes()).decode()
    return {"dtype": "f4", "bdata": encoded, "shape": f"{rows},{columns}"}


def _colour_scale(palette: palettes.Palette) -> list[list[object]]:
    """Return a palette as pairs of a share of the scale and a colour."""
    steps = palettes.steps(palette)
    scale: list[list[object]] = []
    for number in range(_COLOUR_STEPS):
        share = number / (_COLOUR_STEPS - 1)
        red, green, blue = steps[round(share * 255)].tolist()
        scale.append([share, f"rgb({red},{green},{blue})"])
    return scale


def _plotly_chart(chart: Chart, *, dark: bool) -> JsonObject:
    """Return a chart as the arguments of plotly.js: a list of traces, and their layout.

    A curve is a trace; so are the range around it, and its marks. Levels (horizontal lines) and
    bands (shaded ranges) are shapes of the layout.
    """
    grey = theme(dark=dark).grey
    traces: list[JsonObject] = []
    for number, curve in enumerate(chart.curves):
        traces += _curve_with_details(chart, curve, _curve_colour(chart, number, dark=dark))
    y_axis = _axis(chart.y, log=chart.log_y)
    if chart.y_limits is not None:
        y_axis["range"] = _range_on_axis(chart.y_limits, log=chart.log_y)
    levels = _levels(chart, grey)
    bands = _bands(chart, grey)
    layout: JsonObject = {
        "xaxis": _axis(chart.x, log=chart.log_x),
        "yaxis": y_axis,
        "shapes": levels.shapes + bands.shapes,
        "annotations": levels.annotations + bands.annotations,
        "showlegend": len(chart.curves) > 1,
    }
    return {"title": chart.title, "data": traces, "layout": layout}


def _range_on_axis(limits: tuple[float, float], *, log: bool) -> list[float]:
    """Return the ends of an axis for plotly, which expects their logarithms on a logarithmic one."""
    if log:
        return [float(np.log10(end)) for end in limits]
    return list(limits)


def _curve_with_details(chart: Chart, curve: Curve, colour: str) -> list[JsonObject]:
    """Return the traces of a curve, from the lowest to the topmost: its range, its line, its marks."""
    traces: list[JsonObject] = []
    if curve.spread is not None:
        traces += _spread_traces(curve.x, curve.spread, colour)
    traces.append(_curve_trace(chart, curve, colour))
    if curve.marks:
        traces.append(_mark_trace(curve, colour))
    return traces


def _axis(name: str, *, log: bool) -> JsonObject:
    return {"title": {"text": name}, "type": "log" if log else "linear"}


def _curve_colour(chart: Chart, number: int, *, dark: bool) -> str:
    """Return the colour of a curve: grey for a reference, such as an unscaled curve beside others.

    Curves with an order, such as heads by their slopes, are steps of one palette; all others have
    colours that are easy to distinguish.
    """
    if chart.curves[number].reference:
        return theme(dark=dark).grey
    if chart.ordered:
        colour = palettes.step(number, len(chart.curves), dark=dark)
    else:
        colours = theme(dark=dark).curves
        colour = colours[number % len(colours)]
    return palettes.as_hex(colour)


def _curve_trace(chart: Chart, curve: Curve, colour: str) -> JsonObject:
    """Return a curve as a trace of plotly.js: points around a circle, or a line over an axis."""
    if chart.polar:
        return {
            "type": "scatterpolar",
            "mode": "markers",
            "theta": _finite(np.degrees(curve.x)),
            "r": _finite(curve.y),
            "name": curve.label,
            "marker": {"color": colour, "size": 4},
        }
    # A long curve is reduced to its lowest and highest points, so that no spike is lost.
    x, y = envelope(curve.x, curve.y, MAX_POINTS)
    return {
        "type": "scatter",
        "mode": "lines" if chart.joined else "markers",
        "x": _finite(x),
        "y": _finite(y),
        "name": curve.label,
        "line": {"color": colour, "width": 1.8, "dash": "dot" if curve.reference else "solid"},
        "hovertemplate": f"{chart.x} %{{x}}<br>{chart.y} %{{y:.7g}}<extra>{curve.label}</extra>",
    }


def _mark_trace(curve: Curve, colour: str) -> JsonObject:
    """Return the dots on a curve, such as the contexts of a model, as a trace of plotly.js."""
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [x for x, _ in curve.marks],
        "y": [y for _, y in curve.marks],
        "name": curve.label,
        "marker": {"color": colour, "size": 9},
        "showlegend": False,
        "hovertemplate": "%{y:,}<extra></extra>",
    }


def _spread_traces(x: Floats, spread: Spread, colour: str) -> list[JsonObject]:
    """Return the range around a curve as traces of plotly.js.

    They are two lines without colour, at its smallest and at its largest values; the second fills
    the area down to the first, in a pale shade of the curve's colour.
    """
    transparency = f"{round(255 * SPREAD_SHADE):02x}"  # the last two digits of #rrggbbaa
    invisible_line: JsonObject = {
        "type": "scatter",
        "mode": "lines",
        "x": _finite(x),
        "line": {"width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    low: JsonObject = {**invisible_line, "y": _finite(spread.low)}
    high: JsonObject = {
        **invisible_line,
        "y": _finite(spread.high),
        "fill": "tonexty",
        "fillcolor": colour + transparency,
    }
    return [low, high]


def _finite(values: Floats) -> list[float | None]:
    """Return numbers for JSON, which has no infinities: they are gaps."""
    numbers: list[float | None] = values.tolist()
    for place in np.flatnonzero(~np.isfinite(values)):
        numbers[place] = None
    return numbers


class _Marks(NamedTuple):
    """Lines or areas of a chart, as shapes of plotly.js, and their names, as its annotations."""

    shapes: list[JsonObject]
    annotations: list[JsonObject]


def _levels(chart: Chart, grey: str) -> _Marks:
    """Return a dashed line per level from the left to the right edge, with its name at the left end.

    The edges are those of the paper, plotly's frame.
    """
    style = {"color": grey, "dash": "dash", "width": 1}
    marks = _Marks([], [])
    for level in chart.levels:
        ends = {"x0": 0, "x1": 1, "y0": level.value, "y1": level.value}
        marks.shapes.append({"type": "line", "xref": "paper", **ends, "line": style})
        # Unlike a line, an annotation is placed on a logarithmic axis by its logarithm.
        height = float(np.log10(level.value)) if chart.log_y else level.value
        place = {"xref": "paper", "x": 0, "xanchor": "left", "y": height}
        marks.annotations.append(_name_above(place, level.label, grey))
    return marks


def _bands(chart: Chart, grey: str) -> _Marks:
    """Return a shaded area per band, from the bottom to the top, with its name above its middle.

    A band is a range of pairs, such as 3 to 10. Its area reaches half a pair beyond both: 2.5 to 10.5.
    """
    marks = _Marks([], [])
    for band, shade in zip(chart.bands, BAND_SHADES, strict=False):  # There are shades to spare.
        marks.shapes.append(
            {
                "type": "rect",
                "yref": "paper",
                "y0": 0,
                "y1": 1,
                "layer": "below",
                "x0": band.start - 0.5,
                "x1": band.stop + 0.5,
                "fillcolor": grey,
                "opacity": shade,
                "line": {"width": 0},
            }
        )
        if band.label:
            place = {"yref": "paper", "y": 1, "x": (band.start + band.stop) / 2}
            marks.annotations.append(_name_above(place, band.label, grey))
    return marks


def _name_above(place: JsonObject, name: str, grey: str) -> JsonObject:
    """Return a name above a place in a chart, as an annotation of plotly.js."""
    font = {"size": 11, "color": grey}
    return {"text": name, "showarrow": False, "yanchor": "bottom", "font": font, **place}
