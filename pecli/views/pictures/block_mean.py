"""Making arrays smaller for the eye: every new element is the mean of all it stands for, or the largest of them."""

from __future__ import annotations

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices


def shrink(values: Floats, rows: int, columns: int, reduce: str = "mean") -> Floats:
    """At most rows × columns of an array; "max" keeps the largest magnitude instead of the mean, for rare spikes.

    What is NaN anywhere stays NaN; infinities count only where there is nothing else.
    """
    return shrink_rows(shrink_rows(values, rows, reduce).T, columns, reduce).T


def shrink_rows(values: Floats, count: int, reduce: str = "mean") -> Floats:
    """At most `count` rows, of equal height; one that is cut between two counts for both, by its parts."""
    length = len(values)
    if length <= count:
        return values
    starts = np.arange(count) * length // count
    if reduce == "max":
        return largest(values, starts)
    finite = np.isfinite(values)
    if finite.all():
        return _means(values, count)
    weights = _means(finite.astype(np.float64), count)
    with np.errstate(invalid="ignore", divide="ignore"):
        result = _means(np.where(finite, values, 0.0), count) / weights
    return _marked(result, weights == 0, values, starts)


def largest(values: Floats, starts: Indices) -> Floats:
    """Of the rows from each start to the next, the element of largest magnitude; NaN stays."""
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
