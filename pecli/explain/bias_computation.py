"""The computation of ALiBi's biases: a slope per head, times a distance per query and key, and a mask."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.schemes.alibi import Alibi
from pecli.explain.computation import FREQUENCY_RTOL, HALF_UNIT, Computation

MASKED = -1e4
"""Values at or below this are a mask: no slope times a distance in use is as negative."""

MASK_VALUES = tuple(
    float(value) for value in (-np.inf, np.finfo(np.float32).min, -3.3895313892515355e38, -65504.0)
)
"""Masks that every check accepts: minus infinity, and the most negative float32, bfloat16 and
float16 numbers.
"""


def is_unmasked(values: Floats) -> Flags:
    """Return which biases are not a mask; NaN counts as one.

    >>> is_unmasked(np.array([-9999.0, -10000.0, np.nan])).tolist()
    [True, False, False]
    """
    return np.asarray(values > MASKED)


class Multiples(NamedTuple):
    """The factors of slopes (queries, keys), and the masked elements."""

    values: Floats
    masked: Flags


def multiples_of(form: str, queries: int, keys: int) -> Multiples:
    """Return the distance of every query and key, by which ALiBi multiplies the slope of a head.

    Of three queries and keys, the causal form has the rows [0 · ·], [−1 0 ·] and [−2 −1 0], masked
    at the dots, and the symmetric form [0 −1 −2], [−1 0 −1] and [−2 −1 0]. The forms «key» and
    «key-last» have one row for all queries: [0 1 2] and [−2 −1 0]. With a cache there are fewer
    queries than keys: these are the last ones.

    Args:
        form: «causal», «symmetric», «key» or «key-last».
        queries: The number of queries; the forms of one row do without it.
        keys: The number of keys.
    """
    nothing_in_one_row = np.zeros((1, keys), bool)
    if form == "key":
        one_row = np.arange(keys, dtype=np.float64)[None]
        return Multiples(values=one_row, masked=nothing_in_one_row)
    if form == "key-last":
        return Multiples(values=distances(1, keys), masked=nothing_in_one_row)
    distance = distances(queries, keys)
    if form == "causal":
        return Multiples(values=np.minimum(distance, 0.0), masked=distance > 0)
    return Multiples(values=-np.abs(distance), masked=np.zeros(distance.shape, bool))


def distances(queries: int, keys: int) -> Floats:
    """Return how far each key is from each query (queries, keys), negative for keys before it.

    With a cache there are fewer queries than keys: these are the last ones.

    >>> distances(2, 3).tolist()
    [[-1.0, 0.0, 1.0], [-2.0, -1.0, 0.0]]
    """
    query = np.arange(keys - queries, keys)[:, None]
    return np.arange(keys, dtype=np.float64) - query


@dataclass(frozen=True, eq=False)
class BiasComputation(Computation):
    """A bias of all heads: one row per head and query, one column per key. Slopes alone have one
    column.
    """

    slopes: Floats
    multiples: Floats  # (queries, keys)
    masked: Flags  # (queries, keys)
    mask: float = -np.inf

    @classmethod
    def of(cls, scheme: Alibi, tensor: str) -> "BiasComputation":
        slopes = np.array(scheme.slope_values())
        if tensor == "slopes":
            return cls(slopes, np.ones((1, 1)), np.zeros((1, 1), bool))
        assert scheme.seq_len is not None  # A bias has keys.
        return cls(slopes, *multiples_of(scheme.form, scheme.query_rows, scheme.seq_len))

    @property
    def queries(self) -> int:
        return len(self.multiples)

    @property
    def rows(self) -> int:
        return len(self.slopes) * self.queries

    def rendered(self, rows: Indices) -> Floats:
        """Return slope · distance of each row and key, and the mask; row 5 of 4 queries is head 1, query 1."""
        head, query = np.divmod(rows, self.queries)
        slopes = self.slopes[head][:, None]
        return np.where(self.masked[query], self.mask, slopes * self.multiples[query])

    def bound(self, rows: Indices) -> Floats:
        """Return how far each bias may be off if another program computes the slopes in float32.

        BLOOM raises a rounded base to powers up to the number of heads, 16 for slopes 2^(−1/2),
        2^−1, …, so that its slopes are off by 16 roundings.
        """
        sizes = np.abs(self.rendered(rows))
        is_vector_of_slopes = self.multiples.size == 1
        relative_error = FREQUENCY_RTOL if is_vector_of_slopes else 16 * HALF_UNIT
        return np.where(np.isfinite(sizes), relative_error * sizes, 0.0)

    def by_head(self, flags: Flags) -> Flags:
        return flags.reshape(len(self.slopes), self.queries, -1)

    def from_heads(self, flags: Flags) -> Flags:
        return flags.reshape(self.rows, -1)

    def head_index(self, head: int) -> tuple[int, ...]:
        return (head,) if len(self.slopes) > 1 else ()

    def measured_slopes(self, matrix: Floats) -> Floats:
        """Return the slope of each head that comes nearest to a bias, by least squares.

        Distances of 0 and masked elements show no slope. If those of the others are −1 and −2, and
        the biases of a head −0.5 and −1, its slope is (0.5 + 2) / (1 + 4) = 0.5.

        Args:
            matrix: The bias (heads · queries, keys).
        """
        biases = matrix.reshape(len(self.slopes), self.queries, -1)  # (heads, queries, keys)
        shows_slope = ~self.masked & (self.multiples != 0)
        if not shows_slope.any():
            return np.zeros(len(self.slopes))
        distance = self.multiples[shows_slope]
        with np.errstate(all="ignore"):  # The file may hold anything.
            products = (biases[:, shows_slope] * distance).sum(axis=1)
            return np.asarray(products / (distance**2).sum())


def without_masks(matrix: Floats) -> Floats:
    """Return data in which every usual mask is minus infinity."""
    return np.where(np.isin(matrix, MASK_VALUES), -np.inf, matrix)
