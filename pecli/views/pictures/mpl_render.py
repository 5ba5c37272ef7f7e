"""Pictures as figures: each panel in axes of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import axes_numbers, charts, figure, ticks
from pecli.views.pictures.figure import Look
from pecli.views.pictures.layout import Bar, Place, arrange
from pecli.views.pictures.panels import Chart, Circle, Heat, Panel, Picture
from pecli.views.pictures.words import fitted

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_LETTERS = 11.0
"""Letters of a title to an inch."""
_INNER = 0.25
"""Where a spiral begins."""
_LEAST = (0.75, 0.6)
"""Inches that a matrix or a circle needs."""
_STEP, _SMALLEST = 0.85, 0.15
"""Letters become smaller by this, down to that."""


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
    """A figure of so many inches; where they have no room for all of it, letters and lines are smaller."""
    look = Look(dark, cmap)
    with figure.no_remarks():
        made, is_roomy = _painted(picture, width, height, look)
        while not is_roomy and look.scale > _SMALLEST:
            look = look._replace(scale=_STEP * look.scale)
            made, is_roomy = _painted(picture, width, height, look)
    return made


def _painted(picture: Picture, width: float, height: float, look: Look) -> tuple[Figure, bool]:
    """The figure, and whether it has room for all of it."""
    made = figure.new(width, height, look)
    rows = _rows(picture)
    across = max((len(row) for row in rows), default=1)
    inches = width / look.scale, height / look.scale
    drawn: list[tuple[Panel, Place]] = []
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            wide = across if len(row) == 1 and isinstance(panel, Chart) else 1
            axes = made.add_subplot(made.add_gridspec(len(rows), across)[down, right : right + wide])
            size = inches[0] * wide / across, inches[1] / len(rows)
            if panel.title:
                text = fitted(panel.title, max(14, int(size[0] * _LETTERS) - 8), 3)
                axes.set_title("\n".join(text), fontsize=10 * look.scale)
            _draw(axes, panel, size, look)
            if _alike(rows):
                _hush(axes, right > 0, any(right < len(other) for other in rows[down + 1 :]))
            drawn.append((panel, Place(axes, down, right, wide)))
    title = None
    if picture.title:
        text = fitted(picture.title, max(14, int(inches[0] * _LETTERS) - 2), 3)
        title = made.suptitle("\n".join(text), x=0.012, y=1 - 0.12 / inches[1], ha="left", va="top")
    if not drawn:
        return made, True
    bars = _keys(made, drawn, look)
    figure.make_legible(made)
    room = arrange(made, [place for _, place in drawn], title, bars, look.scale)
    for panel, place in drawn:
        axes_numbers.thin_out(place.axes, 3 * look.scale)
        if isinstance(panel, Chart):
            charts.name_levels(place.axes, panel, look)
    least = [(charts.least(panel) if isinstance(panel, Chart) else _LEAST, place.span) for panel, place in drawn]
    least_wide, least_high = max(size[0] / span for size, span in least), max(size[1] for size, _ in least)
    enough = room[0] >= least_wide * look.scale and room[1] >= least_high * look.scale
    return made, enough and all(_is_beside(bar, look.scale) for bar in bars)


def _is_beside(bar: Bar, scale: float) -> bool:
    """Whether what a bar means is hardly longer than the bar."""
    renderer, dpi = bar.axes.figure.canvas.get_renderer(), bar.axes.figure.dpi
    name = bar.axes.yaxis.label.get_window_extent(renderer)
    return bool(name.height < bar.axes.bbox.height + 0.3 * scale * dpi)


def _hush(axes: Any, left: bool, below: bool) -> None:
    """Leave numbers and names to the axes at the left and below, where there are such."""
    axes.tick_params(labelleft=not left, labelbottom=not below)
    if left:
        axes.set_ylabel("")
    if below:
        axes.set_xlabel("")


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


def _draw(axes: Any, panel: Panel, size: tuple[float, float], look: Look) -> None:
    if isinstance(panel, Heat):
        _heat(axes, panel, look.cmap, size)
    elif isinstance(panel, Chart):
        charts.chart(axes, panel, size, look)
    else:
        _circle(axes, panel, look)


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
        interpolation="nearest" if panel.sharp else None,
    )
    longest = len(str(columns)) / 10
    across = ticks.indices(0, columns, max(2, int((size[0] - 1) / (0.35 + longest))))
    down = ticks.indices(first, rows, max(2, int(size[1] * 2))) if panel.rows else []
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


def _keys(made: Figure, drawn: Sequence[tuple[Panel, Place]], look: Look) -> list[Bar]:
    """A colour bar for all panels that tell by colours; one each where these mean something else each time."""
    coloured = [(panel, place) for panel, place in drawn if not isinstance(panel, Chart)]
    ends = {panel.limits if isinstance(panel, Heat) else None for panel, _ in coloured}
    groups = [coloured] if len(ends) == 1 else [[each] for each in coloured]
    return [
        Bar(_key(made, [panel for panel, _ in group], look, len(groups)), [place for _, place in group])
        for group in groups
    ]


def _key(made: Figure, panels: Sequence[Heat | Circle], look: Look, share: int) -> Any:
    """A colour bar, drawn as an image of its own; its axes."""
    panel = panels[0]
    if isinstance(panel, Circle):
        low, high, meaning = float(panel.positions[0]), float(panel.positions[-1]), "position"
        colours = figure.part(look.cmap, look.dark)
    else:
        low, high = _limits(panel)
        grey = _grey([each.values for each in panels if isinstance(each, Heat)])
        meaning = ", ".join(filter(None, [panel.meaning, grey]))
        colours = figure.colours(look.cmap, centred=panel.centred)
    high = high if high > low else low + 1.0
    axes: Any = made.add_axes((0.9, 0.1, 0.02, 0.8 / share))
    ends = _bent(panel, low), _bent(panel, high)
    ramp = np.linspace(*ends[::-1], 256)[:, None]
    axes.imshow(ramp, cmap=colours, extent=(0.0, 1.0, *ends))
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    values = ticks.round_values(*ends, 6) if ends == (low, high) else _uneven(low, high)
    axes.set_yticks([_bent(panel, value) for value in values], labels=[axes_numbers.plain(value) for value in values])
    axes.set_ylabel(meaning)
    return axes


def _circle(axes: Any, panel: Circle, look: Look) -> None:
    """A spiral from the first position to the last, so that one turn does not hide the one before."""
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", linewidth=0.8 * look.scale, zorder=1)
    span = max(1.0, float(panel.positions[-1] - panel.positions[0]))
    radius = _INNER + (1 - _INNER) * (panel.positions - panel.positions[0]) / span
    x, y = radius * np.cos(panel.angles), radius * np.sin(panel.angles)
    colours, area = figure.part(look.cmap, look.dark), (7 if len(x) > 200 else 20) * look.scale**2
    axes.scatter(x, y, c=panel.positions, cmap=colours, s=area, zorder=2, linewidths=0)
    axes.set_aspect("equal")
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.06, 1.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
