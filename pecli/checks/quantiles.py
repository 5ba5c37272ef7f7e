"""Exact quantiles of large tables, without sorting them."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name
from pecli.engine.table import results_in_order

SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)  #: shares of the elements below each quantile
DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""Dtypes whose values float32 cannot hold."""
QUANTILE_ELEMENTS = 1 << 16  #: elements of the sample
MARGIN = 4.0
"""Margin of a bracket in units of √n, for n elements of the sample."""


class Bracket(NamedTuple):
    """Two numbers between which a quantile lies."""

    low: float
    high: float


class Bracketed(NamedTuple):
    """The elements around a bracket: their numbers, and those between its ends.

    Those at its ends are counted and not kept: a table that is padded has millions of zeros. Of 1, 4,
    4, 5, 6, 7, 9 and the bracket from 4 to 7, one is below the low end, three are up to it, 5 and 6
    between, and six are up to the high end.
    """

    below: int
    up_to_low: int
    between: AnyArray
    up_to_high: int


class SliceRanks(NamedTuple):
    """The number of finite elements of a slice, and its elements by bracket."""

    size: int
    brackets: list[Bracketed]


def quantiles(rows: Array, slices: Iterable[Array]) -> dict[str, float] | None:
    """Return the quantiles of the finite elements of a table by share; None if none is finite.

    A quantile is an element, never a mean of two. Sorting a table of 10^9 elements would take
    minutes. Instead, a sorted sample gives two numbers, a bracket, between which each quantile lies
    almost certainly. One pass over the table counts the elements below the bracket, and keeps the few
    inside. If 1000 of 10,000 elements are below, the fourth smallest of those inside has the rank 1003.

    Args:
        rows: The table, with two axes.
        slices: The same table in slices, which are processed one by one in several threads.
    """
    dtype = "f8" if dtype_name(rows.dtype) in DOUBLE else "f4"
    pieces = [*slices]
    brackets = _find_brackets(_sample(rows, dtype))  # one per share
    ranked_slices = _rank_slices(pieces, brackets, dtype)
    count = sum(ranked.size for ranked in ranked_slices)
    if not count:
        return None
    by_share = {}
    for bracket_number, share in enumerate(SHARES):
        rank = int(share * (count - 1))  # the number of smaller elements
        bracketed = _join_slices(ranked_slices, bracket_number)
        quantile = _find_element_of_rank(rank, brackets[bracket_number], bracketed)
        if quantile is None:  # It is outside of the bracket, as the sample was not a fair one.
            quantile = _find_element_by_sorting(rank, pieces, dtype)
        by_share[f"{share:g}"] = quantile
    return by_share


def _rank_slices(
    slices: Sequence[Array], brackets: Sequence[Bracket], dtype: str
) -> list[SliceRanks]:
    """Return, for each slice of a table, its elements below, at and between the ends of each bracket.

    A bracket is two numbers between which a quantile lies. Slices are processed in several threads.
    """

    def rank(piece: Array) -> SliceRanks:
        return _rank_slice(_take_finite(piece, dtype), brackets)

    return [*results_in_order(rank, slices)]


def _join_slices(slices: Sequence[SliceRanks], bracket_number: int) -> Bracketed:
    """Return the elements of all slices around one of the brackets."""
    parts = [ranked.brackets[bracket_number] for ranked in slices]
    below, up_to_low, between, up_to_high = zip(*parts, strict=True)
    return Bracketed(sum(below), sum(up_to_low), np.concatenate(between), sum(up_to_high))


def _find_element_by_sorting(rank: int, pieces: Sequence[Array], dtype: str) -> float:
    """Return the element with `rank` smaller ones in a table, by reading all of it into memory."""
    elements = np.concatenate([_take_finite(piece, dtype) for piece in pieces])
    elements.partition(rank)
    return float(elements[rank])


def _find_element_of_rank(rank: int, bracket: Bracket, bracketed: Bracketed) -> float | None:
    """Return the element of a table at an index, as if all were sorted; None if outside the bracket.

    The sorted elements are those below the bracket, at its low end, between its ends, at its high end,
    and above. With 1002 up to the low end, the first one between has the index 1002.

    Args:
        rank: The index.
        bracket: Two numbers between which the element most likely lies.
        bracketed: The elements between them, and how many are below and up to the ends.
    """
    if not bracketed.below <= rank < bracketed.up_to_high:
        return None
    if rank < bracketed.up_to_low:
        return float(bracket.low)
    index = rank - bracketed.up_to_low
    if index >= len(bracketed.between):
        return float(bracket.high)
    bracketed.between.partition(index)  # It sorts just enough to put this element in its place.
    return float(bracketed.between[index])


def _take_finite(values: Array, dtype: str) -> AnyArray:
    """Return the finite elements of an array as a vector of a dtype."""
    with np.errstate(invalid="ignore", over="ignore"):
        floats = np.asarray(values).astype(dtype, copy=False).reshape(-1)
    return np.asarray(floats[np.isfinite(floats)])


def _sample(rows: Array, dtype: str) -> AnyArray:
    """Return about QUANTILE_ELEMENTS elements of a table, sorted.

    The step is odd, so that it visits all columns of a table with 64 or 128 of them: with a step of
    64, all samples of a table of 64 columns would be of the first one.
    """
    step = rows.size // QUANTILE_ELEMENTS | 1
    return np.sort(_take_finite(rows.reshape(-1)[::step], dtype))


def _find_brackets(sample: AnyArray) -> list[Bracket]:
    """Return, for each quantile of a table, two numbers between which it lies almost certainly.

    Of n random elements, about share · n are below a quantile, give or take √n / 2 at most. The
    margin is 4 · √n on both sides: of 65,536 elements, the median lies between the sorted elements
    32,768 − 1,024 and 32,768 + 1,024. Nothing is known of numbers beyond the sample: a bracket that
    would end there has no limit.

    Args:
        sample: Some elements of the table, sorted.
    """
    # Index 0 is −∞ and the last one ∞, with the sample between them.
    limits = np.concatenate([[-math.inf], sample, [math.inf]])
    count = len(sample)
    margin = int(MARGIN * math.sqrt(count))
    middles = (np.array(SHARES) * count).astype(np.int64)
    lows = limits[np.maximum(middles - margin, 0)]
    highs = limits[np.minimum(middles + margin, count) + 1]
    return [*map(Bracket, lows.tolist(), highs.tolist())]


def _rank_slice(values: AnyArray, brackets: Iterable[Bracket]) -> SliceRanks:
    """Return, for each bracket, how many elements of a slice lie below it, and those inside.

    Of a bracket from 0 to 0, all zeros are at both ends, and none is between them.
    """
    bracketed = []
    for low, high in brackets:
        below = int(np.count_nonzero(values < low))
        up_to_low = int(np.count_nonzero(values <= low))
        between = values[(values > low) & (values < high)]
        up_to_high = int(np.count_nonzero(values <= high))
        bracketed.append(Bracketed(below, up_to_low, between, up_to_high))
    return SliceRanks(len(values), bracketed)
