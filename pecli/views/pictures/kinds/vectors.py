"""Rows as vectors: how similar positions are to each other, and how many directions all of them take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, Floats, widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.downsample import check_width, stride
from pecli.views.pictures.kinds.tables import grid_map, grid_rows
from pecli.views.pictures.panels import Chart, Curve, HeatmapPanel, Picture, PlotRequest, Subject, check_panels

MAX_SAMPLES = 512
"""Positions of a similarity matrix."""
MAX_DISTANCES = 4096
"""Positions whose distances are looked at; fewer where rows are long."""
MAX_ELEMENTS = 1 << 24
"""Elements of those positions."""
MAX_WIDTH = 16384
MAX_RANKED_WIDTH = 4096
MAX_SVD_ELEMENTS = 1 << 21
"""Elements up to which singular values are had directly; longer tables through the products of their columns."""


def similarity(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A matrix per subject, and one chart for all."""
    check_panels(len(subjects))
    panels: list[HeatmapPanel | Chart] = []
    curves, looked = [], 0
    for subject in subjects:
        table = vectors(subject, "similarity")
        every = stride(table.rows, min(request.rows, MAX_SAMPLES))
        sampled = _directions(_every(table, every))
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


def _every(table: Table, step: int) -> Floats:
    """Every `step`-th row; of what can only be read in order, all are read."""
    if not table.in_order:
        return widened(table.pick(np.arange(0, table.rows, step)))
    found, start = [], 0
    for block in table.blocks():
        found.append(widened(block[-start % step :: step]))
        start += len(block)
    return np.concatenate(found)


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


def spectrum(subjects: Sequence[Subject], request: PlotRequest) -> Picture:
    """A curve per subject, the largest value first."""
    curves = []
    for subject in subjects:
        found = singular_values(vectors(subject, "spectrum"))
        curves.append(Curve(subject.label if len(subjects) > 1 else "", np.arange(1.0, len(found) + 1), found))
    chart = Chart("", curves, x="rank", y="singular value", log_y=True, points=len(curves[0].x) <= 64)
    return Picture("singular values", [chart])


def singular_values(table: Table) -> Floats:
    """All of them that are not zero, as exact as 1e-8 of the largest; NaN where the table has none."""
    check_width(table, "spectrum", MAX_RANKED_WIDTH)
    if table.size <= MAX_SVD_ELEMENTS:
        values = widened(table.array())
        found = np.linalg.svd(values, compute_uv=False) if np.isfinite(values).all() else np.array([np.nan])
    else:
        products = np.zeros((table.width, table.width))
        for block in table.blocks():
            rows = widened(block)
            products += rows.T @ rows
        if not np.isfinite(products).all():
            return np.array([np.nan])
        found = np.sqrt(np.maximum(np.linalg.eigvalsh(products)[::-1], 0.0))
    return np.where(found > 1e-8 * found[0], found, np.nan)
