"""Tables of text: columns under their heads, never cut, and folded on a terminal that is too narrow."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pecli.views import screen
from pecli.views.screen import Cell, RecordedTable, Recorder, Styled

GAP = "  "


def print_table(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], *, indent: str = "", right: bool = False
) -> None:
    """Print rows under their heads.

    Args:
        heads: One per column; if all are empty, there is no line of heads.
        rows: Cells, as many per row as there are heads.
        indent: Spaces before every line.
        right: Align all columns except the first to the right: they are numbers. If a terminal is too
            narrow, as many of them as fit are shown at a time; a table of text wraps its rows instead.
    """
    styled_rows = [list(map(_as_styled, row)) for row in rows]
    if isinstance(sys.stdout, Recorder):  # A report shows the table as HTML.
        sys.stdout.recorded.append(RecordedTable(heads, styled_rows, right))
        return
    line_of_heads = [Styled(head, "dim") for head in heads]
    styled_lines = [line_of_heads, *styled_rows] if any(heads) else styled_rows
    lines = [list(map(_as_printable, line)) for line in styled_lines]
    room = screen.output().width - len(indent)
    if right:
        _print_numbers(lines, indent, room)
    else:
        _print_texts(lines, indent, room)


def _as_styled(cell: Cell) -> Styled:
    if isinstance(cell, str):
        return Styled(cell)
    return cell


def _as_printable(cell: Styled) -> Styled:
    return Styled(screen.printable(cell.text), cell.style)


def _print_numbers(lines: Sequence[Sequence[Styled]], indent: str, room: int) -> None:
    """Print columns of numbers, some at a time if all of them are too wide for the terminal.

    Each part repeats the first column, which labels the rows: if two of five columns fit beside it,
    the parts have the columns 0 1 2, 0 3 4 and 0 5.

    Args:
        lines: The cells of each line, the heads included.
        indent: Spaces before every line.
        room: Characters that fit into a line after the indent.
    """
    widths = _widths(lines)
    fits = _width_of(widths) <= room
    cannot_be_divided = len(widths) <= 2  # the labels and one column
    if fits or cannot_be_divided:
        _print_lines(lines, widths, indent, room, right=True)
        return
    label_width, *number_widths = widths
    column_width = max(number_widths) + len(GAP)
    columns_at_once = max(1, (room - label_width) // column_width)
    for start in range(1, len(widths), columns_at_once):
        columns = slice(start, start + columns_at_once)
        part = [[line[0], *line[columns]] for line in lines]
        _print_numbers(part, indent, room)


def _print_texts(lines: Sequence[Sequence[Styled]], indent: str, room: int) -> None:
    """Print columns of text, all at once; lines that are too long are folded.

    The last column is as wide as each of its cells: spaces at the end of a line would fold it.
    """
    widths = _widths(lines)
    widths[-1:] = [0]
    _print_lines(lines, widths, indent, room, right=False)


def _widths(lines: Sequence[Sequence[Styled]]) -> list[int]:
    """Return the width of each column."""
    columns = zip(*lines, strict=True)
    return [max(len(cell.text) for cell in column) for column in columns]


def _width_of(widths: Sequence[int]) -> int:
    """Return the width of a line: its columns, and the gaps between them."""
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _print_lines(
    lines: Sequence[Sequence[Styled]],
    widths: Sequence[int],
    indent: str,
    room: int,
    *,
    right: bool,
) -> None:
    """Print lines in aligned columns; a line that does not fit into `room` characters is folded."""
    for line in lines:
        parts = _aligned_cells(line, widths, right=right)
        if sum(len(part.text) for part in parts) <= room:
            screen.print_styled(Styled(indent), *parts)
        else:
            _print_folded(line, indent)


def _aligned_cells(line: Sequence[Styled], widths: Sequence[int], *, right: bool) -> list[Styled]:
    """Return the cells of a line padded to the widths of their columns, with gaps between them.

    Numbers are aligned to the right, except in the first column, which labels the rows.
    """
    align = str.rjust if right else str.ljust
    label, *cells = line
    parts = [Styled(label.text.ljust(widths[0]), label.style)]
    for cell, width in zip(cells, widths[1:], strict=True):
        parts.append(Styled(GAP))
        parts.append(Styled(align(cell.text, width), cell.style))
    return parts


def _print_folded(line: Sequence[Styled], indent: str) -> None:
    """Print the first cell of a row, and the others wrapped below it."""
    first, *others = line
    if first.text:
        screen.print_styled(Styled(indent), first)
    text = GAP.join(cell.text for cell in others)
    style = line[-1].style
    for part in screen.wrapped(text, f"{indent}  "):
        screen.print_styled(Styled(part, style))
