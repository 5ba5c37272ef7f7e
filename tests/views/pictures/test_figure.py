"""Figures by matplotlib: every kind of picture is painted, nothing leaves the paper, and the same
picture is the same bytes.

Pictures are made of arrays whose means, ends and colours are known; positions of texts and pixels
are read back from matplotlib, and colours from the saved files.
"""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from base64 import b64decode
from functools import cache
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

import pecli
from pecli.views.pictures import palettes
from pecli.views.pictures.figure import render
from pecli.views.pictures.figure_files import save, svg
from pecli.views.pictures.figure_size import GIF_DPI
from pecli.views.pictures.panels import Band, Chart, Curve, HeatmapPanel, Level, Picture, TablePoint
from pecli.views.pictures.plot_sources import PlotRequest
from pecli.views.pictures.theme import colour_map, theme
from tests.exit_codes import SUCCESS
from tests.pixels import decoded
from tests.views.pictures.drawing import BESIDE, CASES, SCHEMES, drawn_picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

POSITIONS_0_TO_49 = np.arange(50.0)


class Drawing(NamedTuple):
    """A kind of picture, such as «heatmap», of one scheme or of two."""

    kind: str
    schemes: list[pecli.Scheme]


DRAWINGS: dict[str, Drawing] = {}
"""All schemes in all kinds of pictures that they have: alone, and beside one of other parameters."""

for scheme_name, kind_of_picture in CASES:
    alone = SCHEMES[scheme_name]
    other = BESIDE[scheme_name]
    case = f"{scheme_name}-{kind_of_picture}"
    DRAWINGS[f"{case}-one scheme"] = Drawing(kind_of_picture, [alone])
    is_of_many_panels = (kind_of_picture, scheme_name) == ("heatmap", "alibi")  # One per head.
    if kind_of_picture != "circle" and not is_of_many_panels:  # These two show one scheme only.
        DRAWINGS[f"{case}-two schemes"] = Drawing(kind_of_picture, [alone, other])


@pytest.mark.parametrize("size", [None, (3.0, 2.0)], ids=["default size", "3 × 2 inches"])
@pytest.mark.parametrize("case", DRAWINGS)
@pytest.mark.sample(3)
def test_texts_of_a_figure_stay_on_the_paper_and_do_not_overlap(
    case: str, size: tuple[float, float] | None
) -> None:
    """`assert_readable` compares the boxes of all texts with the paper and with each other, and
    returns the texts. Among them are the whole title, which may be broken into lines, and a text
    that begins with the name of the scheme: that title, or the name of a curve or a panel.
    """
    kind, schemes = DRAWINGS[case]
    picture = drawn_picture(kind, *schemes, titled=True)
    shown = assert_readable(render(picture, size=size))

    assert on_one_line(picture.title) in map(on_one_line, shown)
    assert any(text.startswith(schemes[0].name) for text in shown)


def on_one_line(text: str) -> str:
    return " ".join(text.split())


def _labels_beyond_the_ends(axis: Axis) -> list[Text]:
    """Return the numbers of ticks beyond the ends of an axis, which matplotlib keeps and hides."""
    low, high = sorted(axis.get_view_interval())
    slack = 1e-9 * (high - low)
    labels = []
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        is_on_the_axis = low - slack <= tick.get_loc() <= high + slack
        if not is_on_the_axis:
            labels += [tick.label1, tick.label2]
    return labels


class TextBox(NamedTuple):
    """A text of a figure, and the pixels that it takes, from the bottom left corner on."""

    text: str
    box: Bbox

    def is_on(self, figure: Figure) -> bool:
        """Return True if it ends on the paper, to within a pixel."""
        starts_on_paper = min(self.box.x0, self.box.y0) >= -1
        ends_on_paper = self.box.x1 <= figure.bbox.x1 + 1 and self.box.y1 <= figure.bbox.y1 + 1
        return starts_on_paper and ends_on_paper

    def lies_on(self, other: TextBox) -> bool:
        """Return True if both share a pixel of width and two of height.

        A box is as high as the highest letters of the font, so that neighbouring lines may share
        a pixel in which nothing is drawn.
        """
        across = min(self.box.x1, other.box.x1) - max(self.box.x0, other.box.x0)
        down = min(self.box.y1, other.box.y1) - max(self.box.y0, other.box.y0)
        return across >= 1 and down >= 2


def text_boxes(figure: Figure) -> list[TextBox]:
    """Return the texts of a figure that are drawn, in any order."""
    from matplotlib.axes import Axes
    from matplotlib.text import Text

    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    hidden_labels: set[Text] = set()
    for axes in figure.findobj(Axes):
        for axis in (axes.xaxis, axes.yaxis):
            hidden_labels.update(_labels_beyond_the_ends(axis))
    boxes = []
    for text in set(figure.findobj(Text)) - hidden_labels:
        belongs_to_hidden_axes = text.axes is not None and not text.axes.get_visible()
        if belongs_to_hidden_axes or not text.get_visible() or not text.get_text().strip():
            continue
        box = Text.get_window_extent(text, renderer)  # Without the line to a curve.
        if box.width and box.x1 > 0 and box.x0 < figure.bbox.x1:
            boxes.append(TextBox(text.get_text(), box))
    return boxes


def assert_readable(figure: Figure) -> list[str]:
    """Fail if a text leaves the paper or lies on another, and return the texts otherwise."""
    boxes = text_boxes(figure)
    for number, box in enumerate(boxes):
        assert box.is_on(figure), f"{box.text!r} leaves the paper"
        for other in boxes[:number]:
            assert not box.lies_on(other), f"{box.text!r} lies on {other.text!r}"
    return [box.text for box in boxes]


