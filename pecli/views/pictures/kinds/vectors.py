"""Rows as vectors: how similar positions are to each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import check_width, stride
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, PlotRequest, Subject, check_panels

MAX_SAMPLES = 512
"""Positions of a similarity matrix."""
MAX_DISTANCES = 4096
"""Positions whose distances are looked at; fewer where rows are long."""
MAX_ELEMENTS = 1 << 24
"""Elements of those positions."""
MAX_WIDTH = 16384
MAX_MAP_POINTS = 1 << 18
"""Points of a grid that are drawn."""


def similarity(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A matrix per subject, and one chart for all."""
    check_panels(len(subjects))
    panels: list[HeatmapPanel | Chart] = []
    curves, looked = [], 0
    for subject in subjects:
        table = vectors(subject, "similarity")
        every = stride(table.rows, min(request.rows, MAX_SAMPLES))
        sampled = _directions(widened(table.pick(np.arange(0, table.rows, every))))
        panels.append(_matrix(subject, table, sampled @ sampled.T, every, len(subjects) > 1))
        start = replace(table, shape=(min(table.rows, MAX_DISTANCES, MAX_ELEMENTS // table.width), table.width))
        rows = _directions(widened(start.array()))
        looked = max(looked, len(rows)) if table.rows > len(rows) else looked
        distances = np.arange(len(rows), dtype=np.float64)
        curves.append(Curve(subject.label if len(subjects) > 1 else "", distances, by_distance(rows)))
    note = f", of the first {looked:,} positions" if looked else ""
    panels.append(Chart(f"mean by distance{note}", curves, x="distance", y="cosine similarity"))
    across = 2 if len(subjects) in (1, 2, 4) else min(3, len(subjects))
    return Picture("cosine similarity of positions", panels, across)


def patch(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """The patch in the middle, compared with every other."""
    panels = []
    for subject in subjects:
        rows = grid_rows(subject)
        tables = [table for table in subject.tables if len(table.shape) == 2]
        vectors = np.concatenate([widened(table.pick(rows.reshape(-1))) for table in tables], axis=1)
        size = np.linalg.norm(vectors, axis=1)
        row, column = rows.shape[0] // 2, rows.shape[1] // 2
        middle = row * rows.shape[1] + column
        alike = vectors @ vectors[middle] / np.where(size > 0, size * size[middle], 1)
        title = f"row {row}, column {column}" if len(subjects) == 1 else subject.label
        panels.append(grid_map(title, alike.reshape(rows.shape), "cosine similarity"))
    return Picture("similarity of one patch to all others", tuple(panels), min(2, len(panels)))


def grid_map(title: str, values: Floats, meaning: str = "") -> HeatmapPanel:
    """A panel of cosines or sines, or of what is made of them, on a grid."""
    return HeatmapPanel(title, values, "row", "column", centred=True, limits=(-1.0, 1.0), meaning=meaning)


def grid_rows(subject: Subject) -> Indices:
    """Which row of the table each point of the first frame has: (H, W)."""
    scheme = subject.scheme
    grid, style = getattr(scheme, "grid", None), getattr(scheme, "grid_style", None)
    assert grid is not None
    assert style is not None
    height, width = grid[-2:]
    if height * width > MAX_MAP_POINTS:
        raise ParameterError("the picture", "too large", f"a map has at most {MAX_MAP_POINTS:,} points")
    keep = 0 if style.keep_last else getattr(scheme, "keep", None) or 0
    m = style.merge
    blocks = np.arange(height * width).reshape(height // m, width // m, m, m)
    return keep + blocks.transpose(0, 2, 1, 3).reshape(height, width)


def vectors(subject: Subject, kind: str) -> Table:
    """The rows that stand for positions; for RoPE cosines and sines side by side."""
    tables = [table for table in subject.tables if len(table.shape) == 2 and table.size]
    if subject.applied_as == "rotation":
        cos, sin = (next(table for table in tables if table.name == name) for name in ("cos", "sin"))

        def fill(start: int, out: Array) -> None:
            cos.fill(start, out[:, : cos.width])
            sin.fill(start, out[:, cos.width :])

        return replace(cos, name="cos, sin", shape=(cos.rows, 2 * cos.width), fill=fill)
    if len(tables) != 1:
        names = f": {', '.join(table.name for table in tables[:8])}" if tables else ""
        rule = f"{subject.label} has {len(tables)} tables with rows and columns{names}"
        raise ParameterError("kind", kind, rule, "name one as FILE:NAME" if tables else "")
    check_width(tables[0], kind, MAX_WIDTH)
    return tables[0]


def _directions(rows: Floats) -> Floats:
    """Each row divided by its norm; a row of zeros, or one that is not finite, has no direction, and is NaN."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        largest = np.abs(rows).max(axis=1, keepdims=True)
        rows = rows / largest  # whose squares neither overflow nor vanish
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def by_distance(rows: Floats) -> Floats:
    """The mean of p·q over all positions at each distance, through the power spectrum; rows of NaN do not count."""
    length = len(rows)
    known: Floats = np.asarray(np.isfinite(rows).all(axis=1, keepdims=True), np.float64)
    size = 1 << (2 * length - 1).bit_length()
    products = _autocorrelation(np.where(known > 0, rows, 0.0), size)[:length]
    pairs = np.rint(_autocorrelation(known, size)[:length])
    return np.asarray(np.divide(products, pairs, out=np.full(length, np.nan), where=pairs > 0))


def _autocorrelation(rows: Floats, size: int) -> Floats:
    power = np.zeros(size // 2 + 1)
    step = max(1, (1 << 22) // size)
    for first in range(0, rows.shape[1], step):
        power += np.sum(np.abs(np.fft.rfft(rows[:, first : first + step], size, axis=0)) ** 2, axis=1)
    return np.asarray(np.fft.irfft(power, size))


def _matrix(subject: Subject, table: Table, matrix: Floats, every: int, many: bool) -> HeatmapPanel:
    pairs = "pairs of sampled positions" if every > 1 else "all pairs of positions"
    return HeatmapPanel(
        f"{subject.label}, {pairs}" if many and every > 1 else subject.label if many else pairs,
        matrix,
        columns="position",
        centred=True,
        first_row=subject.first,
        row_count=table.rows,
        column_count=table.rows,
        column_step=every,
        limits=(-1.0, 1.0),
        reduce="sample",
    )
