"""Charts in a terminal: curves of braille dots, eight to a character, or of letters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.views.pictures.axis_labels import apart, ticks, typeset
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.panels import Chart, Curve, Level, Spread
from pecli.views.pictures.terminal_colours import colours_of
from pecli.views.pictures.terminal_text import (
    coloured,
    escape,
    fitted_text,
    framed,
    glyphs_of,
    visible_length,
)
from pecli.views.screen import Terminal

LETTERS = "*o+x#@%&"  #: One per curve, if neither colours nor dots can distinguish them.
LEVEL_LETTERS = "-=~"  #: One per level, if curves are letters.
POINTS = "●○▲△■□◆◇"  #: One per curve whose points are not joined.
BRAILLE = 0x2800  #: The character without dots; the dots are bits that are added to it.
DOT_BITS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a character, by line and column."""
DOT_LINES, DOT_COLUMNS = DOT_BITS.shape
NO_CURVE = -1  #: The number of the curve of a character that no curve touches.
AXIS_LINES = 3  #: Lines of a chart for the frame below it, its numbers, and the names of the axes.
LINES_PER_NUMBER = 4  #: Lines of the vertical axis for each of its numbers.
COLUMNS_PER_NUMBER = 12  #: Columns of the horizontal axis for each of its numbers.
SAMPLE_COLUMNS = 4  #: Columns of a legend for the longest sample, such as «⠒ ⠒», and a space.
LEGEND_GAP = "   "  #: Between the entries of a legend.
PIECES_PER_COLUMN = 4
"""Pieces of a long curve per column of dots. A piece becomes a stroke from its lowest to its highest
point, as wide as the piece; a quarter of a column is too narrow for that to be seen."""
LOG_RANGE = (1e-300, 1e300)
"""Numbers that have a place on a logarithmic axis; near the ends of float64, ratios overflow."""


