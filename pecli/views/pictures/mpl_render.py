"""Pictures as figures: each panel in axes of its own, as large as the figure allows, with room for every label."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import figure, labels, mpl_charts
from pecli.views.pictures.downsample import fitted_to
from pecli.views.pictures.figure import Look
from pecli.views.pictures.labels import fitted
from pecli.views.pictures.panels import Chart, CirclePanel, HeatmapPanel, Panel, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LETTERS_PER_INCH = 11.0
"""Of a title."""
INNER_RADIUS = 0.25
"""Where a spiral begins."""
MIN_SIZE = (0.75, 0.6)
"""Inches that a matrix or a circle needs."""
SCALE_STEP, MIN_SCALE = 0.85, 0.15
"""Letters become smaller by this, down to that."""
PANEL_GAP, BAR_WIDTH = 0.12, 0.15
"""Inches between panels, and of a colour bar's width."""


def size_of(picture: Picture) -> tuple[float, float]:
    """Inches that a picture wants: more height for several rows, and square matrices square."""
    rows = _rows(picture)
    across = max(map(len, rows), default=1)
    if not rows:
        return 8.0, 2.0
    heats = [panel for panel in rows[0] if isinstance(panel, HeatmapPanel)]
    if heats and all(panel.shape[0] == panel.shape[1] for panel in heats):
        side = (8.0 - 1.2) / max(across, 1.2)
        return 8.0, min(8.0, round(2 * (1.0 + len(rows) * (side + 0.2))) / 2)
    return 8.0, 5.0 if len(rows) == 1 else 6.5


def render(
    picture: Picture,
    *,
    width: float = 8.0,
    height: float = 5.0,
    dpi: float = 100,
    dark: bool = False,
    cmap: str | None = None,
) -> Figure:
    """A figure of so many inches; where they have no room for all of it, letters and lines are smaller.

    A heatmap has a row of pixels for each of its rows when the figure is saved with these dots per inch.
    """
    look = Look(dark, cmap)
    with figure.no_remarks():
        made, fits = _drawn(picture, width, height, dpi, look)
        while not fits and look.scale > MIN_SCALE:
            look = look._replace(scale=SCALE_STEP * look.scale)
            made, fits = _drawn(picture, width, height, dpi, look)
    return made


def _drawn(picture: Picture, width: float, height: float, dpi: float, look: Look) -> tuple[Figure, bool]:
    """The figure, and whether it has room for all of it."""
    made = figure.new(width, height, look)
    rows = _rows(picture)
    across = max((len(row) for row in rows), default=1)
    inches = width / look.scale, height / look.scale
    shares = [min(getattr(panel, "share", 1.0) for panel in row) for row in rows]
    drawn: list[tuple[Panel, Place]] = []
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            wide = across if len(row) == 1 and isinstance(panel, Chart) else 1
            axes = made.add_subplot(made.add_gridspec(len(rows), across)[down, right : right + wide])
            size = inches[0] * wide / across, inches[1] * shares[down] / sum(shares)
            if panel.title:
                text = fitted(panel.title, max(14, int(size[0] * LETTERS_PER_INCH) - 8), 3)
                axes.set_title("\n".join(text), fontsize=10 * look.scale)
            _draw(axes, panel, size, look)
            if _share_axes(rows):
                _hide_inner_labels(axes, right > 0, any(right < len(other) for other in rows[down + 1 :]))
            drawn.append((panel, Place(axes, down, right, wide)))
    titles = _titles(made, picture, inches[0], look.scale)
    if not drawn:
        return made, True
    bars = _colour_bars(made, drawn, look)
    figure.make_legible(made)
    room = arrange(made, Grid([place for _, place in drawn], shares, bars, titles), look.scale, dpi)
    for panel, place in drawn:
        if isinstance(panel, HeatmapPanel):
            _fill_image(place.axes, panel, dpi, look)
        mpl_charts.thin_out(place.axes, 3 * look.scale)
        if isinstance(panel, Chart):
            mpl_charts.name_levels(place.axes, panel, look)
    least = [(mpl_charts.min_size(panel) if isinstance(panel, Chart) else MIN_SIZE, place) for panel, place in drawn]
    enough = all(
        room[0] * place.span >= size[0] * look.scale and room[1] * shares[place.row] >= size[1] * look.scale
        for size, place in least
    )
    return made, enough and all(_is_beside(bar, look.scale) for bar in bars)


