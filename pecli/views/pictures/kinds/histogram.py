"""How the values of a table are distributed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures import ticks
from pecli.views.pictures.downsample import GOLDEN, check_width
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish

BINS = 96
_WIDEST = 1e306
"""How far apart values may be, so that the ends of bins are numbers."""
MOST = 1 << 26
"""Values up to which every one counts; of more, as many are taken, evenly."""
_RUNS = 1024
"""From how many places they are taken."""


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A density a table; a table on its own is compared with the normal distribution of its mean and spread."""
    curves, parts = [], []
    for subject in subjects:
        tables = [table for table in subject.tables if table.size]
        for table in tables:
            check_width(table, "histogram")
            middles, density, mean, spread = distribution(table)
            parts += [f"{_RUNS * _run(table) * table.width:,} of {table.size:,} values"] if _is_long(table) else []
            names = [subject.label] * (len(subjects) > 1) + [table.name] * (len(tables) > 1)
            curves.append(Curve(", ".join(names) or table.name, middles, density))
    if not curves:
        raise ParameterError("kind", "histogram", "there are no values")
    if len(curves) == 1 and spread > 0 and "wavelengths" not in subjects[0].picture_kinds:
        bell = np.exp(-(((middles - mean) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))
        curves.append(Curve(f"normal, mean {mean:.3g}, std {spread:.3g}", middles, bell))
    several = f"a part of the values of {len(parts)} tables"
    note = f"of {parts[0] if len(parts) == 1 else several}, evenly taken" if parts else ""
    return Picture("distribution of the values", [Chart(note, curves[:6], x="value", y="density", filled=True)])


def distribution(table: Table) -> tuple[Floats, Floats, float, float]:
    """The middles of equal bins, the density in each, the mean and the standard deviation of what is finite.

    Of a long table, all of this is that of the values that are taken.
    """
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
    for values in map(widened, _blocks(table)):
        kept = values[np.isfinite(values)]
        if kept.size:
            yield kept


def _is_long(table: Table) -> bool:
    """Whether a part stands for all; what can only be read in order is read as a whole."""
    return table.size > MOST and table.rows > 2 * _RUNS and not table.in_order


def _run(table: Table) -> int:
    """Rows that are taken from each place."""
    return max(1, MOST // (table.width * _RUNS))


def _blocks(table: Table) -> Iterator[Array]:
    if not _is_long(table):
        return table.blocks()
    stretch = table.rows / _RUNS

    def read(place: int) -> Array:
        late = place * GOLDEN % 1 * max(0.0, stretch - _run(table))
        start = int(place * stretch + late)
        return table.read(start, min(table.rows, start + _run(table)))

    return results_in_order(read, range(_RUNS))