def chart_lines(chart: Chart, terminal: Terminal, height: int) -> list[str]:
    """Return a chart in that many lines, with its axes and its legend.

    The axes take three lines (the frame, its numbers, the names of the axes), the legend some more,
    and the curves get the rest, but at least two lines.
    """
    x_axis = _axis([curve.x[np.isfinite(curve.y)] for curve in chart.curves], log=chart.log_x)
    y_axis = _axis(_values_to_show(chart), log=chart.log_y)
    pens = _pens_of_chart(chart, terminal)
    legend = _legend_lines(chart, terminal, pens)
    line_count = max(2, height - AXIS_LINES - len(legend))
    row_labels = _row_labels(y_axis, line_count)
    longest_label = max(map(len, row_labels.values()), default=0)
    margin = longest_label + 2  # A space and the line of the axis follow the label.
    column_count = max(2, terminal.columns - margin - 1)
    most_column_labels = max(3, column_count // COLUMNS_PER_NUMBER)
    plane = _Plane(x_axis, y_axis, _Size(line_count, column_count))
    frame = framed(
        _plot_area(chart, plane, pens),
        row_labels,
        x_axis.labels(column_count, most_column_labels),
        terminal,
        margin,
        column_count,
    )
    return [*frame, *fitted_text(_axis_names(chart, terminal), terminal), *legend]


def _row_labels(y_axis: _Axis, line_count: int) -> dict[int, str]:
    """Return the numbers at the vertical axis by their line, counted from the top."""
    labels = y_axis.labels(line_count, tick_count=max(3, line_count // LINES_PER_NUMBER))
    return {line_count - 1 - height: text for height, text in labels.items()}


def _values_to_show(chart: Chart) -> list[Floats]:
    """Return the numbers that the vertical axis spans: its own limits, or all curves and levels."""
    if chart.y_limits is not None:
        return [np.array(chart.y_limits)]
    values = [np.array([level.value for level in chart.levels])]
    for curve in chart.curves:
        values += [curve.y, *(curve.spread or ())]
    return values


def _axis_names(chart: Chart, terminal: Terminal) -> str:
    return glyphs_of(terminal).chart_axes.format(chart.y, chart.x)


def _ends(numbers: Floats, without_numbers: tuple[float, float]) -> tuple[float, float]:
    """Return the smallest and the largest number, or `without_numbers` if there are none."""
    if not numbers.size:
        return without_numbers
    return float(numbers.min()), float(numbers.max())


class _Axis:
    """A linear axis, on which numbers are fractions between 0 and 1.

    `low` and `high` are the numbers at its ends.
    """

    def __init__(self, values: Sequence[Floats]) -> None:
        """Make an axis that spans all values."""
        numbers = np.concatenate([np.empty(0), *map(np.ravel, values)])
        low, high = self._ends(numbers)
        self.low, self.high = apart(low, high)

    def _ends(self, numbers: Floats) -> tuple[float, float]:
        """Return the numbers at the ends; an axis without any number spans 0 to 1."""
        return _ends(numbers[np.isfinite(numbers)], (0.0, 1.0))

    def fractions(self, values: Floats) -> Floats:
        """Return numbers as fractions of the axis: on an axis from 10 to 20, 15 is at 0.5."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return (self._scaled(values) - self.low) / (self.high - self.low)

    def _scaled(self, values: Floats) -> Floats:
        """Return numbers in the unit of the ends."""
        return values

    def _ticks(self, tick_count: int) -> list[float]:
        """Return about `tick_count` round numbers between the ends."""
        return ticks(self.low, self.high, tick_count)

    def labels(self, room: int, tick_count: int) -> dict[int, str]:
        """Return round numbers by their place, counted from 0 to `room` − 1."""
        values = self._ticks(tick_count)
        places = np.rint(self.fractions(np.array(values)) * (room - 1)).tolist()
        labels = {}
        for place, value in zip(places, values, strict=True):
            labels[int(min(max(place, 0), room - 1))] = typeset(value)
        return labels


class _LogAxis(_Axis):
    """A logarithmic axis; `low` and `high` are logarithms. From 10 to 1000, 100 is at 0.5."""

    def _ends(self, numbers: Floats) -> tuple[float, float]:
        """Return the logarithms of the ends; an axis without any number spans 1 to 10."""
        smallest, largest = LOG_RANGE
        is_on_axis = (numbers > smallest) & (numbers < largest)
        low, high = _ends(numbers[is_on_axis], (1.0, 10.0))
        return math.log10(low), math.log10(high)

    def _scaled(self, values: Floats) -> Floats:
        return np.log10(values)

    def _ticks(self, tick_count: int) -> list[float]:
        values = ticks(10.0**self.low, 10.0**self.high, tick_count, log=True)
        return [value for value in values if value > 0]


def _axis(values: Sequence[Floats], *, log: bool) -> _Axis:
    """Return an axis that spans all values."""
    return _LogAxis(values) if log else _Axis(values)


class _Size(NamedTuple):
    """A size in characters, or in dots."""

    lines: int
    columns: int


class _Plane(NamedTuple):
    """The room between the axes of a chart, and the numbers at its ends."""

    x_axis: _Axis
    y_axis: _Axis
    size: _Size  #: In characters, or in dots.

    def with_size(self, size: _Size) -> _Plane:
        """Return the plane, between the same axes, in another unit: dots instead of characters."""
        return self._replace(size=size)


class _LevelStyle(NamedTuple):
    """The look of a level: a line of dots."""

    every: int  #: Columns of dots from one dot to the next.
    sample: str  #: Its sign in the legend.


_LEVELS = (_LevelStyle(2, "⠂⠂⠂"), _LevelStyle(4, "⠂ ⠂"), _LevelStyle(8, "⠂   ⠂"))
"""The trained context has close dots, the one that it is extended to has distant ones."""


class _Pen(NamedTuple):
    """The look of a curve or a level."""

    ink: str  #: The sequence that begins its colour; empty without colours.
    letter: str  #: The character that it is drawn with; empty for braille dots.
    sample: str  #: Its sign in the legend.
    mark: str  #: The character of a point of it that is marked, such as a context.


_Character = tuple[str, str]
"""The sequence that begins a colour, and a character that has it."""


def _pens_of_chart(chart: Chart, terminal: Terminal) -> list[_Pen]:
    """Return the look of each curve, then of each level: its colour, and its letter or its dots."""
    inks = _colour_sequences(chart, terminal)
    letters = _letters(chart, terminal)
    samples = _samples_of_dots(chart)
    mark = glyphs_of(terminal).mark
    pens = []
    for ink, letter, sample in zip(inks, letters, samples, strict=True):
        pens.append(_Pen(ink, letter, letter or sample, mark))  # Its letter is its own sample.
    return pens


def _samples_of_dots(chart: Chart) -> list[str]:
    """Return the sign in the legend of each curve, dashed for a reference, then of each level."""
    samples = ["⠒ ⠒" if curve.reference else "⠒⠒" for curve in chart.curves]
    for number in range(len(chart.levels)):
        style = _LEVELS[number % len(_LEVELS)]
        samples.append(style.sample)
    return samples


def _colour_sequences(chart: Chart, terminal: Terminal) -> list[str]:
    """Return the escape sequence of the colour of each curve, then of each level, which is grey.

    They are empty on a terminal without colours.
    """
    curve_count = len(chart.curves)
    if not terminal.colours:
        return [""] * (curve_count + len(chart.levels))
    colours = colours_of(terminal.colours)
    colour_of = colours.ordered if chart.ordered else colours.distinct
    sequences = [escape(colour_of(number, curve_count)) for number in range(curve_count)]
    return sequences + [escape(colours.grey)] * len(chart.levels)


def _letters(chart: Chart, terminal: Terminal) -> list[str]:
    """Return a letter per curve, then per level; empty ones if they are drawn with dots."""
    if _has_dots(chart, terminal):
        return [""] * (len(chart.curves) + len(chart.levels))
    has_points = terminal.unicode and not chart.joined
    curve_letters = _repeated(POINTS if has_points else LETTERS, len(chart.curves))
    return curve_letters + _repeated(LEVEL_LETTERS, len(chart.levels))


def _has_dots(chart: Chart, terminal: Terminal) -> bool:
    """Return True if curves are drawn with braille dots, which all look alike.

    Colours distinguish the curves then, or there is a single one beside dashed references.
    """
    if not terminal.unicode or not chart.joined:
        return False
    curve_count = sum(not curve.reference for curve in chart.curves)
    return terminal.colours > 0 or curve_count <= 1


def _repeated(alphabet: str, count: int) -> list[str]:
    """Return that many letters; after the last one, the alphabet begins again."""
    return [alphabet[number % len(alphabet)] for number in range(count)]


def _legend_lines(chart: Chart, terminal: Terminal, pens: Sequence[_Pen]) -> list[str]:
    """Return the names of curves and levels, as many to a line as there is room for.

    Before a name stands a sample of its line, in its colour.
    """
    names = [curve.label for curve in chart.curves]
    names += [level.label for level in chart.levels]
    lines: list[str] = []
    free_columns = 0  # Columns that are left in the last line.
    for name, pen in zip(names, pens, strict=True):
        if not name:
            continue
        entry = _legend_entry(name, pen, terminal)
        width = visible_length(entry)
        width_beside_others = len(LEGEND_GAP) + width
        if width_beside_others <= free_columns:
            lines[-1] += LEGEND_GAP + entry
            free_columns -= width_beside_others
        else:
            lines.append(entry)
            free_columns = terminal.columns - width
    return lines


def _legend_entry(name: str, pen: _Pen, terminal: Terminal) -> str:
    """Return a sample in its colour and a name, shortened if it is wider than the terminal."""
    room_for_name = terminal._replace(columns=terminal.columns - SAMPLE_COLUMNS)
    text = "".join(fitted_text(name, room_for_name))
    return f"{coloured([(pen.ink, pen.sample)])} {text}"


def _plot_area(chart: Chart, plane: _Plane, pens: Sequence[_Pen]) -> list[str]:
    """Return a chart's curves and levels (horizontal lines) as lines of text, without the axes.

    Args:
        chart: The chart.
        plane: The axes of the chart, and the characters between them.
        pens: The look of each curve, then of each level: a colour, and a letter or dots.
    """
    has_letters = any(pen.letter for pen in pens)
    layers = _layers_of_letters(chart, plane) if has_letters else _layers_of_dots(chart, plane)
    lines = _lines_of_characters(layers, len(chart.curves), pens)
    pens_of_curves = pens[: len(chart.curves)]
    for curve, pen in zip(chart.curves, pens_of_curves, strict=True):
        for line, column in _marked_characters(curve, plane):
            lines[line][column] = (pen.ink, pen.mark)
    return [coloured(line).rstrip() for line in lines]


def _lines_of_characters(
    layers: Sequence[Indices], curve_count: int, pens: Sequence[_Pen]
) -> list[list[_Character]]:
    """Return the characters of all lines, in which curves and levels lie over each other.

    A braille character shows the dots of all curves in it, but has the colour of only one of them.
    A letter is that of this curve as well.

    Args:
        layers: Of each curve, then of each level, the dots in every character as bits, or 1 where
            a letter stands; (lines, columns).
        curve_count: The number of curves.
        pens: The look of each curve and level.
    """
    visible_curves = _visible_curves(layers, curve_count)  # their numbers, (lines, columns)
    patterns = np.bitwise_or.reduce(np.array(layers), axis=0)  # (lines, columns)
    lines = []
    for curves, line_patterns in zip(visible_curves.tolist(), patterns.tolist(), strict=True):
        lines.append(_line_of_characters(curves, line_patterns, pens))
    return lines


def _layers_of_letters(chart: Chart, plane: _Plane) -> list[Indices]:
    """Return the characters that each curve or level touches: 1 for those, 0 for all others."""
    return [mask.astype(np.intp) for mask in _dot_masks(chart, plane)]


def _layers_of_dots(chart: Chart, plane: _Plane) -> list[Indices]:
    """Return the braille dots of each curve or level in every character, as the bits of a number."""
    lines, columns = plane.size
    plane_of_dots = plane.with_size(_Size(lines * DOT_LINES, columns * DOT_COLUMNS))
    return [_braille_bits(mask, plane.size) for mask in _dot_masks(chart, plane_of_dots)]


def _line_of_characters(
    curves: Sequence[int], patterns: Sequence[int], pens: Sequence[_Pen]
) -> list[_Character]:
    """Return the characters of a line of a chart, each with the sequence of its colour.

    Args:
        curves: The number of the curve or level that is seen in each character, or `NO_CURVE`.
        patterns: The dots of each character, as the bits of a Braille pattern.
        pens: The colour of each curve and level, and its letter if there are no dots.
    """
    characters = []
    for curve, pattern in zip(curves, patterns, strict=True):
        if curve == NO_CURVE:
            characters.append(("", " "))
        else:
            pen = pens[curve]
            characters.append((pen.ink, pen.letter or chr(BRAILLE + pattern)))
    return characters


def _marked_characters(curve: Curve, plane: _Plane) -> Iterator[tuple[int, int]]:
    """Yield the line, from the top, and the column of each point that is marked on a curve.

    Points beyond the ends of an axis, which `--range` may set, are not drawn.
    """
    for x, y in curve.marks:
        (right,) = plane.x_axis.fractions(np.array([x]))
        (high,) = plane.y_axis.fractions(np.array([y]))
        if 0 <= right <= 1 and 0 <= high <= 1:
            yield (
                round((1 - high) * (plane.size.lines - 1)),
                round(right * (plane.size.columns - 1)),
            )


def _dot_masks(chart: Chart, plane: _Plane) -> list[Flags]:
    """Return which dots each curve covers, then each level (a horizontal line with a name).

    Curves for reference are dashed, and levels are dotted, each in another rhythm.
    """
    masks = [_curve_mask(curve, plane, joined=chart.joined) for curve in chart.curves]
    for number, level in enumerate(chart.levels):
        rhythm = _LEVELS[number % len(_LEVELS)]
        masks.append(_level_mask(level, plane, rhythm.every))
    return masks


def _curve_mask(curve: Curve, plane: _Plane, *, joined: bool) -> Flags:
    """Return the dots of a curve, and of the range around it."""
    x = plane.x_axis.fractions(curve.x)
    mask = _touched_dots(x, plane.y_axis.fractions(curve.y), plane.size, joined)
    if curve.spread is not None:
        mask |= _spread_mask(x, curve.spread, plane)
    if curve.reference:  # Dashes: two dots of four.
        mask[:, 2::4] = False
        mask[:, 3::4] = False
    return mask


def _level_mask(level: Level, plane: _Plane, every: int) -> Flags:
    """Return the dots of a horizontal line from the left to the right end, one in `every` columns."""
    left_and_right = np.array([0.0, 1.0])
    height = plane.y_axis.fractions(np.full(2, level.value))
    mask = _touched_dots(left_and_right, height, plane.size, joined=True)
    is_drawn_column: Flags = np.arange(plane.size.columns) % every == 0
    return mask & is_drawn_column


def _spread_mask(x: Floats, spread: Spread, plane: _Plane) -> Flags:
    """Return the dots between the smallest and the largest values, as strokes up and down.

    A stroke is a line between two points at the same x: (x, low) and (x, high).
    """
    low_and_high = np.stack([spread.low, spread.high], axis=1)
    heights = plane.y_axis.fractions(low_and_high.ravel())
    return _touched_dots(np.repeat(x, 2), heights, plane.size, joined=True)


def _braille_bits(mask: Flags, size: _Size) -> Indices:
    """Return the dots of each character of a mask of dots as bits.

    The dots of a character are `DOT_BITS`: if only the two in its upper line are set, its number is
    0x01 + 0x08 = 0x09.
    """
    characters = mask.reshape(size.lines, DOT_LINES, size.columns, DOT_COLUMNS)
    bits: Indices = (characters * DOT_BITS[None, :, None, :]).sum(axis=(1, 3))
    return bits


def _visible_curves(layers: Sequence[Indices], curve_count: int) -> Indices:
    """Return the number of the curve or level that is seen in each character of a chart.

    A character has one colour, although several curves may have dots in it. Curves lie over levels
    (horizontal lines), and a later curve over an earlier one. Only where two curves have the very
    same dots, they are seen by turns. A character without dots has the number `NO_CURVE`.

    Args:
        layers: The dots of each curve, then of each level: (lines, columns), 0 if there are none.
            The place in this list is the number of a curve or level.
        curve_count: The number of curves.
    """
    visible: Indices = np.full(layers[0].shape, NO_CURVE, np.intp)
    for level in range(curve_count, len(layers)):
        visible[layers[level] > 0] = level
    visible_dots = np.zeros_like(layers[0])  # those of the curve that is seen so far
    for curve in range(curve_count):
        dots = layers[curve]
        is_seen = _is_seen_above(curve, dots, visible_dots)
        visible[is_seen] = curve
        visible_dots[is_seen] = dots[is_seen]
    return visible


def _is_seen_above(curve: int, dots: Indices, dots_below: Indices) -> Flags:
    """Return True for each character in which a curve is seen, instead of the curves below it.

    These are the characters in which it has dots. If the curve below has the very same dots there,
    the two are seen by turns: 0 0 1 1 0 0 1 1 along a line that the curves 0 and 1 share.

    Args:
        curve: The number of the curve.
        dots: The dots of the curve in each character (lines, columns), 0 if there are none.
        dots_below: Those of the curve that is seen in each character so far.
    """
    has_dots = dots > 0
    _, column_count = dots.shape
    has_other_dots_than_below = dots != dots_below
    is_in_turn = _columns_in_turn(curve, column_count)
    is_taken: Flags = has_dots & (has_other_dots_than_below | is_in_turn)
    return is_taken


def _columns_in_turn(number: int, column_count: int) -> Flags:
    """Return True for the columns that a curve takes from curves with the same dots, two at a time.

    Curve 1 takes every second pair of columns from curve 0: 2 3, 6 7, 10 11. Curve 2 takes every
    third pair of both: 4 5, 10 11.
    """
    pair_of_column = np.arange(column_count) // 2
    is_in_turn: Flags = pair_of_column % (number + 1) == number
    return is_in_turn


def _touched_dots(x: Floats, y: Floats, size: _Size, joined: bool) -> Flags:
    """Return the dots that a line through the points touches, or only the points.

    The result is True for such dots, with the top row first: in a raster of 3 × 3 dots, the line
    from (0, 0) to (1, 1) touches the diagonal from the bottom left to the top right.

    Args:
        x: Places from 0 on the left to 1 on the right.
        y: Places from 0 at the bottom to 1 at the top. NaN is a gap.
        size: Dots of the raster.
        joined: True for a line.
    """
    x, y = envelope(x, y, PIECES_PER_COLUMN * size.columns)
    # Zero lies infinitely far to the left on a logarithmic axis, and no line leads there.
    across = np.where(np.isfinite(x), x, np.nan) * (size.columns - 1)
    # One row beyond the picture is far enough: a line to a point outside leaves at the edge.
    down = np.clip((1 - y) * (size.lines - 1), -1, size.lines)
    if joined and len(x) > 1:
        across, down = _joined_points(across, down)
    return _dots_at(across, down, size)


def _dots_at(across: Floats, down: Floats, size: _Size) -> Flags:
    """Return True for the dots of a raster that are nearest to points; others lie outside of it."""
    is_in_columns = (across > -0.5) & (across < size.columns - 0.5)
    is_in_rows = (down > -0.5) & (down < size.lines - 0.5)
    is_inside = is_in_columns & is_in_rows
    rows = np.rint(down[is_inside]).astype(np.intp)
    columns = np.rint(across[is_inside]).astype(np.intp)
    mask = np.zeros((size.lines, size.columns), bool)
    mask[rows, columns] = True
    return mask


def _joined_points(across: Floats, down: Floats) -> tuple[Floats, Floats]:
    """Return points, with more points on the straight lines between them, less than a dot apart.

    A line of 3 dots is divided into 4 steps, with points at 0, 1/4, 2/4 and 3/4 of the way. All
    lines are divided at once. Two lines, of 3 dots and of 1, have

        step_counts         4       2
        line_of_step        0 0 0 0 1 1
        part_of_way         0 ¼ ½ ¾ 0 ½

    Args:
        across: The coordinates of points in dots from the left.
        down: Their coordinates in dots from the top. NaN is a gap, and no line leads there.
    """
    line_widths = np.diff(across)
    line_heights = np.diff(down)
    line_lengths = np.maximum(np.abs(line_widths), np.abs(line_heights))  # in dots
    # A line to a gap has one step, whose point is NaN as well, and is not drawn.
    step_counts = np.nan_to_num(line_lengths).astype(np.intp) + 1
    line_of_step = np.repeat(np.arange(len(step_counts)), step_counts)
    part_of_way = _steps_on_lines(step_counts) / step_counts[line_of_step]
    # Line n begins at point n. Each step adds a part of the line's width and height to it.
    added_across = across[line_of_step] + part_of_way * line_widths[line_of_step]
    added_down = down[line_of_step] + part_of_way * line_heights[line_of_step]
    return np.append(across, added_across), np.append(down, added_down)


def _steps_on_lines(step_counts: Indices) -> Indices:
    """Return the steps of all lines one after another, each line's counted from 0.

    >>> _steps_on_lines(np.array([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    end_of_line = np.cumsum(step_counts)
    start_of_line = end_of_line - step_counts
    all_steps = np.arange(step_counts.sum())
    return all_steps - np.repeat(start_of_line, step_counts)
