"""Pictures in the terminal: heatmaps with two values per character in colour, one in grey; curves with braille dots,
eight to a character, or letters. Drawn by hand: a rich table of a picture's cells takes fifty times as long."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from pecli.engine.arrays import AnyArray, Flags, Floats, Indices
from pecli.views.pictures import palettes
from pecli.views.pictures.axis_labels import apart, ticks, typeset
from pecli.views.pictures.axis_labels import fit_text as fitted
from pecli.views.pictures.downsample import envelope, fitted_to
from pecli.views.pictures.panels import Chart, HeatmapPanel, Picture
from pecli.views.screen import Terminal, printable, terminal

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
MIN_HEATMAP_COLUMNS, MIN_CHART_COLUMNS = 20, 36
MIN_HEATMAP_LINES, MIN_CHART_LINES, MIN_ALONE = 7, 9, 6
"""Lines that a panel needs beside heatmaps alone, beside a chart, and where there is no other."""
MAX_BAR, MIN_BAR = (
    32,
    6,
)  #: Cells of a colour bar, and those below which the names of the axes make room for it
_SHADES = {True: " ░▒▓█", False: " .:-=+*#%@"}
"""From low to high, where there are no colours."""
UNKNOWN, BLANK = -1, -2
"""The levels of what is not finite (an x, where there are no colours), and of what is left to the terminal's paper."""
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""What each dot of a character adds to U+2800, by line and column."""
_LETTERS, _POINTS = "*o+x#@%&", "●○▲△■□◆◇"
"""One for each curve, where colours or dots cannot tell them apart, and where no line joins its points."""
_ASCII = str.maketrans({"−": "-", "–": "-", "×": "x", "·": "*", "→": "->", "…": "..."})
"""What texts of pictures have, where a terminal has no such characters."""


def show(picture: Picture) -> None:
    """Print a picture on standard output."""
    print("\n".join(lines(picture, terminal())))


def lines(picture: Picture, terminal: Terminal) -> list[str]:
    """The lines of a picture; below heatmaps, which share their colours, one that tells what axes and colours mean."""
    picture = replace(picture, panels=[panel for panel in picture.panels if panel.share == 1])
    shown = [
        line
        for text in (*picture.title.split("\n", 2), picture.subtitle)
        for line in _fitted(text, terminal, 3)
    ]
    heats = picture.heatmaps
    room = terminal.lines - 1 - len(shown) - bool(heats)
    least = MIN_HEATMAP_LINES if len(heats) == len(picture.panels) else MIN_CHART_LINES
    most = max(1, terminal.columns // MIN_HEATMAP_COLUMNS)
    grids = [
        picture.rows(across, narrow=terminal.columns // across < MIN_CHART_COLUMNS)
        for across in range(min(picture.across, most), most + 1)
    ]
    grid = next((rows for rows in grids if len(rows) * least <= room), min(grids, key=len))
    height = max(least if len(grid) > 1 else MIN_ALONE, room // max(1, len(grid)))
    across = max(map(len, grid), default=1)
    for row in grid:
        beside = across if all(isinstance(panel, HeatmapPanel) for panel in row) else len(row)
        wide = terminal.columns // beside
        own = terminal._replace(columns=wide - (beside > 1))
        titles = [_fitted(panel.title, own, 2) for panel in row]
        longest = max(map(len, titles))
        if heats and heats[0] in row:
            columns = _pixels(heats[0], own, height - longest)[0].shape[1]
        parts = []
        for title, panel in zip(titles, row, strict=True):
            draw: Callable[..., list[str]] = (
                _chart_lines if isinstance(panel, Chart) else _heatmap_lines
            )
            parts.append(
                [*[""] * (longest - len(title)), *title, *draw(panel, own, height - longest)]
            )
        shown += [
            "".join(part + " " * (wide - len(_ESCAPE.sub("", part))) for part in line).rstrip()
            for line in zip_longest(*parts, fillvalue="")
        ]
    if heats:
        shown.append(key_line(heats, terminal, columns))
    return shown if terminal.unicode else [line.translate(_ASCII) for line in shown]


def _fitted(text: str, terminal: Terminal, lines: int = 1) -> list[str]:
    shown = typeset(text) if terminal.unicode else text.translate(_ASCII)
    return fitted(printable(shown), terminal.columns, lines, "…" if terminal.unicode else "...")


def _framed(
    body: Sequence[str],
    rows: Mapping[int, str],
    columns: Mapping[int, str],
    terminal: Terminal,
    margin: int,
    wide: int,
) -> list[str]:
    """A picture between its axes, with the labels of some lines, and of some places below."""
    side, corner, rule = "│└─" if terminal.unicode else "|+-"
    room = terminal.columns - margin
    below, free = [" "] * room, 0
    for place, text in sorted(columns.items()):
        start = max(0, min(place - (len(text) - 1) // 2, room - len(text)))
        if start >= free:
            below[start : start + len(text)] = text
            free = start + len(text) + 1
    return [
        *(f"{rows.get(k, ''):>{margin - 2}} {side}{line}" for k, line in enumerate(body)),
        " " * (margin - 1) + corner + rule * wide,
        (" " * margin + "".join(below)).rstrip(),
    ]


def _escapes(codes: Sequence[int | palettes.Colour], ground: int = 38) -> list[str]:
    """What begins each colour: of ink, or with 48 of paper; a number is one of 256 colours."""
    return [
        f"\x1b[{ground};5;{code}m"
        if isinstance(code, int)
        else "\x1b[{};2;{};{};{}m".format(ground, *code)
        for code in codes
    ]


def _pixels(panel: HeatmapPanel, terminal: Terminal, height: int) -> tuple[Floats, int, int]:
    """As many elements of a heatmap as there is room for, and that room."""
    margin = len(str(panel.first_row + panel.shape[0] - 1)) + 2
    high = max(1, height - 2) * (2 if terminal.colours else 1)  # half blocks
    wide = max(1, terminal.columns - margin - 1)
    return fitted_to(np.asarray(panel.values, np.float64), high, wide, panel.reduction), high, wide


def _heatmap_lines(panel: HeatmapPanel, terminal: Terminal, height: int) -> list[str]:
    row_count, column_count = panel.shape
    pixels, high, wide = _pixels(panel, terminal, height)
    margin, tall = terminal.columns - wide - 1, 2 if terminal.colours else 1
    down, across = (
        max(1, high // len(pixels)),
        max(1, wide // pixels.shape[1]),
    )  # every element is a whole block
    if (
        pixels.shape != panel.values.shape
    ):  # one direction is full, the other may grow: elements stay about square
        down, across = min(down, 2 * tall), min(across, 4)
    down, across = min(down, max(1, across * tall // 2)), min(across, max(1, 4 * down // tall))
    pixels = np.repeat(np.repeat(pixels, down, axis=0), across, axis=1)
    body = _cells(_levels(pixels, panel), terminal, panel)
    rows = {
        min(len(body) - 1, int((row + 0.5) / row_count * len(body))): typeset(
            f"{panel.first_row + row:.0f}"
        )
        for row in _whole_ticks(panel.first_row, row_count - 1, max(1, len(body) // 3))
    }
    wide = pixels.shape[1]
    columns = {
        math.floor((column + 0.5) / column_count * wide): f"{column:.0f}"
        for column in _whole_ticks(
            0, column_count - 1, max(1, wide // (len(str(column_count)) + 3))
        )
    }
    return _framed(body, rows, columns, terminal, margin, wide)


def _whole_ticks(first: int, last: int, most: int) -> list[int]:
    """Indices that have round numbers, if they are counted from `first`."""
    values = ticks(first, first + last, most)
    return sorted(
        {
            int(value) - first
            for value in values
            if value == int(value) and 0 <= value - first <= last
        }
    )


def _levels(pixels: Floats, panel: HeatmapPanel) -> AnyArray:
    """Every pixel as a number from 0 to 255; −1 where it is not finite, −2 where zero has no logarithm."""
    low, high = panel.ends
    none = (pixels == 0) & panel.log
    if panel.log:
        pixels, low, high = np.log10(np.maximum(pixels, low)), math.log10(low), math.log10(high)
    finite = np.isfinite(pixels)
    share = np.clip((np.where(finite, pixels, low) - low) / (high - low), 0.0, 1.0)
    return np.where(none, BLANK, np.where(finite, np.rint(share * 255), UNKNOWN)).astype(np.int16)


def _cells(levels: AnyArray, terminal: Terminal, panel: HeatmapPanel) -> list[str]:
    if not terminal.colours:
        shades = _SHADES[terminal.unicode][panel.log :]
        picked = [*(shades[level * len(shades) // 256] for level in range(256)), " ", "x"]
        return ["".join([picked[level] for level in row]) for row in levels.tolist()]
    codes: list[int | palettes.Colour]
    if terminal.colours > 256:
        table = palettes.steps(
            palettes.DIVERGING if panel.is_centred else palettes.SEQUENTIAL
        ).tolist()
        codes = [*table, palettes.UNKNOWN]
    else:
        few = palettes.DIVERGING_256 if panel.is_centred else palettes.SEQUENTIAL_256
        codes = [*(few[level * len(few) // 256] for level in range(256)), palettes.UNKNOWN_256]
    ink, paper = (
        _escapes(codes),
        [*_escapes(codes, 48)[:-1], "\x1b[49m", _escapes(codes[-1:], 48)[0]],
    )
    levels = np.pad(levels, ((0, len(levels) % 2), (0, 0)), constant_values=BLANK)
    drawn = []
    for upper, lower in zip(levels[0::2].tolist(), levels[1::2].tolist(), strict=True):
        line = []
        for above, below in zip(upper, lower, strict=True):
            if not terminal.unicode:
                line.append((paper[above], " "))
            elif above == BLANK:
                line.append((f"{ink[below]}{paper[above]}", " " if below == BLANK else "▄"))
            else:
                line.append((f"{ink[above]}{paper[below]}", "▀"))
        drawn.append(_joined(line))
    return drawn


def _joined(cells: Iterable[tuple[str, str]]) -> str:
    """Characters, each after the escape that begins its colour, if that is a new one; without one, it is as before."""
    line, last = [], ""
    for escape, character in cells:
        line.append(character if escape in ("", last) else escape + character)
        last = escape or last
    return "".join(line) + ("\x1b[0m" if last else "")


def key_line(heats: Sequence[HeatmapPanel], terminal: Terminal, shown: int) -> str:
    """What the axes and the colours of heatmaps mean, in a line; so many columns of the first are shown."""
    panel, tall = heats[0], 2 if terminal.colours else 1
    _, columns = panel.axis_names(1, max(1, shown))
    down, right = (" ↓  ", " →") if terminal.unicode else (" down, ", " right")
    names, sampled = f"{panel.rows}{down}{columns}{right}   ", columns.partition("(")[2].rstrip(")")
    low, high = map(typeset, panel.ends)
    note = " none: blank" * panel.log
    if any(not np.isfinite(each.values).all() for each in heats):
        note += f" {_cells(np.full((tall, 1), UNKNOWN, np.int16), terminal, panel)[0]} not finite"
    room = terminal.columns - len(_ESCAPE.sub("", f"{low}  {high}{note}"))
    names = next(
        (text for text in (names, sampled and f"{sampled}   ") if len(text) + MIN_BAR <= room), ""
    )
    wide = min(MAX_BAR, room - len(names))
    if wide < 4:
        return f"{names}{low} to {high}"[: terminal.columns]
    (bar,) = _cells(
        np.tile(np.rint(np.linspace(0, 255, wide)).astype(np.int16), (tall, 1)), terminal, panel
    )
    return f"{names}{low} {bar} {high}{note}"


def _chart_lines(chart: Chart, terminal: Terminal, height: int) -> list[str]:
    across = _Axis([curve.x[np.isfinite(curve.y)] for curve in chart.curves], chart.log_x)
    up = _Axis(
        [*(curve.y for curve in chart.curves), np.array([value for _, value in chart.levels])],
        chart.log_y,
    )
    inks, letters = _inks(chart, terminal), _letters(chart, terminal)
    legend = _legend(chart, terminal, inks, letters)
    high = max(2, height - 3 - len(legend))
    rows = {high - 1 - place: text for place, text in up.labels(high, max(2, high // 4)).items()}
    margin = max(map(len, rows.values()), default=0) + 2
    wide = max(2, terminal.columns - margin - 1)
    body = _chart_body(chart, across, up, (high, wide), inks, letters)
    right = f"{chart.x} →" if terminal.unicode else f"{chart.x} right"
    axes = f"{chart.y} ↑  {right}" if terminal.unicode else f"{chart.y} up, {right}"
    framed = _framed(body, rows, across.labels(wide, max(3, wide // 12)), terminal, margin, wide)
    return [*framed, *_fitted(axes, terminal), *legend]


class _Axis:
    """From numbers to places between 0 and 1."""

    def __init__(self, values: Sequence[Floats], log: bool) -> None:
        self.log = log
        every = np.concatenate([np.ravel(each) for each in values]) if values else np.empty(0)
        every = every[(every > 1e-300) & (every < 1e300)] if log else every[np.isfinite(every)]
        low, high = (
            (float(every.min()), float(every.max()))
            if every.size
            else (1.0, 10.0)
            if log
            else (0.0, 1.0)
        )
        self.low, self.high = apart(math.log10(low), math.log10(high)) if log else apart(low, high)

    def places(self, values: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return ((np.log10(values) if self.log else values) - self.low) / (self.high - self.low)

    def labels(self, room: int, most: int) -> dict[int, str]:
        """Which of so many places from the left, or from below, shows which number."""
        low, high = (10.0**self.low, 10.0**self.high) if self.log else (self.low, self.high)
        values = [
            value for value in ticks(low, high, most, log=self.log) if value > 0 or not self.log
        ]
        places = np.rint(self.places(np.array(values)) * (room - 1)).tolist()
        return {
            int(min(max(place, 0), room - 1)): typeset(value)
            for place, value in zip(places, values, strict=True)
        }


def _chart_body(
    chart: Chart, across: _Axis, up: _Axis, size: tuple[int, int], inks: Sequence[str], letters: str
) -> list[str]:
    high, wide = size if letters else (size[0] * 4, size[1] * 2)
    masks = [
        _raster(across.places(each.x), up.places(each.y), (high, wide), chart.joined)
        for each in chart.curves
    ]
    for curve, mask in zip(chart.curves, masks, strict=True):
        if curve.reference:
            mask[:, 2::4] = mask[:, 3::4] = False  # dashes
    for _, level in chart.levels:
        masks.append(_raster(np.array([0.0, 1.0]), up.places(np.full(2, level)), (high, wide)))
        masks[-1][:, 1::2] = False  # a line of dots
    parts: Sequence[Indices | Flags] = masks
    if not letters:
        parts = [
            (mask.reshape(size[0], 4, size[1], 2) * _DOTS[None, :, None, :]).sum(axis=(1, 3))
            for mask in masks
        ]
    owner = _owners(parts, len(chart.curves))
    every = np.bitwise_or.reduce(np.array(parts), axis=0)
    colours, lines = [*inks, ""], []
    for owners, dots in zip(owner.tolist(), every.tolist(), strict=True):
        braille = [chr(0x2800 + dot) if dot else " " for dot in dots]
        characters = [letters[k] for k in owners] if letters else braille
        lines.append(_joined(zip((colours[k] for k in owners), characters, strict=True)).rstrip())
    return lines


def _letters(chart: Chart, terminal: Terminal) -> str:
    """A letter per curve and level, and a blank; none where dots tell curves apart: in colour, or one beside dashes."""
    several = sum(not curve.reference for curve in chart.curves) > 1
    if chart.joined and terminal.unicode and (terminal.colours or not several):
        return ""
    letters = _POINTS if terminal.unicode and not chart.joined else _LETTERS
    return (
        "".join(letters[k % len(letters)] for k in range(len(chart.curves)))
        + "-" * len(chart.levels)
        + " "
    )


def _owners(parts: Sequence[Indices | Flags], curves: int) -> Indices:
    """Which part each character belongs to, −1 where there is none: levels lie below, each curve over those before. One
    that lies on another all along takes turns with it, so that both are seen."""
    owner: Indices = np.full(parts[0].shape, -1, np.intp)
    shown = np.zeros(parts[0].shape, np.intp)
    turns = np.arange(owner.shape[1])[None, :] // 2
    for k in (*range(curves, len(parts)), *range(curves)):
        own = parts[k].astype(np.intp)
        takes = (own > 0) & ((own != shown) | (owner >= curves) | (turns % (k + 1) == k))
        owner[takes], shown[takes] = k, own[takes]
    return owner


def _raster(x: Floats, y: Floats, size: tuple[int, int], joined: bool = True) -> Flags:
    """The dots that a line through the points touches, or the points alone."""
    high, wide = size
    x, y = envelope(x, y, 4 * wide)
    column, line = (
        x * (wide - 1),
        np.clip((1 - y) * (high - 1), -1, high),
    )  # beyond the picture it leaves at the edge
    if joined and len(x) > 1:
        right, down = np.diff(column), np.diff(line)
        steps = np.nan_to_num(np.maximum(np.abs(right), np.abs(down))).astype(np.intp) + 1
        segment = np.repeat(np.arange(len(steps)), steps)
        share = (np.arange(len(segment)) - (np.cumsum(steps) - steps)[segment]) / steps[segment]
        column = np.append(column, column[segment] + share * right[segment])
        line = np.append(line, line[segment] + share * down[segment])
    inside = (column > -0.5) & (column < wide - 0.5) & (line > -0.5) & (line < high - 0.5)
    mask = np.zeros((high, wide), bool)
    mask[np.rint(line[inside]).astype(np.intp), np.rint(column[inside]).astype(np.intp)] = True
    return mask


def _inks(chart: Chart, terminal: Terminal) -> list[str]:
    """The escape that begins each curve's colour; levels are grey."""
    count, few = len(chart.curves), terminal.colours == 256
    if not terminal.colours:
        return [""] * (count + len(chart.levels))
    codes: list[int | palettes.Colour]
    if chart.ordered:
        steps = palettes.SEQUENTIAL_256[2:]
        codes = [
            steps[k * (len(steps) - 1) // max(1, count - 1)]
            if few
            else palettes.step(k, count, dark=True)
            for k in range(count)
        ]
    else:
        bright = palettes.BRIGHT_256 if few else palettes.BRIGHT
        codes = [bright[k % len(bright)] for k in range(count)]
    return _escapes(
        [*codes, *[palettes.UNKNOWN_256 if few else palettes.UNKNOWN] * len(chart.levels)]
    )


def _legend(chart: Chart, terminal: Terminal, inks: Sequence[str], letters: str) -> list[str]:
    curves = [(curve.label, "⠒ ⠒" if curve.reference else "⠒⠒") for curve in chart.curves]
    drawn: list[str] = []
    free = 0
    for k, (label, dots) in enumerate([*curves, *((name, "⠂⠂") for name, _ in chart.levels)]):
        if not label:
            continue
        sign = letters[k] if letters else dots
        text = "".join(_fitted(label, terminal._replace(columns=terminal.columns - 4)))
        wide = len(sign) + 1 + len(text)
        entry = f"{_joined([(inks[k], sign)])} {text}"
        if 3 + wide <= free:
            drawn[-1] += f"   {entry}"
            free -= 3 + wide
        else:
            drawn.append(entry)
            free = terminal.columns - wide
    return drawn