NAMES_OF_WEIGHTS = [
    f"{part}_model.layers.embeddings.position_embedding.{part}.weight"
    for part in ("text", "vision", "audio")
]
"""Names of tensors of 59, 63 and 61 letters."""


def without_spaces(texts: list[str]) -> list[str]:
    """Return texts without spaces and line breaks, which stand anywhere in a long name."""
    return ["".join(text.split()) for text in texts]


def texts_of_titled_maps(titles: list[str]) -> list[str]:
    """Return the texts of a figure of heatmaps with these titles, in a row of three."""
    panels = []
    for title in titles:
        panels.append(HeatmapPanel(title, np.zeros((4, 4)), limits=(0.0, 1.0)))
    return without_spaces(assert_readable(render(Picture("many", panels, across=3))))


def test_titles_that_fit_in_three_lines_are_broken_into_lines_and_whole() -> None:
    """A map that is a third of a figure wide has room for three lines of a title, of 28 letters
    each: NAMES_OF_WEIGHTS have 63 letters at most.
    """
    assert set(NAMES_OF_WEIGHTS) <= set(texts_of_titled_maps(NAMES_OF_WEIGHTS))


def test_titles_that_do_not_fit_in_three_lines_lose_their_middle() -> None:
    """A title is a name of NAMES_OF_WEIGHTS twice, which is 118 letters and more, where three lines
    of 28 letters are 84. The figure has its beginning, «…», and its end, 30 letters or more of each.
    """
    titles = [name * 2 for name in NAMES_OF_WEIGHTS]
    shortened = [text for text in texts_of_titled_maps(titles) if "…" in text]
    assert len(shortened) == len(titles)
    for title in titles:
        (text,) = [text for text in shortened if text.startswith(title[:30])]
        assert text.endswith(title[-30:])


def test_a_line_break_in_a_title_is_kept() -> None:
    """`assert_readable` returns the texts of a figure."""
    panel = HeatmapPanel("x", np.zeros((4, 4)), limits=(0.0, 1.0))
    assert "two\nlines" in assert_readable(render(Picture("two\nlines", [panel])))


def test_long_names_in_a_legend_are_broken_into_lines_and_not_shortened() -> None:
    """A name in this legend is one of NAMES_OF_WEIGHTS three times, 177 letters and more, which no
    line has room for.
    """
    curves = []
    for number, name in enumerate(NAMES_OF_WEIGHTS):
        curves.append(Curve(name * 3, np.arange(9.0), np.arange(9.0) + number))
    texts = without_spaces(assert_readable(render(Picture("legend", [Chart("", curves)]))))
    for name in NAMES_OF_WEIGHTS:
        assert name * 3 in texts


@pytest.fixture
def chart_of_wavelengths() -> Figure:
    """A curve with a mark at (10, 62.8), two levels close to each other, and a band of pairs 0 to
    20.
    """
    levels = [Level("trained on 8,192", 8192.0), Level("extended to 10,240", 10240.0)]
    curve = Curve(
        "rope", POSITIONS_0_TO_49, 6.28 * 1e5 ** (POSITIONS_0_TO_49 / 50), marks=[(10.0, 62.8)]
    )
    bands = [Band("kept", 0, 20)]
    chart = Chart("", [curve], "pair", "wavelength", log_y=True, levels=levels, bands=bands)
    return render(Picture("waves", [chart]))


def test_levels_that_are_close_to_each_other_have_readable_names(
    chart_of_wavelengths: Figure,
) -> None:
    """The chart has levels at 8,192 and 10,240, close to each other on a logarithmic axis, a band
    «kept» and a curve «rope». `assert_readable` fails if names lie on each other.
    """
    names = {"trained on 8,192", "extended to 10,240", "kept", "rope"}
    assert names <= set(assert_readable(chart_of_wavelengths))


def test_levels_and_marks_are_at_their_heights(chart_of_wavelengths: Figure) -> None:
    """The lines of `chart_of_wavelengths` are a curve that begins at 6.28, its mark at (10, 62.8),
    and two levels: trained on 8,192 and extended to 10,240. A mark has the colour of its curve.
    """
    (axes,) = chart_of_wavelengths.axes
    curve, mark, *_ = axes.lines
    heights = [line.get_ydata()[0] for line in axes.lines]
    assert heights == pytest.approx([6.28, 62.8, 8192.0, 10240.0])
    assert mark.get_color() == curve.get_color()


def test_a_band_reaches_half_a_pair_beyond_its_ends(chart_of_wavelengths: Figure) -> None:
    """`chart_of_wavelengths` has a band of the pairs 0 to 20: it begins at −0.5 and is 21 pairs
    wide.
    """
    (axes,) = chart_of_wavelengths.axes
    assert axes.patches[0].get_x() == -0.5
    assert axes.patches[0].get_width() == 21.0


def test_the_second_of_equal_curves_is_dashed_so_that_both_are_seen() -> None:
    """A curve for reference, such as an unscaled law, is dotted."""
    curves = [
        Curve("first", POSITIONS_0_TO_49, POSITIONS_0_TO_49**2),
        Curve("same", POSITIONS_0_TO_49, POSITIONS_0_TO_49**2),
        Curve("law", POSITIONS_0_TO_49, 50 * POSITIONS_0_TO_49, reference=True),
    ]
    lines = render(Picture("", [Chart("", curves)])).axes[0].lines
    assert [line.get_linestyle() for line in lines] == ["-", "--", ":"]


