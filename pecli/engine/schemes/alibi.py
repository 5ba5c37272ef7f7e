"""ALiBi: a slope for every head, and the bias it makes over distances."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pecli.engine.arrays import Array, Floats
from pecli.engine.numerics import fixed_point
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.recipes import BIAS_RECIPE, RECIPES
from pecli.engine.schemes.scheme import Scheme

if TYPE_CHECKING:
    from pecli.engine.table import Table


_BITS = 512
_SLICE = 1 << 14
"""Distances dealt with at once, so that intermediate arrays stay in the cache."""
_RELATIVE_ERROR = 2.0**-100
"""Of a slope times a distance in 106 bits, with a margin."""


class Slope(NamedTuple):
    """A slope over 2**_BITS; exact where it is a power of two."""

    value: int
    exact: bool


@dataclass(frozen=True)
class Alibi(Scheme):
    """Attention with linear biases (Press et al., 2022).

    >>> Alibi(heads=8).tables()["slopes"].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625]
    """

    name = "alibi"
    summary = "Make, show or check ALiBi slopes and biases."
    examples = (
        "pecli alibi --heads 12 --slopes",
        "pecli alibi --heads 32 --seq-len 2048 --form causal -o bias.safetensors",
        "pecli alibi --heads 8 --slopes | while read m; do echo slope $m; done",
    )

    heads: Annotated[int, Whole(help="attention heads", high=65536)]
    seq_len: Annotated[int | None, Whole(help="keys and queries; slopes alone without it", high=2**24)] = None
    rule: Annotated[
        str,
        Choice(
            help="how slopes are chosen; naive is wrong for heads that are no power of two", options=("paper", "naive")
        ),
    ] = "paper"
    max_bias: Annotated[float, Real(help="slopes run down to 2 to minus this", above=1e-30, up_to=256)] = 8.0
    form: Annotated[
        str,
        Choice(
            help="−m·|i−j|; the same with −inf above the diagonal; +m·j; m·(j−(L−1))",
            options=("symmetric", "causal", "key", "key-last"),
        ),
    ] = "symmetric"
    slopes: Annotated[bool, Flag(help="the slopes alone")] = False
    recipe: Annotated[str, BIAS_RECIPE] = field(default="exact", kw_only=True)

    @property
    def _alone(self) -> bool:
        """Whether there are slopes, and no bias."""
        return self.slopes or self.seq_len is None

    @property
    def inert_parameters(self) -> frozenset[str]:
        return frozenset({"form"}) if self._alone else frozenset()

    @property
    def derived_tensors(self) -> frozenset[str]:
        return frozenset() if self._alone else frozenset({"slopes"})

    @property
    def through(self) -> str:
        """The dtype in which values are made, before they are given in their own."""
        return self.dtype if self.recipe == "exact" else RECIPES[self.recipe].table or "float32"

    @cached_property
    def _slopes(self) -> list[Slope]:
        slopes = self._exact_slopes()
        if self.recipe != "float32":
            return slopes
        from pecli.engine.numerics.rounding import round_fixed

        singles = (Fraction(round_fixed(slope.value, _BITS, "float32")) for slope in slopes)
        return [Slope(fixed_point.fixed(value, _BITS), exact=True) for value in singles]

    def slope_values(self) -> list[float]:
        """What distances are multiplied by, in float64."""
        return [slope.value / (1 << _BITS) for slope in self._slopes]

    def _exact_slopes(self) -> list[Slope]:
        if self.rule == "naive":
            return self._series(self.heads)
        power = 1 << (self.heads.bit_length() - 1)
        slopes = self._series(power)
        if self.heads > power:
            slopes += self._series(2 * power)[::2][: self.heads - power]
        return slopes

    def _series(self, heads: int) -> list[Slope]:
        """2 ** (−max_bias · h / heads) for h = 1 … heads."""
        step = Fraction(self.max_bias) / heads
        ratio, value, series = fixed_point.power(Fraction(2), -step, _BITS), 1 << _BITS, []
        for h in range(1, heads + 1):
            whole, rest = divmod(step.numerator * h, step.denominator)
            value = value * ratio >> _BITS if rest else 1 << (_BITS - whole)
            series.append(Slope(value, exact=not rest))
        return series

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.table import Table

        slopes = Table("slopes", self.dtype, (self.heads,), self._fill_slopes)
        if self.slopes or self.seq_len is None:
            return (slopes,)
        rows = 1 if self.form.startswith("key") else self.seq_len
        return (Table("bias", self.dtype, (self.heads, rows, self.seq_len), self._bias(self.seq_len)), slopes)

    def _fill_slopes(self, start: int, out: Array) -> None:
        import numpy as np

        from pecli.engine.numerics.dtypes import numpy_dtype
        from pecli.engine.numerics.rounding import as_dtype, round_fixed

        values = [round_fixed(slope.value, _BITS, self.through) for slope in self._slopes[start : start + len(out)]]
        out[:, 0] = as_dtype(np.array(values, numpy_dtype(self.through)), self.dtype)

    def at(self, first: int, count: int) -> Array:
        """slope · distance for the distances first, first + 1, …: a row a distance, a column a head."""
        import numpy as np

        from pecli.engine.numerics.rounding import as_dtype

        columns = [_multiples(slope, first, count, self.through) for slope in self._slopes]
        return as_dtype(np.stack(columns, axis=1), self.dtype)

    def _bias(self, seq_len: int) -> Any:
        """How rows of the bias are filled: each is a window on one vector of its head (the matrix is Toeplitz)."""
        import numpy as np

        from pecli.engine.numerics.rounding import as_dtype

        slopes = self._slopes

        @lru_cache(maxsize=4)
        def vector(head: int) -> Array:
            first = 0 if self.form == "key" else 1 - seq_len
            past = as_dtype(_multiples(slopes[head], first, seq_len, self.through), self.dtype)
            if self.form.startswith("key"):
                return past
            future = past[-2::-1] if self.form == "symmetric" else np.full(seq_len - 1, -np.inf).astype(past.dtype)
            return np.concatenate([past, future])

        def fill(start: int, out: Array) -> None:
            queries = 1 if self.form.startswith("key") else seq_len
            done = 0
            while done < len(out):
                head, query = divmod(start + done, queries)
                many = min(queries - query, len(out) - done)
                windows = np.lib.stride_tricks.sliding_window_view(vector(head), seq_len)[::-1]
                out[done : done + many] = windows[query : query + many]
                done += many

        return fill


def _multiples(slope: Slope, first: int, count: int, dtype: str) -> Array:
    """slope · distance for the distances first, first + 1, …, each rounded once."""
    import numpy as np

    from pecli.engine.numerics.dtypes import numpy_dtype

    out = np.empty(count, numpy_dtype(dtype))
    for start in range(0, count, _SLICE):
        distances = np.arange(first + start, first + min(start + _SLICE, count), dtype=np.float64)
        out[start : start + _SLICE] = _few_multiples(slope, distances, dtype)
    return out


def _few_multiples(slope: Slope, distances: Floats, dtype: str) -> Array:
    import numpy as np

    from pecli.engine.numerics import double_double
    from pecli.engine.numerics.rounding import round_doubled, round_fixed, undecided

    value = double_double.scaled(double_double.constant(slope.value, _BITS), distances)
    out = round_doubled(value, dtype)
    if not slope.exact:
        for k in np.flatnonzero(undecided(value, _RELATIVE_ERROR * np.abs(value.hi), dtype)):
            out[k] = round_fixed(slope.value * int(distances[k]), _BITS, dtype)
    return out
