"""Charts in a figure: curves, levels and bands, with their names at the ends or in a legend."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, cast

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.engine.named_values import NamedValues
from pecli.views.pictures import palettes
from pecli.views.pictures.axis_labels import fit_text
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.figure_heatmap import AXES_SHARE
from pecli.views.pictures.figure_text import drawable, drawable_text, fitted_lines, number_axis
from pecli.views.pictures.matplotlib_types import Artist, Axes, Line2D, PolarAxes
from pecli.views.pictures.panels import Chart, Curve, Level
from pecli.views.pictures.theme import DARK, LETTERS_PER_INCH, Theme, rgb

MAX_POINTS = 2000  #: Points of a curve, twice as many as a figure has columns.
MAX_NAMED_ENDS = 10  #: Curves that are named where they end: as many as there are colours.
END_LINES = 4  #: Lines of such a name.
END_SHARE = 0.25  #: The share of a panel's width for such names.
SMALL_LETTERS_PER_INCH = 1.2 * LETTERS_PER_INCH  #: matplotlib's «small» letters.
END_INCHES = 0.15  #: The height of a line of such a name.
END_DIGITS = 3  #: Digits of the height of an end; ends that differ by less are drawn as one.
END_GAP = 1.02  #: Where such names begin; 1 is the right end of the axes.
EARLY_END = 0.9  #: Curves that end farther left are in a legend, if there are several of them.
MOVED_SHARE = 0.02  #: A name that is moved up or down by more is joined to its curve by a line.
CLOSE_LEVELS = 2.0  #: The ratio of two levels below which the lower one is named below its line.
POINTS_ABOVE_LEVEL = 2  #: The place of a level's name above its line.
POINTS_BELOW_LEVEL = -10  #: Its place below: 2 points and the height of its letters.
MARKERS = "os^Dv<>p"  #: Of points that no line joins: open ones, so that those below are seen.
BAND_SHADES = (0.04, 0.12, 0.24)  #: How dark the bands are, one after the other.
LEGEND_LINES = 8
LEGEND_SHARE = 0.95  #: The share of a panel's width for a legend, whose letters are small.
LEGEND_MARGIN = 6  #: Letters that the sample of a line takes beside the longest label.
SAMPLE_LETTERS = 10  #: Letters that a sample and the gap between columns take together.
SPREAD_SHADE = 0.25  #: How dark the range around a curve is.
_POINTER = {"arrowstyle": "-", "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0, "relpos": (0, 0.5)}
"""A line from the left end of a name to the curve that it names."""
_UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class Room(NamedTuple):
    """The size of a panel in inches of full-size letters.

    In a small figure letters are smaller, and the same panel has more room for them.
    """

    width: float
    height: float


def draw_chart(axes: Axes, chart: Chart, title: str, room: Room, colours: Theme) -> None:
    """Draw a chart: its curves, bands and levels, then its axes, and the names of all of them.

    Bands are shaded ranges of pairs, and levels are horizontal lines, such as a tolerance.
    Curves are named where they end if there is room for that, as in a printed chart. Otherwise the
    chart has a legend, which also names the bands, and stands between the title and the curves.

    Args:
        axes: The axes to draw in.
        chart: The chart.
        title: Its title in lines that fit.
        room: The size of the panel.
        colours: The colours of the paper.
    """
    names_of_curves: dict[Line2D, str] = {}
    for number, curve in enumerate(chart.curves):
        style = _curve_style(chart, number, colours)
        names_of_curves[_draw_curve(axes, curve, style)] = curve.label
    names_of_bands = _draw_bands(axes, chart, colours)
    for level in chart.levels:
        _draw_level(axes, level, chart.levels, colours)
    _set_up_axes(axes, chart, room.height)
    ends = _named_ends(axes, chart, room)
    if ends:
        _write_names_of_ends(axes, ends, list(names_of_curves), room, colours)
        _add_legend_or_title(axes, names_of_bands.items(), title, room.width)
    else:
        names = [*names_of_curves.items(), *names_of_bands.items()]
        _add_legend_or_title(axes, names, title, room.width)


def _add_legend_or_title(
    axes: Axes, names: Iterable[tuple[Artist, str]], title: str, width: float
) -> None:
    """Add a legend, which has the title above it; only the title if no name is left to explain."""
    legend = {artist: name for artist, name in names if name}
    if legend:
        _add_legend(axes, legend, title, width)
    else:
        axes.set_title(title)


class _NamedEnd(NamedTuple):
    """The end of a curve, and the name that is written beside it."""

    name: str  #: In a few lines.
    end: _End

    def name_height(self, room: Room) -> float:
        """Return the height of the name as a share of the axes' height."""
        line_count = self.name.count("\n") + 1
        return line_count * END_INCHES / (AXES_SHARE * room.height)


