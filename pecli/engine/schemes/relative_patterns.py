"""Patterns of relative positions: the integer of every query and key.

T5 (Raffel et al., 2020) and DeBERTa (He et al., 2021) put distances into buckets that grow with the
logarithm. Buckets are decided in integers, so that they depend on no library. Swin (Liu et al.,
2021) numbers all offsets of a window.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.errors import ParameterError, spelled

MAX_LENGTH = 1 << 20
"""Queries and keys of the largest matrix."""
_LOG_ERROR = 1e-9
"""Relative error of quotients of logarithms, with much to spare: what is nearer is decided in integers."""


def t5_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """Return T5's bucket of each of the distances 0 … count − 1, of one sign.

    Half of the buckets, called exact, hold one distance each. The others widen with the logarithm of
    the distance, and the last one holds all from about max_distance on.

    With 16 buckets, 8 are exact: 0, 1, …, 7. Bucket 8 begins at 8, bucket 9 at 12:

    >>> t5_buckets(20, 16, 128).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10]
    """
    exact = buckets // 2
    steps = buckets - exact
    # The first distances of buckets 1, 2, …, `exact`, which are the same numbers.
    first_distances = [*range(1, min(exact, count) + 1)]
    for step in range(1, steps):
        first_distances.append(_first_t5_distance(step, steps, exact, max_distance, count))
    # A distance has the number of the last bucket that begins at it or before it.
    return np.searchsorted(first_distances, np.arange(count), side="right")


def _first_t5_distance(step: int, steps: int, exact: int, max_distance: int, count: int) -> int:
    """Return the first distance of T5's bucket exact + step; `count` if it is not below that.

    By T5's rule, it is the first with ln(distance/exact) / ln(max_distance/exact) ≥ step / steps.
    Without logarithms, which have rounding errors, that is (distance/exact)^steps ≥
    (max_distance/exact)^step, or, in integers,

        distance^steps ≥ max_distance^step · exact^(steps − step).

    For exact = 8, 8 steps and max_distance 128, step 1 is at 12: 12^8 ≥ 128 · 8^7, but not 11^8.
    """
    least_power = max_distance**step * exact ** (steps - step)
    # The powers grow with the distance, so that the first one is found by halving the range.
    return bisect_left(range(count), least_power, key=lambda distance: distance**steps)


def deberta_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """Return DeBERTa's buckets of the distances 0 … count − 1, of one sign.

    Distances up to the middle, half of the buckets, have one bucket each. Of the others, bucket
    middle + n ends at the last distance with ln(distance/middle) / ln((max_distance − 1)/middle) ≤
    n / (middle − 1). With 8 buckets the middle is 4, and bucket 4 + 1 ends at the distance 6.

    >>> deberta_buckets(20, 8, 16).tolist()
    [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8]
    """
    middle = buckets // 2
    distances = np.arange(count)
    has_own_bucket = distances <= middle
    log_buckets = _deberta_log_buckets(distances[~has_own_bucket], middle, max_distance - 1)
    return np.concatenate([distances[has_own_bucket], middle + log_buckets]).astype(np.intp)


def _deberta_log_buckets(distances: Indices, middle: int, last_distance: int) -> Floats:
    """Return DeBERTa's buckets of large distances, which widen with the logarithm: 1, 2, …

    The bucket is ln(distance/middle) / ln(last_distance/middle) · (middle − 1), rounded up. With
    middle 4 and last_distance 15, the distance 5 has 0.51, so bucket 1, and 7 has 1.27, bucket 2.

    Args:
        distances: Distances above the middle.
        middle: The number of smaller distances, which have a bucket each.
        last_distance: The distance at which bucket middle − 1 ends.
    """
    log_ratios = np.log(distances / middle) / math.log(last_distance / middle)
    unrounded = log_ratios * (middle - 1)
    buckets = np.ceil(unrounded)
    # Logarithms have rounding errors: 2.0000000001 may be exactly 2, which is bucket 2, or more,
    # which is bucket 3. Integers decide such numbers.
    nearest = np.rint(unrounded)
    error = _LOG_ERROR * np.maximum(1.0, np.abs(unrounded))
    is_near_integer = np.abs(unrounded - nearest) <= error
    for index in np.flatnonzero(is_near_integer).tolist():
        bucket = int(nearest[index])
        if _is_beyond_log_bucket(int(distances[index]), bucket, middle, last_distance):
            bucket += 1
        buckets[index] = bucket
    return buckets


def _is_beyond_log_bucket(distance: int, bucket: int, middle: int, last_distance: int) -> bool:
    """Return True if ln(distance/middle) / ln(last_distance/middle) > bucket / (middle − 1).

    It is computed without logarithms, as (distance/middle)^(middle − 1) > (last_distance/middle)^bucket,
    and in integers, which have no rounding errors.
    """
    steps = middle - 1
    left: int = distance**steps * middle**bucket
    right: int = last_distance**bucket * middle**steps
    return left > right


class RelativePattern(ABC):
    """The integers of a matrix of queries and keys."""

    makes_bias: ClassVar[bool] = True
    """False if a model has no learned number for each integer."""

    @property
    @abstractmethod
    def length(self) -> int:
        """Return the number of queries and keys."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Return how many different integers there are."""

    @abstractmethod
    def check(self) -> None:
        """Raise ParameterError for parameters that do not fit each other."""

    @abstractmethod
    def rows(self, queries: Indices) -> Indices:
        """Return the integers of these queries and all keys."""


