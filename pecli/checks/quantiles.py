"""Exact quantiles of large tables, without sorting them."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name
from pecli.engine.table import results_in_order

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)  #: shares of the elements below each quantile
DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""Dtypes whose values float32 cannot hold."""
SAMPLED = 1 << 16  #: elements of the sample
SIGMAS = 4.0
"""Standard deviations of a rank in the sample: 0.006 % of random samples miss a quantile."""


class Bracket(NamedTuple):
    """Two numbers between which a quantile lies."""

    low: float
    high: float


class Bracketed(NamedTuple):
    """The number of elements of a slice below a bracket, and the elements inside it."""

    below: int
    inside: AnyArray


class SliceRanks(NamedTuple):
    """The number of finite elements of a slice, and its elements by bracket."""

    size: int
    brackets: list[Bracketed]


def quantiles(rows: Array, slices: Iterable[Array]) -> dict[str, float] | None:
    """Return the quantiles of the finite elements of a table by share; None if none is finite.

    A quantile is an element, never a mean of two. A sample gives two numbers between which each
    lies; the few elements between them are put in order, and all others are only counted.

    Args:
        rows: The table, with two axes.
        slices: The same table in slices, which are processed one by one in several threads.
    """
    dtype = "f8" if dtype_name(rows.dtype) in DOUBLE else "f4"
    brackets = _brackets(_sample(rows, dtype), dtype)
    pieces = [*slices]

    def ranks_of(piece: Array) -> SliceRanks:
        return _rank_slice(_finite(piece, dtype), brackets)

    ranked = [*results_in_order(ranks_of, pieces)]
    count = sum(piece.size for piece in ranked)
    if not count:
        return None
    found = {}
    for number, share in enumerate(SHARES):
        rank = int(share * (count - 1))
        parts = [piece.brackets[number] for piece in ranked]
        place = rank - sum(part.below for part in parts)
        candidates = np.concatenate([part.inside for part in parts])
        if not 0 <= place < len(candidates):
            # The sample was not a fair one: the quantile is outside of its bracket.
            candidates = np.concatenate([_finite(piece, dtype) for piece in pieces])
            place = rank
        candidates.partition(place)
        found[f"{share:g}"] = float(candidates[place])
    return found


def _finite(values: Array, dtype: str) -> AnyArray:
    with np.errstate(invalid="ignore", over="ignore"):
        floats = np.asarray(values).astype(dtype, copy=False).reshape(-1)
        if np.isfinite(floats.sum()):
            return np.asarray(floats)
        return np.asarray(floats[np.isfinite(floats)])


def _sample(rows: Array, dtype: str) -> AnyArray:
    """Return some elements in order. An odd step comes by every column of an even number."""
    step = rows.size // SAMPLED | 1
    return np.sort(_finite(rows.reshape(-1)[::step], dtype))


def _brackets(sample: AnyArray, dtype: str) -> list[Bracket]:
    """Return brackets that are wide enough for the error of a rank in the sample."""
    count = len(sample)
    margin = int(SIGMAS * math.sqrt(count))
    limits = np.concatenate([[-np.inf], sample, [np.inf]]).astype(dtype)
    brackets = []
    for share in SHARES:
        middle = int(share * count)
        low = limits[max(0, middle - margin)]
        high = limits[min(count, middle + margin) + 1]
        brackets.append(Bracket(low, high))
    return brackets


def _rank_slice(values: AnyArray, brackets: Iterable[Bracket]) -> SliceRanks:
    bracketed = []
    for low, high in brackets:
        below = int(np.count_nonzero(values < low))
        inside = values[(values >= low) & (values <= high)]
        bracketed.append(Bracketed(below, inside))
    return SliceRanks(len(values), bracketed)
