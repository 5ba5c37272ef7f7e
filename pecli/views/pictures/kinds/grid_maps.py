"""Tables on grids: channels as small maps, and how similar one patch is to all others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.panels import MAX_PANELS, HeatmapPanel, Picture, PlotRequest, Subject, chosen, spread

MAX_POINTS = 1 << 18
"""Points of a grid that are drawn."""
ACROSS = 4


def maps(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A few channels, each over the rows and columns of the grid; of a video, of its first frame."""
    most = max(1, MAX_PANELS // max(1, len(subjects)))
    panels = []
    for subject in subjects:
        table, name = _first(subject), subject.axes_of(_first(subject)).names[-1]
        rows = _rows(subject)
        values = widened(table.pick(rows.reshape(-1)))
        picked = chosen(request, table.width, most) if request.channels is not None else spread(table.width, most)
        for column in picked:
            title = f"{table.name}, {name} {column}" if len(subjects) == 1 else f"{subject.label}, {name} {column}"
            panels.append(_map(title, values[:, column].reshape(rows.shape)))
    return Picture("Channels over the grid", tuple(panels), min(ACROSS, len(panels)))


def patch(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The patch in the middle, compared with every other."""
    panels = []
    for subject in subjects:
        rows = _rows(subject)
        tables = [table for table in subject.tables if len(table.shape) == 2]
        vectors = np.concatenate([widened(table.pick(rows.reshape(-1))) for table in tables], axis=1)
        size = np.linalg.norm(vectors, axis=1)
        row, column = rows.shape[0] // 2, rows.shape[1] // 2
        middle = row * rows.shape[1] + column
        alike = vectors @ vectors[middle] / np.where(size > 0, size * size[middle], 1)
        title = f"row {row}, column {column}" if len(subjects) == 1 else subject.label
        panels.append(_map(title, alike.reshape(rows.shape), "cosine similarity"))
    return Picture("Similarity of one patch to all others", tuple(panels), min(2, len(panels)))


def _map(title: str, values: Floats, meaning: str = "") -> HeatmapPanel:
    return HeatmapPanel(title, values, "row", "column", centred=True, limits=(-1.0, 1.0), meaning=meaning)


def _first(subject: Subject) -> Table:
    return next(table for table in subject.tables if len(table.shape) == 2)


def _rows(subject: Subject) -> Indices:
    """Which row of the table each point of the first frame has: (H, W)."""
    scheme = subject.scheme
    grid, style = getattr(scheme, "grid", None), getattr(scheme, "grid_style", None)
    assert grid is not None
    assert style is not None
    height, width = grid[-2:]
    if height * width > MAX_POINTS:
        raise ParameterError("the picture", "too large", f"a map has at most {MAX_POINTS:,} points")
    keep = 0 if style.keep_last else getattr(scheme, "keep", None) or 0
    m = style.merge
    blocks = np.arange(height * width).reshape(height // m, width // m, m, m)
    return keep + blocks.transpose(0, 2, 1, 3).reshape(height, width)
