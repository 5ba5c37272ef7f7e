"""Curves in the terminal, drawn with braille dots, eight to a character; with letters where there are none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.views.pictures import labels as numbers
from pecli.views.pictures import palettes
from pecli.views.pictures.downsample import envelope
from pecli.views.pictures.labels import fitted
from pecli.views.pictures.panels import Chart, Curve
from pecli.views.screen import Terminal, printable

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""What each dot of a character adds to U+2800, by line and column."""
_RESET = "\x1b[0m"
_LETTERS = "*o+x#@%&"
"""One for each curve, where colours or dots cannot tell them apart."""


def lines(chart: Chart, terminal: Terminal, height: int | None = None) -> list[str]:
    """A chart as lines of characters, no more than `height`, its title included."""
    curves, levels = chart.curves, chart.levels
    head = fitted(printable(chart.title), terminal.columns, 1, terminal.dots)
    flat = [value for _, value in levels]
    across, up = (
        _Axis([curve.x[np.isfinite(curve.y)] for curve in curves], chart.log_x),
        _Axis([*(curve.y for curve in curves), np.array(flat)], chart.log_y),
    )
    names = [*(curve.label for curve in curves), *(name for name, _ in levels)]
    inks = _inks(len(curves), len(levels), chart.ordered, terminal)
    legend = _legend(names, curves, terminal, inks) if names[1:] or names[:1] not in ([], [""]) else []
    high = max(2, (height or terminal.lines - 1) - len(head) - 3 - len(legend))
    labels = up.labels(high, max(2, high // 4))
    margin = max(map(len, labels.values()), default=0) + 2
    wide = max(2, terminal.columns - margin - 1)
    body = _body(chart, across, up, (high, wide), terminal, inks)
    columns = {wide - 1 - place: text for place, text in across.labels(wide, max(3, wide // 12)).items()}
    right = f"{chart.x} →" if terminal.unicode else chart.x
    axes = f"{chart.y} ↑  {right}" if terminal.unicode else f"{chart.y} up, {chart.x} right"
    return [
        *head,
        *framed(body, labels, columns, (margin, wide, wide), terminal),
        *fitted(axes if chart.y else right, terminal.columns, 1, terminal.dots),
        *legend,
    ]


def framed(
    body: Sequence[str],
    rows: Mapping[int, str],
    columns: Mapping[int, str],
    size: tuple[int, int, int],
    terminal: Terminal,
) -> list[str]:
    """A picture between its axes, with the labels of some lines and places below.

    The size is the margin at the left, the width of the picture, and the room for labels below it.
    """
    margin, wide, room = size
    side, corner, rule = ("│", "└", "─") if terminal.unicode else ("|", "+", "-")
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


class _Axis:
    """From numbers to places between 0 and 1."""

    def __init__(self, values: Sequence[Floats], log: bool) -> None:
        self.log = log
        every = np.concatenate([np.ravel(each) for each in values]) if values else np.empty(0)
        every = every[(every > 1e-300) & (every < 1e300)] if log else every[np.isfinite(every)]
        low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 10.0) if log else (0.0, 1.0)
        if log:
            low, high = math.log10(low), math.log10(high)
        self.low, self.high = numbers.round_ends(*numbers.apart(low, high))

    def places(self, values: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = np.log10(values) if self.log else values
            return (plain / 2 - self.low / 2) / (self.high / 2 - self.low / 2)  # the whole span may overflow

    def labels(self, room: int, most: int) -> dict[int, str]:
        """Which of so many lines from above, or places from the right, shows which number."""
        found: list[float] = []
        for finer in (most, 2 * most, 4 * most):
            if self.log:
                found = [math.log10(value) for value in numbers.round_powers(10**self.low, 10**self.high, finer)]
            else:
                found = numbers.round_values(self.low, self.high, finer)
            if len(found) > 1:
                break
        texts = [numbers.short(10.0**value if self.log else value) for value in found]
        shares = self.places(np.array([10.0**value if self.log else value for value in found])).tolist()
        return {round((1 - share) * (room - 1)): text for share, text in zip(shares, texts, strict=True)}


def _body(
    chart: Chart, across: _Axis, up: _Axis, size: tuple[int, int], terminal: Terminal, inks: Sequence[str]
) -> list[str]:
    curves = chart.curves
    braille = _has_dots(curves, terminal)
    high, wide = (size[0] * 4, size[1] * 2) if braille else size
    masks = [_raster(across.places(each.x), up.places(each.y), (high, wide), chart.joined) for each in curves]
    for curve, mask in zip(curves, masks, strict=True):
        if curve.reference:
            mask[:, 2::4] = mask[:, 3::4] = False  # dashes
    for _, level in chart.levels:
        masks.append(_raster(np.array([0.0, 1.0]), up.places(np.full(2, level)), (high, wide)))
        masks[-1][:, 1::2] = False  # a line of dots
    if braille:
        return _dots(masks, len(curves), inks)
    owner = _owners(masks, len(curves))
    letters = [*(_LETTERS[k % len(_LETTERS)] if k < len(curves) else "-" for k in range(len(masks))), " "]
    return _written([[letters[number] for number in row] for row in owner.tolist()], owner, inks)


def _has_dots(curves: Sequence[Curve], terminal: Terminal) -> bool:
    """Whether dots tell the curves apart: in colour, or where there is but one, beside dashes for comparison."""
    return terminal.unicode and (bool(terminal.colours) or sum(not curve.reference for curve in curves) <= 1)


def _owners(parts: Sequence[Indices | Flags], curves: int) -> Indices:
    """Which part each character belongs to, −1 where there is none: levels lie below, each curve over those before.

    One that lies on another all along takes turns with it, so that both are seen.
    """
    high, wide = parts[0].shape if parts else (0, 0)
    owner: Indices = np.full((high, wide), -1, np.intp)
    shown = np.zeros((high, wide), np.intp)
    turns = np.arange(wide)[None, :] // 2
    for number in (*range(curves, len(parts)), *range(curves)):
        own = parts[number].astype(np.intp)
        takes = (own > 0) & ((own != shown) | (owner >= curves) | (turns % (number + 1) == number))
        owner[takes], shown[takes] = number, own[takes]
    return owner


def _raster(x: Floats, y: Floats, size: tuple[int, int], joined: bool = True) -> Flags:
    """The dots that a line through the points touches, or the points alone."""
    high, wide = size
    mask = np.zeros((high, wide), bool)
    x, y = envelope(x, y, 4 * wide)
    column, line = x * (wide - 1), (1 - y) * (high - 1)
    good = np.isfinite(column) & np.isfinite(line)
    line = np.clip(line, -1, high)  # what is beyond the picture leaves it at the edge
    for k in np.flatnonzero(good[:-1] & good[1:]).tolist() if joined else ():
        steps = int(max(abs(column[k + 1] - column[k]), abs(line[k + 1] - line[k]))) + 1
        share = np.arange(steps + 1) / steps
        _touch(mask, column[k] + share * (column[k + 1] - column[k]), line[k] + share * (line[k + 1] - line[k]))
    _touch(mask, column[good], line[good])
    return mask


def _touch(mask: Flags, columns: Floats, rows: Floats) -> None:
    down: Indices = np.rint(rows).astype(np.intp)
    right: Indices = np.rint(columns).astype(np.intp)
    inside = (down >= 0) & (down < mask.shape[0]) & (right >= 0) & (right < mask.shape[1])
    mask[down[inside], right[inside]] = True


def _dots(masks: Sequence[Flags], curves: int, inks: Sequence[str]) -> list[str]:
    """Dots in characters; one where curves meet has the colour of the last."""
    if not masks:
        return []
    high, wide = masks[0].shape[0] // 4, masks[0].shape[1] // 2
    parts = [(mask.reshape(high, 4, wide, 2) * _DOTS[None, :, None, :]).sum(axis=(1, 3)) for mask in masks]
    every = np.bitwise_or.reduce(np.array(parts), axis=0)
    shown = [[chr(0x2800 + code) if code else " " for code in row] for row in every.tolist()]
    return _written(shown, _owners(parts, curves), inks)


def _written(shown: Sequence[Sequence[str]], owner: Indices, inks: Sequence[str]) -> list[str]:
    """Lines of characters, each in its owner's colour."""
    found = []
    for characters, owners in zip(shown, owner.tolist(), strict=True):
        line, last = [], ""
        for character, number in zip(characters, owners, strict=True):
            colour = inks[number] if number >= 0 else last
            line.append(("" if colour == last else colour) + character)
            last = colour
        found.append("".join(line).rstrip() + (_RESET if last else ""))
    return found


def _inks(curves: int, levels: int, ordered: bool, terminal: Terminal) -> list[str]:
    """The escape that begins each curve's colour; levels are grey."""
    if not terminal.colours:
        return [""] * (curves + levels)
    if terminal.colours == 256:
        steps = palettes.SEQUENTIAL_256[2:]
        picked = [steps[k * (len(steps) - 1) // max(1, curves - 1)] for k in range(curves)]
        bright = [palettes.BRIGHT_256[k % len(palettes.BRIGHT_256)] for k in range(curves)]
        codes = [f"5;{code}" for code in (*(picked if ordered else bright), *[palettes.UNKNOWN_256] * levels)]
    else:
        steps_of_one = [palettes.step(k, curves, dark=True) for k in range(curves)]
        several = [palettes.BRIGHT[k % len(palettes.BRIGHT)] for k in range(curves)]
        colours = (*(steps_of_one if ordered else several), *[palettes.UNKNOWN] * levels)
        codes = ["2;{};{};{}".format(*colour) for colour in colours]
    return [f"\x1b[38;{code}m" for code in codes]


def _legend(labels: Sequence[str], curves: Sequence[Curve], terminal: Terminal, inks: Sequence[str]) -> list[str]:
    """What each curve is, in as many lines as it takes."""
    letters = not _has_dots(curves, terminal)
    found, free = [""], terminal.columns
    for number, label in enumerate(labels):
        mark = "-" if number >= len(curves) else _LETTERS[number % len(_LETTERS)]
        line = "⠂⠂" if number >= len(curves) else "⠒ ⠒" if curves[number].reference else "⠒⠒"
        sign = mark if letters else line
        text = "".join(fitted(printable(label), terminal.columns - 3, 1, terminal.dots))
        wide = len(sign) + 1 + len(text)
        gap = "   " if found[-1] else ""
        if len(gap) + wide > free:
            found.append("")
            free, gap = terminal.columns, ""
        escape = inks[number]
        found[-1] += f"{gap}{escape}{sign}{_RESET if escape else ''} {text}"
        free -= len(gap) + wide
    return found
