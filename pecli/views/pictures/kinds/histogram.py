"""How the values of a table are distributed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures import ticks
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish
from pecli.views.pictures.reduced import check_width

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

BINS = 96
_WIDEST = 1e306
"""How far apart values may be, so that the ends of bins are numbers."""


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A density a table; a table on its own is held against the normal distribution of its mean and spread."""
    curves = []
    for subject in subjects:
        tables = [table for table in subject.tables if table.size]
        for table in tables:
            check_width(table, "histogram")
            middles, density, mean, spread = distribution(table)
            names = [subject.label] * (len(subjects) > 1) + [table.name] * (len(tables) > 1)
            curves.append(Curve(", ".join(names) or table.name, middles, density))
    if not curves:
        raise ParameterError("kind", "histogram", "there are no values")
    if len(curves) == 1 and spread > 0 and subjects[0].kind != "sinusoidal":
        bell = np.exp(-(((middles - mean) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))
        curves.append(Curve(f"normal, mean {mean:.3g}, std {spread:.3g}", middles, bell))
    return Picture("distribution of the values", [Chart("", curves[:6], x="value", y="density", filled=True)])


def distribution(table: Table) -> tuple[Floats, Floats, float, float]:
    """The middles of equal bins, the density in each, the mean and the standard deviation of what is finite."""
    low, high, count, total, squares = np.inf, -np.inf, 0, 0.0, 0.0
    for values in _finite(table):
        low, high = min(low, float(values.min())), max(high, float(values.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            count, total, squares = count + values.size, total + float(values.sum()), squares + float((values**2).sum())
    low, high = ticks.apart(low, high)
    if not count or not high - low < _WIDEST:
        problem = "no finite value" if not count else "values too far apart"
        raise ParameterError("kind", "histogram", f"{table.name} has {problem}")
    tally = np.zeros(BINS, np.int64)
    for values in _finite(table):
        tally += np.histogram(values, BINS, (low, high))[0]
    width, mean = (high - low) / BINS, total / count
    middles: Floats = low + width * (np.arange(BINS, dtype=np.float64) + 0.5)
    return middles, tally / (count * width), mean, math.sqrt(max(0.0, squares / count - mean * mean))


def _finite(table: Table) -> Iterator[Floats]:
    """The finite values, block by block."""
    for values in map(widened, table.blocks()):
        kept = values[np.isfinite(values)]
        if kept.size:
            yield kept
