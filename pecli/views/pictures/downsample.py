"""Tables of any size as small arrays: rows averaged block by block, columns either kept or left out.

Rows are positions, along which a table is a wave, and a mean is what an eye would see from afar. Columns are channels,
each a thing of its own (a sine beside a cosine, say): a mean of them is a channel that does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from pecli.engine.arrays import Array, Floats, widened
from pecli.engine.table import Table, results_in_order, table_of
from pecli.errors import ParameterError

MAX_ELEMENTS = 1 << 28  #: Elements up to which every one counts; longer tables are read in part, evenly
MAX_WIDTH = 1 << 22  #: Elements of a row, which is read as a whole
RUNS = 32  #: From how many places of a picture's line rows are taken, when not all of them are
GOLDEN = (5**0.5 - 1) / 2
"""Its multiples modulo 1 are neither equally spaced nor random, so that no wave is sampled in step."""


def reduced(table: Table, rows: int, columns: int, reduce: str = "mean") -> Floats:
    """At most `rows` means of rows, of at most `columns` columns; of a "sample", every n-th of both; inf stays."""
    step = stride(table.width, columns)
    if reduce == "sample":
        step = max(step, stride(table.rows, rows))
        return widened(table.pick(np.arange(0, table.rows, step))[:, ::step])
    count = min(table.rows, rows)
    edges = np.arange(count + 1) * table.rows // count
    sums, counts = np.zeros((count, -(-table.width // step))), np.zeros((count, 1))
    for start, block in _blocks(table, edges.tolist()):
        first = int(np.searchsorted(edges, start, side="right")) - 1
        share = slice(first, int(np.searchsorted(edges, start + len(block))))
        starts = np.maximum(edges[share] - start, 0)
        kept = block[:, ::step]
        values = kept if kept.dtype.kind in "fiu" else widened(kept)
        counts[share, 0] += np.diff(starts, append=len(block))
        with np.errstate(over="ignore", invalid="ignore"):
            sums[share] += np.add.reduceat(values, starts, axis=0, dtype=np.float64)
    return np.asarray(sums / counts)


def stride(count: int, room: int) -> int:
    """Every how many of `count` things are kept, so that no more than `room` are.

    >>> stride(64, 100), stride(768, 70)
    (1, 11)
    """
    return max(1, -(-count // max(1, room)))


def is_sampled(table: Table) -> bool:
    """Whether only some of its rows count."""
    return table.size > MAX_ELEMENTS


def check_width(table: Table, kind: str, most: int = MAX_WIDTH) -> None:
    """Refuse rows that would take too much memory, several at a time."""
    if table.width > most:
        raise ParameterError("kind", kind, f"rows of {table.width:,} are too long; up to {most:,} are drawn")


def _blocks(table: Table, edges: Sequence[int]) -> Iterator[tuple[int, Array]]:
    """The rows of a table; of one that is too long, some from all over each share of them."""
    if is_sampled(table):
        length = max(1, MAX_ELEMENTS // (table.width * len(edges) * RUNS))
        shares = [(run + run * GOLDEN % 1) / RUNS for run in range(RUNS)]
        places = [(low + int(share * (high - low)), high) for low, high in pairwise(edges) for share in shares]
        spans = [(start, min(start + length, high)) for start, high in places]
    else:
        length = table.block_rows()
        spans = [(start, min(start + length, table.rows)) for start in range(0, table.rows, length)]
    blocks = results_in_order(lambda span: table.read(*span), spans)
    return zip((start for start, _ in spans), blocks, strict=True)


def fitted_to(values: Floats, rows: int, columns: int, reduce: str = "mean") -> Floats:
    """An array with no more rows and columns than there is room for.

    "mean" averages rows and leaves columns out, "max" keeps the largest magnitude of rows and columns, for rare spikes,
    and "sample" leaves out as many rows as columns, so that a diagonal stays one.
    """
    if reduce == "max":
        return _max_rows(_max_rows(values, rows).T, columns).T
    how = "sample" if reduce == "worst" else reduce
    return reduced(table_of("", values), rows, columns, how) if values.size else values


def _max_rows(values: Floats, count: int) -> Floats:
    """At most `count` rows, each the elements of largest magnitude of those it stands for; NaN stays."""
    if len(values) <= count:
        return values
    starts = np.arange(count) * len(values) // count
    high, low = np.maximum.reduceat(values, starts, axis=0), np.minimum.reduceat(values, starts, axis=0)
    return np.where(high >= -low, high, low)


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
