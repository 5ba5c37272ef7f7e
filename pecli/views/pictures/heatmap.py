"""Arrays as pictures in the terminal: two values a character in colour, one in grey.

Drawn by hand, since a rich table of a picture's cells takes fifty times as long.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import palettes, ticks
from pecli.views.pictures.block_mean import shrink
from pecli.views.pictures.terminal import Terminal, terminal
from pecli.views.pictures.words import fitted

if TYPE_CHECKING:
    from numpy.typing import NDArray


_SHADES = {True: " ░▒▓█", False: " .:-=+*#%@"}
"""From low to high, where there are no colours."""
_UNKNOWN = "x"
"""What is no finite number, where there are no colours."""
_SHORTEST_BAR = 6
"""Cells of a colour bar below which the names of the axes make room for it."""
_RESET = "\x1b[0m"


class How(TypedDict, total=False):
    """What `draw` may be told beside the values."""

    title: str
    rows: str
    columns: str
    centred: bool  #: zero in the middle of a diverging palette
    reduce: str  #: "mean", or "max" for the largest magnitude
    first_row: int  #: rows are numbered from here
    row_count: int | None  #: how many rows the array stands for, where it was made smaller
    first_column: int
    column_count: int | None
    limits: tuple[float, float] | None  #: what the ends of the palette stand for
    height: int | None  #: how many lines to take, all included
    key: bool  #: whether the last line tells what axes and colours mean


def draw(values: Floats, **how: Unpack[How]) -> None:
    """Print an array as a picture on standard output, as large as the terminal has room for."""
    print("\n".join(lines(values, terminal(), **how)))


def lines(
    values: Floats,
    terminal: Terminal,
    *,
    title: str = "",
    rows: str = "position",
    columns: str = "channel",
    centred: bool = False,
    reduce: str = "mean",
    first_row: int = 0,
    row_count: int | None = None,
    first_column: int = 0,
    column_count: int | None = None,
    limits: tuple[float, float] | None = None,
    height: int | None = None,
    key: bool = True,
) -> list[str]:
    """The lines that `draw` prints, for the given terminal."""
    from pecli.views.screen import printable

    values = np.atleast_2d(np.asarray(values, np.float64))
    row_count, column_count = row_count or len(values), column_count or values.shape[1]
    head = fitted(printable(title), terminal.columns, 1, terminal.dots)
    if not values.size:
        return [*head, "(empty)"]
    margin = len(str(first_row + row_count - 1)) + 2 if rows else 2
    wide = max(1, terminal.columns - margin - 1)
    high = max(1, (height or terminal.lines - 1) - len(head) - 2 - key)
    tall = 2 if terminal.colours else 1  # half blocks
    pixels = _fitted(values, high * tall, wide, tall, reduce)
    low, top = ticks.apart(*(limits or _limits(pixels, centred)))
    body = _cells(_levels(pixels, low, top), terminal, centred)
    labels = _row_labels(first_row, row_count, len(body)) if rows else {}
    side, corner = ("│", "└") if terminal.unicode else ("|", "+")
    picture = [f"{labels.get(k, ''):>{margin - 2}} {side}{line}" for k, line in enumerate(body)]
    below = _column_labels(first_column, column_count, pixels.shape[1], wide)
    rule = ("─" if terminal.unicode else "-") * pixels.shape[1]
    return [
        *head,
        *picture,
        " " * (margin - 1) + corner + rule,
        (" " * margin + below).rstrip(),
        *([key_line(terminal, rows, columns, (low, top), centred, not np.isfinite(pixels).all())] if key else []),
    ]


def key_line(
    terminal: Terminal, rows: str, columns: str, limits: tuple[float, float], centred: bool, unknown: bool = False
) -> str:
    """What the axes and the colours of a picture mean, in a line."""
    down, right = (" ↓", " →") if terminal.unicode else (" down,", " right")
    names = "  ".join([*([rows + down] if rows else []), columns + right])
    names = names if terminal.unicode else names.replace(",  ", ", ")
    ends = sum(len(ticks.short(end)) for end in limits)
    names = f"{names}   " if terminal.columns >= len(names) + 3 + ends + 2 + _SHORTEST_BAR else ""
    return names + _colour_bar(*limits, terminal, centred, unknown, terminal.columns - len(names))


def _fitted(values: Floats, high: int, wide: int, tall: int, reduce: str) -> Floats:
    """As many pixels as there is room for: a large array averaged, a small one with every element a whole block."""
    small = shrink(values, high, wide, reduce)
    down, across = max(1, high // len(small)), max(1, wide // small.shape[1])
    if small.shape != values.shape:  # one direction is full: the other may grow, but an element stays about square
        down, across = min(down, 2 * tall), min(across, 4)
    down, across = min(down, max(1, across * tall // 2)), min(across, max(1, 4 * down // tall))
    return np.repeat(np.repeat(small, down, axis=0), across, axis=1)


def _limits(pixels: Floats, centred: bool) -> tuple[float, float]:
    finite = pixels[np.isfinite(pixels)]
    if not finite.size:
        return (-1.0, 1.0) if centred else (0.0, 1.0)
    low, high = float(finite.min()), float(finite.max())
    if centred:
        reach = max(-low, high) or 1.0
        return -reach, reach
    return low, high


def _levels(pixels: Floats, low: float, high: float) -> NDArray[np.int16]:
    """Every pixel as a number from 0 to 255; −1 where it is no finite number."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = pixels / 2 - low / 2
        share = np.clip(share / (high / 2 - low / 2), 0.0, 1.0)
    finite = np.isfinite(pixels)
    return np.where(finite, np.rint(np.where(finite, share, 0.0) * 255), -1).astype(np.int16)


