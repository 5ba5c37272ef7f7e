"""Pictures as figures: each panel in axes of its own."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.views import figure, ticks
from pecli.views.panels import Chart, Circle, Heat, Picture
from pecli.views.shrink import envelope

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LETTERS = 11.0
"""Letters of a title to an inch."""
_LINES = ("-", "--", "-.", ":")


def paint(
    picture: Picture, *, width: float = 8.0, height: float = 5.0, dark: bool = False, cmap: str | None = None
) -> Figure:
    """A figure of so many inches."""
    made = figure.new(width, height, dark=dark)
    across = max(1, picture.across)
    down = -(-len(picture.panels) // across)
    grid: Any = made.subplots(down, across, squeeze=False)
    places = [axes for row in grid for axes in row]
    for axes, panel in zip(places, picture.panels, strict=False):
        room = int(width / across * _LETTERS) - 8
        if panel.title:
            axes.set_title(_fitted(panel.title, room, 2), fontsize=10 if len(picture.panels) > 1 else 11)
        if isinstance(panel, Heat):
            _heat(axes, panel, cmap, (width / across, height / down))
        elif isinstance(panel, Chart):
            _chart(axes, panel, width / across)
        else:
            _circle(axes, panel, cmap)
    for axes in places[len(picture.panels) :]:
        axes.set_axis_off()
    _keys(made, picture, places)
    if picture.title:
        made.suptitle(_fitted(picture.title, int(width * _LETTERS) - 2, 2), x=0.012, ha="left")
    return made


def _fitted(text: str, room: int, lines: int) -> str:
    """A text in a few lines of so many letters."""
    return "\n".join(textwrap.wrap(text, max(12, room), max_lines=lines, placeholder=" …")) or text


def _heat(axes: Axes, panel: Heat, cmap: str | None, size: tuple[float, float]) -> None:
    rows, columns = panel.row_count or len(panel.values), panel.column_count or panel.values.shape[1]
    first = panel.first_row
    values = np.ma.masked_invalid(panel.values)
    edges = (-0.5, columns - 0.5, first + rows - 0.5, first - 0.5)
    low, high = panel.limits
    axes.imshow(values, cmap=figure.colours(cmap, centred=panel.centred), vmin=low, vmax=high, extent=edges)
    axes.set_xticks(ticks.indices(0, columns, max(2, int(size[0] * 1.3))))
    axes.set_yticks(ticks.indices(first, rows, max(2, int(size[1] * 2))))
    axes.set_xlabel(panel.columns)
    axes.set_ylabel(panel.rows)
    axes.spines[:].set_visible(False)


def _keys(made: Figure, picture: Picture, places: Sequence[Any]) -> None:
    """A colour bar: one for panels that share their colours, else one each. Circles tell positions by colour."""
    heats = [(panel, axes) for panel, axes in zip(picture.panels, places, strict=False) if isinstance(panel, Heat)]
    if not heats:
        return
    shared = len({panel.limits for panel, _ in heats}) == 1
    groups = [heats] if shared else [[each] for each in heats]
    for group in groups:
        panel = group[0][0]
        whole = len(group) == len(places)
        bar = made.colorbar(
            group[0][1].images[0],
            ax=places if whole else [axes for _, axes in group],
            pad=0.02,
            aspect=30,
            fraction=0.05,
        )
        bar.outline.set_visible(False)
        low, high = panel.limits
        values = ticks.round_values(low, high, 6)
        bar.set_ticks(values, labels=[ticks.short(value).replace("-", "−") for value in values])
        if panel.meaning and panel.meaning != "value":
            bar.set_label(panel.meaning)


def _chart(axes: Axes, panel: Chart, width: float) -> None:
    for number, curve in enumerate(panel.curves):
        x, y = envelope(curve.x, curve.y, 2000)
        marker = "o" if panel.points and len(x) <= 128 else ""
        style = _LINES[number // 6 % 4]
        axes.plot(x, y, style, label=curve.label or None, marker=marker, markersize=3)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for word, level in panel.levels:
        axes.axhline(level, color="0.5", linewidth=1.0, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            word,
            (0.0, level),
            xycoords=("axes fraction", "data"),
            xytext=(4, 3),
            textcoords="offset points",
            fontsize=9,
            color="0.5",
        )
    _number_axes(axes, panel)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.grid(True)
    axes.set_axisbelow(True)
    axes.margins(x=0.01)
    if len(panel.curves) > 1 and any(curve.label for curve in panel.curves):
        axes.legend(loc="best", ncols=1 if len(panel.curves) < 6 or width < 6 else 2)


def _number_axes(axes: Any, panel: Chart) -> None:
    """Plain numbers on logarithmic axes too, where matplotlib would set formulas, which take time to parse."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, ScalarFormatter

    for axis, log in ((axes.xaxis, panel.log_x), (axes.yaxis, panel.log_y)):
        if log:
            axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
            axis.set_minor_formatter(NullFormatter())
        else:
            axis.set_major_locator(MaxNLocator(8, integer=axis is axes.xaxis and panel.x != "value"))
            plain = ScalarFormatter(useOffset=False)
            plain.set_scientific(False)
            axis.set_major_formatter(plain)


def _power(value: float) -> str:
    return f"{value:,.0f}" if 1 <= value < 1e7 else ticks.short(value).replace("e-", "e−")


def _circle(axes: Any, panel: Circle, cmap: str | None) -> None:
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", linewidth=0.8, zorder=1)
    positions = panel.first + np.arange(len(panel.angles))
    axes.scatter(
        np.cos(panel.angles), np.sin(panel.angles), c=positions, cmap=figure.colours(cmap), s=22, zorder=2, linewidths=0
    )
    axes.set_aspect("equal")
    axes.set_xlim(-1.15, 1.15)
    axes.set_ylim(-1.15, 1.15)
    axes.set_xticks([-1, 0, 1])
    axes.set_yticks([-1, 0, 1])
