"""Tables of any size as small arrays: read block by block, each block averaged and let go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.block_mean import shrink

WHOLE = 1 << 21
"""Elements up to which a table is read at once."""
MOST = 1 << 28
"""Elements up to which every one counts; longer tables are read in part, evenly."""
WIDEST = 1 << 22
"""Elements of a row, which is read as a whole."""
_RUNS = 32
"""From how many places of a picture's line rows are taken, when not all of them are."""
GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, less their whole parts, are neither at equal distances nor by chance: no wave is met in step."""


def reduced(table: Table, rows: int, columns: int) -> Floats:
    """At most rows × columns means of the table's elements."""
    if table.size <= WHOLE:
        return shrink(widened(table.array()).reshape(table.rows, table.width), rows, columns)
    bins = _Bins(table, min(rows, table.rows), min(columns, table.width))
    for start, block in _blocks(table, bins):
        bins.add(start, block)
    return bins.result()


def is_sampled(table: Table) -> bool:
    """Whether only some of its rows count."""
    return table.size > MOST and not table.in_order


def check_width(table: Table, kind: str, most: int = WIDEST) -> None:
    """Refuse rows that would take too much memory, several at a time."""
    if table.width > most:
        raise ParameterError("kind", kind, f"rows of {table.width:,} are too long; up to {most:,} are drawn")


def slab(table: Table, index: int) -> Table:
    """One matrix of a tensor with more than two axes: those before the last two are run through in order."""
    height = table.shape[-2]

    def fill(start: int, out: Array) -> None:
        table.fill(index * height + start, out)

    return replace(table, shape=table.shape[-2:], fill=fill)


def _blocks(table: Table, bins: _Bins) -> Iterator[tuple[int, Array]]:
    if not is_sampled(table):
        start = 0
        for block in table.blocks():
            yield start, block
            start += len(block)
        return
    length = max(1, MOST // (table.width * bins.rows * _RUNS))
    spans = []
    for first, stop in pairwise(bins.edges):
        for run in range(_RUNS):
            start = first + int((run + run * GOLDEN % 1) / _RUNS * (stop - first))
            spans.append((start, min(start + length, stop)))
    blocks = results_in_order(lambda span: table.read(*span), spans)
    for (start, _), block in zip(spans, blocks, strict=True):
        yield start, block


class _Bins:
    """Sums over the rows and columns that each element of the result stands for."""

    def __init__(self, table: Table, rows: int, columns: int) -> None:
        self.rows = rows
        self.edges = [k * table.rows // rows for k in range(rows + 1)]
        self._columns = np.arange(columns) * table.width // columns
        self._widths = np.diff([*self._columns.tolist(), table.width])
        shape = (rows, columns)
        self._sums, self._weights = np.zeros(shape), np.zeros(shape)
        self._infinite = np.full(shape, -np.inf)
        self._nan = np.zeros(shape, bool)

    def add(self, start: int, block: Array) -> None:
        """Take the rows from `start` on into account."""
        k = int(np.searchsorted(self.edges, start, side="right")) - 1
        done = 0
        while done < len(block):
            stop = min(len(block), self.edges[k + 1] - start)
            self._add(k, block[done:stop])
            done, k = stop, k + 1

    def _add(self, k: int, piece: Array) -> None:
        if piece.dtype not in (np.float32, np.float64):
            piece = widened(piece)
        with np.errstate(invalid="ignore", over="ignore"):
            sums = piece.sum(axis=0, dtype=np.float64)
        if np.isfinite(sums).all():
            self._sums[k] += np.add.reduceat(sums, self._columns)
            self._weights[k] += len(piece) * self._widths
            return
        values = widened(piece)
        finite = np.isfinite(values)
        self._sums[k] += np.add.reduceat(np.where(finite, values, 0.0).sum(axis=0), self._columns)
        self._weights[k] += np.add.reduceat(finite.sum(axis=0), self._columns)
        self._nan[k] |= np.logical_or.reduceat(np.isnan(values).any(axis=0), self._columns)
        infinite = np.where(finite | np.isnan(values), 0.0, np.sign(values)).sum(axis=0)
        self._infinite[k] = np.maximum(
            self._infinite[k], np.where(np.add.reduceat(infinite, self._columns) > 0, np.inf, -np.inf)
        )

    def result(self) -> Floats:
        with np.errstate(invalid="ignore"):
            means = np.divide(self._sums, self._weights, out=self._infinite.copy(), where=self._weights > 0)
        return np.where(self._nan, np.nan, means)
