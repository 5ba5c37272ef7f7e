"""Relative positions: integers that say how far a key is from a query, by which models look up learned biases.

T5 (Raffel et al., 2020) and DeBERTa (He et al., 2021) put distances into buckets that grow with the logarithm, which
is decided in integers and so depends on no library; Swin (Liu et al., 2021) numbers all offsets of a window.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np

from pecli.engine.application import add_bias
from pecli.engine.arrays import Array, ArrayLike, Indices, as_dtype
from pecli.engine.schemes import Choice, Flag, Whole, with_aliases
from pecli.engine.schemes.given_positions import (
    GivenPositions,
    GridParameter,
    GridSize,
    PositionList,
)
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import Table

_MAX_SEQ_LEN = 1 << 20
_BUCKETS = {
    "t5": {"buckets": 32, "max_distance": 128},
    "deberta": {"buckets": 256, "max_distance": 512},
}
"""What counts where it is not given."""
_LOG = ("seq_len", "buckets", "max_distance")
_MAX_DISTANCE = Whole("t5, deberta: distance of the last bucket (128; 512)", low=2, high=1 << 20)


def t5_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """The buckets of the distances 0 … count − 1, of one sign: half of them are exact, n of the others begins where
    ln(distance/exact) / ln(max_distance/exact) = n / (buckets − exact).

    >>> t5_buckets(20, 16, 128).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10]
    """
    exact = buckets // 2
    steps = buckets - exact

    def begins(step: int) -> int:
        return bisect_left(
            range(count), max_distance**step * exact ** (steps - step), key=lambda far: far**steps
        )

    starts = [*range(1, min(exact + 1, count + 1)), *(begins(step) for step in range(1, steps))]
    return np.searchsorted(starts, np.arange(count), side="right")


def deberta_buckets(count: int, buckets: int, max_distance: int) -> Indices:
    """Those of DeBERTa: the first half is exact, its last included, and n of the others ends where
    ln(distance/middle) / ln((max_distance − 1)/middle) = n / (middle − 1).

    >>> deberta_buckets(20, 8, 16).tolist()
    [0, 1, 2, 3, 4, 5, 5, 6, 6, 6, 7, 7, 7, 7, 7, 7, 8, 8, 8, 8]
    """
    middle = buckets // 2

    def ends(step: int) -> int:
        limit = (max_distance - 1) ** step * middle ** (middle - 1)
        return bisect_right(range(count), limit, key=lambda far: far ** (middle - 1) * middle**step)

    starts = [*range(1, middle + 2)]
    while starts[-1] < count:
        starts.append(ends(len(starts) - middle))
    return np.searchsorted(starts, np.arange(count), side="right")


class Weights(GivenPositions):
    """Learned numbers, a row for each bucket; a spec holds them all, so that files can be verified by themselves."""

    rule = "they must be numbers of shape (buckets, heads)"


_WEIGHTS = Weights(
    "the learned table (buckets, heads): make the bias that a model adds", omitted_default=None
)


@with_aliases
@dataclass(frozen=True, repr=False)
class Relative(Scheme):
    """Relative positions as integers, a row for each query and a column for each key.

    >>> Relative("t5", 4, buckets=8, max_distance=16).tables()["index"].tolist()
    [[0, 5, 6, 6], [1, 0, 5, 6], [2, 1, 0, 5], [2, 2, 1, 0]]
    """

    name = "relative"

    style: Annotated[str, Choice("whose relative positions", options=("t5", "deberta", "swin"))]
    seq_len: Annotated[int | None, Whole("t5, deberta: queries and keys", high=_MAX_SEQ_LEN)] = None
    buckets: Annotated[
        int | None, Whole("t5, deberta: number of buckets (32; 256)", low=4, high=1 << 12)
    ] = None
    max_distance: Annotated[int | None, _MAX_DISTANCE] = None
    causal: Annotated[bool, Flag("t5: all keys after the query share a bucket")] = False
    grid: Annotated[GridSize | None, GridParameter("swin: rows and columns of a window")] = None
    weights: Annotated[PositionList | None, _WEIGHTS] = None

    applied_as = "relative"

    def __post_init__(self) -> None:
        self._complete(_BUCKETS.get(self.parameters()["style"].check("style", self.style), {}))

    def _check(self) -> None:
        used = ("grid",) if self.style == "swin" else _LOG
        for name in (*_LOG, "grid"):
            given = getattr(self, name) is not None
            self.refuse_if(name in used and not given, name, f"the {self.style} style needs it")
            self.refuse_if(
                name not in used and given, name, f"the {self.style} style has none", "leave it out"
            )
        self.refuse_if(
            self.causal and self.style != "t5",
            "causal",
            "it belongs to the t5 style",
            "leave it out",
        )
        if self.grid is not None and (len(self.grid) != 2 or self.length > _MAX_SEQ_LEN):
            raise self.wrong(
                "grid", f"a window has rows and columns, and at most {_MAX_SEQ_LEN:,} points"
            )
        if self.buckets is not None and self.max_distance is not None:
            exact = self.buckets // (2 if self.causal or self.style == "deberta" else 4)
            if self.max_distance <= exact + (self.style == "deberta"):
                rule = f"it must be more than the {exact} distances that {self.buckets} buckets tell apart"
                raise self.wrong("max_distance", rule)
        if self.weights is not None and (
            self.style == "deberta" or self.weights.shape[:-1] != (self.numbers,)
        ):
            rule = f"they must be ({self.numbers}, heads)"
            rule = "its embeddings make no bias alone" if self.style == "deberta" else rule
            raise self.wrong("weights", f"of the {self.style} style, {rule}")

    @property
    def numbers(self) -> int:
        """How many there are: rows of the learned biases."""
        return (
            (self.buckets or 0)
            if self.grid is None
            else (2 * self.grid[0] - 1) * (2 * self.grid[1] - 1)
        )

    @property
    def length(self) -> int:
        return self.seq_len or (self.grid[0] * self.grid[1] if self.grid else 0)

    def rows(self, queries: Indices) -> Indices:
        """The numbers of these queries and all keys."""
        if self.grid is None:  # every row is a window of one vector
            return np.lib.stride_tricks.sliding_window_view(self._by_distance, self.length)[::-1][
                queries
            ]
        height, width = self.grid
        keys, queries = np.arange(self.length), queries[:, None]
        down, across = queries // width - keys // width, queries % width - keys % width
        return (down + height - 1) * (2 * width - 1) + across + width - 1

    @cached_property
    def _by_distance(self) -> Indices:
        """The numbers of keys L−1 before … L−1 after their query."""
        buckets, limit = self.buckets or 0, self.max_distance or 0
        if self.style == "deberta":
            before = deberta_buckets(self.length, buckets, limit)
            return np.concatenate([before[::-1], -before[1:]])
        side = (
            buckets if self.causal else buckets // 2
        )  # the other half is for keys after the query
        before = t5_buckets(self.length, side, limit)
        return np.concatenate([before[::-1], 0 * before[1:] if self.causal else before[1:] + side])

    def tensors(self) -> tuple[Table, ...]:
        table = None if self.weights is None else np.array(self.weights, np.float64)

        def fill(start: int, out: Array) -> None:
            head, query = np.divmod(np.arange(start, start + len(out)), self.length)
            index = self.rows(query)
            out[...] = index if table is None else as_dtype(table[index, head[:, None]], self.dtype)

        if table is not None:
            return (Table("bias", self.dtype, (table.shape[1], self.length, self.length), fill),)
        return (Table("index", "int32", (self.length, self.length), fill),)

    def axes_of(self, tensor: str) -> Axes:
        return Axes(
            ("head", "query", "key")[tensor == "index" :],
            value="bucket" if tensor == "index" else "bias",
        )

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def applied_to(self, x: ArrayLike) -> Array:
        """Scores (…, H, L, L) plus the bias."""
        self.refuse_if(
            self.weights is None, "weights", "what is added to scores is looked up in them"
        )
        return add_bias(x, self.in_dtype("float64").tensors()[0])