def _cells(levels: NDArray[np.int16], terminal: Terminal, centred: bool) -> list[str]:
    """The levels as lines of characters."""
    if not terminal.colours:
        shades = _SHADES[terminal.unicode]
        picked = [shades[level * len(shades) // 256] for level in range(256)] + [_UNKNOWN]
        return ["".join([picked[level] for level in row]) for row in levels.tolist()]
    ink, paper = _inks(terminal.colours, centred)
    if len(levels) % 2:
        levels = np.concatenate([levels, np.full_like(levels[:1], -2)])
    found = []
    for upper, lower in zip(levels[0::2].tolist(), levels[1::2].tolist(), strict=True):
        line, last = [], None
        for pair in zip(upper, lower, strict=True):
            if pair != last:
                line.append(f"{ink[pair[0]]}{paper[pair[1]]}▀" if terminal.unicode else f"{paper[pair[0]]} ")
                last = pair
            else:
                line.append("▀" if terminal.unicode else " ")
        found.append("".join(line) + _RESET)
    return found


def _inks(colours: int, centred: bool) -> tuple[list[str], list[str]]:
    """Escapes for the foreground and background of every level; the last but one is of no paper, the last unknown."""
    if colours > 256:
        table = palettes.steps(palettes.DIVERGING if centred else palettes.SEQUENTIAL).tolist()
        codes = [f"2;{red};{green};{blue}" for red, green, blue in (*table, palettes.UNKNOWN)]
    else:
        few = palettes.DIVERGING_256 if centred else palettes.SEQUENTIAL_256
        picked = [few[level * len(few) // palettes.STEPS] for level in range(palettes.STEPS)]
        codes = [f"5;{code}" for code in (*picked, palettes.nearest_256(palettes.UNKNOWN))]
    ink, paper = [f"\x1b[38;{code}m" for code in codes], [f"\x1b[48;{code}m" for code in codes]
    for escapes, plain in ((ink, "\x1b[39m"), (paper, "\x1b[49m")):
        escapes.insert(-1, plain)
    return ink, paper


def _row_labels(first: int, count: int, lines: int) -> dict[int, str]:
    """Which line shows which row's number."""
    wanted = ticks.indices(first, count, max(1, lines // 3))
    return {min(lines - 1, int((place - first + 0.5) / count * lines)): str(place) for place in reversed(wanted)}


def _column_labels(first: int, count: int, wide: int, room: int) -> str:
    """Numbers of columns, each centred under its own, as many as keep apart."""
    longest = len(str(first + count - 1))
    line = [" "] * room
    free = 0
    for place in ticks.indices(first, count, max(1, wide // (longest + 3))):
        text = str(place)
        middle = (place - first + 0.5) / count * wide
        start = max(0, min(math.floor(middle) - (len(text) - 1) // 2, room - len(text)))
        if start >= free:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
    return "".join(line).rstrip()


def _colour_bar(low: float, high: float, terminal: Terminal, centred: bool, unknown: bool, room: int) -> str:
    texts = [ticks.short(low), ticks.short(high)]
    note = " (x: not finite)" if unknown and not terminal.colours else ""
    wide = min(32, room - sum(map(len, texts)) - 2 - (len(note) or 14 * unknown))
    if wide < 4:
        return " to ".join(texts)[:room]
    levels = np.rint(np.linspace(0, 255, wide)).astype(np.int16)[None, :]
    if terminal.colours and terminal.unicode:
        levels = np.repeat(levels, 2, axis=0)
    (bar,) = _cells(levels, terminal, centred)
    if unknown and terminal.colours:
        (mark,) = _cells(np.full((2 if terminal.unicode else 1, 1), -1, np.int16), terminal, centred)
        note = f" {mark} not finite"
    return f"{texts[0]} {bar} {texts[1]}{note}"
