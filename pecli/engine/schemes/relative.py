"""Relative positions: integers that say how far a key is from a query, by which models look up learned biases.

T5 (Raffel et al., 2020) and DeBERTa (He et al., 2021) put distances into buckets that grow with the logarithm, Swin
(Liu et al., 2021) numbers all offsets of a window. The logarithms are decided in integers, so no bucket depends on how
a library rounds them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from typing import Annotated, Any, ClassVar

import numpy as np

from pecli.engine.application import add_bias
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, ArrayLike, Indices, as_dtype, as_numpy, dtype_name
from pecli.engine.schemes import Choice, Flag, Parameter, Whole
from pecli.engine.schemes.positions import GridParameter, GridSize
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import Table
from pecli.errors import KindError, ParameterError, bracketed, quoted

_MAX_SEQ_LEN = 1 << 20


def t5_bucket(distance: int, buckets: int, max_distance: int, *, causal: bool) -> int:
    """The bucket of a key that is so far after its query.

    >>> [t5_bucket(r, 32, 128, causal=False) for r in (-200, -9, 0, 3, 200)]
    [15, 8, 0, 19, 31]
    """
    first = 0
    if causal:
        far = max(-distance, 0)
    else:
        buckets //= 2
        first, far = buckets * (distance > 0), abs(distance)
    exact = buckets // 2
    if far < exact:
        return first + far
    steps, bucket = buckets - exact, exact
    while bucket < buckets - 1 and _reaches(far, exact, max_distance, bucket + 1 - exact, steps):
        bucket += 1
    return first + bucket


def _reaches(far: int, exact: int, limit: int, step: int, steps: int) -> bool:
    """Whether ln(far/exact) / ln(limit/exact) ≥ step/steps."""
    return bool(far**steps * exact**step >= limit**step * exact**steps)


def deberta_bucket(distance: int, buckets: int, max_distance: int, *, causal: bool = False) -> int:
    """The bucket of a key that is so far before its query, of either sign.

    >>> [deberta_bucket(r, 32, 64) for r in (-40, -16, 5, 63)]
    [-27, -16, 5, 31]
    """
    middle, far = buckets // 2, abs(distance)
    if far <= middle:
        return distance
    step = 1
    while not _reaches(max_distance - 1, middle, far, middle - 1, step):
        step += 1
    return (middle + step) * (1 if distance > 0 else -1)


def _in_runs(number: Callable[[int], int], count: int) -> list[int]:
    """number(0) … number(count − 1), whose size never falls: each run of equal ones is found by bisection."""
    found: list[int] = []
    while len(found) < count:
        value = number(len(found))
        places = range(len(found), count)
        run = bisect_right(places, abs(value), key=lambda far: abs(number(far)))
        found += [value] * max(1, run)
    return found


class Weights(Parameter):
    """Learned numbers, (buckets, heads). A spec holds their checksum alone."""

    metavar = "FILE[:NAME]"
    rule = "they must be an array of floats, (buckets, heads)"
    reads_file = True

    def check(self, name: str, value: Any) -> WeightTable:
        if isinstance(value, WeightTable):
            return value
        if isinstance(value, str):
            rule = "the bias follows from weights, of which a spec holds the checksum alone"
            raise ParameterError(name, quoted(value), rule, "name them: pecli relative … --weights FILE --verify")
        array = np.asarray(as_numpy(name, value))
        if dtype_name(array.dtype) not in SIGNIFICAND_BITS:
            raise KindError(name, f"of shape {bracketed(array.shape)} and dtype {array.dtype}", self.rule)
        if array.ndim != 2 or not array.size:
            raise ParameterError(name, f"of shape {bracketed(array.shape)}", self.rule)
        return WeightTable(array)


class WeightTable(str):
    """The checksum of some weights, with the weights themselves."""

    array: AnyArray

    def __new__(cls, array: AnyArray) -> WeightTable:
        made = super().__new__(cls, sha256(array.tobytes()).hexdigest())
        made.array = array.copy()
        return made


@dataclass(frozen=True)
class Kind:
    """How a project numbers relative positions."""

    bucket: Callable[..., int] | None
    """The number of a signed distance; None for windows of a grid."""
    sign: int = 1
    """1: a key after its query has a positive distance; −1: a negative one."""
    rows: Callable[[Relative], int] | None = None
    """How many rows the weights have; None where no bias follows from weights alone."""


KINDS = {
    "t5": Kind(t5_bucket, rows=lambda scheme: scheme.buckets or 0),
    "deberta": Kind(deberta_bucket, -1),
    "swin": Kind(None, rows=lambda scheme: math.prod(2 * size - 1 for size in scheme.grid or ())),
}
_LOG = ("seq_len", "buckets", "max_distance")
_MAX_DISTANCE = Whole("t5, deberta: distance of the last bucket (128; 512)", low=2, high=1 << 20)
_WEIGHTS = Weights("the learned table: make the bias that the model adds, (heads, L, L)", omitted_default=None)


@dataclass(frozen=True)
class Relative(Scheme):
    """Relative positions as integers, a row for each query and a column for each key.

    >>> Relative("t5", 4, buckets=8, max_distance=16).tables()["index"].tolist()
    [[0, 5, 6, 6], [1, 0, 5, 6], [2, 1, 0, 5], [2, 2, 1, 0]]
    """

    name = "relative"
    summary = "Make, show or check tables of relative positions: buckets of T5 and DeBERTa, Swin's index."
    examples = (
        "pecli relative --style t5 --seq-len 512 -o buckets.npy",
        "pecli relative --style swin --grid 7x7 --weights model.safetensors:relative_position_bias_table -o bias.npy",
    )

    style: Annotated[str, Choice("whose relative positions", options=tuple(KINDS))]
    seq_len: Annotated[int | None, Whole("t5, deberta: queries and keys", high=_MAX_SEQ_LEN)] = None
    buckets: Annotated[int | None, Whole("t5, deberta: number of buckets (32; 256)", low=4, high=1 << 12)] = None
    max_distance: Annotated[int | None, _MAX_DISTANCE] = None
    causal: Annotated[bool, Flag("t5: all keys after the query share a bucket")] = False
    grid: Annotated[GridSize | None, GridParameter("swin: rows and columns of a window")] = None
    weights: Annotated[WeightTable | None, _WEIGHTS] = None

    checkpoint_names: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "index": ("relative_position_index", "relative_position_buckets", "relative_position_bucket", "rel_pos_index"),
    }
    applied_as = "relative"

    def __post_init__(self) -> None:
        logarithmic = {"t5": {"buckets": 32, "max_distance": 128}, "deberta": {"buckets": 256, "max_distance": 512}}
        style = self.parameters()["style"].check("style", self.style)
        self._complete(logarithmic.get(style, {}))

    def _check(self) -> None:
        used = ("grid",) if self.style == "swin" else _LOG
        for name in (*_LOG, "grid"):
            value = getattr(self, name)
            if name in used and value is None:
                raise ParameterError(name, "missing", f"the {self.style} style needs it")
            if name not in used and value is not None:
                raise ParameterError(name, quoted(value), f"the {self.style} style has none", "leave it out")
        if self.causal and self.style != "t5":
            raise ParameterError("causal", "true", "it belongs to the t5 style", "leave it out")
        if self.grid is not None and (len(self.grid) != 2 or self.length > _MAX_SEQ_LEN):
            rule = f"a window has rows and columns, and at most {_MAX_SEQ_LEN:,} points"
            raise ParameterError("grid", self.grid.spelled(), rule)
        self._check_buckets()
        if self.weights is not None:
            self._check_weights(self.weights.array.shape)

    def _check_buckets(self) -> None:
        if self.buckets is None or self.max_distance is None:
            return
        exact = self.buckets // (2 if self.causal or self.style == "deberta" else 4)
        if self.max_distance <= exact + (self.style == "deberta"):
            rule = f"it must be more than the {exact} distances that {self.buckets} buckets tell apart"
            raise ParameterError("max_distance", self.max_distance, rule)

    def _check_weights(self, shape: tuple[int, ...]) -> None:
        count = KINDS[self.style].rows
        if count is None:
            rule = f"{self.style} multiplies its embeddings by queries and keys: no bias follows from weights alone"
            raise ParameterError("weights", f"of shape {bracketed(shape)}", rule, "leave them out")
        if shape[0] != count(self):
            rule = f"the {self.style} style looks up {count(self)} rows: they must be of shape ({count(self)}, heads)"
            raise ParameterError("weights", f"of shape {bracketed(shape)}", rule)

    @property
    def length(self) -> int:
        """Queries, and keys."""
        return self.seq_len or (self.grid[0] * self.grid[1] if self.grid else 0)

    def rows(self, start: int, stop: int) -> Indices:
        """The numbers of queries start … stop − 1 and all keys."""
        if self.grid is None:  # every row is a window of one vector
            windows = np.lib.stride_tricks.sliding_window_view(self._by_distance, self.length)
            return windows[::-1][start:stop]
        height, width = self.grid
        keys, queries = np.arange(self.length), np.arange(start, stop)[:, None]
        down, across = queries // width - keys // width, queries % width - keys % width
        return (down + height - 1) * (2 * width - 1) + across + width - 1

    @cached_property
    def _by_distance(self) -> Indices:
        """The numbers of keys L−1 before … L−1 after their query."""
        kind = KINDS[self.style]
        assert kind.bucket is not None
        number = partial(kind.bucket, buckets=self.buckets, max_distance=self.max_distance, causal=self.causal)
        after = _in_runs(lambda far: number(kind.sign * far), self.length)
        before = _in_runs(lambda far: number(-kind.sign * far), self.length)
        return np.array([*before[:0:-1], *after], np.intp)

    def tensors(self) -> tuple[Table, ...]:
        length = self.length
        if self.weights is None:

            def fill(start: int, out: Array) -> None:
                out[...] = self.rows(start, start + len(out))

            return (Table("index", "int32", (length, length), fill),)
        weights = self.weights.array

        def fill_bias(start: int, out: Array) -> None:
            for row in range(len(out)):
                head, query = divmod(start + row, length)
                out[row] = as_dtype(weights[self.rows(query, query + 1)[0], head], self.dtype)

        return (Table("bias", self.dtype, (weights.shape[1], length, length), fill_bias),)

    def axes_of(self, tensor: str) -> Axes:
        if tensor == "bias":
            return Axes(("head", "query", "key"), value="bias")
        return Axes(("query", "key"), value="bucket")

    @classmethod
    def recipe_names(cls) -> tuple[str, ...]:
        return ()

    def applied_to(self, x: ArrayLike) -> Array:
        """Scores (…, H, L, L) plus the bias."""
        if self.weights is None:
            raise ParameterError("weights", "missing", "what is added to scores is looked up in them")
        return add_bias(x, self.in_dtype("float64").tensors()[0])

    @property
    def picture_kinds(self) -> tuple[str, ...]:
        return "heatmap", "curves"