def test_points_on_each_other_have_open_markers_so_that_both_are_seen() -> None:
    """The slopes of ALiBi are points that no line joins. 12 heads have all slopes of 8 heads, so
    that each of the two sources has a marker of its own, not filled.
    """
    figure = render(drawn_picture("slopes", pecli.Alibi(heads=12), pecli.Alibi(heads=8)))
    below, above = figure.axes[0].lines
    assert below.get_linestyle() == "None"
    assert above.get_linestyle() == "None"
    assert below.get_marker() != above.get_marker()
    assert above.get_fillstyle() == "none"


ENDS = {"low": 1.0, "high": 10.0, "next to high": 9.9, "gone": 5.0}
"""The heights at which four curves end, by their names. «gone» ends before the right edge."""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("largest error, relative to the largest of all rows", "largest error"),
        ("largest error, relative to the largest of a row", None),
    ],
    ids=["50 letters", "47 letters"],
)
def test_a_long_name_of_the_vertical_axis_loses_what_follows_its_comma(
    name: str, shown: str | None
) -> None:
    """13 letters take an inch. Of the 4.8 inches of a figure, the title and the numbers below the
    axes take one: 3.8 inches have room for 49 letters.
    """
    curve = Curve("", POSITIONS_0_TO_49, POSITIONS_0_TO_49)
    (axes,) = render(Picture("", [Chart("", [curve], y=name)]), size=(8.0, 4.8)).axes
    assert axes.get_ylabel() == (shown or name)


def axes_with_names_at_ends(*, log: bool) -> Axes:
    curves = [
        Curve(name, POSITIONS_0_TO_49, np.linspace(5.0, end, 50)) for name, end in ENDS.items()
    ]
    curves[3].y[30:] = np.nan
    figure = render(Picture("", [Chart("", curves, log_y=log)]))
    assert_readable(figure)
    (axes,) = figure.axes
    return axes


def heights_of_names(axes: Axes) -> dict[str, float]:
    """Return the middle of each name, from the bottom of the axes, 0, to the top, 1."""
    from matplotlib.text import Text

    to_axes = axes.transAxes.inverted()
    heights = {}
    for text in axes.texts:
        corners = to_axes.transform(Text.get_window_extent(text))
        heights[text.get_text()] = float(corners[:, 1].mean())
    return heights


@pytest.mark.parametrize("log", [False, True], ids=["linear", "logarithmic"])
def test_curves_are_named_where_they_end(log: bool) -> None:
    """The curves end at the heights «low» 1, «gone» 5, «next to high» 9.9 and «high» 10. Names are
    in this order from below; those with room around them, low and gone, are exactly at the ends.
    """
    axes = axes_with_names_at_ends(log=log)
    heights = heights_of_names(axes)

    assert axes.get_legend() is None
    assert sorted(heights, key=heights.__getitem__) == ["low", "gone", "next to high", "high"]
    for name in ("low", "gone"):
        end_in_pixels = axes.transData.transform((49.0, ENDS[name]))
        end = axes.transAxes.inverted().transform(end_in_pixels)[1]
        assert heights[name] == pytest.approx(end, abs=0.03)


class NameAndCurve(NamedTuple):
    """The colours of a curve and of the name at its end: red, green and blue, from 0 to 1."""

    name_colour: np.ndarray
    curve_colour: np.ndarray


def colours_of_names_and_curves() -> dict[str, NameAndCurve]:
    """Return the colours of the four curves of ENDS and of their names, by the names.

    The curves are drawn in the order of ENDS, and the names are texts of the axes.
    """
    axes = axes_with_names_at_ends(log=False)
    curve_colours = {}
    for name, line in zip(ENDS, axes.lines, strict=True):
        curve_colours[name] = np.array(to_rgb(line.get_color()))
    colours = {}
    for text in axes.texts:
        name = text.get_text()
        colours[name] = NameAndCurve(np.array(to_rgb(text.get_color())), curve_colours[name])
    return colours


def test_each_name_at_an_end_has_the_colour_of_its_curve_or_a_darker_shade() -> None:
    """A darker shade is the red, green and blue of the curve times one number below 1, rounded to
    8 bits: dark orange for an orange curve, so that the letters can be read on white.
    """
    colours = colours_of_names_and_curves()
    assert set(colours) == {"low", "high", "next to high", "gone"}

    for name_colour, curve_colour in colours.values():
        brightness = name_colour.max() / curve_colour.max()
        assert brightness <= 1
        np.testing.assert_allclose(name_colour, brightness * curve_colour, atol=1 / 255)


def test_names_at_ends_have_different_colours_in_enough_contrast_to_white() -> None:
    """Four curves have four colours, and so have their names. 4.5 is the contrast of text on its
    background, here white, that WCAG 2 requires (level AA).
    """
    axes = axes_with_names_at_ends(log=False)
    colours = [str(text.get_color()) for text in axes.texts]
    assert len(set(colours)) == len(ENDS)
    for colour in colours:
        assert palettes.contrast(palettes.from_hex(colour), (255, 255, 255)) >= 4.5


TALL_NAMES = [
    f"{k} of those names of curves that take several lines of letters where they end, and more "
    "lines than there is room for, so that they are listed above the curves instead"
    for k in range(7)
]


def test_the_title_of_a_chart_stands_above_its_legend() -> None:
    """A legend lies above the curves, where the title of a chart would be."""
    curves = [Curve(f"{k}", POSITIONS_0_TO_49, POSITIONS_0_TO_49 * k) for k in range(11)]
    (axes,) = render(Picture("", [Chart("angles", curves)]), size=(8.0, 3.0)).axes

    assert axes.get_legend().get_title().get_text() == "angles"
    assert axes.get_title(loc="left") == ""


