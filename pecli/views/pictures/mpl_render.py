"""Pictures as figures: each panel in axes of its own; matplotlib's constrained layout makes room for every label."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

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
"""Of a title of 12 points."""
INNER_RADIUS = 0.25
"""Where a spiral begins."""
MIN_SIZE = (0.8, 0.85)
"""Inches below which axes cannot be read, times the scale of letters and the share of their row."""
SCALE_STEP = 0.85
MIN_SCALE = 0.15
"""Letters become smaller by this factor, down to that."""


def size_of(picture: Picture) -> tuple[float, float]:
    """Inches that a picture wants: more height for several rows, and square matrices square."""
    rows = _rows(picture)
    if not rows:
        return 8.0, 2.0
    across = max(map(len, rows))
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
    scale = 1.0
    with figure.no_remarks():
        made, fits = _drawn(picture, (width, height), dpi, Look(dark, cmap))
        while not fits and scale > MIN_SCALE:
            scale *= SCALE_STEP
            made, fits = _drawn(picture, (width, height), dpi, Look(dark, cmap, scale))
    return made


def _drawn(picture: Picture, size: tuple[float, float], dpi: float, look: Look) -> tuple[Figure, bool]:
    """The figure, and whether it has room for all of it."""
    made = figure.new(*size, look)
    rows = _rows(picture)
    across = max((len(row) for row in rows), default=1)
    inches = size[0] / look.scale, size[1] / look.scale
    _write_titles(made, picture, inches[0], look)
    if not rows:
        return made, True
    shares = [min(getattr(panel, "share", 1.0) for panel in row) for row in rows]
    grid = made.add_gridspec(len(rows), across, height_ratios=shares)
    drawn: list[tuple[Panel, Any, float]] = []
    for down, row in enumerate(rows):
        for right, panel in enumerate(row):
            wide = across if len(row) == 1 and isinstance(panel, Chart) else 1
            axes = made.add_subplot(grid[down, right : right + wide])
            _draw(axes, panel, (inches[0] * wide / across, inches[1] * shares[down] / sum(shares)), look)
            if _share_axes(rows):
                _hide_inner_labels(axes, right > 0, any(right < len(other) for other in rows[down + 1 :]))
            drawn.append((panel, axes, shares[down]))
    _add_colour_bars(made, drawn, look)
    figure.make_legible(made)
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        made.draw_without_rendering()  # which lays it out
    if any("constrained_layout" in str(remark.message) for remark in remarks):  # it gave up
        return made, False
    made.set_layout_engine("none")
    for panel, axes, _ in drawn:
        if isinstance(panel, HeatmapPanel):
            _fill_image(axes, panel, dpi, look)
        elif isinstance(panel, Chart):
            mpl_charts.name_levels_and_bands(axes, panel, look)
    return made, all(
        axes.bbox.width >= MIN_SIZE[0] * look.scale * made.dpi
        and axes.bbox.height >= MIN_SIZE[1] * share * look.scale * made.dpi
        for _, axes, share in drawn
    )


def _write_titles(made: Figure, picture: Picture, width: float, look: Look) -> None:
    """The title above all panels, and the subtitle as a caption below them."""
    room = max(14, int(width * LETTERS_PER_INCH) - 2)
    if title := fitted(picture.title, room, 4):
        made.suptitle("\n".join(title), x=0.012, ha="left", fontsize=12 * look.scale)
    if caption := fitted(picture.subtitle, int(room * 12 / 9.5), 4):
        made.supxlabel("\n".join(caption), x=0.012, ha="left", fontsize=9.5 * look.scale)


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
    panels = [panel for row in rows for panel in row]
    heats = [panel for panel in panels if isinstance(panel, HeatmapPanel)]
    return len(heats) == len(panels) and len({(p.shape, p.first_row, p.columns) for p in heats}) == 1


def _draw(axes: Any, panel: Panel, size: tuple[float, float], look: Look) -> None:
    title = "\n".join(fitted(panel.title, max(14, int(size[0] * LETTERS_PER_INCH) - 8), 3))
    if isinstance(panel, Chart):
        mpl_charts.draw(axes, panel, title, size, look)
        return
    axes.set_title(title, fontsize=10 * look.scale)
    axes.spines[:].set_visible(False)
    if isinstance(panel, HeatmapPanel):
        _draw_heatmap(axes, panel, look)
    else:
        _draw_circle(axes, panel, look)


def _draw_heatmap(axes: Any, panel: HeatmapPanel, look: Look) -> None:
    rows, columns = panel.shape
    top = panel.first_row - 0.5
    axes.imshow(
        np.zeros((1, 1)),  # filled once the axes have their place
        cmap=figure.colours(look.cmap, centred=panel.centred).with_extremes(under=axes.get_facecolor()),
        norm=_norm(panel),
        extent=(-0.5, columns - 0.5, top + rows, top),
        interpolation="nearest",
    )
    axes.set_xlabel(panel.columns)
    axes.set_ylabel(panel.rows)
    mpl_charts.set_whole_numbers(axes.xaxis)
    mpl_charts.set_whole_numbers(axes.yaxis)
    if not panel.rows:
        axes.set_yticks([])


def _norm(panel: HeatmapPanel) -> Any:
    """How colours follow values."""
    from matplotlib.colors import FuncNorm, LogNorm, Normalize

    low, high = (min(max(end, -mpl_charts.MAX_VALUE), mpl_charts.MAX_VALUE) for end in panel.ends())
    if panel.log:
        return LogNorm(low, high)
    low, high = labels.apart(low, high)
    if panel.power == 1.0:
        return Normalize(low, high)
    inverse = 1 / panel.power
    return FuncNorm((panel.scaled, lambda values: np.sign(values) * np.abs(values) ** inverse), low, high)


def _fill_image(axes: Any, panel: HeatmapPanel, dpi: float, look: Look) -> None:
    """Put into each row of pixels the rows of the table that it stands for.

    Rows are averaged here and nowhere else: matplotlib's own filter would mix columns, too.
    """
    (image,) = axes.images
    high, wide = (max(1, round(pixels * dpi / axes.figure.dpi)) for pixels in (axes.bbox.height, axes.bbox.width))
    values, every = fitted_to(mpl_charts.drawable(panel.values), high, wide, panel.reduce)
    if panel.log:
        values = np.where(values == 0, panel.ends()[0] / 2, values)  # no error at all: below every colour
    image.set_data(np.ma.masked_invalid(values))
    sampled = every * panel.column_step
    if panel.reduce == "mean" and sampled > 1:
        image.set_extent((-0.5, sampled * values.shape[1] - 0.5, *image.get_extent()[2:]))
        axes.set_xlim(-0.5, panel.shape[1] - 0.5)
    means = panel.shape[0] / len(values) if panel.reduce == "mean" else 1.0
    names = {
        axes.xaxis: (labels.axis_name(panel.columns, every=sampled), axes.bbox.width),
        axes.yaxis: (
            labels.axis_name(panel.rows, means=means, every=sampled if panel.reduce == "sample" else 1),
            axes.bbox.height,
        ),
    }
    for axis, (name, length) in names.items():
        if axis.get_label_text() and len(name) < length / axes.figure.dpi * LETTERS_PER_INCH / look.scale:
            axis.set_label_text(name)


def _add_colour_bars(made: Figure, drawn: Sequence[tuple[Panel, Any, float]], look: Look) -> None:
    """A colour bar beside neighbouring panels of one scale."""
    groups: list[list[tuple[HeatmapPanel | CirclePanel, Any]]] = []
    for panel, axes, _ in drawn:
        if isinstance(panel, Chart):
            continue
        if groups and _ends(groups[-1][0][0]) == _ends(panel):
            groups[-1].append((panel, axes))
        else:
            groups.append([(panel, axes)])
    for group in groups:
        first, axes = group[0]
        mappable = axes.images[0] if isinstance(first, HeatmapPanel) else axes.collections[0]
        bar = made.colorbar(mappable, ax=[each for _, each in group], aspect=30, fraction=0.06, pad=0.015)
        bar.outline.set_visible(False)
        if isinstance(first, CirclePanel):
            mpl_charts.set_whole_numbers(bar.ax.yaxis)
            bar.set_label("position")
            continue
        bar.set_label(_meaning([panel for panel, _ in group if isinstance(panel, HeatmapPanel)]))
        mpl_charts.set_numbers(bar.ax.yaxis, first.ends(), log=first.log)
        if first.power != 1.0:
            bar.set_ticks(labels.uneven_values(*first.ends()))
        if first.marked is not None:
            for colour, points in (("white", 2.5), ("black", 1.2)):
                bar.ax.axhline(first.marked[1], color=colour, linewidth=points * look.scale)


def _ends(panel: HeatmapPanel | CirclePanel) -> tuple[float, float] | None:
    return panel.ends() if isinstance(panel, HeatmapPanel) else None


def _meaning(panels: Sequence[HeatmapPanel]) -> str:
    """What colours stand for, and what grey does."""
    words = [panels[0].meaning]
    unknown = np.concatenate([panel.values[~np.isfinite(panel.values)] for panel in panels])
    if unknown.size:
        words.append(f"grey: {'−inf' if np.isneginf(unknown).all() else 'not finite'}")
    if panels[0].marked is not None:
        words.append(f"line: {panels[0].marked[0]} {labels.plain(panels[0].marked[1])}")
    return ", ".join(filter(None, words))


def _draw_circle(axes: Any, panel: CirclePanel, look: Look) -> None:
    """A spiral from the first position to the last, so that one turn does not hide the one before."""
    turn: Floats = np.linspace(0, 2 * np.pi, 200)
    axes.plot(np.cos(turn), np.sin(turn), color="0.6", linewidth=0.8 * look.scale, zorder=1)
    span = max(1.0, float(panel.positions[-1] - panel.positions[0]))
    radius = INNER_RADIUS + (1 - INNER_RADIUS) * (panel.positions - panel.positions[0]) / span
    axes.scatter(
        radius * np.cos(panel.angles),
        radius * np.sin(panel.angles),
        c=panel.positions,
        cmap=figure.part(look.cmap, look.dark),
        s=(7 if len(radius) > 200 else 20) * look.scale**2,
        zorder=2,
        linewidths=0,
    )
    axes.set(aspect="equal", xlim=(-1.06, 1.06), ylim=(-1.06, 1.06), xticks=[], yticks=[])