def _named_ends(axes: Axes, chart: Chart, room: Room) -> list[_NamedEnd]:
    """Return the ends of all curves with their names, as in a printed chart.

    There are none if that is not possible, and the chart needs a legend: there may be too many
    names, one may be too long, all of them together too high, or two curves may end long before the
    right edge, so that their names would be far from them.
    """
    names = _end_names(chart, room)
    if not names:
        return []
    ends = [_NamedEnd(*pair) for pair in zip(names, _curve_ends(axes, chart), strict=True)]
    if sum(end.name_height(room) for end in ends) > 1:
        return []
    early_ends = sum(end.end.share < EARLY_END for end in ends)
    return ends if early_ends <= 1 else []


def _write_names_of_ends(
    axes: Axes, ends: Sequence[_NamedEnd], lines: Sequence[Line2D], room: Room, colours: Theme
) -> None:
    """Write the name of each curve beside its right end, moved up or down if names would overlap.

    A thin line, the pointer, leads from a name that is moved to its curve. Heights are shares of
    the axes' height.
    """
    heights_of_ends = np.array([named.end.height for named in ends])
    heights_of_names = np.array([named.name_height(room) for named in ends])
    name_places = _without_overlaps(heights_of_ends, heights_of_names)
    for named, name_place, line in zip(ends, name_places.tolist(), lines, strict=True):
        colour = _letter_colour(line, colours)
        is_moved = abs(name_place - named.end.height) > MOVED_SHARE
        ends_early = named.end.share < EARLY_END  # A pointer would cross the chart.
        pointer = {**_POINTER, "color": colour} if is_moved and not ends_early else None
        axes.annotate(
            named.name,
            named.end.point,
            (END_GAP, name_place),
            textcoords="axes fraction",
            fontsize="small",
            va="center",
            color=colour,
            arrowprops=pointer,
            annotation_clip=False,
        )


def _curve_style(chart: Chart, number: int, colours: Theme) -> dict[str, object]:
    """Return matplotlib's properties of a curve that differ from a solid line in the next colour.

    A reference is dotted and grey, and curves that are not joined are markers. Curves with an order,
    such as heads by their slopes, are steps of one palette.
    """
    curve = chart.curves[number]
    if chart.polar:
        return {"linestyle": "", "marker": ".", "markersize": 3}
    if not chart.joined:
        marker = MARKERS[number % len(MARKERS)]
        return {"linestyle": "", "marker": marker, "fillstyle": "none"}
    if curve.reference:
        return {"linestyle": ":", "color": colours.grey}
    if chart.ordered:
        colour = palettes.step(number, len(chart.curves), dark=colours is DARK)
        return {"linestyle": "-", "color": rgb(colour)}
    if curve.dash:
        return {"linestyle": curve.dash}
    return {}


def _draw_curve(axes: Axes, curve: Curve, style: NamedValues) -> Line2D:
    """Draw a curve with the range around it and its marks, all in one colour; return its line."""
    x, y = envelope(drawable(curve.x), drawable(curve.y), MAX_POINTS)
    (line,) = axes.plot(x, y, **style)
    if curve.spread is not None:
        low, high = map(drawable, curve.spread)
        colour = line.get_color()
        axes.fill_between(curve.x, low, high, color=colour, alpha=SPREAD_SHADE, linewidth=0)
    for mark_x, mark_y in curve.marks:
        axes.plot(mark_x, mark_y, "o", color=line.get_color())
    return line


def _draw_bands(axes: Axes, chart: Chart, colours: Theme) -> dict[Artist, str]:
    """Shade the bands of a chart, and return their names.

    Each reaches half a unit beyond its first and last pair.
    """
    names: dict[Artist, str] = {}
    for band, shade in zip(chart.bands, BAND_SHADES, strict=False):
        start = band.start - 0.5
        stop = band.stop + 0.5
        patch = axes.axvspan(start, stop, color=colours.grey, alpha=shade, linewidth=0, zorder=0)
        names[patch] = band.label
    return names


