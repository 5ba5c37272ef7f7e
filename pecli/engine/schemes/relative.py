"""Relative positions: integers by which models look up a learned bias for a distance."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, NamedTuple

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
from pecli.engine.schemes.relative_patterns import (
    MAX_LENGTH,
    Deberta,
    RelativePattern,
    T5Decoder,
    T5Encoder,
    Window,
)
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import Table

_BY_DISTANCE = ("seq_len", "buckets", "max_distance")
"""The parameters of styles that put distances into buckets."""


class LearnedBiases(GivenPositions):
    """Learned numbers, a row for each bucket; a spec holds them, so that files can be verified."""

    rule = "they must be numbers of shape (buckets, heads)"


_STYLE = Choice("whose relative positions", options=("t5", "deberta", "swin"))
_SEQ_LEN = Whole("t5, deberta: queries and keys", high=MAX_LENGTH)
_BUCKETS = Whole("t5, deberta: number of buckets (32; 256)", low=4, high=1 << 12)
_MAX_DISTANCE = Whole("t5, deberta: distance of the last bucket (128; 512)", low=2, high=1 << 20)
_CAUSAL = Flag("t5: all keys after the query share a bucket")
_GRID = GridParameter("swin: rows and columns of a window")
_WEIGHTS = LearnedBiases(
    "the learned table (buckets, heads): make the bias that a model adds", omitted_default=None
)


class _RelativeStyle(NamedTuple):
    """A project's relative positions.

    Attributes:
        used: the parameters that it needs; it has none of the others.
        defaults: the buckets of the released models.
        pattern: makes the pattern of a scheme whose parameters are there.
    """

    used: tuple[str, ...]
    defaults: Mapping[str, int]
    pattern: "Callable[[Relative], RelativePattern]"


def _t5(scheme: "Relative") -> RelativePattern:
    pattern = T5Decoder if scheme.causal else T5Encoder
    return pattern(*scheme.sizes)


def _deberta(scheme: "Relative") -> RelativePattern:
    return Deberta(*scheme.sizes)


def _swin(scheme: "Relative") -> RelativePattern:
    return Window(required(scheme.grid))


_STYLES: Mapping[str, _RelativeStyle] = {
    "t5": _RelativeStyle(_BY_DISTANCE, {"buckets": 32, "max_distance": 128}, _t5),
    "deberta": _RelativeStyle(_BY_DISTANCE, {"buckets": 256, "max_distance": 512}, _deberta),
    "swin": _RelativeStyle(("grid",), {}, _swin),
}


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
        self._fill_in_and_check(_STYLES[style].defaults)

    def _check(self) -> None:
        """Raise ParameterError for parameters that are missing, or do not fit each other."""
        self._check_style()
        self.pattern.check()
        check_queries(self.query_rows, self.length)
        if self.weights is None:
            rule = "the index has no heads"
            self._refuse_if(self.head_range, "head_range", rule, "give `weights`, too")
        else:
            self._check_weights(self.weights)
            check_head_range(self._heads, self.weights.shape[-1])

    def _check_style(self) -> None:
        """Raise ParameterError if parameters are missing, or belong to another style.

        T5 needs `seq_len`, `buckets` and `max_distance`, and has no `grid`; Swin needs a grid only.
        """
        required_names = _STYLES[self.style].used
        for name in ("seq_len", "buckets", "max_distance", "grid"):
            is_given = getattr(self, name) is not None
            is_required = name in required_names
            if is_required and not is_given:
                raise self._wrong(name, rule=f"the {self.style} style needs it")
            if is_given and not is_required:
                raise self._wrong(name, f"the {self.style} style has none", advice="leave it out")
        if self.causal and self.style != "t5":
            raise self._wrong("causal", "it belongs to the t5 style", advice="leave it out")

    def _check_weights(self, weights: PositionList) -> None:
        """Raise ParameterError unless there is a row of weights per bucket: (buckets, heads).

        DeBERTa's weights are vectors that are multiplied by queries and keys, not biases.
        """
        rule = f"of the {self.style} style, its embeddings make no bias alone"
        self._refuse_if(not self.pattern.makes_bias, "weights", rule)
        has_row_per_bucket = weights.shape[:-1] == (self.numbers,)
        rule = f"of the {self.style} style, they must be ({self.numbers}, heads)"
        self._refuse_if(not has_row_per_bucket, "weights", rule)

    @property
    def numbers(self) -> int:
        """Return how many different integers there are: the rows of the learned biases."""
        return self.pattern.count

    @property
    def length(self) -> int:
        """Return the number of queries and keys."""
        return self.pattern.length

    @cached_property
    def pattern(self) -> RelativePattern:
        """Return the integers of all queries and keys."""
        return _STYLES[self.style].pattern(self)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Return the length, the number of buckets and the distance of the last one."""
        return required(self.seq_len), required(self.buckets), required(self.max_distance)

    def rows(self, queries: Indices) -> Indices:
        """Return the integers of these queries and all keys."""
        return self.pattern.rows(queries)

    @property
    def query_rows(self) -> int:
        """Return the number of queries in the tables: all, or the last ones."""
        return self.queries or self.length

    @property
    def _heads(self) -> HeadSlice:
        """Return the heads of the bias: all, or those of a shard."""
        return self.head_range or HeadSlice(0, required(self.weights).shape[-1])

    def tensors(self) -> tuple[Table, ...]:
        """Return the index (queries, keys) of buckets, or the bias (heads, queries, keys).

        A bias needs `weights`, one number per bucket and head, which the index picks.
        """
        if self.weights is None:
            index_shape = (self.query_rows, self.length)
            return (Table("index", "int32", index_shape, self._fill_index),)
        all_weights = np.array(self.weights, np.float64)  # (buckets, heads)
        weights = all_weights[:, self._heads.start : self._heads.stop]
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
        first_query = self.length - self.query_rows  # The table may have only the last queries.
        queries = first_query + rows_of_head
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
