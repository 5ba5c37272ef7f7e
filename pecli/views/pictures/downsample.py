"""Tables of any size as small arrays: rows averaged block by block, columns either kept or left out.

Rows are positions, along which a table is a wave, and a mean is what an eye would see from afar. Columns are channels,
each a thing of its own (a sine beside a cosine, say): a mean of them is a channel that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Indices, widened
from pecli.engine.table import Table, results_in_order
from pecli.errors import ParameterError

MAX_FULL_READ = 1 << 21
"""Elements up to which a table is read at once."""
MAX_ELEMENTS = 1 << 28
"""Elements up to which every one counts; longer tables are read in part, evenly."""
MAX_WIDTH = 1 << 22
"""Elements of a row, which is read as a whole."""
RUNS = 32
"""From how many places of a picture's line rows are taken, when not all of them are."""
GOLDEN = (5**0.5 - 1) / 2
"""Its multiples modulo 1 are neither equally spaced nor random, so that no wave is sampled in step."""


def reduced(table: Table, rows: int, columns: int) -> tuple[Floats, int]:
    """At most `rows` means of the table's rows, of at most `columns` of its columns; every how many of these."""
    step = stride(table.width, columns)
    if table.size <= MAX_FULL_READ:
        return mean_rows(widened(table.array()).reshape(table.rows, table.width)[:, ::step], rows), step
    bins = _Bins(table, min(rows, table.rows), step)
    for start, block in _blocks(table, bins):
        bins.add(start, block)
    return bins.result(), step


def stride(count: int, room: int) -> int:
    """Every how many of `count` things are kept, so that no more than `room` are.

    >>> stride(64, 100), stride(768, 70)
    (1, 11)
    """
    return max(1, -(-count // max(1, room)))


def is_sampled(table: Table) -> bool:
    """Whether only some of its rows count."""
    return table.size > MAX_ELEMENTS and not table.in_order


def check_width(table: Table, kind: str, most: int = MAX_WIDTH) -> None:
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
    length = max(1, MAX_ELEMENTS // (table.width * len(bins.edges) * RUNS))
    spans = []
    for first, stop in pairwise(bins.edges):
        for run in range(RUNS):
            start = first + int((run + run * GOLDEN % 1) / RUNS * (stop - first))
            spans.append((start, min(start + length, stop)))
    blocks = results_in_order(lambda span: table.read(*span), spans)
    for (start, _), block in zip(spans, blocks, strict=True):
        yield start, block


class _Bins:
    """Sums over the rows that each row of the result stands for."""

    def __init__(self, table: Table, rows: int, step: int) -> None:
        self.edges = [k * table.rows // rows for k in range(rows + 1)]
        self._step = step
        shape = (rows, -(-table.width // step))
        self._sums, self._weights = np.zeros(shape), np.zeros(shape)
        self._infinite = np.full(shape, -np.inf)
        self._nan = np.zeros(shape, bool)

    def add(self, start: int, block: Array) -> None:
        """Take the rows from `start` on into account."""
        block = block[:, :: self._step]
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
            self._sums[k] += sums
            self._weights[k] += len(piece)
            return
        values = widened(piece)
        finite = np.isfinite(values)
        self._sums[k] += np.where(finite, values, 0.0).sum(axis=0)
        self._weights[k] += finite.sum(axis=0)
        self._nan[k] |= np.isnan(values).any(axis=0)
        infinite = np.where(finite | np.isnan(values), 0.0, np.sign(values)).sum(axis=0)
        self._infinite[k] = np.maximum(self._infinite[k], np.where(infinite > 0, np.inf, -np.inf))

    def result(self) -> Floats:
        with np.errstate(invalid="ignore"):
            means = np.divide(self._sums, self._weights, out=self._infinite.copy(), where=self._weights > 0)
        return np.where(self._nan, np.nan, means)


def fitted_to(values: Floats, rows: int, columns: int, reduce: str = "mean") -> tuple[Floats, int]:
    """An array with no more rows and columns than there is room for; every how many of its columns are left.

    "mean" averages rows and leaves columns out, "max" keeps the largest magnitude of rows and columns, for rare spikes,
    and "sample" leaves out as many rows as columns, so that a diagonal stays one.
    """
    if reduce == "max":
        return max_rows(max_rows(values, rows).T, columns).T, 1
    step = stride(values.shape[1], columns)
    if reduce == "mean":
        return mean_rows(values[:, ::step], rows), step
    step = max(step, stride(len(values), rows))
    return values[::step, ::step], step


def mean_rows(values: Floats, count: int) -> Floats:
    """At most `count` rows, of equal height; one that is cut between two counts for both, by its parts.

    What is NaN anywhere stays NaN; infinities count only where there is nothing else.
    """
    length = len(values)
    if length <= count:
        return values
    finite = np.isfinite(values)
    if finite.all():
        return _means(values, count)
    weights = _means(finite.astype(np.float64), count)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = _means(np.where(finite, values, 0.0), count) / weights
    return _marked(result, weights == 0, values, np.arange(count) * length // count)


def max_rows(values: Floats, count: int) -> Floats:
    """At most `count` rows, each the elements of largest magnitude of those it stands for; NaN stays."""
    if len(values) <= count:
        return values
    starts = np.arange(count) * len(values) // count
    high, low = np.maximum.reduceat(values, starts, axis=0), np.minimum.reduceat(values, starts, axis=0)
    return np.where(high >= -low, high, low)


def _marked(result: Floats, empty: Flags, values: Floats, starts: Indices) -> Floats:
    """NaN where there is one, an infinity where there is nothing finite."""
    bad = np.add.reduceat(np.isnan(values), starts, axis=0)
    ends = np.maximum.reduceat(np.where(np.isnan(values), -np.inf, values), starts, axis=0)
    return np.where(bad > 0, np.nan, np.where(empty, ends, result))


def _means(values: Floats, count: int) -> Floats:
    """The means of `count` equal shares of the rows, each row weighted by how much of it lies in the share."""
    length, out = len(values), np.empty((count, values.shape[1]))
    for k in range(count):
        first, before = divmod(k * length, count)
        stop, after = divmod((k + 1) * length, count)
        weights = np.full(stop - first + (after > 0), float(count))
        weights[0] -= before
        weights[-1] -= count - after if after else 0
        with np.errstate(over="ignore", invalid="ignore"):
            out[k] = weights @ values[first : first + len(weights)] / length
    return out


def envelope(x: Floats, y: Floats, most: int) -> tuple[Floats, Floats]:
    """A long curve as the lowest and highest point of each of `most` pieces, so that no spike is lost."""
    if len(x) <= 2 * most:
        return x, y
    starts = np.arange(most) * len(x) // most
    ends = np.append(starts[1:], len(x)) - 1
    low, high = np.fmin.reduceat(y, starts), np.fmax.reduceat(y, starts)
    falling = y[ends] < y[starts]  # a smooth curve stays one, where low before high would be a saw
    found = np.stack([np.where(falling, high, low), np.where(falling, low, high)], axis=1)
    return np.stack([x[starts], x[ends]], axis=1).ravel(), found.ravel()
