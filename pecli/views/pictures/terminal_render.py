"""Pictures in the terminal: panels beside and below each other, as large as there is room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np

from pecli.views.pictures import braille, half_blocks, labels
from pecli.views.pictures.downsample import fitted_to, stride
from pecli.views.pictures.labels import fitted
from pecli.views.pictures.panels import Chart, HeatmapPanel, Panel, Picture
from pecli.views.screen import Terminal, printable, terminal

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_NARROWEST, _CHART, _LOWEST, _FLAT = 20, 36, 9, 6
"""Columns that a matrix needs, and a chart; lines that a panel needs, and one that is alone."""
_FAINT = 0.6
"""Of the ends of its colours, what the means of a matrix have to reach, else they have ends of their own."""


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
    height = max(_LOWEST if len(grid) > 1 else _FLAT, (room - shared) // max(1, len(grid)))
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
        shown.append(half_blocks.key_line(terminal, heat, unknown=unknown))
    return shown


def _grid(picture: Picture, terminal: Terminal, room: int) -> list[list[Panel]]:
    """Panels beside each other, in rows of as many as the picture wants; of more, where so many rows have no room."""
    most = max(1, terminal.columns // _NARROWEST)
    across = min(picture.across, most)
    rows = _rows(picture, across, terminal)
    while across < most and len(rows) > 1 and len(rows) * _LOWEST > room:
        across += 1
        rows = min(rows, _rows(picture, across, terminal), key=len)
    return rows


def _rows(picture: Picture, across: int, terminal: Terminal) -> list[list[Panel]]:
    """Rows of so many panels; charts among them where those are wide enough, and never beside several heatmaps."""
    lonely = terminal.columns // across < _CHART or sum(isinstance(panel, HeatmapPanel) for panel in picture.panels) > 1
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
        return half_blocks.lines(untitled, terminal, height=height, limits=ends, key=not shared)
    assert isinstance(untitled, Chart)
    return braille.lines(untitled, terminal, height)


def _ends(heats: Sequence[HeatmapPanel], size: tuple[int, int]) -> tuple[float, float] | None:
    """New ends for colours around zero, where the means that have room reach but a part of the old ones."""
    if not heats or not all(heat.centred and heat.power == 1.0 for heat in heats):
        return None
    means = [fitted_to(heat.values, size[1], size[0], heat.reduce)[0] for heat in heats]
    reach = max((float(np.abs(each[np.isfinite(each)]).max(initial=0.0)) for each in means), default=0.0)
    if not 0 < reach < _FAINT * max(heat.ends()[1] for heat in heats):
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
