"""Pictures in the terminal: panels beside and below each other, as large as there is room."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from pecli.views.pictures import braille, heatmap
from pecli.views.pictures.panels import Chart, Heat, Panel, Picture
from pecli.views.pictures.terminal import Terminal, terminal
from pecli.views.screen import printable

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_NARROWEST, _LOWEST = 20, 9
"""Columns and lines that a panel needs."""


def show(picture: Picture) -> None:
    """Print a picture on standard output."""
    print("\n".join(lines(picture, terminal())))


def lines(picture: Picture, terminal: Terminal) -> list[str]:
    """The lines of a picture; of heatmaps that share their colours, the last one alone tells what they mean."""
    head = textwrap.wrap(printable(picture.title), terminal.columns, max_lines=3, placeholder=" ...")
    grid = _grid(picture, terminal)
    room = terminal.lines - 1 - len(head)
    heats = [panel for panel in picture.panels if isinstance(panel, Heat)]
    shared = any(heat.power != 1.0 for heat in heats) or (len(heats) > 1 and len({heat.limits for heat in heats}) == 1)
    height = max(_LOWEST, (room - shared) // max(1, len(grid)))
    shown = list(head)
    across = max(map(len, grid), default=1)
    for row in grid:
        beside = across if isinstance(row[0], Heat) else 1
        shown += _beside([_panel(panel, terminal, beside, height, shared) for panel in row], terminal.columns // beside)
    if shared:
        heat = heats[0]
        unknown = any(not np.isfinite(each.values).all() for each in heats)
        shown.append(heatmap.key_line(terminal, heat.rows, heat.columns, heat.limits, heat.centred, unknown))
    return shown


def _grid(picture: Picture, terminal: Terminal) -> list[list[Panel]]:
    """Heatmaps beside each other, charts each in a row of their own."""
    across = max(1, min(picture.across, terminal.columns // _NARROWEST))
    rows: list[list[Panel]] = []
    for panel in picture.panels:
        if rows and isinstance(panel, Heat) and isinstance(rows[-1][-1], Heat) and len(rows[-1]) < across:
            rows[-1].append(panel)
        else:
            rows.append([panel])
    return rows


def _panel(panel: Panel, terminal: Terminal, across: int, height: int, shared: bool) -> list[str]:
    small = terminal._replace(columns=terminal.columns // across - (across > 1))
    if isinstance(panel, Heat):
        return heatmap.lines(
            panel.bent(panel.values),
            small,
            title=panel.title,
            rows=panel.rows,
            columns=panel.columns,
            centred=panel.centred,
            first_row=panel.first_row,
            row_count=panel.row_count,
            column_count=panel.column_count,
            limits=_ends(panel),
            height=height,
            key=not shared,
        )
    assert isinstance(panel, Chart)
    return braille.lines(
        panel.curves,
        small,
        title=panel.title,
        x=panel.x,
        y=panel.y,
        log_x=panel.log_x,
        log_y=panel.log_y,
        levels=panel.levels,
        height=height,
        ordered=panel.ordered,
    )


def _ends(panel: Heat) -> tuple[float, float]:
    low, high = panel.bent(np.array(panel.limits)).tolist()
    return low, high


def _beside(panels: Sequence[list[str]], wide: int) -> list[str]:
    """The lines of several panels, side by side."""
    if len(panels) == 1:
        return panels[0]
    found = []
    for parts in zip_longest(*panels, fillvalue=""):
        padded = [part + " " * (wide - len(_ESCAPE.sub("", part))) for part in parts]
        found.append("".join(padded).rstrip())
    return found
