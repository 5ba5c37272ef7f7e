"""Reduce tables of any size to as many cells as a picture has room for.

Along its rows a table is a wave, and rows are averaged: that is what an eye sees from afar. Columns
are kept or left out: the mean of a sine and the cosine beside it is a channel that does not exist.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices, widened
from pecli.engine.table import Table, results_in_order, table_of

MAX_ELEMENTS = 1 << 20  #: Elements that are read for one mean; of more, only some runs of rows are.
RUNS = 32  #: Runs of rows that stand for all rows of a mean that would take too long to read.
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Its multiples modulo 1 fill the range from 0 to 1 evenly, and never repeat: 0, 0.62, 0.24, 0.85, …"""


class Reduction(Enum):
    """The rule by which a matrix is drawn with fewer rows and columns than it has."""

    MEAN = "mean"  #: Rows are averaged, columns are left out.
    SAMPLE = "sample"  #: As many rows as columns are left out: a diagonal stays a diagonal.
    MAX = "max"  #: The largest magnitude stands for its neighbours, so that a spike is not lost.
    WORST = "worst"  #: The element with the largest error stands for its neighbours.


def reduced(table: Table, rows: int, columns: int, reduction: Reduction = Reduction.MEAN) -> Floats:
    """Return a table in at most `rows` rows and `columns` columns.

    Of 1,000 rows in 100, each is the mean of ten; if the table is sampled, it is every tenth row. Of
    the columns, every n-th is kept in any case.
    """
    column_step = stride(table.width, columns)
    if reduction is Reduction.MEAN:
        return _row_means(table, rows, column_step)
    step = max(column_step, stride(table.rows, rows))
    kept_rows = np.arange(0, table.rows, step)
    return widened(table.pick(kept_rows)[:, ::step])


def _row_means(table: Table, rows: int, column_step: int) -> Floats:
    """Return a table with fewer rows: each is the mean of consecutive rows of the table.

    10 rows in 4 are the means of rows 0–1, 2–4, 5–6 and 7–9: their edges are 0, 2, 5, 7, 10. The
    table is read in blocks, each as long as the rows of several means, and the blocks are worked
    through in threads.

    Args:
        table: The table.
        rows: The most rows of the result.
        column_step: Of the columns, every n-th is kept.
    """
    mean_count = min(table.rows, rows)
    edges = np.arange(mean_count + 1) * table.rows // mean_count
    means_per_block = max(1, table.block_rows() * mean_count // table.rows)
    blocks = _Blocks(table, edges, means_per_block, column_step)
    first_mean_by_block = range(0, mean_count, means_per_block)
    means = results_in_order(blocks.means_from, first_mean_by_block)
    return np.concatenate(list(means))


class _Blocks(NamedTuple):
    """A table in blocks of rows, each of which gives some rows of means."""

    table: Table
    edges: Indices  #: The first row of each mean, and the number of all rows.
    means_per_block: int
    column_step: int

    @np.errstate(over="ignore", invalid="ignore")
    def means_from(self, first: int) -> Floats:
        """Return the means of one block, whose first one is number `first`."""
        block_edges = self.edges[first : first + self.means_per_block + 1]
        if self.means_per_block == 1 and _is_too_long(self.table, block_edges):
            start, stop = block_edges.tolist()
            return _mean_of_runs(self.table, start, stop, self.column_step)
        return _means_between(self.table, block_edges, self.column_step)


def _is_too_long(table: Table, edges: Indices) -> bool:
    """Return True if there are too many rows between two edges to read them all."""
    length = int(edges[1] - edges[0])
    return length > RUNS and length * table.width > MAX_ELEMENTS


def _means_between(table: Table, edges: Indices, column_step: int) -> Floats:
    """Return a row per pair of neighbouring edges: the mean of the table's rows between them."""
    values = widened(table.read(int(edges[0]), int(edges[-1]))[:, ::column_step])
    sums = np.add.reduceat(values, edges[:-1] - edges[0], axis=0)
    return np.asarray(sums / np.diff(edges)[:, None])


def _mean_of_runs(table: Table, start: int, stop: int, column_step: int) -> Floats:
    """Return one row: about the mean of the rows from `start` to `stop`, which are too many to read.

    The rows are divided into `RUNS` equal parts. Of each part, a short run of rows is read.
    """
    parts = np.arange(RUNS)
    # If each run were at the beginning of its part, a wave as long as a part would seem constant.
    # The multiples of the golden ratio put them at other places: after 0, 0.62, 0.24, … of a part.
    share_before_run = parts * GOLDEN_RATIO % 1
    run_starts = start + (stop - start) * (parts + share_before_run) / RUNS
    run_length = max(1, MAX_ELEMENTS // (RUNS * table.width))
    means = []
    for run_start in run_starts.astype(int).tolist():
        run_stop = min(run_start + run_length, stop)
        values = widened(table.read(run_start, run_stop)[:, ::column_step])
        means.append(values.mean(axis=0))
    return np.asarray(np.stack(means).mean(axis=0, keepdims=True))


def stride(count: int, room: int) -> int:
    """Return n, so that every n-th of `count` things fits into `room` places.

    >>> stride(7, 3)
    3
    """
    return max(1, -(-count // max(1, room)))


def evenly_spaced(count: int, max_count: int) -> list[int]:
    """Return at most `max_count` indices below `count`, the first and the last included.

    >>> evenly_spaced(64, 7), evenly_spaced(3, 7)
    ([0, 10, 21, 32, 42, 52, 63], [0, 1, 2])
    """
    chosen_count = min(count, max_count)
    last = count - 1
    spaces = max(1, chosen_count - 1)  # 4 indices have 3 spaces between them.
    return [round(number * last / spaces) for number in range(chosen_count)]


def fitted_to(
    values: Floats, rows: int, columns: int, reduction: Reduction = Reduction.MEAN
) -> Floats:
    """Return an array in no more rows and columns than there is room for."""
    if reduction is Reduction.MAX:
        fewer_rows = _max_rows(values, rows)
        return _max_rows(fewer_rows.T, columns).T
    if not values.size:
        return values
    return reduced(table_of("", values), rows, columns, reduction)


def _max_rows(values: Floats, count: int) -> Floats:
    """Return at most `count` rows of the elements of largest magnitude; NaN stays."""
    if len(values) <= count:
        return values
    starts = np.arange(count) * len(values) // count
    highest = np.maximum.reduceat(values, starts, axis=0)
    lowest = np.minimum.reduceat(values, starts, axis=0)
    return np.where(highest >= -lowest, highest, lowest)


def envelope(x: Floats, y: Floats, max_pieces: int) -> tuple[Floats, Floats]:
    """Return the x and y of a curve with fewer points: the lowest and highest of each of `max_pieces` pieces.

    No spike is lost. A short curve is returned as it is. Of two pieces, 0 5 1 and 9 8 7, the points
    are 0 5 and 9 7: where the curve falls, the highest comes first, or a smooth curve would be a saw.
    """
    if len(x) <= 2 * max_pieces:
        return x, y
    starts = np.arange(max_pieces) * len(x) // max_pieces
    ends = np.append(starts[1:], len(x)) - 1
    lowest = np.fmin.reduceat(y, starts)
    highest = np.fmax.reduceat(y, starts)
    is_falling = y[ends] < y[starts]
    first = np.where(is_falling, highest, lowest)
    second = np.where(is_falling, lowest, highest)
    fewer_x = np.stack([x[starts], x[ends]], axis=1)  # (pieces, 2)
    fewer_y = np.stack([first, second], axis=1)
    return fewer_x.ravel(), fewer_y.ravel()
