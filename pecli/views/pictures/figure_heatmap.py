"""Heatmaps and their colour bars in a figure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.grouping import grouped
from pecli.views.pictures.axis_labels import typeset
from pecli.views.pictures.downsample import fitted_to
from pecli.views.pictures.figure_text import drawable, fitted_lines, number_axis
from pecli.views.pictures.matplotlib_types import Axes, Colorbar, Figure
from pecli.views.pictures.panels import HeatmapPanel
from pecli.views.pictures.theme import LETTERS_PER_INCH, colour_map

AXES_SHARE = 0.75  #: The share of a panel that its axes take beside their numbers and names.
BAR_LABEL_LINES = 3
RING_POINTS = 9.0  #: The width of the ring around an element.
MIN_CONTOUR_CELLS = 5  #: Cells, down or across, that a contour spans at least.
_BLACK_ON_WHITE = (("white", 2.5), ("black", 1.2))
"""Colours and widths of lines: a black one on a white one is seen on every colour."""
BAR_SHARE = 0.06  #: Share of the panels' width that a colour bar takes.
BAR_GAP = 0.015  #: The gap before it, as a share of the same width.
MIN_BAR_ASPECT = 30  #: Height of a colour bar over its width.


class DrawnHeatmap(NamedTuple):
    """A heatmap with the axes that it is drawn in."""

    panel: HeatmapPanel
    axes: Axes


class Pixels(NamedTuple):
    """The size of a panel in pixels."""

    width: float
    height: float


def draw_heatmap(
    axes: Axes, panel: HeatmapPanel, pixels: Pixels, room_height: float, cmap: str | None
) -> None:
    """Draw a heatmap with about one pixel per row and column of its values.

    Args:
        axes: The axes to draw in.
        panel: The heatmap.
        pixels: The size of the panel.
        room_height: The height of the panel in inches, as if letters had their full size. A panel of
            3 inches with letters of half the size has as much room as one of 6 inches.
        cmap: The name of a colour map of matplotlib, None for the default.
    """
    values = _values_in_pixels(panel, pixels)
    _draw_values(axes, panel, values, cmap)
    _draw_contour(axes, panel, values)
    _draw_ring(axes, panel)
    if panel.is_square:
        rows, columns = panel.shape
        axes.set_box_aspect(rows / columns)
    row_name, column_name = panel.axis_names(*values.shape)
    letters_that_fit = AXES_SHARE * room_height * LETTERS_PER_INCH
    if len(row_name) >= letters_that_fit:
        row_name = panel.rows  # «position» for «position (means of 4)»
    axes.set(xlabel=column_name, ylabel=row_name)
    number_axis(axes.xaxis, whole=True)
    number_axis(axes.yaxis, whole=True)


def _values_in_pixels(panel: HeatmapPanel, pixels: Pixels) -> Floats:
    """Return the values of a heatmap, reduced to at most one per pixel.

    They are reduced here, because matplotlib's own filter would also mix columns. On a logarithmic
    scale, zero lies below the scale, where there is no colour.
    """
    max_rows = max(1, round(AXES_SHARE * pixels.height))
    max_columns = max(1, round(AXES_SHARE * pixels.width))
    values = fitted_to(drawable(panel.values), max_rows, max_columns, panel.reduction)
    if not panel.log:
        return values
    below_scale = panel.ends[0] / 2
    return np.where(values == 0, below_scale, values)


def _draw_values(axes: Axes, panel: HeatmapPanel, values: Floats, cmap: str | None) -> None:
    """Draw the values as colours; row 0 of the table is at the top, between −0.5 and 0.5."""
    from matplotlib.colors import LogNorm, Normalize

    norm_class = LogNorm if panel.log else Normalize
    rows, columns = panel.shape
    top = panel.first_row - 0.5
    axes.imshow(
        np.ma.masked_invalid(values),
        colour_map(cmap, centred=panel.is_centred),
        norm_class(*panel.ends),
        extent=(-0.5, columns - 0.5, top + rows, top),
    )
    axes.autoscale(enable=False)  # The contour and the ring do not move its ends.
    axes.spines[:].set_visible(False)


def _draw_contour(axes: Axes, panel: HeatmapPanel, values: Floats) -> None:
    """Draw the line between elements below and above a marked value, such as the tolerance.

    Args:
        axes: The axes to draw in.
        panel: The heatmap. Only one of errors, on a logarithmic scale, has a marked value.
        values: Its values, one per drawn cell.
    """
    has_neighbours = min(values.shape) > 1  # A contour is interpolated between cells.
    if panel.marked is None or not has_neighbours:
        return
    cell_size = _cell_size(panel, values)
    for points in _contour_lines(panel, values, panel.marked.value):
        extent_in_cells = np.ptp(points, axis=0) / cell_size
        is_large = extent_in_cells.max() >= MIN_CONTOUR_CELLS
        if is_large:  # A line around a few cells would hide them.
            for colour, width in _BLACK_ON_WHITE:
                axes.plot(*points.T, color=colour, linewidth=width, linestyle="-")


def _cell_size(panel: HeatmapPanel, values: Floats) -> Floats:
    """Return the columns and rows of the table that one cell of the drawn values stands for.

    A table of 400 rows and 64 columns in 100 × 64 cells: [1, 4].
    """
    rows, columns = panel.shape
    cells_down, cells_across = values.shape
    return np.array([columns / cells_across, rows / cells_down])


def _contour_lines(panel: HeatmapPanel, values: Floats, level: float) -> Iterator[Floats]:
    """Yield the lines on which values are equal to a level.

    A line is an array of points (column, row) of the table, in shape (points, 2).
    """
    from contourpy import contour_generator

    rows, columns = panel.shape
    cells_down, cells_across = values.shape
    middle_columns = _middles(cells_across, columns)
    middle_rows = _middles(cells_down, rows) + panel.first_row
    logarithms = np.log10(np.ma.masked_invalid(values))
    contours = contour_generator(middle_columns, middle_rows, logarithms)
    for line in contours.lines(np.log10(level)):
        yield np.asarray(line, np.float64)


def _middles(cell_count: int, row_count: int) -> Floats:
    """Return the middle of each cell in rows of the table: 1.5, 5.5, … if a cell stands for 4 rows."""
    return (np.arange(cell_count) + 0.5) * row_count / cell_count - 0.5


def _draw_ring(axes: Axes, panel: HeatmapPanel) -> None:
    """Draw a ring around the worst element, which may lie at the edge of the panel."""
    if panel.worst is None:
        return
    x = panel.worst.column
    y = panel.worst.row + panel.first_row
    for colour, width in _BLACK_ON_WHITE:
        axes.plot(
            x,
            y,
            marker="o",
            markersize=RING_POINTS,
            markerfacecolor="none",
            markeredgecolor=colour,
            markeredgewidth=width,
            clip_on=False,
        )


def share_axis_labels(heatmaps: Sequence[DrawnHeatmap], place_count: int) -> None:
    """Leave axis labels to the outer panels, if all panels have the same axes and no gap.

    There is a gap if heatmaps are fewer than the places of the figure: five in two rows of three.
    """
    has_gap = len(heatmaps) != place_count
    axes_kinds = set()
    for panel, _ in heatmaps:
        axes_kinds.add((panel.row_axis, panel.columns))
    if len(axes_kinds) == 1 and not has_gap:
        for _, axes in heatmaps:
            axes.label_outer()


def add_colour_bars(figure: Figure, heatmaps: Sequence[DrawnHeatmap], letters: float) -> None:
    """Add a colour bar beside all panels of one scale.

    Args:
        figure: The figure.
        heatmaps: All heatmaps of the figure.
        letters: Letters of a line of the label of a bar that is as high as one panel.
    """
    for group in grouped(heatmaps, _colour_scale).values():
        _add_colour_bar(figure, group, letters)


def _colour_scale(heatmap: DrawnHeatmap) -> tuple[object, ...]:
    """Return everything that a colour bar shows: heatmaps in which it is equal share a bar."""
    panel = heatmap.panel
    return (panel.ends, panel.log, panel.meaning, panel.marked)


def _add_colour_bar(figure: Figure, group: Sequence[DrawnHeatmap], letters: float) -> None:
    """Add a colour bar beside the panels of a group, as high as all of them together.

    Args:
        figure: The figure.
        group: Heatmaps with the same colours.
        letters: The length of a line of its label, in letters, along a bar as high as one panel.
    """
    panel = group[0].panel
    group_axes = [heatmap.axes for heatmap in group]
    row_count, column_count = _rows_and_columns(group_axes)
    bar = figure.colorbar(
        group_axes[0].images[0],
        ax=group_axes,
        aspect=_bar_aspect(row_count, column_count),
        fraction=BAR_SHARE,
        pad=BAR_GAP,
    )
    bar.outline.set_visible(False)
    bar.set_label(fitted_lines(_bar_label(group), letters * row_count, BAR_LABEL_LINES))
    number_axis(bar.ax.yaxis, panel.ends if panel.log else None)
    if panel.marked is not None:  # the tolerance, in a map of errors
        _mark(bar, panel.marked.value)


def _bar_aspect(row_count: int, column_count: int) -> float:
    """Return the height of a colour bar over its width, so that all bars are equally wide.

    A bar is as high as its rows of panels. Panels that share the width of a figure get smaller with
    the number of columns: the bar of 3 × 1 panels is three times as high as that of 3 × 3 panels.

    Args:
        row_count: Rows of panels beside the bar.
        column_count: Columns of panels beside the bar.
    """
    return MIN_BAR_ASPECT * max(1, row_count / column_count)


def _rows_and_columns(panels: Sequence[Axes]) -> tuple[int, int]:
    """Return how many rows and columns of a figure's grid some panels stand in."""
    rows = set()
    columns = set()
    for axes in panels:
        place = axes.get_subplotspec()
        assert place is not None, "every panel has a place in the grid"
        rows.add(place.rowspan)
        columns.add(place.colspan)
    return len(rows), len(columns)


def _bar_label(group: Sequence[DrawnHeatmap]) -> str:
    """Return the meaning of the colours, of grey cells and of the marked line."""
    first = group[0].panel
    words = [first.meaning] if first.meaning else []
    unknown = np.concatenate([panel.values[~np.isfinite(panel.values)] for panel, _ in group])
    if unknown.size:
        words.append("grey: −inf" if np.isneginf(unknown).all() else "grey: not finite")
    if first.marked is not None:
        words.append(f"line: {first.marked.label} {typeset(first.marked.value)}")
    return ", ".join(words)


def _mark(bar: Colorbar, value: float) -> None:
    for colour, width in _BLACK_ON_WHITE:
        bar.ax.axhline(value, color=colour, linewidth=width)
