"""Curves in the axes of a figure: their colours, the lines that mark a level, and a legend that hides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.views.pictures import axes_numbers, palettes
from pecli.views.pictures.panels import Chart, Curve
from pecli.views.pictures.shrink import envelope

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

LARGEST = 1e150
_LINES = ("-", "--", "-.", ":")
_DENSE = 400
"""Points from which on a line is thin."""
_APART = 0.3
"""Inches that two levels keep for a word between them."""


def drawable(values: Floats) -> Floats:
    """matplotlib subtracts the ends of an axis, which have to leave room for that."""
    return np.where(np.abs(values) < LARGEST, values, np.nan)


def chart(axes: Any, panel: Chart, size: tuple[float, float], dark: bool) -> None:
    """Draw all of a panel into axes of about so many inches."""
    for number, curve in enumerate(panel.curves):
        x, y = envelope(drawable(curve.x), drawable(curve.y), 2000)
        look: dict[str, Any] = {"marker": "o" if panel.points and len(x) <= 128 else "", "markersize": 3}
        look["linewidth"] = 1.0 if len(x) > _DENSE and _is_restless(curve) else 1.6
        if panel.ordered:
            look["color"] = [part / 255 for part in palettes.step(number, len(panel.curves), dark=dark)]
        axes.plot(x, y, "-" if panel.ordered else _LINES[number // 6 % 4], label=curve.label or None, **look)
        if panel.filled and not number:
            axes.fill_between(x, y, alpha=0.25, linewidth=0)
    axes.set_xscale("log") if panel.log_x else None
    axes.set_yscale("log") if panel.log_y else None
    _levels(axes, panel, size[1])
    axes.margins(x=0.01)
    axes_numbers.number(axes, panel, size)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y if 0.09 * len(panel.y) < size[1] - 1 else panel.y.partition(",")[0])
    axes.grid(True)
    axes.set_axisbelow(True)
    if len(panel.curves) > 1 and any(curve.label for curve in panel.curves):
        rows = _legend(axes, [curve.label for curve in panel.curves], size[0] - 0.8)
        if panel.title:
            axes.set_title(axes.get_title("left"), fontsize=10, pad=6 + 14.5 * rows)


def _is_restless(curve: Curve) -> bool:
    """Whether a curve turns at many places."""
    rising = np.diff(curve.y) > 0
    return int(np.count_nonzero(rising[1:] != rising[:-1])) > 30


def _levels(axes: Any, panel: Chart, height: float) -> None:
    """Lines across, each with its word: above it, or below where the next line leaves no room."""
    places = [axes.transData.transform((1.0, level))[1] / axes.figure.dpi for _, level in panel.levels]
    for number, (word, level) in enumerate(panel.levels):
        crowded = number + 1 < len(places) and abs(places[number + 1] - places[number]) < _APART
        axes.axhline(level, color="0.5", linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        where = {"xytext": (4, -3 if crowded else 3), "va": "top" if crowded else "bottom"}
        axes.annotate(
            word,
            (0.0, level),
            fontsize=9,
            color="0.5",
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            **where,
        )


def _legend(axes: Any, labels: Sequence[str], width: float) -> int:
    """Above the curves, where it hides none of them, in as many columns as there is room for; how many rows it has."""
    column = 0.36 + 0.075 * max(map(len, labels))
    rows = -(-len(labels) // max(1, int(width / column)))
    columns = -(-len(labels) // rows)
    axes.legend(
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
