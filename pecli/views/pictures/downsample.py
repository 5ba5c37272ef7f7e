"""Tables of any size as small arrays. Rows, along which a table is a wave, are averaged: that is what an eye sees from
afar. Columns (a sine beside a cosine, say) are kept or left out: a mean of them is a channel that does not exist."""

import numpy as np

from pecli.engine.arrays import Floats, widened
from pecli.engine.table import Table, results_in_order, table_of

MAX_ELEMENTS = (
    1 << 20
)  #: Elements that one line of a picture is the mean of; of more, those of some runs of rows
RUNS, GOLDEN = 32, (5**0.5 - 1) / 2
"""Multiples of the golden section modulo 1 are neither equally spaced nor random, so that no wave is read in step."""


def reduced(table: Table, rows: int, columns: int, reduce: str = "mean") -> Floats:
    """At most `rows` means of rows, of at most `columns` columns; of a "sample", every n-th of both; inf stays."""
    step = stride(table.width, columns)
    if reduce in ("sample", "worst"):
        step = max(step, stride(table.rows, rows))
        return widened(table.pick(np.arange(0, table.rows, step))[:, ::step])
    count = min(table.rows, rows)
    edges = np.arange(count + 1) * table.rows // count
    together = max(1, table.block_rows() * count // table.rows)  # means whose rows are read at once

    @np.errstate(over="ignore", invalid="ignore")
    def means(first: int) -> Floats:
        own = edges[first : first + together + 1]
        length = int(own[1] - own[0])
        if together == 1 and length > RUNS and length * table.width > MAX_ELEMENTS:
            places = own[0] + length * (np.arange(RUNS) + np.arange(RUNS) * GOLDEN % 1) / RUNS
            run = max(1, MAX_ELEMENTS // (RUNS * table.width))
            spans = [
                (place, min(place + run, int(own[1]))) for place in places.astype(int).tolist()
            ]
            values = np.stack(
                [widened(table.read(*span)[:, ::step]).mean(axis=0) for span in spans]
            )
            return np.asarray(values.mean(axis=0, keepdims=True))
        values = widened(table.read(int(own[0]), int(own[-1]))[:, ::step])
        return np.asarray(
            np.add.reduceat(values, own[:-1] - own[0], axis=0) / np.diff(own)[:, None]
        )

    return np.concatenate(list(results_in_order(means, range(0, count, together))))


def stride(count: int, room: int) -> int:
    """Every how many of `count` things are kept, so that no more than `room` are."""
    return max(1, -(-count // max(1, room)))


def fitted_to(values: Floats, rows: int, columns: int, reduce: str = "mean") -> Floats:
    """An array with no more rows and columns than there is room for: "mean" averages rows and leaves columns out, "max"
    keeps the largest magnitudes, for rare spikes, "sample" leaves out as many rows as columns: a diagonal stays one."""
    if reduce == "max":
        return _max_rows(_max_rows(values, rows).T, columns).T
    return reduced(table_of("", values), rows, columns, reduce) if values.size else values


def _max_rows(values: Floats, count: int) -> Floats:
    """At most `count` rows, each the elements of largest magnitude of those it stands for; NaN stays."""
    if len(values) <= count:
        return values
    starts = np.arange(count) * len(values) // count
    high, low = (
        np.maximum.reduceat(values, starts, axis=0),
        np.minimum.reduceat(values, starts, axis=0),
    )
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