@dataclass(frozen=True)
class Buckets(RelativePattern):
    """Buckets of distances, which grow with the logarithm of the distance.

    Attributes:
        seq_len: queries and keys.
        buckets: the number of buckets.
        max_distance: distances from here on share the last bucket.
    """

    seq_len: int
    buckets: int
    max_distance: int

    @property
    def length(self) -> int:
        return self.seq_len

    @property
    def count(self) -> int:
        return self.buckets

    @property
    @abstractmethod
    def exact(self) -> int:
        """Return how many distances of one sign have a bucket for themselves."""

    @property
    def least_distance(self) -> int:
        """Return the distance that max_distance must exceed."""
        return self.exact

    def check(self) -> None:
        """Raise ParameterError unless some distances are left for the logarithmic buckets.

        T5 with 32 buckets for both directions has 16 for each; the distances 0 to 7 have one each,
        and larger ones share the other 8 by their logarithm.
        """
        if self.max_distance <= self.least_distance:
            rule = (
                f"it must be more than the {self.exact} distances "
                f"that {self.buckets} buckets tell apart"
            )
            raise ParameterError("max_distance", spelled(self.max_distance), rule)

    @abstractmethod
    def before(self) -> Indices:
        """Return the integers of keys 0, 1, … positions before their query."""

    @abstractmethod
    def after(self, before: Indices) -> Indices:
        """Return the integers of keys 0, 1, … positions after their query."""

    @cached_property
    def _by_distance(self) -> Indices:
        """Return the integers of keys L − 1 before, …, L − 1 after their query: (2L − 1,)."""
        before = self.before()
        # Both begin with the distance 0, which is there once.
        return np.concatenate([before[::-1], self.after(before)[1:]])

    def rows(self, queries: Indices) -> Indices:
        # The matrix is Toeplitz: every row is a window on one vector.
        windows = np.lib.stride_tricks.sliding_window_view(self._by_distance, self.length)
        return windows[::-1][queries]


class T5Encoder(Buckets):
    """T5's buckets in both directions: keys after the query have the second half of them."""

    @property
    def _one_sign(self) -> int:
        return self.buckets // 2

    @property
    def exact(self) -> int:
        return self._one_sign // 2

    def before(self) -> Indices:
        return t5_buckets(self.length, self._one_sign, self.max_distance)

    def after(self, before: Indices) -> Indices:
        return before + self._one_sign


class T5Decoder(T5Encoder):
    """T5's buckets of the past: all keys after the query share bucket 0."""

    @property
    def _one_sign(self) -> int:
        return self.buckets

    def after(self, before: Indices) -> Indices:
        return np.zeros_like(before)


class Deberta(Buckets):
    """DeBERTa's buckets: keys after the query have negative integers."""

    makes_bias = False

    @property
    def exact(self) -> int:
        return self.buckets // 2

    @property
    def least_distance(self) -> int:
        return self.exact + 1  # DeBERTa takes the logarithm of (max_distance − 1) / exact.

    def before(self) -> Indices:
        return deberta_buckets(self.length, self.buckets, self.max_distance)

    def after(self, before: Indices) -> Indices:
        return -before


@dataclass(frozen=True)
class Window(RelativePattern):
    """Swin's numbers of the offsets between the points of a window.

    In a window of 2 × 2, the offsets (−1, −1), (−1, 0), …, (1, 1) have the numbers 0, 1, …, 8.
    """

    grid: tuple[int, ...]

    @property
    def length(self) -> int:
        return math.prod(self.grid)

    @property
    def count(self) -> int:
        height, width = self.grid
        return (2 * height - 1) * (2 * width - 1)

    def check(self) -> None:
        """Raise ParameterError for a window of three axes, or too large for an index of its points."""
        is_window = len(self.grid) == 2 and self.length <= MAX_LENGTH
        if not is_window:
            rule = f"a window has rows and columns, and at most {MAX_LENGTH:,} points"
            raise ParameterError("grid", spelled(self.grid), rule)

    def rows(self, queries: Indices) -> Indices:
        """Return the number of the offset from every key to each of these queries.

        Points are numbered row by row: in a window of 2 × 2, point 2 is the first one of the second
        row. From key 1 to query 2 the offset is (1, −1), which has the number 6.

        Args:
            queries: The numbers of points (n,).

        Returns:
            The numbers of offsets (n, keys).
        """
        height, width = self.grid
        keys = np.arange(self.length)
        query_row, query_column = np.divmod(queries[:, None], width)  # (n, 1)
        key_row, key_column = np.divmod(keys, width)  # (keys,)
        least_row_offset = -(height - 1)
        least_column_offset = -(width - 1)
        row_offset: Indices = query_row - key_row - least_row_offset
        column_offset: Indices = query_column - key_column - least_column_offset
        columns_of_offsets = 2 * width - 1
        return row_offset * columns_of_offsets + column_offset
