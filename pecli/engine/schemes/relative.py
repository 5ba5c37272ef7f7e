"""Relative positions: integers by which models look up a learned bias for a distance.

T5 (Raffel et al., 2020) and DeBERTa (He et al., 2021) put distances into buckets that grow with the
logarithm. Buckets are decided in integers, so that they depend on no library. Swin (Liu et al.,
2021) numbers all offsets of a window.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated

import numpy as np

from pecli.engine.application import add_bias
from pecli.engine.arrays import Array, ArrayLike, Floats, Indices, as_dtype
from pecli.engine.named_values import required
from pecli.engine.schemes.aliases import with_aliases
from pecli.engine.schemes.bias_parts import (
    HEAD_RANGE,
    QUERIES,
    HeadSlice,
    check_head_range,
    check_queries,
)
from pecli.engine.schemes.given_positions import (
    GivenPositions,
    GridParameter,
    GridSize,
    PositionList,
)
from pecli.engine.schemes.parameters import Choice, Flag, Whole
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import Table

_MAX_SEQ_LEN = 1 << 20
_DEFAULTS: Mapping[str, Mapping[str, int]] = {
    "t5": {"buckets": 32, "max_distance": 128},
    "deberta": {"buckets": 256, "max_distance": 512},
}
"""The buckets of the released models."""
_LOG_ERROR = 1e-9
"""Relative error of quotients of logarithms, with much to spare: what is nearer is decided in integers."""
_BY_DISTANCE = ("seq_len", "buckets", "max_distance")
"""The parameters of styles that put distances into buckets."""


def t5_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """Return T5's buckets of the distances 0 … count − 1, of one sign.

    Half of the buckets, called exact, hold one distance each. Of the others, bucket n begins at the
    first distance with ln(distance/exact) / ln(max_distance/exact) ≥ n / steps. In integers that is
    distance^steps ≥ max_distance^n · exact^(steps − n).

    With 16 buckets, 8 are exact. Bucket 9 is the next one after the first of the others, n = 1: it
    begins at 12, as 12^8 ≥ 128 · 8^7 and 11^8 is less.

    >>> t5_buckets(20, 16, 128).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10]
    """
    exact = buckets // 2
    steps = buckets - exact
    # The first distance of bucket 1, of bucket 2, …
    starts = [*range(1, min(exact + 1, count + 1))]
    for step in range(1, steps):
        limit = max_distance**step * exact ** (steps - step)
        starts.append(bisect_left(range(count), limit, key=lambda distance: distance**steps))
    return np.searchsorted(starts, np.arange(count), side="right")


def deberta_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """Return DeBERTa's buckets of the distances 0 … count − 1, of one sign.

    Distances up to the middle, half of the buckets, have one bucket each. Of the others, bucket n
    ends at the last distance with ln(distance/middle) / ln((max_distance − 1)/middle) ≤ n / (middle
    − 1). Where logarithms leave that open, it is decided in integers, as for T5.

    >>> deberta_buckets(20, 8, 16).tolist()
    [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8]
    """
    middle = buckets // 2
    last_distance = max_distance - 1
    distances = np.arange(count)
    logs = np.log(np.maximum(distances, 1) / middle)
    steps = logs / math.log(last_distance / middle) * (middle - 1)
    nearest_steps = np.rint(steps)
    is_open = np.abs(steps - nearest_steps) <= _LOG_ERROR * np.maximum(1.0, np.abs(steps))
    rounded_up = np.ceil(steps)
    for distance in np.flatnonzero(is_open & (distances > middle)).tolist():
        step = int(nearest_steps[distance])
        is_beyond = _is_beyond_step(distance, step, middle, last_distance)
        rounded_up[distance] = step + is_beyond
    return np.where(distances <= middle, distances, middle + rounded_up).astype(np.intp)


def _is_beyond_step(distance: int, step: int, middle: int, last_distance: int) -> bool:
    """Return True if ln(distance/middle) / ln(last_distance/middle) > step / (middle − 1)."""
    steps = middle - 1
    # Both sides without logarithms: (distance/middle)^steps > (last_distance/middle)^step.
    left: int = distance**steps * middle**step
    right: int = last_distance**step * middle**steps
    return left > right


class LearnedBiases(GivenPositions):
    """Learned numbers, a row for each bucket; a spec holds them, so that files can be verified."""

    rule = "they must be numbers of shape (buckets, heads)"


_STYLE = Choice("whose relative positions", options=("t5", "deberta", "swin"))
_SEQ_LEN = Whole("t5, deberta: queries and keys", high=_MAX_SEQ_LEN)
_BUCKETS = Whole("t5, deberta: number of buckets (32; 256)", low=4, high=1 << 12)
_MAX_DISTANCE = Whole("t5, deberta: distance of the last bucket (128; 512)", low=2, high=1 << 20)
_CAUSAL = Flag("t5: all keys after the query share a bucket")
_GRID = GridParameter("swin: rows and columns of a window")
_WEIGHTS = LearnedBiases(
    "the learned table (buckets, heads): make the bias that a model adds", omitted_default=None
)


@with_aliases
@dataclass(frozen=True, repr=False)
class Relative(Scheme):
    """Relative positions as integers, one row per query and one column per key.

    The tensor is `index` (seq_len, seq_len), or with weights `bias` (heads, seq_len, seq_len).

    Args:
        style: t5, deberta or swin.
        seq_len: t5, deberta: queries and keys.
        buckets: t5, deberta: number of buckets, 32 or 256 by default.
        max_distance: t5, deberta: distances from here on share the last bucket, 128 or 512 by
            default.
        causal: t5: all keys after the query share a bucket, as in T5's decoder.
        grid: swin: rows and columns of a window.
        weights: the learned table (buckets, heads), from which the bias is looked up.
        head_range: with weights, only the heads A … B − 1, as one tensor-parallel shard has them:
            (A, B), or "A:B".
        queries: only the last so many queries, as in decoding.
        dtype: type of the numbers in the bias: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter, or does not belong to the style.

    >>> Relative("t5", 4, buckets=8, max_distance=16).tables()["index"].tolist()
    [[0, 5, 6, 6], [1, 0, 5, 6], [2, 1, 0, 5], [2, 2, 1, 0]]
    """

    name = "relative"
    applied_as = "relative"

    style: Annotated[str, _STYLE]
    seq_len: Annotated[int | None, _SEQ_LEN] = None
    buckets: Annotated[int | None, _BUCKETS] = None
    max_distance: Annotated[int | None, _MAX_DISTANCE] = None
    causal: Annotated[bool, _CAUSAL] = False
    grid: Annotated[GridSize | None, _GRID] = None
    weights: Annotated[PositionList | None, _WEIGHTS] = None
    head_range: Annotated[HeadSlice | None, HEAD_RANGE] = None
    queries: Annotated[int | None, QUERIES] = None

    def __post_init__(self) -> None:
        style = self.parameters()["style"].check("style", self.style)
        self._complete(_DEFAULTS.get(style, {}))

    def _check(self) -> None:
        """Raise ParameterError for parameters that are missing, or do not fit each other."""
        self._check_style()
        if self.grid is None:
            self._check_buckets(required(self.buckets), required(self.max_distance))
        else:
            self._check_window(self.grid)
        check_queries(self.queries, self.length)
        if self.weights is None:
            rule = "the index has no heads"
            self._refuse_if(self.head_range, "head_range", rule, "give `weights`, too")
        else:
            self._check_weights(self.weights)
            check_head_range(self.head_range, self.weights.shape[-1])

    def _check_window(self, grid: GridSize) -> None:
        """Raise ParameterError for a window of three axes, or too large for an index of its points."""
        is_window = len(grid) == 2 and self.length <= _MAX_SEQ_LEN
        rule = f"a window has rows and columns, and at most {_MAX_SEQ_LEN:,} points"
        self._refuse_if(not is_window, "grid", rule)

    def _check_style(self) -> None:
        """Raise ParameterError if parameters are missing, or belong to another style."""
        used = ("grid",) if self.style == "swin" else _BY_DISTANCE
        for name in (*_BY_DISTANCE, "grid"):
            is_given = getattr(self, name) is not None
            if name in used:
                self._refuse_if(not is_given, name, f"the {self.style} style needs it")
            else:
                rule = f"the {self.style} style has none"
                self._refuse_if(is_given, name, rule, "leave it out")
        is_misplaced = self.causal and self.style != "t5"
        self._refuse_if(is_misplaced, "causal", "it belongs to the t5 style", "leave it out")

    def _check_buckets(self, buckets: int, max_distance: int) -> None:
        """Raise ParameterError unless some distances are left for the logarithmic buckets.

        T5 with 32 buckets for both directions has 16 for each; the distances 0 to 7 have one each,
        and larger ones share the other 8 by their logarithm.
        """
        if self.style == "deberta":
            exact = buckets // 2
            least = exact + 1  # DeBERTa takes the logarithm of (max_distance − 1) / exact.
        else:
            one_sign = buckets if self.causal else buckets // 2
            exact = one_sign // 2
            least = exact
        rule = f"it must be more than the {exact} distances that {buckets} buckets tell apart"
        self._refuse_if(max_distance <= least, "max_distance", rule)

    def _check_weights(self, weights: PositionList) -> None:
        """Raise ParameterError unless there is a row of weights per bucket."""
        if self.style == "deberta":
            rule = "of the deberta style, its embeddings make no bias alone"
            raise self._wrong("weights", rule)
        if weights.shape[:-1] != (self.numbers,):
            rule = f"of the {self.style} style, they must be ({self.numbers}, heads)"
            raise self._wrong("weights", rule)

    @property
    def numbers(self) -> int:
        """Return how many different integers there are: the rows of the learned biases."""
        if self.grid is None:
            return required(self.buckets)
        height, width = self.grid
        return (2 * height - 1) * (2 * width - 1)

    @property
    def length(self) -> int:
        """Return the number of queries and keys."""
        if self.grid is not None:
            height, width, *_ = self.grid
            return height * width
        return required(self.seq_len)

    def rows(self, queries: Indices) -> Indices:
        """Return the integers of these queries and all keys."""
        if self.grid is not None:
            return self._offsets_of_window(self.grid, queries)
        # The matrix is Toeplitz: every row is a window on one vector.
        windows = np.lib.stride_tricks.sliding_window_view(self._by_distance, self.length)
        return windows[::-1][queries]

    def _offsets_of_window(self, grid: GridSize, queries: Indices) -> Indices:
        """Return Swin's numbers of the offsets between queries and keys: (queries, keys).

        In a window of 2 × 2, the offsets (−1, −1), (−1, 0), …, (1, 1) have the numbers 0, 1, …, 8.
        """
        height, width = grid
        keys = np.arange(self.length)
        queries = queries[:, None]
        down = queries // width - keys // width  # −(height − 1) … height − 1
        across = queries % width - keys % width  # −(width − 1) … width − 1
        offsets_across = 2 * width - 1
        return (down + height - 1) * offsets_across + across + width - 1

    @cached_property
    def _by_distance(self) -> Indices:
        """Return the integers of keys L − 1 before, …, L − 1 after their query: (2L − 1,).

        Keys after the query have negative integers in DeBERTa, share bucket 0 in T5's decoder, and
        have the second half of the buckets in T5's encoder.
        """
        buckets = required(self.buckets)
        max_distance = required(self.max_distance)
        if self.style == "deberta":
            before = deberta_buckets(self.length, buckets, max_distance)
            after = -before
        elif self.causal:
            before = t5_buckets(self.length, buckets, max_distance)
            after = np.zeros_like(before)
        else:
            half = buckets // 2
            before = t5_buckets(self.length, half, max_distance)
            after = before + half
        # Both begin with the distance 0, which is there once.
        return np.concatenate([before[::-1], after[1:]])

    @property
    def query_rows(self) -> int:
        """Return the number of queries in the tables: all, or the last ones."""
        return self.queries or self.length

    def tensors(self) -> tuple[Table, ...]:
        """Return the index (queries, keys) of buckets, or the bias (heads, queries, keys).

        A bias needs `weights`, one number per bucket and head, which the index picks.
        """
        if self.weights is None:
            index_shape = (self.query_rows, self.length)
            return (Table("index", "int32", index_shape, self._fill_index),)
        weights = np.array(self.weights, np.float64)  # (buckets, heads)
        if self.head_range is not None:
            weights = weights[:, self.head_range.start : self.head_range.stop]
        _, heads = weights.shape
        bias_shape = (heads, self.query_rows, self.length)
        return (Table("bias", self.dtype, bias_shape, partial(self._fill_bias, weights)),)

    def _fill_index(self, start: int, out: Array) -> None:
        """Write the buckets of the queries start, start + 1, … of the table into `out`."""
        first_query = self.length - self.query_rows + start
        out[...] = self.rows(np.arange(first_query, first_query + len(out)))

    def _fill_bias(self, weights: Floats, start: int, out: Array) -> None:
        """Write rows of the bias, whose rows are the queries of head 0, then of head 1, …"""
        heads, rows_of_head = np.divmod(np.arange(start, start + len(out)), self.query_rows)
        queries = self.length - self.query_rows + rows_of_head
        buckets = self.rows(queries)  # (rows, keys)
        out[...] = as_dtype(weights[buckets, heads[:, None]], self.dtype)

    def axes_of(self, tensor: str) -> Axes:
        if tensor == "index":
            return Axes(("query", "key"), value="bucket")
        return Axes(("head", "query", "key"), value="bias")

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def applied_to(self, x: ArrayLike) -> Array:
        """Return scores (…, H, L, L) plus the bias."""
        rule = "what is added to scores is looked up in them"
        self._refuse_if(self.weights is None, "weights", rule)
        whole = replace(self, queries=None, dtype="float64")
        return add_bias(x, whole.single_array())
