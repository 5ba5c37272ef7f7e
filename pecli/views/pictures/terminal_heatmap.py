"""Heatmaps in a terminal: two values per character in colour, one in shades of grey."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Floats
from pecli.views.pictures.axis_labels import ticks, typeset
from pecli.views.pictures.downsample import fitted_to
from pecli.views.pictures.panels import HeatmapPanel
from pecli.views.pictures.terminal_colours import LEVELS, colours_of
from pecli.views.pictures.terminal_text import (
    DEFAULT_PAPER,
    PAPER,
    coloured,
    escape,
    framed,
    glyphs_of,
    visible_length,
)
from pecli.views.screen import Terminal

UNKNOWN = -1  #: The level of a value that is not finite: grey, or an x without colours.
BLANK = -2  #: The level of zero on a logarithmic scale: the terminal's own background.
LONGEST_BAR = 32  #: Characters of a colour bar.
SHORTEST_BAR_BESIDE_NAMES = 6  #: Without room for so many, the names of the axes are left out.
SHORTEST_BAR = 4  #: Without room for so many, the bar is left out as well.
REDUCED_LINES = 2  #: The most lines of a cell of a heatmap that is reduced.
REDUCED_CHARACTERS = 4  #: The most characters across such a cell.


class _Canvas(NamedTuple):
    """The values of a heatmap that are drawn, and the room for them."""

    values: Floats
    height: int  #: Values that fit below each other.
    width: int


class _CellSize(NamedTuple):
    """The size of a drawn value: how often it is repeated."""

    down: int  #: In values of the canvas, of which a line shows one, or two in colour.
    across: int  #: In characters.


def heatmap_lines(panel: HeatmapPanel, terminal: Terminal, height: int) -> list[str]:
    """Return a heatmap in that many lines, with its axes.

    Two of the lines are the frame below the values and the numbers of the columns. Values are first
    reduced to those that fit, and then repeated until cells are about square.
    """
    canvas = _canvas(panel, terminal, height)
    size = _cell_size(canvas, panel, terminal)
    enlarged = canvas.values.repeat(size.down, axis=0).repeat(size.across, axis=1)
    body = _rows_as_text(_levels_of_colour(enlarged, panel), panel, terminal)
    width = enlarged.shape[1]
    return framed(
        body,
        _row_labels(panel, len(body)),
        _column_labels(panel, width),
        terminal,
        margin=terminal.columns - canvas.width - 1,
        width=width,
    )


def drawn_shape(panel: HeatmapPanel, terminal: Terminal, height: int) -> tuple[int, int]:
    """Return how many rows and columns of values are drawn in that many lines."""
    rows, columns = _canvas(panel, terminal, height).values.shape
    return rows, columns


def _values_per_line(terminal: Terminal) -> int:
    """Return 2 in colour: half blocks show one value above another."""
    return 2 if terminal.colours else 1


def _canvas(panel: HeatmapPanel, terminal: Terminal, height: int) -> _Canvas:
    """Reduce a heatmap to the values that fit into that many lines, beside the numbers of its rows."""
    last_row = panel.first_row + panel.shape[0] - 1
    margin = len(str(last_row)) + 2
    high = max(1, height - 2) * _values_per_line(terminal)
    wide = max(1, terminal.columns - margin - 1)
    values = np.asarray(panel.values, np.float64)
    return _Canvas(fitted_to(values, high, wide, panel.reduction), high, wide)


def _cell_size(canvas: _Canvas, panel: HeatmapPanel, terminal: Terminal) -> _CellSize:
    """Return how many times each value is drawn, down and across.

    A table of 4 × 4 values would be a speck in a terminal, so that its cells are enlarged. They are
    never higher than wide, and at most twice as wide as high.

    Args:
        canvas: The values that are drawn, and the room for them.
        panel: The heatmap. It has more values than the canvas if they do not all fit.
        terminal: The terminal; in colour, a line shows two values, one above the other.
    """
    values_per_line = _values_per_line(terminal)
    largest = _room_per_value(canvas)
    is_reduced = canvas.values.shape != panel.values.shape
    if is_reduced:
        # The table is long in one direction. In the other, it is drawn only a little larger.
        largest = _CellSize(
            down=min(largest.down, REDUCED_LINES * values_per_line),
            across=min(largest.across, REDUCED_CHARACTERS),
        )
    highest = _height_of_square(largest.across, values_per_line)
    widest = _twice_the_height(largest.down, values_per_line)
    return _CellSize(down=min(largest.down, highest), across=min(largest.across, widest))


def _room_per_value(canvas: _Canvas) -> _CellSize:
    """Return the room for each value of a canvas: 5 × 19 for 4 × 4 values in 20 lines of 76."""
    rows, columns = canvas.values.shape
    return _CellSize(
        down=max(1, canvas.height // rows),
        across=max(1, canvas.width // columns),
    )


def _height_of_square(width: int, values_per_line: int) -> int:
    """Return the height of a square cell in values of the canvas, at least one.

    A line is as high as 2 characters are wide: 16 characters across go with 8 lines, which are 8
    values, or 16 values if a line shows two.
    """
    return max(1, width * values_per_line // 2)


def _twice_the_height(height: int, values_per_line: int) -> int:
    """Return the characters of a cell that is twice as wide as it is high, at least one.

    A line is as high as 2 characters are wide: 5 lines are as high as 10 characters, so that it is
    20. These lines are 5 values of the canvas, or 10 if a line shows two.
    """
    return max(1, 4 * height // values_per_line)


def _row_labels(panel: HeatmapPanel, lines: int) -> dict[int, str]:
    """Return the numbers of some rows by the line of the drawing that shows the row."""
    count = panel.shape[0]
    labels = {}
    for row in _whole_ticks(panel.first_row, count - 1, max(1, lines // 3)):
        line = min(lines - 1, int((row + 0.5) / count * lines))
        labels[line] = typeset(f"{panel.first_row + row:.0f}")
    return labels


def _column_labels(panel: HeatmapPanel, width: int) -> dict[int, str]:
    """Return the numbers of some columns by the character that shows the column."""
    count = panel.shape[1]
    label_width = len(str(count)) + 3
    labels = {}
    for column in _whole_ticks(0, count - 1, max(1, width // label_width)):
        place = math.floor((column + 0.5) / count * width)
        labels[place] = f"{column:.0f}"
    return labels


def _whole_ticks(first: int, last: int, tick_count: int) -> list[int]:
    """Return indices from 0 to `last` that have round numbers if counted from `first`."""
    indices = set()
    for value in ticks(first, first + last, tick_count):
        index = value - first
        if value == int(value) and 0 <= index <= last:
            indices.add(int(value) - first)
    return sorted(indices)


def _levels_of_colour(values: Floats, panel: HeatmapPanel) -> AnyArray:
    """Return every value as a level of the colour scale, from 0 for the low end to 255.

    Values that are not finite are `UNKNOWN` (grey); zeros on a logarithmic scale are `BLANK`.
    """
    if not panel.log:
        low, high = panel.ends
        return _levels_between(values, low, high).astype(np.int16)
    smallest, largest = panel.ends
    logarithms = np.log10(np.maximum(values, smallest))
    levels = _levels_between(logarithms, math.log10(smallest), math.log10(largest))
    return np.where(values == 0, BLANK, levels).astype(np.int16)


def _levels_between(values: Floats, low: float, high: float) -> Floats:
    """Return the level of each value on a linear scale from `low`, 0, to `high`, 255."""
    is_finite = np.isfinite(values)
    shares = np.clip((np.where(is_finite, values, low) - low) / (high - low), 0.0, 1.0)
    return np.where(is_finite, np.rint(shares * (LEVELS - 1)), UNKNOWN)


class _HalfBlocks:
    """Characters that show two levels of colour, one above the other.

    The character ▀ shows both: the upper level is its ink, the lower one its paper (background). A
    blank, which has no colour, can only be paper, so that a blank above a colour is drawn as ▄.
    Terminals without Unicode show spaces on paper in the colour of the upper level.
    """

    def __init__(self, panel: HeatmapPanel, terminal: Terminal) -> None:
        """Prepare the escape sequences of all levels; the panel selects the palette."""
        colours = colours_of(terminal.colours)
        code_of_level = dict(enumerate(colours.scale(centred=panel.is_centred)))
        code_of_level[UNKNOWN] = colours.grey
        self.has_blocks = terminal.unicode
        self.ink = {level: escape(code) for level, code in code_of_level.items()}
        self.paper = {level: escape(code, PAPER) for level, code in code_of_level.items()}
        self.ink[BLANK] = self.ink[LEVELS - 1]  # The ink of a blank is not seen.
        self.paper[BLANK] = DEFAULT_PAPER

    def character(self, above: int, below: int) -> tuple[str, str]:
        """Return the sequences of its colours, and the character itself."""
        if not self.has_blocks:
            return self.paper[above], " "
        if above != BLANK:
            return self.ink[above] + self.paper[below], "▀"
        character = " " if below == BLANK else "▄"
        return self.ink[below] + self.paper[above], character


def _rows_as_text(levels: AnyArray, panel: HeatmapPanel, terminal: Terminal) -> list[str]:
    """Return the rows of a heatmap as lines of text; in colour, a line shows two rows.

    Args:
        levels: The step of the colour scale of each cell, or `UNKNOWN` or `BLANK`.
        panel: The heatmap, which selects the palette.
        terminal: The terminal.
    """
    if not terminal.colours:
        return _shaded(levels, panel, terminal)
    # The character ▀ has two colours, and shows a cell above another. A last row that has none
    # below it gets blanks.
    if len(levels) % 2:
        row_of_blanks = np.full((1, levels.shape[1]), BLANK)
        levels = np.concatenate([levels, row_of_blanks])
    blocks = _HalfBlocks(panel, terminal)
    upper_rows = levels[0::2].tolist()
    lower_rows = levels[1::2].tolist()
    lines = []
    for upper, lower in zip(upper_rows, lower_rows, strict=True):
        lines.append(coloured(map(blocks.character, upper, lower)))
    return lines


def _shaded(levels: AnyArray, panel: HeatmapPanel, terminal: Terminal) -> list[str]:
    """Return levels as lines without colours, one character per level: ░ is low, █ is high."""
    shades = glyphs_of(terminal).shades
    if panel.log:
        shades = shades[1:]  # The first one is a space, as a blank is, which means zero here.
    characters = {level: shades[level * len(shades) // LEVELS] for level in range(LEVELS)}
    characters[BLANK] = " "
    characters[UNKNOWN] = "x"
    lines = []
    for row in levels.tolist():
        lines.append("".join([characters[level] for level in row]))
    return lines


def key_line(heatmaps: Sequence[HeatmapPanel], terminal: Terminal, shape: tuple[int, int]) -> str:
    """Return the line below heatmaps: the names of their axes, and a bar of their colours.

    For example «position ↓  channel →   −1 ▀▀▀▀▀▀▀▀ 1». On a narrow terminal the names are left out,
    «−1 ▀▀▀▀▀▀▀▀ 1», and on a very narrow one the bar and the note on blank elements: «−1 to 1».

    Args:
        heatmaps: Heatmaps that share their colours.
        terminal: The room for the line.
        shape: Rows and columns of the first heatmap that are drawn.
    """
    panel = heatmaps[0]  # All of them have its colours.
    low, high = map(typeset, panel.ends)
    before_bar = f"{panel.quantity} {low}" if panel.quantity else low  # «|bias| 0.01»
    note = _blank_note(heatmaps, terminal)
    characters_beside_bar = visible_length(f"{before_bar}  {high}{note}")
    room = terminal.columns - characters_beside_bar  # for the names and the bar
    names = _names_in_room(panel, terminal, shape, room - SHORTEST_BAR_BESIDE_NAMES)
    bar_width = min(LONGEST_BAR, room - len(names))
    if bar_width >= SHORTEST_BAR:
        bar = _colour_bar(panel, terminal, bar_width)
        return f"{names}{before_bar} {bar} {high}{note}"
    return f"{names}{before_bar} to {high}"[: terminal.columns]


def _colour_bar(panel: HeatmapPanel, terminal: Terminal, width: int) -> str:
    """Return a line of the colours of a heatmap, from those of low values to those of high ones."""
    levels = np.rint(np.linspace(0, LEVELS - 1, width)).astype(np.int16)
    return _one_line(levels, panel, terminal)


def _one_line(levels: AnyArray, panel: HeatmapPanel, terminal: Terminal) -> str:
    """Return a row of levels as a line of full characters; in colour, it is drawn twice for that."""
    equal_rows = np.tile(levels, (_values_per_line(terminal), 1))
    (line,) = _rows_as_text(equal_rows, panel, terminal)
    return line


def _blank_note(heatmaps: Sequence[HeatmapPanel], terminal: Terminal) -> str:
    """Return the meaning of cells without a colour, if there are any."""
    panel = heatmaps[0]
    note = " none: blank" if panel.log else ""
    if all(np.isfinite(heatmap.values).all() for heatmap in heatmaps):
        return note
    sample = _one_line(np.full(1, UNKNOWN, np.int16), panel, terminal)
    return f"{note} {sample} not finite"


def _names_in_room(
    panel: HeatmapPanel, terminal: Terminal, shape: tuple[int, int], room: int
) -> str:
    """Return the names of both axes; without room for them, what a cell stands for, or nothing.

    For example «position (means of 4) ↓  channel →   », or only «means of 4   ».
    """
    row_name, column_name = panel.axis_names(*shape)
    names = glyphs_of(terminal).heatmap_axes.format(row_name, column_name)
    if len(names) <= room:
        return names
    return _reduction_notes(panel, shape, room)


def _reduction_notes(panel: HeatmapPanel, shape: tuple[int, int], room: int) -> str:
    """Return «means of 4, one in 2   »; nothing if no rows are left out, or without room for it."""
    rows, columns = shape
    notes = [panel.row_note(rows), panel.column_note(columns)]
    distinct_notes = dict.fromkeys(filter(None, notes))
    words = f"{', '.join(distinct_notes)}   "
    if not distinct_notes or len(words) > room:
        return ""
    return words
