"""ALiBi: a slope for every head, and the bias it makes over distances."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Annotated, NamedTuple

import numpy as np

from pecli.engine import numerics
from pecli.engine.application import add_bias
from pecli.engine.arrays import Array, ArrayLike, Indices, as_dtype, numpy_dtype
from pecli.engine.named_values import required
from pecli.engine.numerics import DoubleDouble, round_double_double, round_fixed, undecided
from pecli.engine.schemes.aliases import with_aliases
from pecli.engine.schemes.bias_parts import (
    HEAD_RANGE,
    QUERIES,
    HeadSlice,
    check_head_range,
    check_queries,
)
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.recipes import BIAS_RECIPE, recipe_named
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import ByPosition, Table


class _Form(NamedTuple):
    """A form of the bias.

    Attributes:
        future: returns the biases of keys after the query, from those of the keys up to it: of
            −2 −1 0 the mirror image −1 −2 in the form `symmetric`.
        has_one_row: True if one row serves all queries.
        counts_from_first_key: True if the first key has the bias 0, False if the last one has.
    """

    future: Callable[[Array], Array]
    has_one_row: bool = False
    counts_from_first_key: bool = False


def _mirrored(past: Array) -> Array:
    return past[-2::-1]


def _masked(past: Array) -> Array:
    return np.full(len(past) - 1, -np.inf).astype(past.dtype)


def _nothing(past: Array) -> Array:
    """Return no biases: the only row ends with the last key."""
    return past[:0]


_FORMS = {
    "symmetric": _Form(_mirrored),
    "causal": _Form(_masked),
    "key": _Form(_nothing, has_one_row=True, counts_from_first_key=True),
    "key-last": _Form(_nothing, has_one_row=True),
}

_MAX_KEYS = 2**24
_SLOPE_BITS = 512
"""Fractional bits of a slope: enough for slopes down to 2^−256 with 256 significant bits."""
_SLICE = 1 << 14
"""Distances that are multiplied at once, so that intermediate arrays stay in the cache."""
_RELATIVE_ERROR = 2.0**-100
"""Bound on the error of a slope times a distance in double-double (106 bits), with a margin."""
_FLOAT64_BITS = 53

_HEADS = Whole("attention heads", high=65536)
_SEQ_LEN = Whole("keys and queries; slopes alone without it", high=_MAX_KEYS)
_RULE = Choice(
    "how slopes are chosen; naive is wrong for heads that are not a power of two",
    options=("paper", "naive"),
)
_MAX_BIAS = Real("the smallest slope is 2^(−max_bias)", above=1e-30, up_to=256)
_FORM = Choice(
    "the bias is −m·|i−j|; the same, −inf above the diagonal; +m·j; or m·(j−(L−1))",
    options=tuple(_FORMS),
)
_SLOPES = Flag("the slopes alone")


@with_aliases
@dataclass(frozen=True, repr=False)
class Alibi(Scheme):
    """Attention with linear biases (ALiBi; Press et al., 2022, https://arxiv.org/abs/2108.12409).

    The bias of query i and key j in a head of slope m is −m·|i − j|. The tensors are `bias` (heads,
    seq_len, seq_len), if there is a length, and `slopes` (heads).

    Args:
        heads: attention heads.
        seq_len: queries and keys of the bias; without it, there are only slopes.
        rule: `paper` takes the slopes of the next smaller power of two, then every other slope of
            the next larger one; `naive` applies the formula to any number of heads, as some ports
            do by mistake.
        max_bias: the smallest slope is 2^(−max_bias).
        form: `symmetric` is −m·|i − j|; `causal` is −inf for keys after the query; `key` is m·j, as
            in BLOOM; `key-last` is m·(j − (L − 1)), as in MPT. Both key forms have one row: softmax
            ignores a constant per row.
        slopes: only the slopes.
        head_range: only the heads A … B − 1, as one tensor-parallel shard has them: (A, B), or "A:B".
        queries: only the last so many queries of the bias, as in decoding.
        recipe: precision recipe that is emulated: float32 rounds slopes and products; exact rounds
            once.
        dtype: type of the numbers in the tables: float64, float32, float16 or bfloat16.

    Raises:
        ParameterError: a value breaks the rule of its parameter.

    >>> Alibi(heads=8).tables()["slopes"].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
    >>> Alibi(heads=1, seq_len=3, max_bias=1).tables()["bias"][0].tolist()
    [[0.0, -0.5, -1.0], [-0.5, 0.0, -0.5], [-1.0, -0.5, 0.0]]
    >>> Alibi(heads=8, seq_len=3, head_range="6:8", queries=1).tables()["bias"].tolist()
    [[[-0.015625, -0.0078125, 0.0]], [[-0.0078125, -0.00390625, 0.0]]]
    """

    name = "alibi"
    applied_as = "bias"

    heads: Annotated[int, _HEADS]
    seq_len: Annotated[int | None, _SEQ_LEN] = None
    rule: Annotated[str, _RULE] = "paper"
    max_bias: Annotated[float, _MAX_BIAS] = 8.0
    form: Annotated[str, _FORM] = "symmetric"
    slopes: Annotated[bool, _SLOPES] = False
    _: KW_ONLY
    head_range: Annotated[HeadSlice | None, HEAD_RANGE] = None
    queries: Annotated[int | None, QUERIES] = None
    recipe: Annotated[str, BIAS_RECIPE] = "exact"

    def _check(self) -> None:
        """Raise ParameterError for heads or queries that the bias does not have."""
        check_head_range(self._heads, self.heads)
        if self.queries is None:
            return
        self._refuse_if(self._has_only_slopes, "queries", "slopes have none", "leave it out")
        rule = f"the {self.form} form has one row for all queries"
        self._refuse_if(self._form.has_one_row, "queries", rule, "leave it out")
        check_queries(self.queries, required(self.seq_len))

    @property
    def _form(self) -> "_Form":
        return _FORMS[self.form]

    @property
    def _has_only_slopes(self) -> bool:
        return self.slopes or self.seq_len is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        return frozenset({"form"}) if self._has_only_slopes else frozenset()

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset() if self._has_only_slopes else frozenset({"slopes"})

    @property
    def _compute_dtype(self) -> str:
        """Return the dtype in which values are computed, before they are given in their own."""
        recipe = recipe_named(self.recipe)
        if recipe.table_dtype:
            return recipe.table_dtype
        return self.dtype if recipe.is_exact else "float32"

    def _fixed_slopes(self) -> list[int]:
        """Return the slopes of the heads in the tables, as integers over 2^_SLOPE_BITS.

        A shard of heads 4 … 7 of 8 has the slopes 4 … 7 of 8 heads, and not those of 4 heads. A
        recipe that imitates float32 rounds them.
        """
        slopes = self._exact_slopes()[self._heads.start : self._heads.stop]
        if recipe_named(self.recipe).is_exact:
            return slopes
        rounded_slopes = []
        for slope in slopes:
            single = round_fixed(slope, _SLOPE_BITS, "float32")
            rounded_slopes.append(numerics.fixed(Fraction(single), _SLOPE_BITS))
        return rounded_slopes

    def _exact_slopes(self) -> list[int]:
        """Return the slopes of all heads over 2^_SLOPE_BITS, without rounding.

        For 12 heads, the paper takes the 8 slopes 2^(−1), …, 2^(−8) of 8 heads, and then the first
        4 of every other slope of 16 heads: 2^(−0.5), 2^(−1.5), 2^(−2.5), 2^(−3.5).
        """
        if self.rule == "naive":
            return _geometric_slopes(self.max_bias, self.heads)
        largest_power_of_two = 2 ** (self.heads.bit_length() - 1)  # 8 for 12 heads
        slopes = _geometric_slopes(self.max_bias, largest_power_of_two)
        further_heads = self.heads - largest_power_of_two
        every_other = _geometric_slopes(self.max_bias, 2 * largest_power_of_two)[::2]
        return slopes + every_other[:further_heads]

    def slope_values(self) -> list[float]:
        """Return the factor of the distances in each head, in float64."""
        return [slope / (1 << _SLOPE_BITS) for slope in self._fixed_slopes()]

    @property
    def shard_heads(self) -> int:
        """Return the number of heads in the tables: all, or those of the range."""
        return self._heads.size

    @property
    def _heads(self) -> HeadSlice:
        """Return the heads in the tables, 0 … H − 1 unless they are those of a shard."""
        return self.head_range or HeadSlice(0, self.heads)

    @property
    def query_rows(self) -> int:
        """Return the rows of each head's bias; the key forms have one for all queries."""
        if self._form.has_one_row:
            return 1
        return self.queries or self.seq_len or 0

    def tensors(self) -> tuple[Table, ...]:
        """Return the bias and the slopes; only the slopes if there is no length."""
        slopes = Table("slopes", self.dtype, (self.shard_heads,), self._fill_slopes)
        if self._has_only_slopes:
            return (slopes,)
        queries = self.query_rows
        keys = required(self.seq_len)
        shape = (self.shard_heads, queries, keys)
        fill = self._bias_filler(queries, keys)
        return Table("bias", self.dtype, shape, fill), slopes

    def _fill_slopes(self, start: int, out: Array) -> None:
        """Write the slopes of the heads start, start + 1, … into `out`, one per row."""
        dtype = self._compute_dtype
        slopes = self._fixed_slopes()[start : start + len(out)]
        values = [round_fixed(slope, _SLOPE_BITS, dtype) for slope in slopes]
        out[:, 0] = as_dtype(np.array(values, numpy_dtype(dtype)), self.dtype)

    def _bias_filler(self, queries: int, keys: int) -> Callable[[int, Array], None]:
        """Return a function `fill(start_row, out)` that writes some rows of the biases into `out`.

        A row has the biases of one query for all keys. The rows of head 0 come first, one per
        query, then those of head 1, and so on.
        """
        slopes = self._fixed_slopes()

        # Threads fill neighbouring rows, which belong to few heads: these are kept.
        @lru_cache(maxsize=4)
        def bias_of_head(head: int) -> Array:
            """Return the bias (queries, keys) of one head.

            It only depends on the distance of query and key. So all rows are cut from one vector.
            """
            bias_by_distance = self._bias_by_distance(slopes[head], keys)
            return _rows_cut_from(bias_by_distance, keys, queries)

        return partial(_fill_head_by_head, bias_of_head, queries)

    def _bias_by_distance(self, slope: int, keys: int) -> Array:
        """Return one vector from which every row of a head's bias can be cut.

        The bias of a query and a key only depends on their distance. For 3 keys and slope 1 the
        vector is −2 −1 0 −1 −2 in the form `symmetric`: its last three numbers, 0 −1 −2, are the row
        of query 0, and its first three that of query 2. It is −2 −1 0 −∞ −∞ in `causal`, whose bias
        is also the mask. The other forms have one row for all queries, which is the vector: 0 1 2 in
        `key`, −2 −1 0 in `key-last`.

        Args:
            slope: The slope of the head, as an integer over 2^_SLOPE_BITS.
            keys: The number of keys.
        """
        first_distance = 0 if self._form.counts_from_first_key else 1 - keys
        multiples = _slope_multiples(slope, first_distance, keys, self._compute_dtype)
        past = as_dtype(multiples, self.dtype)
        return np.concatenate([past, self._form.future(past)])

    def _biases_at_distances(self, first_distance: int, count: int) -> Array:
        """Return slope · distance, one row per distance and one column per head."""
        dtype = self._compute_dtype
        columns = [
            _slope_multiples(slope, first_distance, count, dtype) for slope in self._fixed_slopes()
        ]
        return as_dtype(np.stack(columns, axis=1), self.dtype)

    def axes_of(self, tensor: str) -> Axes:
        if tensor == "slopes":
            return Axes(("head",), value="slope")
        return Axes(("head", "query", "key"), value="bias")

    def audited_rows(self) -> ByPosition:
        """Return the biases by distance for an audit of rounding errors: (distances, heads).

        A bias depends only on the distance between its query and its key. So L rows, for the
        distances 0 … L − 1, have every value of the (L, L) matrix.
        """
        if self.seq_len is None:
            raise self._wrong("seq_len", "an audit runs over distances", "say how far")
        # Errors are reported by slope. These are the exact slopes, even if the recipe rounds them.
        exact_scheme = replace(self, recipe="exact", dtype="float64")
        slopes = exact_scheme.slope_values()

        def read(start: int, stop: int) -> Array:
            """Return the biases at the distances start … stop − 1, with the recipe's roundings."""
            return self._biases_at_distances(start, stop - start)

        return ByPosition(
            first=0,
            count=self.seq_len,
            kind="slopes",
            values=slopes,
            groups=np.arange(len(slopes)),  # Column i, which is a head, has slope i.
            read=read,
        )

    def applied_to(self, x: ArrayLike) -> Array:
        """Return scores (…, H, Lq, Lk) plus the bias; queries are the last Lq positions."""
        *_, last_axis = np.shape(x) or (1,)
        keys = self.seq_len or last_axis
        whole = replace(self, seq_len=keys, slopes=False, queries=None, dtype="float64")
        return add_bias(x, whole.single_array())


def _fill_head_by_head(
    bias_of_head: Callable[[int], Array], queries: int, start_row: int, out: Array
) -> None:
    """Write some rows of the biases of all heads into `out`, one head after another.

    With 3 queries, rows 0 – 2 belong to head 0 and rows 3 – 5 to head 1. So rows 2 – 4 are query 2
    of head 0, and the queries 0 and 1 of head 1.

    Args:
        bias_of_head: Returns the bias (queries, keys) of a head.
        queries: The number of rows that every head has.
        start_row: The first of the rows.
        out: The rows (n, keys).
    """
    written = 0
    while written < len(out):
        head, query = divmod(start_row + written, queries)
        left_to_write = len(out) - written
        left_of_head = queries - query
        count = min(left_to_write, left_of_head)
        out[written : written + count] = bias_of_head(head)[query : query + count]
        written += count


def _rows_cut_from(vector: Array, keys: int, queries: int) -> Array:
    """Return a view (queries, keys) of the bias of a head: its last queries, and all keys.

    The matrix of a head is Toeplitz: for 3 keys, its rows 0 −1 −2, −1 0 −1, −2 −1 0 (times the
    slope) are windows on the vector −2 −1 0 −1 −2, from right to left. The last two queries are the
    last two of these windows.
    """
    from_right_to_left = np.lib.stride_tricks.sliding_window_view(vector, keys)[::-1]
    return from_right_to_left[-queries:]


def _geometric_slopes(max_bias: float, heads: int) -> list[int]:
    """Return the slopes 2^(−max_bias · h / heads) of heads h = 1 … heads, over 2^_SLOPE_BITS.

    Whole exponents are exact powers; the others are products with the ratio of two slopes. With
    max_bias 8 and 16 heads, exponents are h/2: the slope of head 2 is exactly 2^−1, and that of
    head 3 is 2^−1 · 2^−0.5.
    """
    exponent_step = Fraction(max_bias) / heads
    ratio = numerics.power(Fraction(2), -exponent_step, _SLOPE_BITS)
    slope = 1 << _SLOPE_BITS  # 2^0
    slopes = []
    for head in range(1, heads + 1):
        exponent = exponent_step * head
        is_whole = exponent.denominator == 1
        if is_whole:
            slope = 1 << (_SLOPE_BITS - exponent.numerator)
        else:
            slope = slope * ratio >> _SLOPE_BITS
        slopes.append(slope)
    return slopes


def _slope_multiples(slope: int, first_distance: int, count: int, dtype: str) -> Array:
    """Return slope · distance for consecutive distances, each product rounded once.

    Args:
        slope: The slope as an integer over 2^_SLOPE_BITS.
        first_distance: The first distance, which may be negative; −2 with a count of 3 means
            −2, −1, 0.
        count: The number of distances.
        dtype: The dtype of the result (count,).
    """
    out = np.empty(count, numpy_dtype(dtype))
    for start in range(0, count, _SLICE):
        part = out[start : start + _SLICE]
        first = first_distance + start
        part[...] = _rounded_products(slope, np.arange(first, first + len(part)), dtype)
    return out


def _rounded_products(slope: int, distances: Indices, dtype: str) -> Array:
    """Return slope · distance for some distances, each product rounded once.

    Most slopes, such as 2^(−1/2), have more digits than float64. Products are first computed with
    about 106 bits, as sums of two float64 numbers (double-doubles), and rounded to the dtype. A few
    are so close to the middle of two numbers of the dtype that these bits cannot decide which is
    nearer: they are computed again with all 512 bits of the slope, in integers.

    Args:
        slope: The slope as an integer over 2^_SLOPE_BITS.
        distances: The distances (n,), negative or not.
        dtype: The dtype of the result (n,).
    """
    exact_distances = DoubleDouble.plain(distances.astype(np.float64))
    products = DoubleDouble.fixed(slope, _SLOPE_BITS) * exact_distances
    rounded: Array = round_double_double(products, dtype)
    if _is_float64(slope):  # Then the products are exact.
        return rounded
    # The true product is between product − error and product + error.
    error = _RELATIVE_ERROR * np.abs(products.hi)
    ends_round_differently = undecided(products, error, dtype)
    for index in np.flatnonzero(ends_round_differently):
        exact_product = slope * int(distances[index])  # over 2^_SLOPE_BITS, as the slope
        rounded[index] = round_fixed(exact_product, _SLOPE_BITS, dtype)
    return rounded


def _is_float64(slope: int) -> bool:
    """Return True for a slope of at most 53 significant bits, such as 2^−8."""
    lowest_bit = slope & -slope
    return (slope // lowest_bit).bit_length() <= _FLOAT64_BITS
