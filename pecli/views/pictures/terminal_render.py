"""Pictures in a terminal, as text.

They are drawn by hand: a rich table of a picture's cells takes fifty times as long.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from pecli.views.pictures.panels import Chart, HeatmapPanel, Panel, Picture
from pecli.views.pictures.terminal_chart import chart_lines
from pecli.views.pictures.terminal_heatmap import drawn_shape, heatmap_lines, key_line
from pecli.views.pictures.terminal_text import fitted_text, glyphs_of, visible_length
from pecli.views.screen import Terminal, terminal

MIN_HEATMAP_COLUMNS = 20  #: Columns that a heatmap needs.
MIN_CHART_COLUMNS = 36  #: Columns that a chart needs beside a heatmap.
MIN_HEATMAP_LINES = 7  #: Lines that a heatmap needs if there are several rows of them.
MIN_CHART_LINES = 9  #: Lines that a panel needs if there are several rows and a chart.
MIN_ALONE_LINES = 6  #: Lines that the only row of panels needs.
TITLE_LINES = 3
PANEL_TITLE_LINES = 2


def show(picture: Picture) -> None:
    """Print a picture on standard output."""
    print("\n".join(lines(picture, terminal())))


def lines(picture: Picture, terminal: Terminal) -> list[str]:
    """Return a picture as lines of text that fill a terminal: its title, then rows of panels.

    Heatmaps share their colours. The line below them states what the axes and colours mean.
    """
    main_picture = replace(picture, panels=_main_panels(picture))
    text = _title_lines(main_picture, terminal)
    has_heatmaps = bool(main_picture.heatmaps)
    room = terminal.lines - len(text) - 1  # The shell's prompt takes one line.
    if has_heatmaps:
        room -= 1  # The line that explains the colours.
    rows = _rows_of_panels(main_picture, terminal, room)
    for row in rows:
        text += row.lines()
    if has_heatmaps:
        text.append(_key_of_heatmaps(main_picture.heatmaps, rows, terminal))
    return list(map(glyphs_of(terminal).shown, text))


def _main_panels(picture: Picture) -> list[Panel]:
    """Return the panels of full height; others are details for which only figures have room."""
    return [panel for panel in picture.panels if panel.share == 1]


def _key_of_heatmaps(
    heatmaps: Sequence[HeatmapPanel], rows: Sequence["_Row"], terminal: Terminal
) -> str:
    """Return the line that explains the axes and colours of heatmaps, by the first of them."""
    first = heatmaps[0]
    row = next(row for row in rows if first in row.panels)
    shape = drawn_shape(first, row.cell, row.panel_height)
    return key_line(heatmaps, terminal, shape)


def _rows_of_panels(picture: Picture, terminal: Terminal, room: int) -> list["_Row"]:
    """Arrange the panels of a picture in rows, and give each row an equal part of the lines.

    Rows of heatmaps have the same columns: of five heatmaps in rows of three, the last two are as
    wide as those above them. A row with a chart fills the width of the terminal.

    Args:
        picture: The picture.
        terminal: The terminal, whose width is divided.
        room: The lines for all rows together.
    """
    panels_by_row = _arranged_in_rows(picture, terminal, room)
    height = _row_height(picture, panels_by_row, room)
    longest_row = max(map(len, panels_by_row), default=1)
    rows = []
    for panels in panels_by_row:
        has_only_heatmaps = all(isinstance(panel, HeatmapPanel) for panel in panels)
        columns = longest_row if has_only_heatmaps else len(panels)
        rows.append(_Row(panels, terminal, columns=columns, height=height))
    return rows


def _title_lines(picture: Picture, terminal: Terminal) -> list[str]:
    """Return the title and the subtitle in as many lines as they need; a title may have three parts."""
    title = []
    for text in (*picture.title.split("\n", 2), picture.subtitle):
        title += fitted_text(text, terminal, TITLE_LINES)
    return title


def _least_lines(picture: Picture) -> int:
    """Return the lines that a row of panels needs, if there are several rows."""
    has_only_heatmaps = len(picture.heatmaps) == len(picture.panels)
    if has_only_heatmaps:
        return MIN_HEATMAP_LINES
    return MIN_CHART_LINES


def _arranged_in_rows(picture: Picture, terminal: Terminal, room: int) -> list[list[Panel]]:
    """Return the panels in rows that fit into `room` lines.

    Panels beside each other are narrow, so the picture's own number per row is tried first, and
    then more. If nothing fits, the arrangement with the fewest rows is the best. Six heatmaps that
    a figure has in rows of two need 21 lines; with fewer lines, they are in two rows of three.
    """
    most_per_row = max(1, terminal.columns // MIN_HEATMAP_COLUMNS)
    fewest_per_row = min(picture.across, most_per_row)
    arrangements = []
    for per_row in range(fewest_per_row, most_per_row + 1):
        is_narrow = terminal.columns // per_row < MIN_CHART_COLUMNS
        rows = picture.rows(per_row, narrow=is_narrow)
        needed_lines = len(rows) * _least_lines(picture)
        if needed_lines <= room:
            return rows
        arrangements.append(rows)
    return min(arrangements, key=len)


def _row_height(picture: Picture, rows: Sequence[Sequence[Panel]], room: int) -> int:
    """Return the lines of each row: an equal part of the room, but never too few to be read."""
    least = _least_lines(picture) if len(rows) > 1 else MIN_ALONE_LINES
    return max(least, room // max(1, len(rows)))


class _Row:
    """Panels beside each other."""

    def __init__(
        self, panels: Sequence[Panel], terminal: Terminal, *, columns: int, height: int
    ) -> None:
        """Divide the width of the terminal and the height of the row among titles and panels.

        Args:
            panels: The panels.
            terminal: The room of the whole picture.
            columns: Panels that a full row would have, by which the width is divided.
            height: Lines of the row, the titles of the panels included.
        """
        self.panels = panels
        self.width = terminal.columns // columns
        gap = 1 if columns > 1 else 0
        self.cell = terminal._replace(columns=self.width - gap)  #: The room of one panel.
        self.titles = [fitted_text(panel.title, self.cell, PANEL_TITLE_LINES) for panel in panels]
        self.title_height = max(map(len, self.titles))
        self.panel_height = height - self.title_height

    def lines(self) -> list[str]:
        """Return the lines of the row; titles end at the same line, so that panels begin together."""
        parts = []
        for panel, title in zip(self.panels, self.titles, strict=True):
            padding = [""] * (self.title_height - len(title))
            parts.append([*padding, *title, *self._panel_lines(panel)])
        return [self._joined(line) for line in zip_longest(*parts, fillvalue="")]

    def _panel_lines(self, panel: Panel) -> list[str]:
        if isinstance(panel, Chart):
            return chart_lines(panel, self.cell, self.panel_height)
        return heatmap_lines(panel, self.cell, self.panel_height)

    def _joined(self, parts: Sequence[str]) -> str:
        """Join one line of each panel, padded to its width; escape sequences take no room."""
        padded = [part + " " * (self.width - visible_length(part)) for part in parts]
        return "".join(padded).rstrip()
