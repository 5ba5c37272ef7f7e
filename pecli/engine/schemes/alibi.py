"""ALiBi: a slope for every head, and the bias it makes over distances."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np

from pecli.engine import numerics
from pecli.engine.application import add_bias
from pecli.engine.arrays import Array, ArrayLike, as_dtype, numpy_dtype
from pecli.engine.numerics import DoubleDouble, round_double_double, round_fixed, undecided
from pecli.engine.schemes import BIAS_RECIPE, Choice, Flag, Real, Whole, recipe_named, with_aliases
from pecli.engine.schemes.scheme import Axes, Scheme
from pecli.engine.table import ByPosition, Table

_MAX_KEYS = 2**24
_SLOPE_BITS = 512
_SLICE = 1 << 14  #: distances dealt with at once, so that intermediate arrays stay in the cache
_RULE = Choice(
    "how slopes are chosen; naive is wrong for heads that are not a power of two",
    options=("paper", "naive"),
)
_FORM = Choice(
    "the bias is −m·|i−j|; the same, −inf above the diagonal; +m·j; or m·(j−(L−1))",
    options=("symmetric", "causal", "key", "key-last"),
)
_RELATIVE_ERROR = 2.0**-100  #: of a slope times a distance in 106 bits, with a margin


@with_aliases
@dataclass(frozen=True, repr=False)
class Alibi(Scheme):
    """Attention with linear biases (Press et al., 2022).

    >>> Alibi(heads=8).tables()["slopes"].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
    """

    name = "alibi"

    heads: Annotated[int, Whole("attention heads", high=65536)]
    seq_len: Annotated[
        int | None, Whole("keys and queries; slopes alone without it", high=_MAX_KEYS)
    ] = None
    rule: Annotated[str, _RULE] = "paper"
    max_bias: Annotated[
        float, Real("the smallest slope is 2^(−max_bias)", above=1e-30, up_to=256)
    ] = 8.0
    form: Annotated[str, _FORM] = "symmetric"
    slopes: Annotated[bool, Flag("the slopes alone")] = False
    _: KW_ONLY
    recipe: Annotated[str, BIAS_RECIPE] = "exact"

    applied_as = "bias"

    @property
    def _alone(self) -> bool:
        return self.slopes or self.seq_len is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        return frozenset({"form"}) if self._alone else frozenset()

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset() if self._alone else frozenset({"slopes"})

    @property
    def compute_dtype(self) -> str:
        """The dtype in which values are made, before they are given in their own."""
        recipe = recipe_named(self.recipe)
        return recipe.table or (self.dtype if recipe.is_exact else "float32")

    def _slopes(self) -> list[int]:
        """Over 2**_SLOPE_BITS; where a recipe is not exact, slopes are float32 numbers."""
        power = self.heads if self.rule == "naive" else 1 << (self.heads.bit_length() - 1)
        slopes = _geometric_slopes(self.max_bias, power)
        if self.heads > power:
            slopes += _geometric_slopes(self.max_bias, 2 * power)[::2][: self.heads - power]
        if recipe_named(self.recipe).is_exact:
            return slopes
        singles = (Fraction(round_fixed(slope, _SLOPE_BITS, "float32")) for slope in slopes)
        return [numerics.fixed(value, _SLOPE_BITS) for value in singles]

    def slope_values(self) -> list[float]:
        """What distances are multiplied by, in float64."""
        return [slope / (1 << _SLOPE_BITS) for slope in self._slopes()]

    def tensors(self) -> tuple[Table, ...]:
        def fill_slopes(start: int, out: Array) -> None:
            slopes = self._slopes()[start : start + len(out)]
            values = [round_fixed(slope, _SLOPE_BITS, self.compute_dtype) for slope in slopes]
            out[:, 0] = as_dtype(np.array(values, numpy_dtype(self.compute_dtype)), self.dtype)

        slopes = Table("slopes", self.dtype, (self.heads,), fill_slopes)
        if self.slopes or self.seq_len is None:
            return (slopes,)
        queries = 1 if self.form.startswith("key") else self.seq_len
        bias = Table(
            "bias",
            self.dtype,
            (self.heads, queries, self.seq_len),
            self._bias_filler(queries, self.seq_len),
        )
        return bias, slopes

    def _bias_filler(self, queries: int, keys: int) -> Callable[[int, Array], None]:
        """How rows of the bias are filled: each is a window on one vector of its head (the matrix is Toeplitz)."""
        slopes = self._slopes()

        @lru_cache(maxsize=4)
        def vector(head: int) -> Array:
            first = 0 if self.form == "key" else 1 - keys
            past = as_dtype(_multiples(slopes[head], first, keys, self.compute_dtype), self.dtype)
            if self.form.startswith("key"):
                return past
            future = (
                past[-2::-1]
                if self.form == "symmetric"
                else np.full(keys - 1, -np.inf).astype(past.dtype)
            )
            return np.concatenate([past, future])

        def fill(start: int, out: Array) -> None:
            done = 0
            while done < len(out):
                head, query = divmod(start + done, queries)
                many = min(queries - query, len(out) - done)
                windows = np.lib.stride_tricks.sliding_window_view(vector(head), keys)[::-1]
                out[done : done + many] = windows[query : query + many]
                done += many

        return fill

    def at(self, first: int, count: int) -> Array:
        """slope · distance for the distances first, first + 1, …: one row per distance, one column per head."""
        columns = [_multiples(slope, first, count, self.compute_dtype) for slope in self._slopes()]
        return as_dtype(np.stack(columns, axis=1), self.dtype)

    def axes_of(self, tensor: str) -> Axes:
        return (
            Axes(("head",), value="slope")
            if tensor == "slopes"
            else Axes(("head", "query", "key"), value="bias")
        )

    def by_position(self) -> ByPosition:
        """Distances stand for positions: the bias of a matrix depends on nothing else."""
        if self.seq_len is None:
            raise self.wrong("seq_len", "an audit runs over distances", "say how far")
        slopes, heads = (
            replace(self, recipe="exact", dtype="float64").slope_values(),
            np.arange(self.heads),
        )
        return ByPosition(0, self.seq_len, "slopes", slopes, heads, lambda a, b: self.at(a, b - a))

    def applied_to(self, x: ArrayLike) -> Array:
        """Scores (…, H, Lq, Lk) plus the bias; the queries are the last. Lk is seq_len, where there is one."""
        keys = self.seq_len or (np.shape(x) or (1,))[-1]
        return add_bias(x, replace(self, seq_len=keys, slopes=False, dtype="float64").tensors()[0])


def _geometric_slopes(max_bias: float, heads: int) -> list[int]:
    """2 ** (−max_bias · h / heads) for h = 1 … heads."""
    step = Fraction(max_bias) / heads
    ratio, value, slopes = numerics.power(Fraction(2), -step, _SLOPE_BITS), 1 << _SLOPE_BITS, []
    for h in range(1, heads + 1):
        whole, rest = divmod(step.numerator * h, step.denominator)
        value = value * ratio >> _SLOPE_BITS if rest else 1 << (_SLOPE_BITS - whole)
        slopes.append(value)
    return slopes


def _multiples(slope: int, first: int, count: int, dtype: str) -> Array:
    """slope · distance for the distances first, first + 1, …, each rounded once."""
    out, significant = np.empty(count, numpy_dtype(dtype)), slope // (slope & -slope)
    for start in range(0, count, _SLICE):
        part, distances = (
            out[start : start + _SLICE],
            np.arange(first + start, first + min(start + _SLICE, count)),
        )
        value = DoubleDouble.fixed(slope, _SLOPE_BITS) * DoubleDouble.plain(
            distances.astype(np.float64)
        )
        part[...] = round_double_double(value, dtype)
        if significant.bit_length() > 53:  # else the products are exact
            for k in np.flatnonzero(undecided(value, _RELATIVE_ERROR * np.abs(value.hi), dtype)):
                part[k] = round_fixed(slope * int(distances[k]), _SLOPE_BITS, dtype)
    return out
