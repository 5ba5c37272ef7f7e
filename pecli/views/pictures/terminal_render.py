"""Pictures in the terminal: panels beside and below each other, as large as there is room.

Heatmaps have two values per character in colour, one in grey. They are drawn by hand, since a rich table of a picture's
cells takes fifty times as long.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures import braille, labels, palettes
from pecli.views.pictures.downsample import fitted_to, stride
from pecli.views.pictures.labels import fitted
from pecli.views.pictures.panels import Chart, HeatmapPanel, Panel, Picture
from pecli.views.screen import Terminal, printable, terminal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MIN_HEATMAP_COLUMNS, MIN_CHART_COLUMNS = 20, 36
MIN_HEATMAP_LINES, MIN_CHART_LINES, MIN_ALONE = 7, 9, 6
"""Lines that a panel needs beside heatmaps alone, beside a chart, and where there is no other."""
MIN_REACH = 0.6
"""Of the ends of its colours, what the means of a matrix have to reach, else they have ends of their own."""
_SHADES = {True: " ░▒▓█", False: " .:-=+*#%@"}
"""From low to high, where there are no colours."""
_UNKNOWN = "x"
"""What is not finite, where there are no colours."""
MIN_BAR = 6
"""Cells of a colour bar below which the names of the axes make room for it."""
_RESET = "\x1b[0m"


def show(picture: Picture) -> None:
    """Print a picture on standard output."""
    print("\n".join(lines(picture, terminal())))


def lines(picture: Picture, terminal: Terminal) -> list[str]:
    """The lines of a picture; of heatmaps that share their colours, the last one alone tells what they mean."""
    head = fitted(printable(picture.title), terminal.columns, 3, terminal.dots)
    head += fitted(printable(picture.subtitle), terminal.columns, 3, terminal.dots)
    room = terminal.lines - 1 - len(head)
    grid = _grid(picture, terminal, room)
    heats = [panel for panel in picture.panels if isinstance(panel, HeatmapPanel)]
    shared = any(heat.power != 1.0 for heat in heats) or (len(heats) > 1 and len({heat.limits for heat in heats}) == 1)
    height = max(_min_lines(picture) if len(grid) > 1 else MIN_ALONE, (room - shared) // max(1, len(grid)))
    across = max(map(len, grid), default=1)
    wide = terminal.columns // across
    ends = _ends(heats, (wide, height * (2 if terminal.colours else 1)))
    shown = list(head)
    for row in grid:
        beside = across if all(isinstance(panel, HeatmapPanel) for panel in row) else len(row)
        small = terminal._replace(columns=terminal.columns // beside - (beside > 1))
        titles = _titles(row, small)
        parts = [_panel(panel, small, height - len(titles[0]), ends, shared) for panel in row]
        whole = [[*title, *part] for title, part in zip(titles, parts, strict=True)]
        shown += _beside(whole, terminal.columns // beside)
    if shared:
        every = heats[0].column_step * stride(heats[0].values.shape[1], wide - len(str(heats[0].shape[0])) - 3)
        heat = replace(
            heats[0], limits=ends or heats[0].limits, columns=labels.axis_name(heats[0].columns, every=every)
        )
        unknown = any(not np.isfinite(each.values).all() for each in heats)
        shown.append(key_line(terminal, heat, unknown=unknown))
    return shown


def _min_lines(picture: Picture) -> int:
    return MIN_CHART_LINES if any(isinstance(panel, Chart) for panel in picture.panels) else MIN_HEATMAP_LINES


def _grid(picture: Picture, terminal: Terminal, room: int) -> list[list[Panel]]:
    """Panels beside each other, in rows of as many as the picture wants; of more, where so many rows have no room."""
    most = max(1, terminal.columns // MIN_HEATMAP_COLUMNS)
    across = min(picture.across, most)
    rows = _rows(picture, across, terminal)
    while across < most and len(rows) > 1 and len(rows) * _min_lines(picture) > room:
        across += 1
        rows = min(rows, _rows(picture, across, terminal), key=len)
    return rows


def _rows(picture: Picture, across: int, terminal: Terminal) -> list[list[Panel]]:
    """Rows of so many panels; charts among them where those are wide enough, and never beside several heatmaps."""
    lonely = (
        terminal.columns // across < MIN_CHART_COLUMNS
        or sum(isinstance(panel, HeatmapPanel) for panel in picture.panels) > 1
    )
    rows: list[list[Panel]] = []
    for panel in picture.panels:
        if isinstance(panel, Chart) and panel.share < 1:
            continue
        alone = lonely and (isinstance(panel, Chart) or (bool(rows) and isinstance(rows[-1][-1], Chart)))
        if rows and not alone and len(rows[-1]) < across:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _titles(row: Sequence[Panel], terminal: Terminal) -> list[list[str]]:
    """What panels beside each other are called, in as many lines each."""
    room = terminal.columns - (len(row) > 1)
    found = [fitted(printable(panel.title), room, 2, terminal.dots) for panel in row]
    longest = max(map(len, found))
    return [[*[""] * (longest - len(title)), *title] for title in found]


def _panel(panel: Panel, terminal: Terminal, height: int, ends: tuple[float, float] | None, shared: bool) -> list[str]:
    untitled = replace(panel, title="")
    if isinstance(untitled, HeatmapPanel):
        return heatmap_lines(untitled, terminal, height=height, limits=ends, key=not shared)
    assert isinstance(untitled, Chart)
    return braille.lines(untitled, terminal, height)


def _ends(heats: Sequence[HeatmapPanel], size: tuple[int, int]) -> tuple[float, float] | None:
    """New ends for colours around zero, where the means that have room reach but a part of the old ones."""
    if not heats or not all(heat.centred and heat.power == 1.0 for heat in heats):
        return None
    means = [fitted_to(heat.values, size[1], size[0], heat.reduce)[0] for heat in heats]
    reach = max((float(np.abs(each[np.isfinite(each)]).max(initial=0.0)) for each in means), default=0.0)
    if not 0 < reach < MIN_REACH * max(heat.ends()[1] for heat in heats):
        return None
    reach = labels.round_ends(0.0, reach)[1]
    return -reach, reach


def _beside(panels: Sequence[list[str]], wide: int) -> list[str]:
    """The lines of several panels, side by side."""
    if len(panels) == 1:
        return panels[0]
    found = []
    for parts in zip_longest(*panels, fillvalue=""):
        padded = [part + " " * (wide - len(_ESCAPE.sub("", part))) for part in parts]
        found.append("".join(padded).rstrip())
    return found


def heatmap_lines(
    panel: HeatmapPanel,
    terminal: Terminal,
    *,
    height: int | None = None,
    limits: tuple[float, float] | None = None,
    key: bool = True,
) -> list[str]:
    """A heatmap as lines of characters, no more than `height`: title, picture, axes, and where `key` is set, what axes
    and colours mean. `limits` are other ends of the colours than those of the panel.
    """
    values = np.atleast_2d(np.asarray(panel.values, np.float64))
    head = fitted(printable(panel.title), terminal.columns, 1, terminal.dots)
    if not values.size:
        return [*head, "(empty)"]
    row_count, column_count = panel.shape
    margin = len(str(panel.first_row + row_count - 1)) + 2 if panel.rows else 2
    wide = max(1, terminal.columns - margin - 1)
    high = max(1, (height or terminal.lines - 1) - len(head) - 2 - key)
    tall = 2 if terminal.colours else 1  # half blocks
    pixels, every = _pixels(values, high * tall, wide, tall, panel.reduce)
    shown = replace(panel, values=pixels, limits=limits or panel.limits)
    low, top = labels.apart(*shown.scaled_ends())
    body = _cells(_levels(panel.scaled(pixels), low, top, panel.log), terminal, panel.centred)
    rows = _row_labels(panel.first_row, row_count, len(body)) if panel.rows else {}
    columns = _column_labels(column_count, pixels.shape[1])
    every *= panel.column_step
    named = replace(shown, columns=labels.axis_name(panel.columns, every=every))
    unknown = not (np.isfinite(pixels).all())
    return [
        *head,
        *braille.framed(body, rows, columns, (margin, pixels.shape[1], wide), terminal),
        *([key_line(terminal, named, unknown=unknown)] if key else []),
    ]


def key_line(terminal: Terminal, panel: HeatmapPanel, *, unknown: bool = False) -> str:
    """What the axes and the colours of a picture mean, in a line."""
    down, right = (" ↓", " →") if terminal.unicode else (" down,", " right")
    names = "  ".join([*([panel.rows + down] if panel.rows else []), panel.columns + right])
    names = names if terminal.unicode else names.replace(",  ", ", ")
    limits = panel.ends() if panel.log else labels.apart(*panel.ends())
    ends = sum(len(labels.short(end)) for end in limits)
    room = terminal.columns - (3 + ends + 2 + MIN_BAR)
    shortest = panel.columns.partition("(")[2].rstrip(")")  # what of it is shown, which has to be said
    names = next((f"{each}   " for each in (names, shortest) if each and len(each) <= room), "")
    return names + _colour_bar(*limits, terminal, panel.centred, unknown, terminal.columns - len(names))


def _pixels(values: Floats, high: int, wide: int, tall: int, reduce: str) -> tuple[Floats, int]:
    """As many pixels as there is room for: of a large array less, of a small one every element a whole block."""
    small, every = fitted_to(values, high, wide, reduce)
    down, across = max(1, high // len(small)), max(1, wide // small.shape[1])
    if small.shape != values.shape:  # one direction is full: the other may grow, but an element stays about square
        down, across = min(down, 2 * tall), min(across, 4)
    down, across = min(down, max(1, across * tall // 2)), min(across, max(1, 4 * down // tall))
    return np.repeat(np.repeat(small, down, axis=0), across, axis=1), every


def _levels(pixels: Floats, low: float, high: float, log: bool) -> NDArray[np.int16]:
    """Every pixel as a number from 0 to 255; −1 where it is not finite, and a logarithm's −∞ is the lowest."""
    if log:
        pixels = np.where(np.isneginf(pixels), low, pixels)
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
        codes = [f"5;{code}" for code in (*picked, palettes.UNKNOWN_256)]
    ink, paper = [f"\x1b[38;{code}m" for code in codes], [f"\x1b[48;{code}m" for code in codes]
    for escapes, plain in ((ink, "\x1b[39m"), (paper, "\x1b[49m")):
        escapes.insert(-1, plain)
    return ink, paper


def _row_labels(first: int, count: int, lines: int) -> dict[int, str]:
    """Which line shows which row's number."""
    wanted = labels.indices(first, count, max(1, lines // 3))
    return {min(lines - 1, int((place - first + 0.5) / count * lines)): str(place) for place in reversed(wanted)}


def _column_labels(count: int, wide: int) -> dict[int, str]:
    """Which place below shows which column's number."""
    wanted = labels.indices(0, count, max(1, wide // (len(str(count - 1)) + 3)))
    return {math.floor((column + 0.5) / count * wide): str(column) for column in wanted}


def _colour_bar(low: float, high: float, terminal: Terminal, centred: bool, unknown: bool, room: int) -> str:
    texts = [labels.short(low), labels.short(high)]
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
