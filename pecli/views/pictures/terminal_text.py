"""Coloured characters, labels and frames in a terminal."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pecli.views.pictures.axis_labels import fit_text, typeset
from pecli.views.pictures.terminal_colours import ColourCode
from pecli.views.screen import Terminal, printable

INK = 38  #: The escape sequence for the colour of a character.
PAPER = 48  #: The escape sequence for the colour behind it.
DEFAULT_PAPER = "\x1b[49m"
_RESET = "\x1b[0m"
_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_ASCII = str.maketrans({"−": "-", "–": "-", "×": "x", "·": "*", "→": "->", "…": "..."})
"""Replacements for terminals without Unicode, for the characters that texts of pictures have."""


def ascii_text(text: str) -> str:
    """Return a text for a terminal without Unicode."""
    return text.translate(_ASCII)


class Glyphs(NamedTuple):
    """The characters with which a terminal draws, apart from letters."""

    frame: tuple[str, str, str]  #: The side, the corner and the rule of a panel's axes.
    mark: str  #: A marked point of a curve.
    shades: str  #: From low to high values, if there are no colours.
    ellipsis: str  #: It stands for the middle of a text that is too long.
    chart_axes: str  #: The names of a chart's axes, the vertical one first.
    heatmap_axes: str  #: The names of a heatmap's axes, whose rows are counted downwards.
    spell: Callable[[str], str]  #: Returns a text, such as a title, in the terminal's characters.
    shown: Callable[[str], str]  #: Returns a finished line in the terminal's characters.


UNICODE = Glyphs(
    frame=("│", "└", "─"),
    mark="●",
    shades=" ░▒▓█",
    ellipsis="…",
    chart_axes="{} ↑  {} →",
    heatmap_axes="{} ↓  {} →   ",
    spell=typeset,
    shown=str,
)
ASCII = Glyphs(
    frame=("|", "+", "-"),
    mark="O",
    shades=" .:-=+*#%@",
    ellipsis="...",
    chart_axes="{} up, {} right",
    heatmap_axes="{} down, {} right   ",
    spell=ascii_text,
    shown=ascii_text,
)


def glyphs_of(terminal: Terminal) -> Glyphs:
    """Return the characters that a terminal can show."""
    return UNICODE if terminal.unicode else ASCII


def visible_length(text: str) -> int:
    """Return the number of characters that are seen."""
    return len(_ESCAPE.sub("", text))


def fitted_text(text: str, terminal: Terminal, lines: int = 1) -> list[str]:
    """Return a text in at most `lines` lines of the terminal's width."""
    glyphs = glyphs_of(terminal)
    return fit_text(printable(glyphs.spell(text)), terminal.columns, lines, glyphs.ellipsis)


def escape(code: ColourCode, ground: int = INK) -> str:
    """Return the sequence that begins a colour, of ink or of paper."""
    if isinstance(code, int):
        return f"\x1b[{ground};5;{code}m"
    red, green, blue = code
    return f"\x1b[{ground};2;{red};{green};{blue}m"


def coloured(cells: Iterable[tuple[str, str]]) -> str:
    """Return characters in their colours, as few escape sequences as possible among them.

    With RED for an escape sequence, the cells (RED, "a"), (RED, "b"), ("", "c") become RED "abc",
    and a sequence that ends the colour.

    Args:
        cells: Pairs of an escape sequence, which begins a colour, and a character. A character
            without a sequence has the colour before it.
    """
    line = []
    written_sequence = ""
    for sequence, character in cells:
        if sequence and sequence != written_sequence:
            line.append(sequence)
            written_sequence = sequence
        line.append(character)
    if written_sequence:
        line.append(_RESET)
    return "".join(line)


def framed(
    body: Sequence[str],
    row_labels: Mapping[int, str],
    column_labels: Mapping[int, str],
    terminal: Terminal,
    margin: int,
    width: int,
) -> list[str]:
    """Return the lines of a panel between its axes, such as «256 │▓▓▒▒░░» above «    └──────».

    Args:
        body: The lines of the panel.
        row_labels: Numbers on the left, by line.
        column_labels: Numbers below, by column. Those that would touch another are left out.
        terminal: The room of the panel.
        margin: Columns for the numbers on the left, a space, and the line of the axis.
        width: Columns of the panel itself.
    """
    side, corner, rule = glyphs_of(terminal).frame
    label_width = margin - 2
    lines = []
    for number, text in enumerate(body):
        label = row_labels.get(number, "")
        lines.append(f"{label:>{label_width}} {side}{text}")
    lines.append(" " * (margin - 1) + corner + rule * width)
    numbers_below = _labels_below(column_labels, terminal.columns - margin)
    lines.append((" " * margin + numbers_below).rstrip())
    return lines


def _labels_below(labels: Mapping[int, str], room: int) -> str:
    """Return a line with labels, each centred below its column.

    At the ends of the line, labels are moved inside: in 10 columns, «0» below column 0 and «100»
    below column 9 are «0      100». A label that would touch the one before it is left out.

    Args:
        labels: The texts by column.
        room: The columns of the line.
    """
    line = [" "] * room
    first_free = 0
    for column, text in sorted(labels.items()):
        centred = column - (len(text) - 1) // 2
        last_possible = room - len(text)
        start = max(0, min(centred, last_possible))
        if start >= first_free:
            end = start + len(text)
            line[start:end] = text
            first_free = end + 1  # A space keeps labels apart.
    return "".join(line)