def _titles(made: Figure, picture: Picture, width: float, scale: float) -> list[Any]:
    """The texts above all panels: title, and below it subtitle."""
    found: list[Any] = []
    top = 1 - 0.12 * scale / made.get_figheight()
    for text, size in ((picture.title, 12.0), (picture.subtitle, 9.5)):
        if not text:
            continue
        lines = fitted(text, max(14, int(width * LETTERS_PER_INCH * 12 / size) - 2), 4)
        found.append(made.text(0.012, top, "\n".join(lines), fontsize=size * scale, ha="left", va="top"))
        top -= (len(lines) * size * 1.25 + 4) * scale / 72 / made.get_figheight()
    return found


def _is_beside(bar: Bar, scale: float) -> bool:
    """Whether what a bar means is hardly longer than the bar."""
    renderer, dpi = bar.axes.figure.canvas.get_renderer(), bar.axes.figure.dpi
    name = bar.axes.yaxis.label.get_window_extent(renderer)
    return bool(name.height < bar.axes.bbox.height + 0.3 * scale * dpi)


def _hide_inner_labels(axes: Any, left: bool, below: bool) -> None:
    """Leave numbers and names to the axes at the left and below, where there are such."""
    axes.tick_params(labelleft=not left, labelbottom=not below)
    if left:
        axes.set_ylabel("")
    if below:
        axes.set_xlabel("")


def _rows(picture: Picture) -> list[list[Panel]]:
    """Panels in rows; a chart below several heatmaps has a row of its own."""
    rows: list[list[Panel]] = []
    heats = sum(isinstance(panel, HeatmapPanel) for panel in picture.panels)
    for panel in picture.panels:
        alone = heats > 1 and isinstance(panel, Chart)
        if rows and not alone and len(rows[-1]) < picture.across:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _share_axes(rows: Sequence[Sequence[Panel]]) -> bool:
    """Whether the axes of all panels are the same, so that the outer ones speak for all."""
    every = [panel for each in rows for panel in each]
    heats = [panel for panel in every if isinstance(panel, HeatmapPanel)]
    return len(heats) == len(every) and len({(p.shape, p.first_row, p.columns) for p in heats}) == 1


def _draw(axes: Any, panel: Panel, size: tuple[float, float], look: Look) -> None:
    if isinstance(panel, HeatmapPanel):
        _draw_heatmap(axes, panel, look, size)
    elif isinstance(panel, Chart):
        mpl_charts.draw(axes, panel, size, look)
    else:
        _draw_circle(axes, panel, look)


def _draw_heatmap(axes: Any, panel: HeatmapPanel, look: Look, size: tuple[float, float]) -> None:
    rows, columns = panel.shape
    first = panel.first_row
    low, high = _scaled_limits(panel)
    axes.imshow(
        np.zeros((1, 1)),  # filled once the axes have their place
        cmap=figure.colours(look.cmap, centred=panel.centred).with_extremes(under=axes.get_facecolor()),
        vmin=low,
        vmax=high,
        extent=(-0.5, columns - 0.5, first + rows - 0.5, first - 0.5),
        interpolation="nearest",
    )
    longest = len(str(columns)) / 10
    across = labels.indices(0, columns, max(2, int((size[0] - 1) / (0.35 + longest))))
    down = labels.indices(first, rows, max(2, int(size[1] * 2))) if panel.rows else []
    axes.set_xticks(across, labels=[f"{place:,}" for place in across])
    axes.set_yticks(down, labels=[f"{place:,}" for place in down])
    axes.set_xlabel(panel.columns)
    axes.set_ylabel(panel.rows)
    axes.spines[:].set_visible(False)


def _fill_image(axes: Any, panel: HeatmapPanel, dpi: float, look: Look) -> None:
    """Put into each row of pixels the rows of the table that it stands for.

    Rows are averaged here and nowhere else: matplotlib's own filter would mix columns, too.
    """
    box, (wide, high) = axes.get_position(), axes.figure.get_size_inches() * dpi
    room = max(1, round(box.height * high)), max(1, round(box.width * wide))
    values, every = fitted_to(mpl_charts.drawable(panel.values), *room, panel.reduce)
    sampled = every * panel.column_step
    step = sampled if panel.reduce != "max" else panel.shape[1] / values.shape[1]
    down = (np.arange(room[0]) + 0.5) * len(values) / room[0]
    across = (np.arange(room[1]) + 0.5) * panel.shape[1] / room[1] / step
    shown = panel.scaled(values[np.ix_(down.astype(np.intp), across.astype(np.intp))])
    if panel.log:
        shown = np.where(np.isneginf(shown), -mpl_charts.MAX_VALUE, shown)  # no error at all: below every colour
    axes.images[0].set_data(np.ma.masked_invalid(shown))
    means = panel.shape[0] / len(values) if panel.reduce == "mean" else 1.0
    letters = LETTERS_PER_INCH / look.scale / dpi
    rows = labels.axis_name(panel.rows, means=means, every=sampled if panel.reduce == "sample" else 1)
    if axes.get_xlabel() and len(columns := labels.axis_name(panel.columns, every=sampled)) < room[1] * letters:
        axes.set_xlabel(columns)
    if axes.get_ylabel() and len(rows) < room[0] * letters:
        axes.set_ylabel(rows)


