"""Singular values: how many directions a table really uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table
from pecli.views.pictures.downsample import check_width
from pecli.views.pictures.kinds.similarity import vectors
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish

WIDEST = 4096
_WHOLE = 1 << 21
"""Elements up to which singular values are had directly; longer tables through the products of their columns."""


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A curve a subject, the largest value first."""
    curves = []
    for subject in subjects:
        found = singular_values(vectors(subject, "spectrum"))
        curves.append(Curve(subject.label if len(subjects) > 1 else "", np.arange(1.0, len(found) + 1), found))
    chart = Chart("", curves, x="rank", y="singular value", log_y=True, points=len(curves[0].x) <= 64)
    return Picture("singular values", [chart])


def singular_values(table: Table) -> Floats:
    """All of them that are not zero, as exact as 1e-8 of the largest; NaN where the table has none."""
    check_width(table, "spectrum", WIDEST)
    if table.size <= _WHOLE:
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