def texts_of_legend(names: list[str]) -> list[str]:
    """Return the texts of the legend of curves with these names, in a figure of 8 × 3 inches.

    matplotlib lists them column by column, from the left.
    """
    curves = [Curve(name, POSITIONS_0_TO_49, POSITIONS_0_TO_49 * k) for k, name in enumerate(names)]
    (axes,) = render(Picture("", [Chart("", curves)]), size=(8.0, 3.0)).axes
    return [on_one_line(text.get_text()) for text in axes.get_legend().get_texts()]


@pytest.mark.parametrize(
    "names", [["a" * 40, "b"], TALL_NAMES], ids=["one too long", "too high together"]
)
def test_names_without_room_at_the_ends_are_in_a_legend(names: list[str]) -> None:
    """Names stand beside the ends of their curves if a figure has room for them. One of 40 letters
    is too wide for that, and seven of three lines or more are too high for 3 inches.
    """
    assert texts_of_legend(names) == names


def test_the_legend_of_many_curves_is_read_row_by_row() -> None:
    """There are too many names for the ends of the curves. The legend has 6 columns, the first row
    with curves 0 to 5, and the second with curves 6 to 10; expected are its columns.
    """
    columns = [[0, 6], [1, 7], [2, 8], [3, 9], [4, 10], [5]]
    names_by_columns = [f"curve {k}" for column in columns for k in column]

    assert texts_of_legend([f"curve {k}" for k in range(11)]) == names_by_columns


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("ordered", [False, True], ids=["unordered", "ordered"])
def test_ten_curves_have_ten_colours(dark: bool, ordered: bool) -> None:
    """Unordered curves, such as models, also have two kinds of dashes, so that neighbours are
    easily distinguished; ordered ones, such as channels, run through a palette and are all solid.
    """
    chart = Chart(
        "",
        [Curve(f"curve {k}", POSITIONS_0_TO_49, POSITIONS_0_TO_49 * k) for k in range(10)],
        ordered=ordered,
    )
    lines = render(Picture("", [chart]), dark=dark).axes[0].lines

    assert len({str(line.get_color()) for line in lines}) == 10
    assert {line.get_linestyle() for line in lines} == ({"-"} if ordered else {"-", "--"})


SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def number_on_axis(label: str) -> float:
    """Return the number that a label shows, such as «−0.5» or «10⁻⁷»."""
    if label[-1] in "⁰¹²³⁴⁵⁶⁷⁸⁹":
        return 10.0 ** int(label.removeprefix("10").translate(SUPERSCRIPTS))
    return float(label.replace("−", "-"))


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.sample(3)
def test_numbers_on_axes_are_their_places(name: str, kind: str) -> None:
    """CASES are all schemes with the kinds of pictures that they have. A label such as «−0.5» or
    «10⁻⁷», read as a number, must be the place where it stands; a minus is «−», not a hyphen.
    """
    figure = render(drawn_picture(kind, SCHEMES[name]))
    figure.canvas.draw()

    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            for tick in axis.get_major_ticks():
                text = tick.label1.get_text() or tick.label2.get_text()
                assert "-" not in text
                if text:
                    place = pytest.approx(tick.get_loc(), rel=1e-3, abs=1e-12)
                    assert number_on_axis(text) == place


def axes_and_panels(name: str, kind: str, panel_type: type) -> list[tuple[Axes, Any]]:
    """Return the panels of one type in the picture of a scheme, and the axes that show each."""
    picture = drawn_picture(kind, SCHEMES[name])
    figure = render(picture)
    figure.canvas.draw()
    pairs = zip(figure.axes, picture.panels, strict=False)  # Colour bars are further axes.
    return [(axes, panel) for axes, panel in pairs if isinstance(panel, panel_type)]


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.sample(3)
def test_all_values_of_a_chart_lie_between_the_ends_of_its_axis(name: str, kind: str) -> None:
    """The vertical axis has more than three numbers, except around a circle."""
    for axes, chart in axes_and_panels(name, kind, Chart):
        low, high = sorted(axes.get_ylim())
        values = np.concatenate([curve.y[np.isfinite(curve.y)] for curve in chart.curves])
        assert low <= values.min() <= values.max() <= high
        assert kind == "circle" or sum(low <= place <= high for place in axes.get_yticks()) > 3


@pytest.mark.parametrize(("name", "kind"), CASES)
@pytest.mark.sample(3)
def test_a_heatmap_has_the_colours_and_rows_of_its_panel(name: str, kind: str) -> None:
    """Its colours end at the ends of the panel, and each row reaches half a row beyond its number."""
    for axes, heatmap in axes_and_panels(name, kind, HeatmapPanel):
        image = axes.images[0]
        low, high = sorted(axes.get_ylim())
        lowest, highest = heatmap.ends
        assert image.norm.vmin == lowest
        assert image.norm.vmax == highest
        assert low == heatmap.first_row - 0.5
        assert high == heatmap.first_row + heatmap.shape[0] - 0.5


@pytest.mark.parametrize(
    ("count", "named"),
    [(6, [False, False, False, True, True, True]), (5, [True] * 5)],
    ids=["two full rows", "an empty place"],
)
def test_axes_above_others_have_no_label_if_all_rows_are_full(
    count: int, named: list[bool]
) -> None:
    """Of six panels in rows of three, the upper ones need no label, as the lower ones have it. Of
    five, the last place is empty, so that every panel has its own.
    """
    heats = [HeatmapPanel(f"panel {k}", np.zeros((4, 4)), limits=(0.0, 1.0)) for k in range(count)]
    *axes, _ = render(Picture("some", heats, across=3)).axes

    assert [panel_axes.get_xlabel() != "" for panel_axes in axes] == named


