"""Charts in the axes of a figure: curves, bands and levels with their names, and a legend that hides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
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
MAX_LEGEND_LETTERS = 32
"""Letters of a legend that are worth making all of a figure smaller."""
MIN_DENSE_POINTS = 400
"""Points from which on a line is thin."""
POINT_GAP = 4.5
"""From one point to the next, in points."""
BAND_SHADES = (0.0, 0.10, 0.22, 0.05)
"""How dark the bands are, one after the other."""


def drawable(values: Floats) -> Floats:
    """Values that matplotlib can draw; NaN for the others."""
    return np.where(np.abs(values) < MAX_VALUE, values, np.nan)


def draw(axes: Any, chart: Chart, size: tuple[float, float], look: Look) -> None:
    """Draw all of a chart into axes of about so many inches, at a scale of one."""
    over = coinciding(chart) if chart.share == 1 else [False] * len(chart.curves)
    thin = any(len(curve.x) > MIN_DENSE_POINTS and _is_restless(curve) for curve in chart.curves)
    for number, curve in enumerate(chart.curves):
        x, y = envelope(drawable(curve.x), drawable(curve.y), 2000)
        given: dict[str, Any] = {"linewidth": (1.0 if thin else 1.6) * look.scale}
        given["marker"] = "o" if chart.points and _is_apart(x, size) and not over[number] else ""
        given["linestyle"] = (
            OVERLAP_DASHES
            if over[number]
            else "-"
            if chart.ordered
            else LINE_STYLES[number // len(palettes.CURVES) % 4]
        )
        if chart.ordered:
            given["color"] = [part / 255 for part in palettes.step(number, len(chart.curves), dark=look.dark)]
        if curve.reference:
            given |= {"color": _grey(look), "linestyle": REFERENCE_DASHES, "marker": ""}
        if not chart.joined:
            given |= {"marker": "o", "linestyle": "", "markersize": (9.0 if over[number] else 5.0) * look.scale}
            given |= {"markerfacecolor": "none"} if over[number] else {}  # a ring around the points below
        axes.plot(x, y, label=curve.label or None, **given)
        if chart.filled and not number:
            axes.fill_between(x, y, alpha=0.25, linewidth=0)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    for _, level in chart.levels:
        axes.axhline(level, color=_grey(look), linewidth=look.scale, linestyle=(0, (4, 3)), zorder=1)
    _draw_bands(axes, chart, look)
    axes.margins(x=0.01 if chart.joined else 0.03)
    if chart.log_y and axes.get_ylim()[0] <= 0:  # no curve has a point there
        middle = chart.levels[0][1] if chart.levels else 1.0
        axes.set_ylim(middle / 10, middle * 10)
    _draw_marks(axes, chart, look)
    _number(axes, chart, size)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y if 0.09 * len(chart.y) < size[1] - 1 else chart.y.partition(",")[0])
    _add_inverse_axis(axes, chart, size)
    axes.grid(True)
    axes.set_axisbelow(True)
    if len(chart.curves) > 1 and any(curve.label for curve in chart.curves):
        rows = _legend(axes, chart, size[0] - 0.8, look)
        if chart.title:
            axes.set_title(axes.get_title("left"), fontsize=10 * look.scale, pad=(6 + 14.5 * rows) * look.scale)


def min_size(chart: Chart) -> tuple[float, float]:
    """Inches that the curves of a chart need to be read, and the names around them."""
    longest = max((len(curve.label) for curve in chart.curves), default=0) if len(chart.curves) > 1 else 0
    if chart.share < 1:
        return 1.4, 0.45
    return max(1.4, 0.5 + 0.075 * min(longest, MAX_LEGEND_LETTERS)), max(
        0.9, 0.08 * len(chart.y.partition(",")[0]), 0.5 + 0.35 * len(chart.levels)
    )


def _grey(look: Look) -> str:
    return "0.65" if look.dark else "0.4"


def _is_restless(curve: Curve) -> bool:
    """Whether a curve turns at many places."""
    rising = np.diff(curve.y) > 0
    return int(np.count_nonzero(rising[1:] != rising[:-1])) > 30


def _is_apart(x: Floats, size: tuple[float, float]) -> bool:
    """Whether points keep apart in axes of so many inches, beside what is around them."""
    return len(x) * POINT_GAP <= (size[0] - 1) * 72


def _draw_bands(axes: Any, chart: Chart, look: Look) -> None:
    for number, band in enumerate(chart.bands):
        ends = band.start - 0.5, band.stop + 0.5
        axes.axvspan(*ends, color=_grey(look), alpha=BAND_SHADES[number % len(BAND_SHADES)], linewidth=0, zorder=0)


def _draw_marks(axes: Any, chart: Chart, look: Look) -> None:
    for mark in chart.marks:
        line = axes.lines[mark.curve]
        face = axes.get_facecolor() if mark.is_open else line.get_color()
        size, edge = 6.5 * look.scale, 1.4 * look.scale
        axes.plot([mark.x], [mark.y], "o", color=line.get_color(), markerfacecolor=face, ms=size, mew=edge, zorder=3)


def _add_inverse_axis(axes: Any, chart: Chart, size: tuple[float, float]) -> None:
    """A second axis at the right, whose numbers are a constant divided by those at the left."""
    if chart.inverse_axis is None:
        return
    name, constant = chart.inverse_axis
    low, high = (constant / end for end in reversed(axes.get_ylim()))
    values = labels.round_powers(low, high, max(4, int(size[1] * 1.6)))

    def inverse(y: Any) -> Any:
        with np.errstate(divide="ignore"):  # matplotlib asks for 0, too
            return constant / np.asarray(y, np.float64)

    second = axes.secondary_yaxis("right", functions=(inverse, inverse))
    second.set_yticks(values, labels=labels.powers(values))
    second.set_yticks([], minor=True)
    second.set_ylabel(name if 0.09 * len(name) < size[1] - 1 else name.partition(",")[0])
    second.spines["right"].set_visible(False)


def name_levels(axes: Any, chart: Chart, look: Look) -> None:
    """A word on each line that marks a level, where it lies on no curve and no other line; in axes at their place."""
    renderer = axes.figure.canvas.get_renderer()
    lines = [axes.transData.transform(np.stack(each.get_data(), axis=1)) for each in axes.lines[: len(chart.curves)]]
    heights = [axes.transData.transform((1.0, level))[1] for _, level in chart.levels]
    taken: list[Any] = _name_bands(axes, chart, look, lines)
    for (word, level), own in zip(chart.levels, heights, strict=True):
        others = [height for height in heights if height != own]
        text = axes.annotate(
            word,
            (0.0, level),
            (0.0, 0.0),
            fontsize=9 * look.scale,
            color=_grey(look),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
        )
        best = None
        for share, side in ((0.0, 1), (0.0, -1), (1.0, 1), (1.0, -1), (0.5, 1), (0.5, -1)):
            text.xy = (share, level)
            text.set(ha=("left", "center", "right")[round(2 * share)], va="bottom" if side > 0 else "top")
            text.set_position(((4 - 8 * share) * look.scale, 3 * side * look.scale))
            box = text.get_window_extent(renderer)
            overlaps = sum(_meets(box, line) for line in lines) + sum(box.y0 < y < box.y1 for y in others)
            overlaps += sum(box.overlaps(other) for other in taken)
            overlaps += box.y1 > axes.bbox.y1 or box.y0 < axes.bbox.y0
            if best is None or overlaps < best[0]:
                best = overlaps, text.xy, text.get_ha(), text.get_va(), text.get_position(), box
        assert best is not None
        _, text.xy, across, up, place, box = best
        text.set(ha=across, va=up)
        text.set_position(place)
        taken.append(box)


def _name_bands(axes: Any, chart: Chart, look: Look, lines: Sequence[Floats]) -> list[Any]:
    """A word at the top or the bottom of each band that is wide enough for it; where these words are."""
    renderer, taken = axes.figure.canvas.get_renderer(), []
    for band in filter(lambda band: band.label, chart.bands):
        middle = (band.start + band.stop) / 2
        text = axes.annotate(
            band.label,
            (middle, 0.0),
            (0.0, 0.0),
            fontsize=8.5 * look.scale,
            color=_grey(look),
            ha="center",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
        )
        left, right = (axes.transData.transform((end, 1.0))[0] for end in (band.start - 0.5, band.stop + 0.5))
        for share in (1.0, 0.0):
            text.xy = (middle, share)
            text.set(va="top" if share else "bottom", position=(0.0, (3 - 6 * share) * look.scale))
            box = text.get_window_extent(renderer)
            if box.width < right - left - 2 and not any(_meets(box, line) for line in lines):
                taken.append(box)
                break
        else:
            text.remove()
    return taken


def _meets(box: Any, line: Floats) -> bool:
    """Whether a line, from left to right, passes through a box."""
    good = line[np.isfinite(line).all(axis=1)]
    if not len(good) or good[0, 0] > box.x1 or good[-1, 0] < box.x0:
        return False
    places = np.linspace(max(box.x0, good[0, 0]), min(box.x1, good[-1, 0]), 32)
    heights = np.interp(places, good[:, 0], good[:, 1])
    return bool(heights.max() > box.y0 - 1 and heights.min() < box.y1 + 1)


def _legend(axes: Any, chart: Chart, width: float, look: Look) -> int:
    """Above the curves, where it hides none of them, in as many columns as there is room for; how many lines it has.

    Names are whole: one that is too long takes several lines.
    """
    from matplotlib.font_manager import FontProperties
    from matplotlib.lines import Line2D

    names, handles = [curve.label for curve in chart.curves], axes.lines[: len(chart.curves)]
    for is_open, meaning in enumerate(chart.mark_names if chart.marks else ()):
        face = axes.get_facecolor() if is_open else _grey(look)
        handles = [
            *handles,
            Line2D([], [], color=_grey(look), marker="o", linestyle="", markerfacecolor=face, ms=6 * look.scale),
        ]
        names.append(meaning)
    renderer, font = axes.figure.canvas.get_renderer(), FontProperties(size=9 * look.scale)
    shown = [fitted(name, int((width - 0.36) / 0.075), MAX_LEGEND_LINES) or [""] for name in names]
    widest = max(renderer.get_text_width_height_descent(line, font, False)[0] for name in shown for line in name)
    column = 0.37 + widest / axes.figure.dpi / look.scale
    rows = -(-len(names) // max(1, int((width + 0.12) / column)))
    columns = -(-len(names) // rows)
    axes.legend(
        handles,
        ["\n".join(name) for name in shown],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0,
        columnspacing=1.0,
        handlelength=1.4,
        handletextpad=0.5,
    )
    return rows * max(map(len, shown))


def _number(axes: Any, chart: Chart, size: tuple[float, float]) -> None:
    """Ticks at round numbers in plain digits, as many as keep apart in axes of so many inches.

    matplotlib would set powers as formulas, which take time.
    """
    for axis, log, room in ((axes.xaxis, chart.log_x, (size[0] - 1) * 1.2), (axes.yaxis, chart.log_y, size[1] * 1.6)):
        low, high = sorted(axis.get_view_interval())
        most = max(4, int(room))
        values = labels.round_powers(low, high, most) if log else labels.round_values(low, high, most)
        if axis is axes.yaxis and chart.ticks:
            values = list(chart.ticks)
        if axis is axes.xaxis and not log and max(abs(low), abs(high)) > 2 and chart.x != "value":
            values = [value for value in values if value == round(value)]
        axis.set_ticks(values, labels=labels.powers(values) if log else [labels.plain(value) for value in values])
        axis.set_ticks([], minor=True)
        axis.set_view_interval(low, high, ignore=True)


def thin_out(axes: Any, gap: float) -> None:
    """Take away every other number of an axis until they keep so many pixels apart; in axes at their place."""
    renderer = axes.figure.canvas.get_renderer()
    every = [(axes.xaxis, "x0", "x1"), (axes.yaxis, "y0", "y1")]
    every += [(child.yaxis, "y0", "y1") for child in axes.child_axes]
    for axis, low, high in every:
        while len(axis.get_ticklocs()) > 2:
            boxes = [label.get_window_extent(renderer) for label in axis.get_ticklabels() if label.get_visible()]
            shown = sorted((getattr(box, low), getattr(box, high)) for box in boxes if box.width)
            if all(after[0] - before[1] >= gap for before, after in pairwise(shown)):
                break
            ends = axis.get_view_interval()
            texts = [label.get_text() for label in axis.get_ticklabels()]
            axis.set_ticks(axis.get_ticklocs()[::2], labels=texts[::2])
            axis.set_view_interval(*ends, ignore=True)
