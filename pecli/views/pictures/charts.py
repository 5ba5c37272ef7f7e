"""Curves in the axes of a figure: their colours, the lines that mark a level, and a legend that hides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import axes_numbers, palettes
from pecli.views.pictures.block_mean import envelope
from pecli.views.pictures.figure import Look
from pecli.views.pictures.panels import Chart, Curve, coinciding
from pecli.views.pictures.words import fitted

LARGEST = 1e150
_LINES = ("-", "--", "-.", ":")
_OVER = (0, (5.0, 5.0))
"""The dashes of a curve that lies on another, so that both are seen."""
_LONG = 32
"""Letters of a legend that are worth making all of a figure smaller."""
_DENSE = 400
"""Points from which on a line is thin."""


def drawable(values: Floats) -> Floats:
    """matplotlib subtracts the ends of an axis, which have to leave room for that."""
    return np.where(np.abs(values) < LARGEST, values, np.nan)


def chart(axes: Any, panel: Chart, size: tuple[float, float], look: Look) -> None:
    """Draw all of a panel into axes of about so many inches, at a scale of one."""
    over = coinciding(panel)
    thin = any(len(curve.x) > _DENSE and _is_restless(curve) for curve in panel.curves)
    for number, curve in enumerate(panel.curves):
        x, y = envelope(drawable(curve.x), drawable(curve.y), 2000)
        given: dict[str, Any] = {"linewidth": (1.0 if thin else 1.6) * look.scale}
        given["marker"] = "o" if panel.points and len(x) <= 128 and not over[number] else ""
        given["linestyle"] = _OVER if over[number] else "-" if panel.ordered else _LINES[number // 6 % 4]
        if panel.ordered:
            given["color"] = [part / 255 for part in palettes.step(number, len(panel.curves), dark=look.dark)]
        axes.plot(x, y, label=curve.label or None, **given)
        if panel.filled and not number:
            axes.fill_between(x, y, alpha=0.25, linewidth=0)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for _, level in panel.levels:
        axes.axhline(level, color=_grey(look), linewidth=look.scale, linestyle=(0, (4, 3)), zorder=1)
    axes.margins(x=0.01)
    if panel.log_y and axes.get_ylim()[0] <= 0:  # no curve has a point there
        middle = panel.levels[0][1] if panel.levels else 1.0
        axes.set_ylim(middle / 10, middle * 10)
    axes_numbers.number(axes, panel, size)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y if 0.09 * len(panel.y) < size[1] - 1 else panel.y.partition(",")[0])
    axes.grid(True)
    axes.set_axisbelow(True)
    if len(panel.curves) > 1 and any(curve.label for curve in panel.curves):
        rows = _legend(axes, [curve.label for curve in panel.curves], size[0] - 0.8, look.scale)
        if panel.title:
            axes.set_title(axes.get_title("left"), fontsize=10 * look.scale, pad=(6 + 14.5 * rows) * look.scale)


def least(panel: Chart) -> tuple[float, float]:
    """Inches that the curves of a panel need to be read, and the names around them."""
    longest = max((len(curve.label) for curve in panel.curves), default=0) if len(panel.curves) > 1 else 0
    return max(1.4, 0.5 + 0.075 * min(longest, _LONG)), max(
        0.9, 0.08 * len(panel.y.partition(",")[0]), 0.5 + 0.35 * len(panel.levels)
    )


def _grey(look: Look) -> str:
    return "0.65" if look.dark else "0.4"


def _is_restless(curve: Curve) -> bool:
    """Whether a curve turns at many places."""
    rising = np.diff(curve.y) > 0
    return int(np.count_nonzero(rising[1:] != rising[:-1])) > 30


def name_levels(axes: Any, panel: Chart, look: Look) -> None:
    """A word on each line that marks a level, where it lies on no curve and no other line; in axes at their place."""
    renderer = axes.figure.canvas.get_renderer()
    lines = [axes.transData.transform(np.stack(each.get_data(), axis=1)) for each in axes.lines[: len(panel.curves)]]
    heights = [axes.transData.transform((1.0, level))[1] for _, level in panel.levels]
    taken: list[Any] = []
    for (word, level), own in zip(panel.levels, heights, strict=True):
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
            trouble = sum(_meets(box, line) for line in lines) + sum(box.y0 < y < box.y1 for y in others)
            trouble += sum(box.overlaps(other) for other in taken)
            trouble += box.y1 > axes.bbox.y1 or box.y0 < axes.bbox.y0
            if best is None or trouble < best[0]:
                best = trouble, text.xy, text.get_ha(), text.get_va(), text.get_position(), box
        assert best is not None
        _, text.xy, across, up, place, box = best
        text.set(ha=across, va=up)
        text.set_position(place)
        taken.append(box)


def _meets(box: Any, line: Floats) -> bool:
    """Whether a line, from left to right, passes through a box."""
    good = line[np.isfinite(line).all(axis=1)]
    if not len(good) or good[0, 0] > box.x1 or good[-1, 0] < box.x0:
        return False
    places = np.linspace(max(box.x0, good[0, 0]), min(box.x1, good[-1, 0]), 32)
    heights = np.interp(places, good[:, 0], good[:, 1])
    return bool(heights.max() > box.y0 - 1 and heights.min() < box.y1 + 1)


def _legend(axes: Any, labels: Sequence[str], width: float, scale: float) -> int:
    """Above the curves, where it hides none of them, in as many columns as there is room for; how many rows it has."""
    from matplotlib.font_manager import FontProperties

    renderer, font = axes.figure.canvas.get_renderer(), FontProperties(size=9 * scale)
    shown = [fitted(label, int((width - 0.36) / 0.075), 1)[0] if label else label for label in labels]
    widest = max(renderer.get_text_width_height_descent(label, font, False)[0] for label in shown)
    column = 0.37 + widest / axes.figure.dpi / scale
    rows = -(-len(labels) // max(1, int((width + 0.12) / column)))
    columns = -(-len(labels) // rows)
    axes.legend(
        axes.lines[: len(labels)],
        shown,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.2,
        borderpad=0,
        columnspacing=1.0,
        handlelength=1.4,
        handletextpad=0.5,
    )
    return rows
