"""Pictures as matplotlib figures.

The same picture is the same bytes everywhere: nothing of a user's matplotlibrc counts, and pyplot
is not used. The constrained layout makes room for every label.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pecli.views.pictures.figure_chart import Room, draw_chart
from pecli.views.pictures.figure_heatmap import (
    AXES_SHARE,
    DrawnHeatmap,
    Pixels,
    add_colour_bars,
    draw_heatmap,
    share_axis_labels,
)
from pecli.views.pictures.figure_size import DEFAULT_DPI
from pecli.views.pictures.figure_text import fitted_lines
from pecli.views.pictures.matplotlib_types import Axes, Figure, SubplotSpec
from pecli.views.pictures.panels import Chart, HeatmapPanel, Panel, Picture, row_share
from pecli.views.pictures.theme import LETTERS_PER_INCH, Theme, blank_figure, theme

BAR_SHARE = 0.85  #: The share of a panel's height for the label of its colour bar.
MIN_SCALE = 0.15  #: The scale of letters below which nobody can read them.
EDGE_WIDTH = 2.4
EDGE_HEIGHT = 2.2
"""Inches that titles and the labels at the edges take, with letters of 10 points."""
PANEL_WIDTH = 1.4
PANEL_HEIGHT = 1.6
"""Inches that each panel needs beside them."""
TITLE_LINES = 4
PANEL_TITLE_LINES = 3


def render(
    picture: Picture,
    *,
    size: tuple[float, float] | None = None,
    dpi: float = DEFAULT_DPI,
    dark: bool = False,
    cmap: str | None = None,
) -> Figure:
    """Return a picture as a figure.

    Args:
        picture: The picture.
        size: Width and height in inches; by default those that suit the picture. In a small figure,
            letters are smaller.
        dpi: Dots per inch with which it will be saved. A heatmap has about one row of pixels per
            row of values.
        dark: Draw on dark paper.
        cmap: The name of a colour map of matplotlib.
    """
    layout = _arranged_layout(picture, size or picture.inches)
    colours = theme(dark=dark)
    figure = blank_figure((layout.width, layout.height), layout.scale, colours)
    _add_titles(figure, picture, layout)
    if layout.rows:  # A picture without panels has titles only.
        artist = _PanelArtist(figure, layout, colours, dpi, cmap)
        artist.draw_panels()
    return figure


class _PanelArtist:
    """Draws the panels of a figure in their places."""

    def __init__(
        self, figure: Figure, layout: _Layout, colours: Theme, dpi: float, cmap: str | None
    ) -> None:
        self.figure = figure
        self.layout = layout
        self.colours = colours
        self.dpi = dpi
        self.cmap = cmap
        self.subplots = _subplots_by_row_and_column(figure, layout)

    def draw_panels(self) -> None:
        """Draw all panels, then the axis labels and colour bars that heatmaps have in common."""
        layout = self.layout
        heatmaps: list[DrawnHeatmap] = []
        for row_number in range(len(layout.rows)):
            heatmaps += self._draw_row(row_number)
        share_axis_labels(heatmaps, len(layout.rows) * layout.across)
        bar_inches = BAR_SHARE * layout.height / len(layout.rows)
        letters_along_bar = bar_inches / layout.scale * LETTERS_PER_INCH
        add_colour_bars(self.figure, heatmaps, letters_along_bar)

    def _draw_row(self, row_number: int) -> list[DrawnHeatmap]:
        """Draw the panels of a row, counted from the top, and return those that are heatmaps."""
        row = self.layout.rows[row_number]
        inches = self.layout.panel_inches(row_number)
        heatmaps = []
        for column, panel in enumerate(row):
            subplot = self.subplots[row_number, column]
            axes = self.figure.add_subplot(subplot, polar=panel.polar)
            if isinstance(panel, Chart):
                self._draw_chart(axes, panel, inches)
            else:
                self._draw_heatmap(axes, panel, inches)
                heatmaps.append(DrawnHeatmap(panel, axes))
                if column > 0 and panel.row_axis == row[column - 1].row_axis:
                    _hide_row_labels(axes)
        return heatmaps

    def _room(self, inches: _Inches) -> Room:
        return Room(inches.width / self.layout.scale, inches.height / self.layout.scale)

    def _draw_chart(self, axes: Axes, chart: Chart, inches: _Inches) -> None:
        room = self._room(inches)
        draw_chart(axes, chart, _panel_title(chart, room), room, self.colours)
        if chart.continues:
            chart_above = self.figure.axes[-2]
            _join_axes(chart_above, axes)

    def _draw_heatmap(self, axes: Axes, panel: HeatmapPanel, inches: _Inches) -> None:
        room = self._room(inches)
        axes.set_title(_panel_title(panel, room))
        pixels = Pixels(inches.width * self.dpi, inches.height * self.dpi)
        draw_heatmap(axes, panel, pixels, room.height, self.cmap)


def _hide_row_labels(axes: Axes) -> None:
    """Leave out the name and numbers of rows, because the panel on the left has the same ones."""
    axes.set_ylabel("")
    axes.tick_params(labelleft=False)


def _join_axes(upper: Axes, lower: Axes) -> None:
    """Give two charts one horizontal axis, whose numbers and name are below the lower one."""
    upper.sharex(lower)
    upper.set_xlabel("")
    upper.tick_params(labelbottom=False)


class _Inches(NamedTuple):
    width: float
    height: float


class _Layout(NamedTuple):
    """The rows of a figure."""

    width: float  #: Inches.
    height: float
    scale: float  #: The size of letters; 1 is 10 points.
    rows: Sequence[Sequence[Panel]]
    across: int  #: Panels of the longest row.
    shares: Sequence[float]  #: The relative heights of the rows.

    def panel_inches(self, down: int) -> _Inches:
        """Return the room of a panel in that row, before its numbers and names are placed."""
        across = 1 if _is_chart_alone(self.rows[down]) else self.across
        height = self.height * self.shares[down] / sum(self.shares)
        return _Inches(self.width / across, height)


def _arranged_layout(picture: Picture, size: tuple[float, float]) -> _Layout:
    """Arrange the panels of a picture in rows, with smaller letters if the figure is small.

    A single panel has letters of full size if the figure is at least 3.8 inches wide and as high;
    at half of that, its letters have half the size.
    """
    width, height = size
    rows = picture.rows(picture.across)
    across = max(map(len, rows), default=1)
    shares = list(map(row_share, rows))
    width_for_full_letters = EDGE_WIDTH + PANEL_WIDTH * across
    height_for_full_letters = EDGE_HEIGHT + PANEL_HEIGHT * sum(shares)
    scale = min(1.0, width / width_for_full_letters, height / height_for_full_letters)
    return _Layout(
        width=width,
        height=height,
        scale=max(MIN_SCALE, scale),
        rows=rows,
        across=across,
        shares=shares,
    )


def _is_chart_alone(row: Sequence[Panel]) -> bool:
    return len(row) == 1 and isinstance(row[0], Chart)


def _add_titles(figure: Figure, picture: Picture, layout: _Layout) -> None:
    """Write the title above all panels and the subtitle below them, each in a few lines."""
    letters = layout.width / layout.scale * LETTERS_PER_INCH
    if picture.title:
        title = fitted_lines(picture.title, letters / 1.25, TITLE_LINES)  # Its letters are larger.
        figure.suptitle(title, x=0.01, ha="left")
    if picture.subtitle:
        subtitle = fitted_lines(picture.subtitle, letters, TITLE_LINES)
        figure.supxlabel(subtitle, x=0.01, ha="left", fontsize="medium")


def _panel_title(panel: Panel, room: Room) -> str:
    """Return the title of a panel in lines that are not wider than its axes."""
    width = room.width
    if panel.is_square:
        width = AXES_SHARE * min(room)
    return fitted_lines(panel.title, width * LETTERS_PER_INCH * AXES_SHARE, PANEL_TITLE_LINES)


def _subplots_by_row_and_column(
    figure: Figure, layout: _Layout
) -> dict[tuple[int, int], SubplotSpec]:
    """Return the place of each panel in matplotlib's grid, by row and column.

    Two heatmaps with a chart below them have the places (0, 0), (0, 1) and (1, 0). A chart that is as
    wide as the figure gets a grid of its own, because in a common grid the heatmaps above it would
    be indented by the width of the chart's numbers.
    """
    groups = _groups_of_rows(layout)
    heights = [sum(layout.shares[row] for row in group) for group in groups]
    outer_grid = figure.add_gridspec(len(groups), 1, height_ratios=heights)
    subplots = {}
    for group_number, group in enumerate(groups):
        shares = [layout.shares[row] for row in group]
        columns = max(len(layout.rows[row]) for row in group)
        grid = outer_grid[group_number].subgridspec(len(group), columns, height_ratios=shares)
        for row_in_group, row in enumerate(group):
            for column in range(columns):
                subplots[row, column] = grid[row_in_group, column]
    return subplots


def _groups_of_rows(layout: _Layout) -> list[list[int]]:
    """Return the numbers of consecutive rows that share a grid: of heatmaps, or of lone charts.

    If rows 0 and 1 are heatmaps and row 2 is a chart, the groups are [0, 1] and [2].
    """
    row_numbers = range(len(layout.rows))
    runs = groupby(row_numbers, lambda row: _is_chart_alone(layout.rows[row]))
    return [list(run) for _, run in runs]