def test_heatmaps_of_different_ends_have_a_colour_bar_each() -> None:
    """The colours of three heatmaps end at 1, 10 and 100. Each bar has the label «error», and is as
    high as its heatmap: `bbox.y0` and `y1` are the lower and the upper edge in pixels.
    """
    heats = [
        HeatmapPanel(f"panel {k}", np.full((4, 4), k), limits=(0.0, 10.0**k), meaning="error")
        for k in range(3)
    ]
    figure = render(Picture("bars", heats), size=(8.0, 8.0))

    assert assert_readable(figure).count("error") == 3
    for axes, bar in zip(figure.axes[:3], figure.axes[3:], strict=True):
        assert axes.bbox.y0 == pytest.approx(bar.bbox.y0)
        assert axes.bbox.y1 == pytest.approx(bar.bbox.y1)


def figure_of_zeros_and_nan() -> Figure:
    """Return a heatmap from −1 to 1 whose left half is 0 and whose right half is NaN."""
    values = np.zeros((8, 8))
    values[:, 4:] = np.nan
    figure = render(Picture("", [HeatmapPanel("", values, limits=(-1.0, 1.0))]))
    figure.canvas.draw()
    return figure


def test_zero_is_white_and_nan_is_grey_in_a_heatmap_of_both_signs() -> None:
    """0 is the middle of the palette, which is next to white: each of red, green and blue is above
    240 of 255. Grey is 128 of 255. A pixel is taken from the middle of the left half (0) and of the
    right half (NaN).
    """
    figure = figure_of_zeros_and_nan()
    pixels = np.asarray(figure.canvas.buffer_rgba())[:, :, :3].astype(int)
    axes = figure.axes[0].bbox
    middle = int(figure.bbox.y1 - (axes.y0 + axes.y1) / 2)
    left, right = (pixels[middle, int(axes.x0 + axes.width * share)] for share in (0.25, 0.75))

    assert left.min() > 240
    assert right.tolist() == [128, 128, 128]


def test_the_colour_bar_explains_the_grey_of_nan() -> None:
    """A heatmap with NaN has «grey: not finite» beside its colour bar."""
    _, colour_bar = figure_of_zeros_and_nan().axes
    assert colour_bar.get_ylabel() == "grey: not finite"


