"""The dot products of all positions with each other, and their mean by distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures import ticks
from pecli.views.pictures.downsample import check_width, reduced
from pecli.views.pictures.panels import Chart, Curve, Heat, Picture, Subject, Wish, check_room

LONGEST = 4096
"""Positions whose distances are looked at; fewer where rows are long."""
_MOST = 1 << 24
"""Elements of those positions."""
WIDEST = 16384


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A matrix a subject, and one chart for all."""
    check_room(len(subjects))
    panels: list[Heat | Chart] = []
    curves = []
    for subject in subjects:
        table = vectors(subject, "similarity")
        start = replace(table, shape=(min(table.rows, LONGEST, _MOST // table.width), table.width))
        rows = widened(start.array())
        with np.errstate(over="ignore", invalid="ignore"):
            scale = float(np.mean(np.einsum("ij,ij->i", rows, rows))) or 1.0
        means = reduced(table, min(wish.rows, 512), WIDEST)
        with np.errstate(over="ignore", invalid="ignore"):
            matrix = means @ means.T / scale  # the product of means is the mean of the products
        panels.append(_heat(subject, table, matrix, len(subjects) > 1))
        distances = np.arange(len(rows), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            means = by_distance(rows) / scale
        curves.append(Curve(subject.label if len(subjects) > 1 else "", distances, means))
    note = f", of the first {len(rows):,} positions" if table.rows > len(rows) else ""
    panels.append(Chart(f"mean by distance{note}", curves, x="distance", y="similarity"))
    reach = max(panel.limits[1] for panel in panels if isinstance(panel, Heat))
    panels = [replace(panel, limits=(-reach, reach)) if isinstance(panel, Heat) else panel for panel in panels]
    across = 2 if len(subjects) in (1, 2, 4) else min(3, len(subjects))
    return Picture("similarity of positions", panels, across)


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
    check_width(tables[0], kind, WIDEST)
    return tables[0]


def by_distance(rows: Floats) -> Floats:
    """The mean of p·q over all positions at each distance, through the power spectrum."""
    length = len(rows)
    size = 1 << (2 * length - 1).bit_length()
    power = np.zeros(size // 2 + 1)
    step = max(1, (1 << 22) // size)
    for first in range(0, rows.shape[1], step):
        with np.errstate(invalid="ignore", over="ignore"):
            power += np.sum(np.abs(np.fft.rfft(rows[:, first : first + step], size, axis=0)) ** 2, axis=1)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.fft.irfft(power, size)[:length] / np.arange(length, 0, -1))


def _heat(subject: Subject, table: Table, matrix: Floats, many: bool) -> Heat:
    finite = matrix[np.isfinite(matrix)]
    reach = ticks.round_ends(0.0, float(np.abs(finite).max()) if finite.any() else 1.0)[1]
    return Heat(
        subject.label if many else "all pairs of positions",
        matrix,
        columns="position",
        centred=True,
        first_row=subject.first,
        row_count=table.rows,
        column_count=table.rows,
        limits=(-reach, reach),
        meaning="p·q / |p|²",
    )
