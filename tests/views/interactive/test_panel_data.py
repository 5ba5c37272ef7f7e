"""Panels as plotly takes them: traces and layouts of small heatmaps and charts.

Names are those of plotly's own schema; expected numbers follow from the panels.
"""

from base64 import b64decode
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from pecli.views.interactive.panel_data import plotly_panel
from pecli.views.pictures.panels import Band, Chart, Curve, HeatmapPanel, Level, Spread

VALUES = np.array([[1.0, -1.0, 0.5], [np.inf, np.nan, -np.inf]])
HEATMAP = HeatmapPanel("cos", VALUES, table_shape=(8, 6), first_row=5, meaning="value")
"""2 × 3 values of a table of 8 rows, from row 5 on, and 6 columns; only its first row is finite."""


def unpacked(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    assert packed["dtype"] == "f4"
    rows, columns = map(int, packed["shape"].split(","))
    return np.frombuffer(b64decode(packed["bdata"]), "<f4").reshape(rows, columns)


def test_cells_of_a_heatmap_that_are_not_finite_are_gaps() -> None:
    """HEATMAP has a row 1, −1, 0.5 and a row ∞, NaN, −∞, which plotly gets as NaN and leaves blank.
    Its colours end at −1 and 1.
    """
    panel = plotly_panel(HEATMAP, dark=False)
    (trace,) = panel["data"]

    assert panel["title"] == "cos: value"
    assert np.array_equal(unpacked(trace["z"]), [[1, -1, 0.5], [np.nan] * 3], equal_nan=True)
    assert trace["zmin"] == -1
    assert trace["zmax"] == 1


def test_the_axes_of_a_heatmap_count_the_rows_of_its_table() -> None:
    """HEATMAP has two rows that stand for 8 rows of a table, from row 5 on, and three columns that
    stand for 6: dx = 6 / 3 and dy = 8 / 2. Rows are counted downwards.
    """
    panel = plotly_panel(HEATMAP, dark=False)
    (trace,) = panel["data"]

    assert trace["x0"] == 0
    assert trace["dx"] == 2
    assert trace["y0"] == 5
    assert trace["dy"] == 4
    assert panel["layout"]["xaxis"]["title"]["text"] == "channel (one in 2)"
    assert panel["layout"]["yaxis"]["title"]["text"] == "position (means of 4)"
    assert panel["layout"]["yaxis"]["autorange"] == "reversed"
    assert "position %{y}<br>channel %{x}<br>%{z:.7g}" in trace["hovertemplate"]


def test_colours_are_centred_if_the_scale_is() -> None:
    """HEATMAP has values from −1 to 1, and so a palette with a pale middle, more than 200 of 255 in
    red, green and blue. Without negative values it has another palette.
    """
    (centred,) = plotly_panel(HEATMAP, dark=False)["data"]
    above_zero = replace(HEATMAP, values=np.abs(VALUES))
    (one_sided,) = plotly_panel(above_zero, dark=False)["data"]

    scale = centred["colorscale"]
    assert scale[0][0] == 0
    assert scale[-1][0] == 1
    assert scale != one_sided["colorscale"]
    middle = scale[len(scale) // 2][1].removeprefix("rgb(").removesuffix(")")
    assert min(map(int, middle.split(","))) > 200


def test_cells_of_a_page_are_squares_only_if_both_axes_are_alike() -> None:
    """Two keys by two keys are squares: plotly's `scaleanchor` gives both axes one scale. HEATMAP
    is of positions by channels.
    """
    square = replace(HEATMAP, table_shape=None, values=np.eye(2), rows="key", columns="key")
    layout = plotly_panel(square, dark=False)["layout"]

    assert layout["yaxis"]["scaleanchor"] == "x"
    assert layout["xaxis"]["constrain"] == "domain"
    assert "scaleanchor" not in plotly_panel(HEATMAP, dark=False)["layout"]["yaxis"]


def test_a_logarithmic_scale_has_logarithms_as_colours_and_values_under_the_mouse() -> None:
    """The first row is 100 and 0.1, whose logarithms are 2 and −1. Zero and infinity in the second
    row have no logarithm, and so no colour. plotly shows `customdata` under the mouse.
    """
    values = np.array([[100.0, 0.1], [0.0, np.inf]])
    (trace,) = plotly_panel(HeatmapPanel("x", values, log=True), dark=False)["data"]

    assert np.allclose(unpacked(trace["z"])[0], [2, -1])
    assert np.isnan(unpacked(trace["z"])[1]).all()
    assert np.allclose(unpacked(trace["customdata"])[:, 0], [100, 0])
    assert trace["zmin"] == pytest.approx(-1)
    assert trace["zmax"] == pytest.approx(2)
    assert trace["colorbar"]["tickprefix"] == "10^"
    assert "%{customdata:.7g}" in trace["hovertemplate"]


X = np.array([0.0, 1.0, 2.0])
CURVE = Curve("a", X, np.array([1.0, np.inf, 3.0]))
CHART = Chart("angles", (CURVE,), x="pair", y="angle")
"""The curve «a» of three points (0, 1), (1, ∞) and (2, 3)."""


def test_a_curve_of_a_page_is_a_solid_line_with_gaps_at_infinite_values() -> None:
    """CHART has a curve of the points (0, 1), (1, ∞) and (2, 3); plotly leaves a gap at None."""
    (trace,) = plotly_panel(CHART, dark=False)["data"]

    assert trace["mode"] == "lines"
    assert trace["x"] == [0, 1, 2]
    assert trace["y"] == [1, None, 3]
    assert trace["line"]["dash"] == "solid"


def test_points_of_a_page_that_are_not_joined_are_markers() -> None:
    """plotly's mode «markers» draws a sign at each point, and no line between them."""
    (trace,) = plotly_panel(replace(CHART, joined=False), dark=False)["data"]
    assert trace["mode"] == "markers"


def test_a_chart_of_a_page_names_its_title_and_axes() -> None:
    """CHART is called «angles» and has the axes «pair» and «angle». Under the mouse, plotly shows
    both numbers of a point, and the name of the curve, «a».
    """
    panel = plotly_panel(CHART, dark=False)
    (trace,) = panel["data"]

    assert panel["title"] == "angles"
    assert panel["layout"]["xaxis"] == {"title": {"text": "pair"}, "type": "linear"}
    assert panel["layout"]["yaxis"] == {"title": {"text": "angle"}, "type": "linear"}
    assert "pair %{x}<br>angle %{y:.7g}<extra>a</extra>" in trace["hovertemplate"]


def test_a_single_curve_of_a_page_needs_no_legend() -> None:
    """CHART has one curve. A legend distinguishes several."""
    assert plotly_panel(CHART, dark=False)["layout"]["showlegend"] is False


def test_several_curves_of_a_page_have_a_legend_and_colours_of_their_own() -> None:
    """CURVE is drawn twice, and once as a reference, which is dotted."""
    reference = CURVE._replace(label="b", reference=True)
    panel = plotly_panel(replace(CHART, curves=(CURVE, CURVE, reference)), dark=False)
    first, second, third = (trace["line"] for trace in panel["data"])

    assert panel["layout"]["showlegend"] is True
    assert len({first["color"], second["color"], third["color"]}) == 3
    assert third["dash"] == "dot"


@pytest.mark.parametrize("dark", [False, True])
def test_the_line_of_a_reference_on_a_page_is_grey(dark: bool) -> None:
    """Red, green and blue of a grey are equal; other curves have hues."""
    curves = (CURVE, CURVE._replace(reference=True))
    panel = plotly_panel(replace(CHART, curves=curves), dark=dark)
    coloured, reference = (to_rgb(trace["line"]["color"]) for trace in panel["data"])

    assert len({*reference}) == 1
    assert len({*coloured}) > 1


def test_ordered_curves_of_a_page_have_colours_that_are_steps() -> None:
    """Three curves that are steps of one quantity have a palette of their own, unlike three
    others.
    """
    curves = (CURVE,) * 3
    in_order = plotly_panel(replace(CHART, curves=curves, ordered=True), dark=False)["data"]
    apart = plotly_panel(replace(CHART, curves=curves), dark=False)["data"]

    assert [trace["line"]["color"] for trace in in_order] != [
        trace["line"]["color"] for trace in apart
    ]


def test_the_spread_of_a_curve_is_filled_between_two_lines() -> None:
    """A curve over x = 0, 1, 2 has a spread from x − 1 to x + 1. Plotly's «tonexty» fills the area
    between the upper line and the line before it, the lower one. The fill has the colour of the
    curve, #rrggbb, followed by two digits for its opacity.
    """
    curve = CURVE._replace(spread=Spread(X - 1, X + 1))
    low, high, line = plotly_panel(replace(CHART, curves=(curve,)), dark=False)["data"]

    assert low["y"] == [-1, 0, 1]
    assert "fill" not in low
    assert high["y"] == [1, 2, 3]
    assert high["fill"] == "tonexty"
    assert high["fillcolor"].startswith(line["line"]["color"])


def test_marks_of_a_curve_are_dots_without_an_entry_in_the_legend() -> None:
    """A curve has marks at (1, 7) and (2, 8). They are a trace of plotly after that of the curve."""
    curve = CURVE._replace(marks=((1.0, 7.0), (2.0, 8.0)))
    _, marks = plotly_panel(replace(CHART, curves=(curve,)), dark=False)["data"]

    assert marks["mode"] == "markers"
    assert marks["x"] == [1, 2]
    assert marks["y"] == [7, 8]
    assert marks["showlegend"] is False


def test_angles_around_a_circle_are_degrees() -> None:
    """The curve has the angles 0 and π/2 at radius 1; plotly takes degrees."""
    polar = Chart("turns", (Curve("a", np.array([0.0, np.pi / 2]), np.ones(2)),), polar=True)
    (trace,) = plotly_panel(polar, dark=False)["data"]

    assert trace["type"] == "scatterpolar"
    assert trace["theta"] == [0, 90]
    assert trace["r"] == [1, 1]


@pytest.mark.parametrize(
    ("log", "ends"), [(False, [1, 100]), (True, [0, 2])], ids=["linear", "logarithmic"]
)
def test_limits_of_an_axis_are_its_ends_on_a_page(log: bool, ends: list[float]) -> None:
    """The vertical axis goes from 1 to 100. plotly takes the ends of a logarithmic axis as powers
    of ten: 10^0 and 10^2.
    """
    chart = replace(CHART, log_y=log, y_limits=(1.0, 100.0))
    assert plotly_panel(chart, dark=False)["layout"]["yaxis"]["range"] == pytest.approx(ends)


def test_an_axis_without_limits_has_no_ends_on_a_page() -> None:
    """plotly chooses the ends of an axis by the data, unless a range is given."""
    assert "range" not in plotly_panel(CHART, dark=False)["layout"]["yaxis"]


@pytest.mark.parametrize(
    ("log", "place_of_name"), [(False, 10), (True, 1)], ids=["linear", "logarithmic"]
)
def test_a_level_is_a_line_across_a_page_with_its_name(log: bool, place_of_name: float) -> None:
    """A level «ten» lies at 10, from the left edge (0) to the right one (1). On a logarithmic axis,
    plotly takes lines by their value, but annotations, such as the name, by their power of ten.
    """
    chart = replace(CHART, log_y=log, levels=(Level("ten", 10.0),))
    layout = plotly_panel(chart, dark=False)["layout"]
    (line,) = layout["shapes"]
    (name,) = layout["annotations"]

    assert line["y0"] == 10
    assert line["y1"] == 10
    assert line["x0"] == 0
    assert line["x1"] == 1
    assert name["text"] == "ten"
    assert name["y"] == pytest.approx(place_of_name)


TWO_BANDS = replace(CHART, bands=(Band("kept", start=0, stop=2), Band("", start=3, stop=5)))
"""A chart whose pairs 0 to 2 are a band «kept», and pairs 3 to 5 one without a name."""


def test_bands_of_a_page_reach_half_a_pair_beyond_their_ends() -> None:
    """The band of pairs 0 to 2 goes from −0.5 to 2.5, where that of pairs 3 to 5 begins."""
    first, second = plotly_panel(TWO_BANDS, dark=False)["layout"]["shapes"]

    assert first["x0"] == -0.5
    assert first["x1"] == 2.5
    assert second["x0"] == 2.5


def test_the_name_of_a_band_stands_in_its_middle() -> None:
    """The middle of the pairs 0 to 2 is 1. A band without a name has no annotation."""
    (name,) = plotly_panel(TWO_BANDS, dark=False)["layout"]["annotations"]
    assert name["text"] == "kept"
    assert name["x"] == 1


def test_bands_of_a_page_that_touch_have_different_opacities() -> None:
    """They have one colour, so that the border between them would not be seen otherwise."""
    first, second = plotly_panel(TWO_BANDS, dark=False)["layout"]["shapes"]
    assert first["opacity"] != second["opacity"]


def test_bands_of_a_dark_page_have_another_colour() -> None:
    """Colours are #rrggbb; the one for light pages would not be seen on a dark one."""
    colours = [
        plotly_panel(TWO_BANDS, dark=dark)["layout"]["shapes"][0]["fillcolor"]
        for dark in (False, True)
    ]
    assert all(colour.startswith("#") for colour in colours)
    assert colours[0] != colours[1]


def test_colours_run_from_the_first_to_the_last_of_the_palette() -> None:
    """plotly needs the shares 0 and 1."""
    layout = plotly_panel(HEATMAP, dark=False)
    (trace,) = layout["data"]
    shares = [share for share, _ in trace["colorscale"]]

    assert shares[0] == 0
    assert shares[-1] == 1