def test_nan_is_grey_in_every_palette() -> None:
    """In matplotlib's palette «gray», 0 is black and 1 is white. NaN is 128 of 255."""
    black, white, grey = np.rint(255 * colour_map("gray")(np.array([0.0, 1.0, np.nan]))[:, 0])
    assert black == 0
    assert white == 255
    assert grey == 128


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(512, 64), (5000, 64), (300, 2000), (37, 9)],
    ids=["it fits", "too long", "too wide", "small"],
)
def test_rows_of_pixels_are_means_of_rows_and_columns_are_never_mixed(
    rows: int, columns: int
) -> None:
    """A figure is 8 × 5 inches at 200 pixels per inch. Three quarters of it are for the heatmap: at
    most 0.75 · 5 · 200 = 750 rows and 0.75 · 8 · 200 = 1200 columns. Longer tables are averaged;
    of wider ones, every n-th column is drawn. −(−a // b) is a / b rounded up.
    """
    values = pecli.Sinusoidal(rows, columns, dtype="float64").tables()["pe"]
    figure = render(Picture("t", [HeatmapPanel("", values, limits=(-1.0, 1.0))]))
    drawn = np.asarray(figure.axes[0].images[0].get_array())

    column_step = -(-columns // 1200)
    assert drawn.shape == (min(rows, 750), -(-columns // column_step))

    edges = [k * rows // len(drawn) for k in range(len(drawn) + 1)]
    for k in range(0, len(drawn), 13):
        part = values[edges[k] : edges[k + 1], ::column_step]
        np.testing.assert_allclose(drawn[k], part.mean(axis=0), atol=1e-12)


def test_axes_state_how_many_rows_are_averaged_and_columns_left_out() -> None:
    """The panel holds 5000 × 2000 numbers of a table of 10 million rows and 4000 columns, every
    second of which was left out before. A figure has 750 × 1200 pixels for it: a row of pixels is a
    mean of 10^7 / 750 rows, and again every second column is left out, so that one in 4 is drawn.
    """
    panel = HeatmapPanel("", np.zeros((5000, 2000)), table_shape=(10_000_000, 4000))
    axes, _ = render(Picture("t", [panel])).axes

    assert axes.get_ylabel() == f"position (means of {1e7 / 750:,.0f})"
    assert axes.get_xlabel() == "channel (one in 4)"


def test_a_logarithmic_scale_marks_the_tolerance() -> None:
    """Row k holds 10^−(k+1). The bar shows 1e-9 to 0.1, with a line at the tolerance, 1e-3."""
    values = 10.0 ** -np.arange(1.0, 9.0)[:, None] * np.ones((8, 8))
    panel = HeatmapPanel(
        "e", values, limits=(1e-9, 0.1), log=True, meaning="error", marked=Level("tolerance", 1e-3)
    )
    figure = render(Picture("t", [panel]))

    assert {"error, line: tolerance 0.001", "10⁻⁵"} <= set(assert_readable(figure))

    bar = figure.axes[1]
    assert bar.get_ylim() == pytest.approx((1e-9, 0.1))
    assert [line.get_ydata()[0] for line in bar.lines] == pytest.approx([1e-3, 1e-3])


def test_a_heatmap_in_svg_has_one_pixel_per_cell() -> None:
    """The PNG that is embedded for a heatmap of 3 × 4 numbers has 3 × 4 pixels; the browser
    enlarges them without smoothing.
    """
    values = np.arange(12.0).reshape(3, 4)
    text = svg(render(Picture("", [HeatmapPanel("", values)])), "f")
    images = [
        decoded(b64decode(data)).shape[:2]
        for data in re.findall(r'"data:image/png;base64,\s*([^"]*)"', text)
    ]

    assert (3, 4) in images
    assert "image-rendering:pixelated" in text


def saved_figure(folder: Path, name: str = "x.png", *, dark: bool = False) -> bytes:
    panel = HeatmapPanel("costs $5 and $6 位置 🙂", np.tile(np.linspace(-1, 1, 64), (64, 1)))
    save(render(Picture("", [panel]), size=(4, 3), dark=dark), str(folder / name))
    return (folder / name).read_bytes()


def test_a_gradient_has_the_colours_of_the_palette_on_light_and_dark_paper(tmp_path: Path) -> None:
    """`saved_figure` is a PNG of 4 × 3 inches at 200 pixels per inch. Row 300 crosses its heatmap,
    which goes from −1 to 1, so that some pixel there has the first and some the last colour of the
    palette, within 3 of 255. The corner is paper: light, or dark.
    """
    pixels = decoded(saved_figure(tmp_path))
    assert pixels.shape == (3 * 200, 4 * 200, 3)
    for colour in (palettes.DIVERGING[0], palettes.DIVERGING[-1]):
        assert np.abs(pixels[300].astype(int) - np.array(colour)).max(axis=1).min() <= 3
    assert pixels[0, 0].min() > 200
    assert decoded(saved_figure(tmp_path, dark=True))[0, 0].max() < 60


SCRIPT = """
import sys, numpy as np
from pecli.views.pictures import figure, figure_files
from pecli.views.pictures.panels import Chart, Curve, Picture
made = figure.render(Picture("", [Chart("", [Curve("", np.arange(5.0), np.arange(5.0))])]))
for path in sys.argv[1:]:
    figure_files.save(made, path)
assert "matplotlib.pyplot" not in sys.modules
"""


@pytest.mark.parametrize(
    "suffixes",
    [["svg"], pytest.param(["png", "svg", "pdf"], marks=pytest.mark.thorough)],
    ids=["svg", "all formats"],
)
def test_the_same_figure_is_the_same_bytes_whatever_the_settings_of_matplotlib(
    suffixes: list[str], tmp_path: Path
) -> None:
    """SCRIPT draws the figure in a process whose folder has a matplotlibrc with other colours and a
    wrong key. Neither dates nor versions may be written into the file.
    """
    (tmp_path / "matplotlibrc").write_text(
        "figure.facecolor: red\nlines.linewidth: 9\nno.such.key: 1\n"
    )
    settings = {
        **os.environ,
        "PYTHONPATH": str(Path.cwd()),
        "MPLBACKEND": "module://nowhere",
        "SOURCE_DATE_EPOCH": "1000",
    }
    elsewhere = [tmp_path / f"elsewhere.{suffix}" for suffix in suffixes]
    command = [sys.executable, "-c", SCRIPT, *map(str, elsewhere)]
    result = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True)

    assert result.stderr == b""
    assert result.returncode == SUCCESS

    figure = render(Picture("", [Chart("", [Curve("", np.arange(5.0), np.arange(5.0))])]))
    for path in elsewhere:
        here = tmp_path / f"here{path.suffix}"
        save(figure, str(here))
        assert here.read_bytes() == path.read_bytes()

    written = [path.read_bytes() for path in elsewhere]
    for word in (b"Matplotlib v", b"CreationDate", b"dc:date"):
        assert not any(word in data for data in written)


class Animation(NamedTuple):
    """A scheme whose pairs of channels turn with the position, as a .gif of pecli."""

    scheme: pecli.Rope | pecli.Sinusoidal
    pairs: tuple[int, ...] | None  #: The pairs that are drawn; None: those that pecli chooses.
    image_count: int  #: The images that it must have.
    positions_per_image: int

    def position(self, image: int) -> int:
        """Return the position that an image shows."""
        return self.scheme.offset + image * self.positions_per_image


SHORT = Animation(pecli.Rope(seq_len=9, dim=12), (0, 5), image_count=9, positions_per_image=1)
LONG = Animation(
    pecli.Sinusoidal(seq_len=1991, dim=64, offset=3),  # Positions 3 to 1993.
    pairs=None,
    image_count=200,
    positions_per_image=10,
)
"""A .gif has at most 200 images: 1,991 positions would be 1,991 / 200, about 10, per image."""

ANIMATIONS = [
    pytest.param(SHORT, id="9 positions in 9 images"),
    pytest.param(LONG, marks=pytest.mark.thorough, id="1991 positions in 200 images"),
]


class SavedAnimation(NamedTuple):
    picture: Picture
    figure: Figure
    data: bytes  #: The file.


@cache
def saved_animation(animation: Animation) -> SavedAnimation:
    """Write the .gif of an animation once for all tests, as if a command «it» had made it."""
    request = PlotRequest(channels=animation.pairs)
    picture = drawn_picture("circle", animation.scheme, request=request)
    figure = render(picture)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.gif"
        save(figure, str(path), GIF_DPI, about={"command": "it"})
        return SavedAnimation(picture, figure, path.read_bytes())


@pytest.mark.parametrize("animation", ANIMATIONS)
def test_a_gif_has_an_image_per_position_but_at_most_200(animation: Animation) -> None:
    """9 positions are 9 images. Of 1,991, every tenth is shown: 0, 10, …, 1990 are 200 images."""
    with Image.open(BytesIO(saved_animation(animation).data)) as image:
        assert image.n_frames == animation.image_count


@pytest.mark.parametrize("animation", ANIMATIONS)
def test_a_gif_has_20_images_a_second_and_its_last_one_stays(animation: Animation) -> None:
    """An image lasts 1000 / 20 ms; the last one 1.5 s, before the film starts again."""
    last = animation.image_count - 1
    with Image.open(BytesIO(saved_animation(animation).data)) as image:
        for number, milliseconds in [(1, 50), (last // 2, 50), (last, 1500)]:
            image.seek(number)
            assert image.info["duration"] == milliseconds


@pytest.mark.parametrize("animation", ANIMATIONS)
def test_the_comment_of_a_gif_is_the_command_that_made_it(animation: Animation) -> None:
    """`saved_animation` states the command as «it»; the comment is JSON."""
    with Image.open(BytesIO(saved_animation(animation).data)) as image:
        assert image.info["comment"] == b'{"command": "it"}'


@pytest.mark.parametrize("animation", ANIMATIONS)
def test_a_gif_has_at_most_a_mebibyte(animation: Animation) -> None:
    """200 images in all colours would be many megabytes, too many for a page; 16 colours do."""
    assert len(saved_animation(animation).data) <= 1 << 20


def angle_of_hand(image: Image.Image, middle: complex) -> float:
    """Return the direction of the hand of a circle: in radians, anticlockwise from the x axis.

    Hands are red, which nothing else is, and end within 120 pixels of the middle of their circle.
    Their direction is that from the middle to the mean of their pixels, as complex numbers x + iy
    from the lower left corner of the image.
    """
    red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(int), 2, 0)
    down, across = np.nonzero((red > green + 60) & (red > blue + 100))
    from_middle = across + 0.5 + 1j * (len(red) - down - 0.5) - middle
    return float(np.angle(from_middle[np.abs(from_middle) < 120].mean()))


@pytest.mark.parametrize("animation", ANIMATIONS)
def test_hands_of_pairs_turn_by_their_frequency_in_a_gif(animation: Animation) -> None:
    """The hand of pair i at a position has turned by position · 10000^(−2i/dim) radians, within the
    0.01 that pixels allow. Three images are measured: the second, the middle and the last one.
    """
    picture, figure, data = saved_animation(animation)
    last = animation.image_count - 1

    with Image.open(BytesIO(data)) as image:
        for number in (1, animation.image_count // 2, last):
            image.seek(number)
            for axes, panel in zip(figure.axes, picture.panels, strict=True):
                pair = int(re.findall(r"\d+", panel.title)[0])  # «pair 5: 0.25 turns»
                frequency = 10000 ** (-2 * pair / animation.scheme.dim)
                middle_in_pixels = complex(*axes.transAxes.transform((0.5, 0.5)))
                measured = angle_of_hand(image, middle_in_pixels)
                off_by = measured - animation.position(number) * frequency
                assert math.remainder(off_by, 2 * math.pi) == pytest.approx(0, abs=0.01)


def test_titles_are_text_in_svg_and_pdf_and_not_formulas(tmp_path: Path) -> None:
    """The title of `saved_figure` is «costs $5 and $6 位置 🙂», in which Matplotlib would read the
    text between two «$» as a formula. The bytes are UTF-8 of 位置.
    """
    assert b">costs $5 and $6 \xe4\xbd\x8d\xe7\xbd\xae" in saved_figure(tmp_path, "x.svg")
    assert b"/Type /Font" in saved_figure(tmp_path, "x.pdf")


def test_charts_of_the_same_positions_have_the_same_ends_in_spite_of_gaps() -> None:
    """Two charts have the positions 0 to 49, the second with NaN up to 9. 1 % of 49 is left free on
    both sides.
    """
    curves = [
        Curve("", POSITIONS_0_TO_49, POSITIONS_0_TO_49 + 1),
        Curve("", POSITIONS_0_TO_49, np.where(POSITIONS_0_TO_49 > 9, POSITIONS_0_TO_49, np.nan)),
    ]
    left, right = render(Picture("", [Chart("", [curve]) for curve in curves], 2)).axes
    assert left.get_xlim() == pytest.approx((0 - 0.49, 49 + 0.49))
    assert right.get_xlim() == left.get_xlim()


def test_a_spiral_leaves_a_hole_in_the_middle() -> None:
    """The distance from the hole is the position: nine positions are 0 to 8, and the axis ends at
    their number, 9. The hole has a third of this as its radius, 9 / 3 = 3, so that the middle of the
    circle is at −3.
    """
    axes = render(drawn_picture("circle", pecli.Rope(seq_len=9, dim=4))).axes[0]
    number_of_the_middle = axes.get_rorigin()
    assert axes.get_ylim() == (0.0, 9.0)
    assert number_of_the_middle == -3.0


def test_the_label_of_a_colour_bar_explains_blank_and_grey_cells() -> None:
    """A causal bias is −∞ for later keys (grey) and 0 for the key at the query's own position,
    which has no logarithm (blank).
    """
    causal = pecli.Alibi(heads=1, seq_len=4, form="causal")
    bar = render(drawn_picture("heatmap", causal)).axes[-1]
    assert bar.get_ylabel() == "|bias|, logarithmic, none: blank, grey: not finite"


def test_the_worst_error_has_a_ring_and_the_tolerance_is_a_contour() -> None:
    """The error in row r is 2^−r, and the worst is at row 0, column 3. It equals the tolerance 0.01
    = 2^−log2(100) at the height log2(100) = 6.6, between the rows. The ring and the contour are
    drawn by two lines each, so that they are seen on dark and light cells.
    """
    errors = 2.0 ** -np.arange(16.0)[:, None] * np.ones((16, 8))
    panel = HeatmapPanel(
        "e",
        errors,
        limits=(1e-5, 1.0),
        log=True,
        marked=Level("tolerance", 0.01),
        worst=TablePoint(0, 3),
    )
    (axes, _) = render(Picture("t", [panel])).axes
    rings = [line for line in axes.lines if line.get_marker() == "o"]
    contours = [line for line in axes.lines if line.get_linestyle() == "-" and line not in rings]

    for ring in rings:
        assert ring.get_xydata().tolist() == [[3.0, 0.0]]

    for contour in contours:
        np.testing.assert_allclose(contour.get_ydata(), np.log2(100), rtol=1e-9)
    assert len(rings) == len(contours) == 2


def test_no_contour_is_drawn_around_a_single_cell() -> None:
    """One of 256 errors is beyond the tolerance; a line around its cell would hide it."""
    errors = np.full((16, 16), 1e-4)
    errors[8, 8] = 1.0
    panel = HeatmapPanel("e", errors, limits=(1e-5, 1.0), log=True, marked=Level("tolerance", 0.01))
    (axes, _) = render(Picture("t", [panel])).axes

    assert not axes.lines


@pytest.mark.parametrize("shape", [(1, 16), (16, 1)], ids=str)
def test_no_contour_is_drawn_in_a_single_row_or_column(shape: tuple[int, int]) -> None:
    """Errors from 1 to 2^−15 lie on both sides of the tolerance, but a line between them would need
    cells on both sides of it along both axes.
    """
    errors = 2.0 ** -np.arange(16.0).reshape(shape)
    panel = HeatmapPanel("e", errors, limits=(1e-5, 1.0), log=True, marked=Level("tolerance", 0.01))
    (axes, _) = render(Picture("t", [panel])).axes

    assert not axes.lines


def test_if_some_curves_end_early_all_are_named_in_a_legend() -> None:
    """The name of a curve stands at its end on the right edge, unless some curve ends before: then
    a legend names all of them once, and no name stands beside a curve (`axes.texts`).

    The slope of ALiBi's head 0 is 1/2, so that its softmax weights fall by e^(−1/2) per position.
    Weights below 1e-9 are not drawn: after some 40 of 1,024 positions, its curve ends.
    """
    (axes,) = render(drawn_picture("decay", pecli.Alibi(heads=8, seq_len=1024))).axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]

    assert sorted(names) == [f"head {k}" for k in range(8)]
    assert not axes.texts


def test_a_chart_that_continues_the_one_above_shares_its_horizontal_axis() -> None:
    """Two charts over the same positions: the name of the axis stands below the second only."""
    upper, lower = render(
        Picture(
            "",
            [
                Chart("", [Curve("", POSITIONS_0_TO_49, POSITIONS_0_TO_49)]),
                Chart("", [Curve("", POSITIONS_0_TO_49, POSITIONS_0_TO_49)], continues=True),
            ],
        )
    ).axes

    assert upper.get_xlabel() == ""
    assert lower.get_xlabel() == "position"
    assert upper.get_xlim() == lower.get_xlim()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_colour_of_a_curve_has_a_legible_form_for_its_name(dark: bool) -> None:
    """The colours are those of unordered curves and of eight ordered ones. 4.5 is the contrast with
    the paper that WCAG 2 requires of text (level AA).
    """
    paper = palettes.from_hex(theme(dark=dark).paper)
    colours = [*theme(dark=dark).curves, *(palettes.step(k, 8, dark=dark) for k in range(8))]

    for colour in colours:
        assert palettes.contrast(palettes.legible(colour, paper), paper) >= 4.5


@pytest.mark.parametrize(
    ("dark", "share_of_palette"),
    [(True, 1.0), (False, 0.88)],
    ids=["dark paper, all of it", "white paper, 88 %"],
)
def test_ordered_curves_are_as_bright_as_the_paper_allows(
    dark: bool, share_of_palette: float
) -> None:
    """Curves with an order, such as heads, run through a palette from dark blue to bright yellow. On
    dark paper the last one is that yellow, #f8ec60. On white paper, yellow has a contrast of 1.2 by
    WCAG's formula, too little to be seen; the palette is cut at 88 %, a green of contrast 1.66.
    """
    curves = [Curve(f"curve {k}", POSITIONS_0_TO_49, POSITIONS_0_TO_49 * k) for k in range(3)]
    lines = render(Picture("", [Chart("", curves, ordered=True)]), dark=dark).axes[0].lines
    last_colour = np.array(to_rgb(lines[-1].get_color()))

    palette_of_256 = palettes.steps(palettes.SEQUENTIAL)
    expected = palette_of_256[round(share_of_palette * 255)]
    np.testing.assert_allclose(last_colour, expected / 255, atol=1e-6)

    red, green, blue = np.rint(last_colour * 255).astype(int).tolist()
    paper = palettes.from_hex(theme(dark=dark).paper)
    assert palettes.contrast((red, green, blue), paper) >= 1.6


def test_a_logarithmic_axis_without_points_reaches_a_decade_around_its_level() -> None:
    """All points of the curve are 0, which has no logarithm. A level is at 100, so that the axis
    goes from 100 / 10 to 100 · 10.
    """
    zeros = Curve("a", np.arange(3.0), np.zeros(3))
    chart = Chart("", (zeros,), log_y=True, levels=(Level("context", 100.0),))
    axes, *_ = render(Picture("x", (chart,))).axes

    assert axes.get_ylim() == pytest.approx((10, 1000))


@pytest.mark.parametrize(("last", "is_whole"), [(1.0, False), (3.0, True)])
def test_an_axis_that_ends_at_1_has_fractions(last: float, is_whole: bool) -> None:
    """Shares go from 0 to 1; positions and pairs are whole numbers."""
    x = np.linspace(0.0, last, 4)
    (axes,) = render(Picture("", [Chart("", [Curve("", x, x)])])).axes

    assert all(float(tick).is_integer() for tick in axes.get_xticks()) is is_whole
