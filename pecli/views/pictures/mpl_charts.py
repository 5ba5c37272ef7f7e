"""Charts in the axes of a figure: curves, bands and levels with their names, and a legend that hides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import labels, palettes
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.figure import Look
from pecli.views.pictures.labels import fitted
from pecli.views.pictures.panels import Chart, Curve, coinciding

MAX_VALUE = 1e150
"""matplotlib subtracts the ends of an axis, which have to leave room for that."""
LINE_STYLES = ("-", "--", "-.", ":")
OVERLAP_DASHES = (0, (5.0, 5.0))
"""The dashes of a curve that lies on another, so that both are seen."""
REFERENCE_DASHES = (0, (1.5, 1.5))
MAX_LEGEND_LINES = 8
LETTER_WIDTH = 0.073
"""Inches of a letter of 9 points, on average."""
MIN_DENSE_POINTS = 400
"""Points from which on a line is thin."""
POINT_GAP = 4.5
"""From one point to the next, in points."""
MAX_FINE_RATIO = 1000.0
"""Largest number of a logarithmic axis over the smallest, up to which 2 and 5 times powers of ten are numbered, too."""
MEASURED_POINTS = 400
"""Points of a curve that are looked at, so that no word hides it."""
BAND_SHADES = (0.0, 0.10, 0.22, 0.05)
"""How dark the bands are, one after the other."""


def drawable(values: Floats) -> Floats:
    """Values that matplotlib can draw; NaN for the others."""
    return np.where(np.abs(values) < MAX_VALUE, values, np.nan)


def draw(axes: Any, chart: Chart, title: str, size: tuple[float, float], look: Look) -> None:
    """Draw all of a chart into axes of about so many inches, at a scale of one."""
    overlaps = coinciding(chart) if chart.share == 1 else [False] * len(chart.curves)
    thin = any(len(curve.x) > MIN_DENSE_POINTS and _is_restless(curve) for curve in chart.curves)
    for number, curve in enumerate(chart.curves):
        x, y = envelope(drawable(curve.x), drawable(curve.y), 2000)
        apart = len(x) * POINT_GAP <= (size[0] - 1) * 72
        style: dict[str, Any] = {
            "linewidth": (1.0 if thin else 1.6) * look.scale,
            "linestyle": "-" if chart.ordered else LINE_STYLES[number // len(palettes.CURVES) % 4],
            "marker": "o" if chart.points and apart and not overlaps[number] else "",
        }
        if overlaps[number]:
            style["linestyle"] = OVERLAP_DASHES
        if chart.ordered:
            style["color"] = [part / 255 for part in palettes.step(number, len(chart.curves), dark=look.dark)]
        if curve.reference:
            style |= {"color": _grey(look), "linestyle": REFERENCE_DASHES, "marker": ""}
        if not chart.joined:
            style |= {"marker": "o", "linestyle": "", "markersize": (9.0 if overlaps[number] else 5.0) * look.scale}
            style |= {"markerfacecolor": "none"} if overlaps[number] else {}  # a ring around the points below
        axes.plot(x, y, label=curve.label or None, **style)
    for _, level in chart.levels:
        axes.axhline(level, color=_grey(look), linewidth=look.scale, linestyle=(0, (4, 3)), zorder=1)
    for number, band in enumerate(chart.bands):
        shade = BAND_SHADES[number % len(BAND_SHADES)]
        axes.axvspan(band.start - 0.5, band.stop + 0.5, color=_grey(look), alpha=shade, linewidth=0, zorder=0)
    _scale_axes(axes, chart, size[1])
    for mark in chart.marks:
        colour = axes.lines[mark.curve].get_color()
        face = axes.get_facecolor() if mark.is_open else colour
        axes.plot(mark.x, mark.y, "o", color=colour, mfc=face, ms=6.5 * look.scale, mew=1.4 * look.scale, zorder=3)
    axes.grid(True)
    axes.set_axisbelow(True)
    if len(chart.curves) > 1 and any(curve.label for curve in chart.curves):
        _add_legend(axes, chart, title, size[0] - 0.8, look)
    elif title:
        axes.set_title(title, fontsize=10 * look.scale)


def _grey(look: Look) -> str:
    return "0.65" if look.dark else "0.4"


def _is_restless(curve: Curve) -> bool:
    """Whether a curve turns at many places."""
    rising = np.diff(curve.y) > 0
    return int(np.count_nonzero(rising[1:] != rising[:-1])) > 30


def _scale_axes(axes: Any, chart: Chart, height: float) -> None:
    """Names, numbers and ends of the axes, and the axis at the right; long names end at their comma."""

    def short(name: str) -> str:
        return name if 0.09 * len(name) < height - 1 else name.partition(",")[0]

    axes.set(xlabel=chart.x, ylabel=short(chart.y))
    axes.margins(x=0.01 if chart.joined else 0.03)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
        if not any(np.any(curve.y > 0) for curve in chart.curves):  # no curve has a point there
            middle = chart.levels[0][1] if chart.levels else 1.0
            axes.set_ylim(middle / 10, middle * 10)
    set_numbers(axes.yaxis, axes.get_ylim(), log=chart.log_y)
    if chart.x in ("position", "pair", "head", "distance", "rank") and not chart.log_x:
        set_whole_numbers(axes.xaxis)
    else:
        set_numbers(axes.xaxis, axes.get_xlim(), log=chart.log_x)
    if chart.ticks:
        axes.set_yticks(chart.ticks)
    if chart.inverse_axis is not None:
        name, constant = chart.inverse_axis

        def inverse(values: Any) -> Any:
            with np.errstate(divide="ignore"):  # matplotlib asks for 0, too
                return constant / np.asarray(values, np.float64)

        second = axes.secondary_yaxis("right", functions=(inverse, inverse))
        set_numbers(second.yaxis, (constant / axes.get_ylim()[0], constant / axes.get_ylim()[1]), log=True)
        second.set_ylabel(short(name))
        second.spines["right"].set_visible(False)


def set_numbers(axis: Any, ends: tuple[float, float], *, log: bool = False) -> None:
    """Numbers in plain digits; on a logarithmic axis powers of ten as such where digits would be long.

    matplotlib would set them as formulas, which take time.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = sorted(ends)
    if log:
        few = axis.axis_name == "y" and high < MAX_FINE_RATIO * low  # side by side they would need more room
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        axis.set_minor_formatter(NullFormatter())
    form = labels.power if log and (low < 1e-3 or high > 1e7) else labels.plain
    axis.set_major_formatter(FuncFormatter(lambda value, place: form(value)))