def _draw_level(axes: Axes, level: Level, levels: Sequence[Level], colours: Theme) -> None:
    """Draw a dashed line with its name above it, or below it if another level is close above.

    Args:
        axes: The axes to draw in.
        level: The level to draw.
        levels: All levels of the chart, which are positive, on a logarithmic axis.
        colours: The colours of the paper.
    """
    axes.axhline(level.value, color=colours.grey, linestyle="--", linewidth=1, zorder=1)
    close = level.value * CLOSE_LEVELS
    has_close_level_above = any(level.value < other.value < close for other in levels)
    points_above_line = POINTS_BELOW_LEVEL if has_close_level_above else POINTS_ABOVE_LEVEL
    axes.annotate(
        drawable_text(level.label),
        xy=(0, level.value),
        xytext=(3, points_above_line),
        color=colours.grey,
        bbox={"facecolor": axes.get_facecolor(), "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        fontsize="small",
    )


def _set_up_axes(axes: Axes, chart: Chart, height: float) -> None:
    """Set the names, numbers and ends of the axes; `height` is the panel's in full-size letters."""
    axes.grid(True)
    axes.set_axisbelow(True)
    if chart.polar:
        _set_radius(cast("PolarAxes", axes), chart)
        return
    axes.set(xlabel=chart.x, ylabel=_fitted_y_name(chart.y, height))
    # Lines may touch the frame; separate points may not, as half of a marker would lie outside.
    axes.margins(x=0.01 if chart.joined else 0.03)
    _include_ends(axes, chart)
    _number_axes(axes, chart)


def _fitted_y_name(name: str, height: float) -> str:
    """Return the name of the vertical axis, without its details after a comma if it is too long."""
    letters = (height - 1) * LETTERS_PER_INCH  # The title and the numbers below take an inch.
    if len(name) < letters:
        return name
    return name.partition(",")[0]


def _number_axes(axes: Axes, chart: Chart) -> None:
    """Set the scales of both axes, and the numbers at them."""
    _set_scales(axes, chart)
    has_whole_numbers = any((curve.x[-1:] > 1).any() for curve in chart.curves)
    number_axis(axes.xaxis, axes.get_xlim() if chart.log_x else None, whole=has_whole_numbers)
    if chart.y_limits is not None:
        axes.set_ylim(chart.y_limits)
    number_axis(axes.yaxis, axes.get_ylim() if chart.log_y else None)


def _set_scales(axes: Axes, chart: Chart) -> None:
    """Make the axes of a chart logarithmic if they are meant to be."""
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
        _ensure_positive_range(axes, chart)


def _set_radius(axes: PolarAxes, chart: Chart) -> None:
    """Leave a hole in the middle, so that one turn of a spiral does not hide the one before."""
    axes.set(xticks=[], yticks=[])
    low, high = chart.curves[0].y[[0, -1]].tolist()
    axes.set_ylim(low, high + 1)
    axes.set_rorigin(low - (high - low + 1) / 3)


def _include_ends(axes: Axes, chart: Chart) -> None:
    """Let the horizontal axis reach the ends of all curves, even if there is a gap."""
    ends = []
    for curve in chart.curves:
        if len(curve.x):
            ends += [(curve.x[0], 0.0), (curve.x[-1], 0.0)]
    axes.update_datalim(ends, updatey=False)


def _ensure_positive_range(axes: Axes, chart: Chart) -> None:
    """Set the ends of a logarithmic axis on which no curve has a point."""
    if any(np.any(curve.y > 0) for curve in chart.curves):
        return
    middle = chart.levels[0].value if chart.levels else 1.0
    axes.set_ylim(middle / 10, middle * 10)


def _end_names(chart: Chart, room: Room) -> list[str]:
    """Return the names of all curves in a few lines each; none if one of them cannot be written."""
    if not chart.joined or len(chart.curves) > MAX_NAMED_ENDS:
        return []
    if not all(_is_drawn(chart, curve).any() for curve in chart.curves):
        return []
    letters = END_SHARE * room.width * SMALL_LETTERS_PER_INCH
    names = [_end_name(curve.label, letters) for curve in chart.curves]
    return names if all(names) else []


def _letter_colour(line: Line2D, colours: Theme) -> str:
    """Return the colour of a curve's name, as in HTML."""
    from matplotlib.colors import to_hex

    curve_colour = palettes.from_hex(to_hex(line.get_color()))
    return palettes.as_hex(palettes.legible(curve_colour, palettes.from_hex(colours.paper)))


def _is_drawn(chart: Chart, curve: Curve) -> Flags:
    """Return which points of a curve can be drawn."""
    is_drawn = np.isfinite(curve.y)
    if chart.log_y:
        is_drawn &= curve.y > 0
    return is_drawn


def _end_name(label: str, letters: float) -> str:
    """Return the name of a curve in a few lines of so many letters; empty if it does not fit.

    «float32, recurrence» may be broken after the comma, «pair 18» and «float16-inv-freq» may not.
    """
    unbroken = re.sub(r" (?=\d+$)", "\xa0", drawable_text(label)).replace("-", _UNBROKEN_HYPHEN)
    lines = fit_text(unbroken, letters, END_LINES + 1)
    longest_word = max(map(len, unbroken.split(" ")))
    if len(lines) > END_LINES or longest_word > letters:
        return ""
    return "\n".join(lines).replace("\xa0", " ").replace(_UNBROKEN_HYPHEN, "-")


class _End(NamedTuple):
    """The last point of a curve that is drawn."""

    point: tuple[float, float]  #: Its place on the axes of the data.
    share: float  #: Its place from the left end of the panel, 0, to the right end, 1.
    height: float  #: Its place from the bottom, 0, to the top, 1.


def _curve_ends(axes: Axes, chart: Chart) -> list[_End]:
    """Return the last drawn point of each curve, and its place in the panel.

    The ends of the axes must have been set, because they decide the place.
    """
    # Reading the limits brings matplotlib's transforms up to date.
    axes.get_xlim()
    axes.get_ylim()
    from_data_to_panel = axes.transScale + axes.transLimits
    ends = []
    for curve in chart.curves:
        last = np.flatnonzero(_is_drawn(chart, curve))[-1]
        point = float(curve.x[last]), float(curve.y[last])
        share, height = from_data_to_panel.transform(point).tolist()
        ends.append(_End(point, share, height))
    return ends


def _without_overlaps(ends: Floats, heights: Floats) -> Floats:
    """Return places for the names of curves so that none lies on another.

    Names keep their order and stay inside the panel, from 0 at the bottom to 1 at the top. If curves
    end at 0.5, 0.5 and 0.9, and names are 0.1 high, the names move to 0.6, 0.5 and 0.9: of curves
    that end at the same height, the first is named at the top.

    Args:
        ends: The heights at which the curves end.
        heights: The heights of their names.
    """
    later_first = -np.arange(len(ends))
    from_bottom = np.lexsort((later_first, ends.round(END_DIGITS)))  # The last key decides first.
    places = np.empty_like(ends)
    places[from_bottom] = _raised_from_bottom(ends[from_bottom], heights[from_bottom])
    return places


def _raised_from_bottom(ends: Floats, heights: Floats) -> Floats:
    """Return places for names in the order from the bottom, each at its end or above the name below.

    All names are stacked at the bottom without gaps, and raised to their ends from there. Names that
    are 0.1 high are stacked at 0.05, 0.15 and 0.25. If their ends are at 0.5, 0.5 and 0.9, they have
    to rise by 0.45, 0.35 and 0.65. The second would run into the first, and so rises by 0.45 as well:
    the names come to 0.5, 0.6 and 0.9.

    Args:
        ends: The heights at which the curves end, the lowest first.
        heights: The heights of their names.
    """
    stacked_places = np.cumsum(heights) - heights / 2
    rises = np.maximum(ends - stacked_places, 0)
    rises = np.maximum.accumulate(rises)  # No name rises by less than the one below it.
    free_height = 1 - heights.sum()  # A stack that rises by more would leave the panel.
    return np.asarray(stacked_places + np.minimum(rises, free_height))


def _add_legend(axes: Axes, names: Mapping[Artist, str], title: str, width: float) -> None:
    """Add a legend above the curves, in as many columns as there is room for, under the title.

    Args:
        axes: The axes of the chart.
        names: The name of each curve and band.
        title: The title of the chart.
        width: The width of the panel in inches; more if letters are smaller, as they need less.
    """
    letters = LEGEND_SHARE * width * LETTERS_PER_INCH
    wrapped_names: dict[Artist, str] = {}
    for artist, name in names.items():
        wrapped_names[artist] = fitted_lines(name, letters - LEGEND_MARGIN, LEGEND_LINES)
    columns = _legend_columns(list(wrapped_names.values()), letters)
    # matplotlib fills a legend column by column.
    artists = _in_rows(list(wrapped_names), columns)
    axes.legend(
        artists,
        [wrapped_names[artist] for artist in artists],
        ncols=columns,
        title=title or None,
        title_fontsize="medium",
        loc="lower left",
        bbox_to_anchor=(0, 1),
        alignment="left",
        borderaxespad=0.2,
        borderpad=0,
    )


def _legend_columns(labels: Sequence[str], letters: float) -> int:
    """Return how many columns of labels fit into a line of so many letters, at least one."""
    lines_of_all_labels = "\n".join(labels).split("\n")
    column_letters = SAMPLE_LETTERS + max(map(len, lines_of_all_labels))
    fitting = int(letters / column_letters)
    return max(1, min(len(labels), fitting))


def _in_rows(artists: Sequence[Artist], columns: int) -> list[Artist]:
    """Return artists in the order of a legend that is read row by row; matplotlib fills columns.

    0 1 2 3 4 in 2 columns become 0 2 4 1 3: the first column is 0 2 4, and the first row 0 1.
    """
    ordered: list[Artist] = []
    for column in range(columns):
        ordered += artists[column::columns]
    return ordered
