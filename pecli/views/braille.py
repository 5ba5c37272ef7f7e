"""Curves in the terminal, drawn with braille dots, eight to a character; with letters where there are none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypedDict, Unpack

import numpy as np

from pecli.views import palettes, ticks
from pecli.views.terminal import Terminal, terminal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.arrays import Flags, Floats, Places

_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""What each dot of a character adds to U+2800, by line and column."""
_LETTERS = "*o+x#@%&"
"""One for each curve, where colours or dots cannot tell them apart."""


class Curve(NamedTuple):
    """Points that belong together, from left to right; where y is no finite number there is a gap."""

    label: str
    x: Floats
    y: Floats


class How(TypedDict, total=False):
    """What `draw` may be told beside the curves."""

    title: str
    x: str  #: the name of the horizontal axis
    y: str
    log_x: bool
    log_y: bool
    levels: Sequence[tuple[str, float]]  #: horizontal lines, with a word on each
    height: int | None  #: how many lines to take, all included


def draw(curves: Sequence[Curve], **how: Unpack[How]) -> None:
    """Print curves on standard output, as large as the terminal has room for."""
    print("\n".join(lines(curves, terminal(), **how)))


def lines(
    curves: Sequence[Curve],
    terminal: Terminal,
    *,
    title: str = "",
    x: str = "position",
    y: str = "",
    log_x: bool = False,
    log_y: bool = False,
    levels: Sequence[tuple[str, float]] = (),
    height: int | None = None,
) -> list[str]:
    """The lines that `draw` prints, for the given terminal."""
    from pecli.views.screen import printable

    head = [printable(title)[: terminal.columns]] if title else []
    flat = [value for _, value in levels]
    across, up = (
        _Axis([curve.x for curve in curves], log_x),
        _Axis([*(curve.y for curve in curves), np.array(flat)], log_y),
    )
    named = bool(curves[1:] or levels or (curves and curves[0].label))
    high = max(2, (height or terminal.lines - 1) - len(head) - 3 - named)
    labels = up.labels(high, max(2, high // 4))
    margin = max(map(len, labels.values()), default=0) + 2
    wide = max(2, terminal.columns - margin - 1)
    body = _body(curves, flat, across, up, (high, wide), terminal)
    side, corner, rule = ("│", "└", "─") if terminal.unicode else ("|", "+", "-")
    picture = [f"{labels.get(k, ''):>{margin - 2}} {side}{line}".rstrip() for k, line in enumerate(body)]
    axes = f"{y} ↑  {x} →" if terminal.unicode else f"{y} up, {x} right"
    return [
        *head,
        *picture,
        " " * (margin - 1) + corner + rule * wide,
        (" " * margin + _along(across.labels(wide, max(2, wide // 12)), wide)).rstrip(),
        axes if y else f"{x} →" if terminal.unicode else x,
        *(
            [_legend([*(curve.label for curve in curves), *(name for name, _ in levels)], len(curves), terminal)]
            if named
            else []
        ),
    ]


class _Axis:
    """From numbers to places between 0 and 1."""

    def __init__(self, values: Sequence[Floats], log: bool) -> None:
        self.log = log
        every = np.concatenate([np.ravel(each) for each in values]) if values else np.empty(0)
        every = every[np.isfinite(every) & ((every > 0) | (not log))]
        low, high = (float(every.min()), float(every.max())) if every.size else (1.0, 10.0) if log else (0.0, 1.0)
        if log:
            low, high = math.log10(low), math.log10(high)
        if not high > low:
            low, high = low - 0.5, high + 0.5
        self.low, self.high = _rounded(low, high)

    def places(self, values: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            plain = np.log10(values) if self.log else values
            return (plain - self.low) / (self.high - self.low)

    def labels(self, room: int, most: int) -> dict[int, str]:
        """Which of so many places from the left, or lines from above, shows which number; see `_along`."""
        found = ticks.round_values(self.low, self.high, most)
        if self.log:
            found = [value for value in found if value == round(value)]
        if len(found) < 2:
            found = [self.low, self.high]
        texts = [ticks.short(10.0**value if self.log else value) for value in found]
        shares = [(value - self.low) / (self.high - self.low) for value in found]
        return {round((1 - share) * (room - 1)): text for share, text in zip(shares, texts, strict=True)}


def _rounded(low: float, high: float) -> tuple[float, float]:
    """The ends, moved to round numbers where those are close."""
    step, room = ticks.round_step(high - low, 5), (high - low) / 20
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    return below if low - below < room else low, above if above - high < room else high


def _along(labels: dict[int, str], wide: int) -> str:
    """Labels beside each other; their places count from the right, as lines count from above."""
    line, free = [" "] * wide, 0
    for place, text in sorted(((wide - 1 - place, text) for place, text in labels.items())):
        start = max(0, min(place - (len(text) - 1) // 2, wide - len(text)))
        if start >= free:
            line[start : start + len(text)] = text
            free = start + len(text) + 1
    return "".join(line)


def _body(
    curves: Sequence[Curve],
    levels: Sequence[float],
    across: _Axis,
    up: _Axis,
    size: tuple[int, int],
    terminal: Terminal,
) -> list[str]:
    braille = terminal.unicode and (bool(terminal.colours) or len(curves) <= 1)
    high, wide = (size[0] * 4, size[1] * 2) if braille else size
    masks = [_raster(across.places(curve.x), up.places(curve.y), high, wide) for curve in curves]
    for level in levels:
        masks.append(_raster(np.array([0.0, 1.0]), up.places(np.full(2, level)), high, wide))
        masks[-1][:, 1::2] = False  # a line of dots
    if braille:
        return _dots(masks, len(curves), terminal)
    shown = np.full(size, " ")
    for number in reversed(range(len(masks))):
        shown[masks[number]] = _LETTERS[number % len(_LETTERS)] if number < len(curves) else "-"
    return ["".join(row.tolist()) for row in shown]


def _raster(x: Floats, y: Floats, high: int, wide: int) -> Flags:
    """The dots that a line through the points touches."""
    mask = np.zeros((high, wide), bool)
    x, y = _thinned(x, y, 4 * wide)
    column, line = x * (wide - 1), (1 - y) * (high - 1)
    good = np.isfinite(column) & np.isfinite(line)
    line = np.clip(line, -1, high)  # what is beyond the picture leaves it at the edge
    for k in np.flatnonzero(good[:-1] & good[1:]).tolist():
        steps = int(max(abs(column[k + 1] - column[k]), abs(line[k + 1] - line[k]))) + 1
        share = np.arange(steps + 1) / steps
        _touch(mask, column[k] + share * (column[k + 1] - column[k]), line[k] + share * (line[k + 1] - line[k]))
    _touch(mask, column[good], line[good])
    return mask


def _touch(mask: Flags, columns: Floats, rows: Floats) -> None:
    down: Places = np.rint(rows).astype(np.intp)
    right: Places = np.rint(columns).astype(np.intp)
    inside = (down >= 0) & (down < mask.shape[0]) & (right >= 0) & (right < mask.shape[1])
    mask[down[inside], right[inside]] = True


def _thinned(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """Long curves as the lowest and highest point of each piece, so that no spike is lost."""
    if len(x) <= 2 * most:
        return x, y
    starts = np.arange(most) * len(x) // most
    low, high = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    return np.repeat(x[starts], 2), np.stack([low, high], axis=1).ravel()


def _dots(masks: Sequence[Flags], curves: int, terminal: Terminal) -> list[str]:
    """Dots in characters; one where curves meet has the colour of the first."""
    if not masks:
        return []
    high, wide = masks[0].shape[0] // 4, masks[0].shape[1] // 2
    parts = [(mask.reshape(high, 4, wide, 2) * _DOTS[None, :, None, :]).sum(axis=(1, 3)) for mask in masks]
    every = np.bitwise_or.reduce(np.array(parts), axis=0)
    owner: NDArray[np.intp] = np.argmax(np.array(parts) > 0, axis=0)
    found = []
    for codes, owners in zip(every.tolist(), owner.tolist(), strict=True):
        line, last = [], ""
        for code, number in zip(codes, owners, strict=True):
            colour = _colour(number, curves, terminal) if code else last
            line.append(("" if colour == last else colour) + (chr(0x2800 + code) if code else " "))
            last = colour
        found.append("".join(line).rstrip() + ("\x1b[0m" if last else ""))
    return found


def _colour(number: int, curves: int, terminal: Terminal) -> str:
    """The escape that begins a curve's colour; levels are grey."""
    if not terminal.colours:
        return ""
    colour = palettes.BRIGHT[number % len(palettes.BRIGHT)] if number < curves else palettes.UNKNOWN
    code = "2;{};{};{}".format(*colour) if terminal.colours > 256 else f"5;{palettes.nearest_256(colour)}"
    return f"\x1b[38;{code}m"


def _legend(labels: Sequence[str], curves: int, terminal: Terminal) -> str:
    from pecli.views.screen import printable

    parts: list[str] = []
    used, more = 0, 12
    for number, label in enumerate(labels):
        letters = not terminal.unicode or (not terminal.colours and curves > 1)
        mark = "-" if number >= curves else _LETTERS[number % len(_LETTERS)]
        sign = mark if letters else "⠒⠒" if number < curves else "⠂⠂"
        escape = _colour(number, curves, terminal)
        text = printable(label)
        used += len(sign) + 1 + len(text) + 3
        last = number == len(labels) - 1
        if used - 3 + (0 if last else more) > terminal.columns and parts:
            parts.append(f"and {len(labels) - number} more")
            break
        parts.append(f"{escape}{sign}{chr(27) + '[0m' if escape else ''} {text}")
    return "   ".join(parts)