def set_whole_numbers(axis: Any) -> None:
    """Numbers of positions, channels and the like."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    axis.set_major_formatter(FuncFormatter(lambda value, place: labels.plain(value)))


def name_levels_and_bands(axes: Any, chart: Chart, look: Look) -> None:
    """A word in each band that has room for it and on each line that marks a level, where it hides no curve; in axes
    that have their place.
    """
    words = _Words(axes, len(chart.curves), look)
    gap = 3 * look.scale
    for band in chart.bands:
        middle = (band.start + band.stop) / 2
        at = {"xycoords": ("data", "axes fraction"), "ha": "center"}
        top = {"xy": (middle, 1.0), "xytext": (0, -gap), "va": "top", **at}
        bottom = {"xy": (middle, 0.0), "xytext": (0, gap), "va": "bottom", **at}
        left, right = (axes.transData.transform((end, 1.0))[0] for end in (band.start - 0.5, band.stop + 0.5))
        words.place(band.label, 8.5, [top, bottom], right - left)
    words.heights = [axes.transData.transform((1.0, value))[1] for _, value in chart.levels]
    for word, value in chart.levels:
        places = [
            {
                "xy": (share, value),
                "xytext": ((4 - 8 * share) * look.scale, side * gap),
                "xycoords": ("axes fraction", "data"),
                "ha": ("left", "center", "right")[round(2 * share)],
                "va": "bottom" if side > 0 else "top",
            }
            for share in (0.0, 1.0, 0.5)
            for side in (1, -1)
        ]
        words.place(word, 9.0, places)


class _Words:
    """Puts words where they hide least of curves, of lines at some heights, and of each other; all in pixels."""

    def __init__(self, axes: Any, curves: int, look: Look) -> None:
        self.axes = axes
        self.look = look
        self.heights: list[float] = []
        self.taken: list[Any] = []
        self.across = np.linspace(axes.bbox.x0, axes.bbox.x1, MEASURED_POINTS)
        self.curves = []
        for line in axes.lines[:curves]:
            points = axes.transData.transform(np.stack(line.get_data(), axis=1))
            points = points[np.isfinite(points).all(axis=1)]
            if len(points):
                self.curves.append(np.interp(self.across, points[:, 0], points[:, 1], left=np.nan, right=np.nan))

    def place(self, word: str, size: float, places: Sequence[Mapping[str, Any]], room: float | None = None) -> None:
        """Put a word at the best of these places; with a limited room, only where it fits and hides nothing."""
        style = {"fontsize": size * self.look.scale, "color": _grey(self.look), "textcoords": "offset points"}
        texts = [self.axes.annotate(word, **style, **options) for options in places]
        hidden = [self._hidden(text.get_window_extent()) for text in texts]
        best = texts[hidden.index(min(hidden))]
        box = best.get_window_extent()
        fits = room is None or (box.width <= room and not min(hidden))
        for text in texts:
            if text is not best or not fits:
                text.remove()
        self.taken += [box] if fits else []

    def _hidden(self, box: Any) -> int:
        """Points of curves in a box; as many as a whole curve has for each other thing, and for leaving the axes."""
        inside = (self.across > box.x0) & (self.across < box.x1)
        points = sum(np.count_nonzero((up[inside] > box.y0 - 1) & (up[inside] < box.y1 + 1)) for up in self.curves)
        others = sum(box.overlaps(other) for other in self.taken) + sum(box.y0 < up < box.y1 for up in self.heights)
        beyond = box.y1 > self.axes.bbox.y1 or box.y0 < self.axes.bbox.y0
        return int(points + MEASURED_POINTS * (others + beyond))


def _add_legend(axes: Any, chart: Chart, title: str, width: float, look: Look) -> None:
    """Above the curves, where it hides none of them, in as many columns as there is room for, under the title.

    Names are whole: one that is too long takes several lines.
    """
    from matplotlib.lines import Line2D

    names = [curve.label for curve in chart.curves]
    handles = axes.lines[: len(chart.curves)]
    for is_open, meaning in enumerate(chart.mark_names if chart.marks else ()):
        face = axes.get_facecolor() if is_open else _grey(look)
        handles = [*handles, Line2D([], [], color=_grey(look), marker="o", ls="", mfc=face, ms=6 * look.scale)]
        names.append(meaning)
    shown = [fitted(name, int((width - 0.4) / LETTER_WIDTH), MAX_LEGEND_LINES) or [""] for name in names]
    column = 0.45 + LETTER_WIDTH * max(len(line) for name in shown for line in name)
    rows = -(-len(names) // max(1, int(width / column)))
    axes.legend(
        handles,
        ["\n".join(name) for name in shown],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=-(-len(names) // rows),
        title=title or None,
        title_fontsize=10 * look.scale,
        alignment="left",
        borderaxespad=0.2,
        borderpad=0,
        columnspacing=1.0,
        handlelength=1.4,
        handletextpad=0.5,
    )
