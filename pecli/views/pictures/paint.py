"""Pictures as figures: each panel in axes of its own."""

from __future__ import annotations

import math
import textwrap
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.views.pictures import axes_numbers, charts, figure, ticks
from pecli.views.pictures.layout import Place, arrange
from pecli.views.pictures.panels import Chart, Circle, Heat, Panel, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from pecli.engine.arrays import Floats

_LETTERS = 11.0
"""Letters of a title to an inch."""
_INNER = 0.25
"""Where a spiral begins."""


def size_of(picture: Picture) -> tuple[float, float]:
    """Inches that a picture wants: more height for several rows, and square matrices square."""
    rows = _rows(picture)
    across = max(map(len, rows))
    if across > 1 and all(panel.row_count == panel.column_count for panel in rows[0] if isinstance(panel, Heat)):
        side = (8.0 - 1.2) / across
        return 8.0, min(8.0, round(2 * (1.0 + len(rows) * (side + 0.2))) / 2)
    return 8.0, 5.0 if len(rows) == 1 else 6.5


def paint(
    picture: Picture, *, width: float = 8.0, height: float = 5.0, dark: bool = False, cmap: str | None = None
) -> Figure:
    """A figure of so many inches."""
    made = figure.new(width, height, dark=dark, layout=None)
    rows = _rows(picture)
    across = max(len(row) for row in rows)
    grid = made.add_gridspec(len(rows), across)
    places, coloured = [], []
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            wide = across if len(row) == 1 and isinstance(panel, Chart) else 1
            axes = made.add_subplot(grid[down, right : right + wide])
            size = width * wide / across, height / len(rows)
            if panel.title:
                axes.set_title(_fitted(panel.title, int(size[0] * _LETTERS) - 8, 2), fontsize=10)
            _draw(axes, panel, size, dark, cmap)
            axes.label_outer() if _alike(rows) else None
            places.append(Place(axes, down, right, wide))
            if not isinstance(panel, Chart):
                coloured.append((panel, places[-1]))
    title = None
    if picture.title:
        text = _fitted(picture.title, int(width * _LETTERS) - 2, 3)
        title = made.suptitle(text, x=0.012, y=1 - 0.12 / height, ha="left", va="top")
    key = _key(made, coloured, cmap, dark)
    figure.make_legible(made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the font lacks are boxes
        arrange(made, places, title, key, [place for _, place in coloured])
    return made


def _rows(picture: Picture) -> list[list[Panel]]:
    """Panels in rows; a chart below several heatmaps has a row of its own."""
    rows: list[list[Panel]] = []
    heats = sum(isinstance(panel, Heat) for panel in picture.panels)
    for panel in picture.panels:
        alone = heats > 1 and isinstance(panel, Chart)
        if rows and not alone and len(rows[-1]) < picture.across:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _alike(rows: Sequence[Sequence[Panel]]) -> bool:
    """Whether the axes of all panels are the same, so that the outer ones speak for all."""
    every = [panel for each in rows for panel in each]
    if not all(isinstance(panel, Heat) for panel in every):
        return False
    return len({(p.row_count, p.column_count, p.first_row, p.columns) for p in every if isinstance(p, Heat)}) == 1


def _fitted(text: str, room: int, lines: int) -> str:
    """A text in a few lines of so many letters."""
    if " " not in text and len(text) > room:
        return f"{text[: max(12, room) - 1]}…"
    return "\n".join(textwrap.wrap(text, max(12, room), max_lines=lines, placeholder=" …")) or text


def _draw(axes: Any, panel: Panel, size: tuple[float, float], dark: bool, cmap: str | None) -> None:
    if isinstance(panel, Heat):
        _heat(axes, panel, cmap, size)
    elif isinstance(panel, Chart):
        charts.chart(axes, panel, size, dark)
    else:
        _circle(axes, panel, dark, cmap)


def _heat(axes: Any, panel: Heat, cmap: str | None, size: tuple[float, float]) -> None:
    rows, columns = panel.row_count or len(panel.values), panel.column_count or panel.values.shape[1]
    first = panel.first_row
    low, high = _limits(panel)
    axes.imshow(
        np.ma.masked_invalid(panel.bent(charts.drawable(panel.values))),
        cmap=figure.colours(cmap, centred=panel.centred),
        vmin=_bent(panel, low),
        vmax=_bent(panel, high),
        extent=(-0.5, columns - 0.5, first + rows - 0.5, first - 0.5),
    )
    longest = len(str(columns)) / 10
    across = ticks.indices(0, columns, max(2, int((size[0] - 1) / (0.35 + longest))))
    down = ticks.indices(first, rows, max(2, int(size[1] * 2)))
    axes.set_xticks(across, labels=[f"{place:,}" for place in across])
    axes.set_yticks(down, labels=[f"{place:,}" for place in down])
    axes.set_xlabel(panel.columns)
    axes.set_ylabel(panel.rows)
    axes.spines[:].set_visible(False)


def _limits(panel: Heat) -> tuple[float, float]:
    """The values at the ends of the colours."""
    low, high = (min(max(end, -charts.LARGEST), charts.LARGEST) for end in panel.limits)
    return ticks.apart(low, high)


def _bent(panel: Heat | Circle, value: float) -> float:
    return float(panel.bent(np.array(value))) if isinstance(panel, Heat) else value


def _uneven(low: float, high: float) -> list[float]:
    """Round numbers for a scale that is wide near zero."""
    reach = max(abs(low), abs(high))
    if not reach > 1e-300:  # powers of ten end where numbers do
        return [low, high]
    rounded = [0.0]
    for value in (reach * share for share in (0.01, 0.1, 0.4, 1.0)):
        power = 10.0 ** math.floor(math.log10(value))
        rounded.append(value // power * power)
    return sorted({sign * value for value in rounded for sign in (-1.0, 1.0) if low <= sign * value <= high})


def _grey(matrices: Sequence[Floats]) -> str:
    """What grey means in these matrices."""
    unknown = np.concatenate([values[~np.isfinite(values)] for values in matrices])
    return f"grey: {'−inf' if np.isneginf(unknown).all() else 'not finite'}" if unknown.size else ""


def _key(made: Figure, coloured: Sequence[tuple[Heat | Circle, Place]], cmap: str | None, dark: bool) -> Any:
    """A colour bar for all panels that tell by colours, drawn as an image of its own; its axes."""
    if not coloured:
        return None
    panel = coloured[0][0]
    if isinstance(panel, Circle):
        low, high, meaning, centred = float(panel.positions[0]), float(panel.positions[-1]), "position", False
    else:
        low, high = _limits(panel)
        grey = _grey([each.values for each, _ in coloured if isinstance(each, Heat)])
        meaning = ", ".join(filter(None, [panel.meaning, grey]))
        centred = panel.centred
    high = high if high > low else low + 1.0
    axes: Any = made.add_axes((0.9, 0.1, 0.02, 0.8))
    ends = _bent(panel, low), _bent(panel, high)
    ramp = np.linspace(*ends[::-1], 256)[:, None]
    colours = figure.part(cmap, dark) if isinstance(panel, Circle) else figure.colours(cmap, centred=centred)
    axes.imshow(ramp, cmap=colours, extent=(0.0, 1.0, *ends))
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    values = ticks.round_values(*ends, 6) if ends == (low, high) else _uneven(low, high)
    axes.set_yticks([_bent(panel, value) for value in values], labels=[axes_numbers.plain(value) for value in values])
    axes.set_ylabel(meaning)
    return axes


def _circle(axes: Any, panel: Circle, dark: bool, cmap: str | None) -> None:
    """A spiral from the first position to the last, so that one turn does not hide the one before."""
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", linewidth=0.8, zorder=1)
    span = max(1.0, float(panel.positions[-1] - panel.positions[0]))
    radius = _INNER + (1 - _INNER) * (panel.positions - panel.positions[0]) / span
    x, y = radius * np.cos(panel.angles), radius * np.sin(panel.angles)
    axes.scatter(
        x, y, c=panel.positions, cmap=figure.part(cmap, dark), s=7 if len(x) > 200 else 20, zorder=2, linewidths=0
    )
    axes.set_aspect("equal")
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.06, 1.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