def _scaled_limits(panel: HeatmapPanel | CirclePanel) -> tuple[float, float]:
    """What the ends of the colours stand for, as colours follow it."""
    if isinstance(panel, CirclePanel):
        low, high = float(panel.positions[0]), float(panel.positions[-1])
        return low, high if high > low else low + 1.0
    low, high = (min(max(end, -mpl_charts.MAX_VALUE), mpl_charts.MAX_VALUE) for end in panel.ends())
    low, high = panel.scaled(np.array((low, high) if panel.log else labels.apart(low, high))).tolist()
    return labels.apart(low, high)


def _uneven_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a scale that is wide near zero."""
    reach = max(abs(low), abs(high))
    if not reach > 1e-300:  # powers of ten end where numbers do
        return [low, high]
    rounded = [0.0]
    for value in (reach * share for share in (0.01, 0.1, 0.4, 1.0)):
        power = 10.0 ** math.floor(math.log10(value))
        rounded.append(value // power * power)
    return sorted({sign * value for value in rounded for sign in (-1.0, 1.0) if low <= sign * value <= high})


def _grey_means(matrices: Sequence[Floats]) -> str:
    """What grey means in these matrices."""
    unknown = np.concatenate([values[~np.isfinite(values)] for values in matrices])
    return f"grey: {'−inf' if np.isneginf(unknown).all() else 'not finite'}" if unknown.size else ""


def _colour_bars(made: Figure, drawn: Sequence[tuple[Panel, Place]], look: Look) -> list[Bar]:
    """A colour bar for all panels that tell by colours; one each where these mean something else each time."""
    coloured = [(panel, place) for panel, place in drawn if not isinstance(panel, Chart)]
    ends = {panel.ends() if isinstance(panel, HeatmapPanel) else None for panel, _ in coloured}
    groups = [coloured] if len(ends) == 1 else [[each] for each in coloured]
    return [
        Bar(_colour_bar(made, [panel for panel, _ in group], look, len(groups)), [place for _, place in group])
        for group in groups
    ]


def _colour_bar(made: Figure, panels: Sequence[HeatmapPanel | CirclePanel], look: Look, share: int) -> Any:
    """A colour bar, drawn as an image of its own; its axes."""
    panel = panels[0]
    low, high = _scaled_limits(panel)
    axes: Any = made.add_axes((0.9, 0.1, 0.02, 0.8 / share))
    meaning, values, places = "position", labels.round_values(low, high, 6), None
    colours = figure.part(look.cmap, look.dark)
    if isinstance(panel, HeatmapPanel):
        colours = figure.colours(look.cmap, centred=panel.centred)
        if panel.log:
            values = labels.round_powers(10**low, 10**high, 6)
        elif panel.power != 1.0:
            values = _uneven_ticks(*panel.ends())
        places = panel.scaled(np.array(values)).tolist()
        words = [panel.meaning, _grey_means([each.values for each in panels if isinstance(each, HeatmapPanel)])]
        if panel.marked is not None:
            words.append(f"line: {panel.marked[0]} {labels.plain(panel.marked[1])}")
        meaning = ", ".join(filter(None, words))
    axes.imshow(np.linspace(high, low, 256)[:, None], cmap=colours, extent=(0.0, 1.0, low, high))
    if isinstance(panel, HeatmapPanel) and panel.marked is not None:
        axes.axhline(float(panel.scaled(np.array(panel.marked[1]))), color="white", linewidth=2.5 * look.scale)
        axes.axhline(float(panel.scaled(np.array(panel.marked[1]))), color="black", linewidth=1.2 * look.scale)
    axes.spines[:].set_visible(False)
    axes.set_xticks([])
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    is_log = isinstance(panel, HeatmapPanel) and panel.log
    texts = labels.powers(values) if is_log else [labels.plain(value) for value in values]
    axes.set_yticks(values if places is None else places, labels=texts)
    axes.set_ylim(low, high)
    axes.set_ylabel(meaning)
    return axes


def _draw_circle(axes: Any, panel: CirclePanel, look: Look) -> None:
    """A spiral from the first position to the last, so that one turn does not hide the one before."""
    turn = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", linewidth=0.8 * look.scale, zorder=1)
    span = max(1.0, float(panel.positions[-1] - panel.positions[0]))
    radius = INNER_RADIUS + (1 - INNER_RADIUS) * (panel.positions - panel.positions[0]) / span
    x, y = radius * np.cos(panel.angles), radius * np.sin(panel.angles)
    colours, area = figure.part(look.cmap, look.dark), (7 if len(x) > 200 else 20) * look.scale**2
    axes.scatter(x, y, c=panel.positions, cmap=colours, s=area, zorder=2, linewidths=0)
    axes.set_aspect("equal")
    axes.set_xlim(-1.06, 1.06)
    axes.set_ylim(-1.06, 1.06)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)


class Place(NamedTuple):
    """Axes in a grid; some span several columns."""

    axes: Any
    row: int
    column: int
    span: int = 1


class Bar(NamedTuple):
    """A colour bar, to the right of the axes that it speaks for."""

    axes: Any
    beside: Sequence[Place]


class Grid(NamedTuple):
    """Axes in rows, each with its share of the height, colour bars beside them, titles above all."""

    places: Sequence[Place]
    shares: Sequence[float]
    bars: Sequence[Bar]
    titles: Sequence[Any]


def arrange(made: Figure, grid: Grid, scale: float, dpi: float) -> tuple[float, float]:
    """Put everything in its place, on whole pixels of so many dots per inch; inches of axes with a share of one.

    Measured once, where matplotlib does it thrice.
    """
    places = grid.places
    before = min(place.axes.bbox.width / place.span for place in places), min(p.axes.bbox.height for p in places)
    room = _put(made, grid, scale, dpi)
    if room[0] < before[0] or room[1] < before[1]:  # what hangs over smaller axes hangs over by more
        room = _put(made, grid, scale, dpi)
    return room[0] / made.dpi, room[1] / made.dpi


def _put(made: Figure, grid: Grid, scale: float, dpi: float) -> tuple[float, float]:
    """The pixels of each of the axes, given what hangs over where they are now."""
    places, shares, bars, titles = grid
    renderer = made.canvas.get_renderer()  # type: ignore[attr-defined]
    gap, thick = PANEL_GAP * scale * made.dpi, BAR_WIDTH * scale * made.dpi
    rows, columns = 1 + max(p.row for p in places), max(p.column + p.span for p in places)
    left, right, top, bottom = [0.0] * columns, [0.0] * columns, [0.0] * rows, [0.0] * rows
    for axes, row, column, span in places:
        whole = axes.get_tightbbox(renderer)
        inner, last = axes.bbox, column + span - 1
        left[column] = max(left[column], inner.x0 - whole.x0)
        right[last] = max(right[last], whole.x1 - inner.x1)
        top[row], bottom[row] = max(top[row], whole.y1 - inner.y1), max(bottom[row], inner.y0 - whole.y0)
    strip, after = 0.0, -1
    if bars:
        after = max(place.column for bar in bars for place in bar.beside)
        strip = right[after] + gap
        right[after] = strip + thick + max(bar.axes.get_tightbbox(renderer).x1 - bar.axes.bbox.x1 for bar in bars)
    lowest = min((title.get_window_extent(renderer).y0 for title in titles), default=made.bbox.height)
    above = made.bbox.height - lowest + gap
    wide = max(1.0, (made.bbox.width - sum(left) - sum(right) - gap * (columns + 1)) / columns)
    high = max(1.0, (made.bbox.height - above - sum(top) - sum(bottom) - gap * rows) / sum(shares))
    starts = [gap * (c + 1) + sum(left[: c + 1]) + sum(right[:c]) + wide * c for c in range(columns)]
    floors = [
        made.bbox.height - above - sum(top[: r + 1]) - sum(bottom[:r]) - gap * r - high * sum(shares[: r + 1])
        for r in range(rows)
    ]

    def put(axes: Any, *corners: float) -> None:
        x0, y0, x1, y1 = (round(corner * dpi / made.dpi) * made.dpi / dpi for corner in corners)
        size = made.bbox
        axes.set_position((x0 / size.width, y0 / size.height, (x1 - x0) / size.width, (y1 - y0) / size.height))

    for axes, row, column, span in places:
        put(axes, starts[column], floors[row], starts[column + span - 1] + wide, floors[row] + high * shares[row])
    for bar in bars:
        x0 = starts[after] + wide + strip
        lowest, highest = max(p.row for p in bar.beside), min(p.row for p in bar.beside)
        put(bar.axes, x0, floors[lowest], x0 + thick, floors[highest] + high * shares[highest])
    return wide, high
