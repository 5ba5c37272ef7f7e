"""The slopes and biases of ALiBi, exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, as_dtype, numpy_dtype
from pecli.engine.numerics import double_double, fixed_point
from pecli.engine.numerics.rounding import round_double_double, round_fixed, undecided
from pecli.engine.table import ByPosition, Table

_BITS = 512
_SLICE = 1 << 14
"""Distances dealt with at once, so that intermediate arrays stay in the cache."""
_RELATIVE_ERROR = 2.0**-100
"""Of a slope times a distance in 106 bits, with a margin."""


class Slope(NamedTuple):
    """A slope over 2**_BITS; exact where it is a power of two."""

    value: int
    exact: bool


@dataclass(frozen=True, eq=False, repr=False)
class AlibiTables:
    """What slopes and biases are made from; where they are not exact, slopes are float32 numbers."""

    heads: int
    rule: str
    max_bias: float
    exact: bool
    form: str
    compute_dtype: str
    dtype: str

    @cached_property
    def _slopes(self) -> list[Slope]:
        slopes = self._exact_slopes()
        if self.exact:
            return slopes
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

    def slopes_table(self) -> Table:
        """(heads)."""
        return Table("slopes", self.dtype, (self.heads,), self._fill_slopes)

    def _fill_slopes(self, start: int, out: Array) -> None:
        values = [
            round_fixed(slope.value, _BITS, self.compute_dtype) for slope in self._slopes[start : start + len(out)]
        ]
        out[:, 0] = as_dtype(np.array(values, numpy_dtype(self.compute_dtype)), self.dtype)

    def bias_table(self, seq_len: int) -> Table:
        """(heads, seq_len, seq_len), or (heads, 1, seq_len) for the key forms."""
        rows = 1 if self.form.startswith("key") else seq_len
        return Table("bias", self.dtype, (self.heads, rows, seq_len), self._bias(seq_len))

    def at(self, first: int, count: int) -> Array:
        """slope · distance for the distances first, first + 1, …: one row per distance, one column per head."""
        columns = [_multiples(slope, first, count, self.compute_dtype) for slope in self._slopes]
        return as_dtype(np.stack(columns, axis=1), self.dtype)

    def by_distance(self, count: int, slopes: list[float]) -> ByPosition:
        """Distances stand for positions: the bias of a matrix depends on nothing else."""
        names = ("bias",) * self.heads
        return ByPosition(
            0, count, "slopes", slopes, np.arange(self.heads), names, lambda start, stop: self.at(start, stop - start)
        )

    def _bias(self, seq_len: int) -> Callable[[int, Array], None]:
        """How rows of the bias are filled: each is a window on one vector of its head (the matrix is Toeplitz)."""
        slopes = self._slopes

        @lru_cache(maxsize=4)
        def vector(head: int) -> Array:
            first = 0 if self.form == "key" else 1 - seq_len
            past = as_dtype(_multiples(slopes[head], first, seq_len, self.compute_dtype), self.dtype)
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
    out = np.empty(count, numpy_dtype(dtype))
    for start in range(0, count, _SLICE):
        distances = np.arange(first + start, first + min(start + _SLICE, count), dtype=np.float64)
        out[start : start + _SLICE] = _few_multiples(slope, distances, dtype)
    return out


def _few_multiples(slope: Slope, distances: Floats, dtype: str) -> Array:
    value = double_double.scaled(double_double.constant(slope.value, _BITS), distances)
    out = round_double_double(value, dtype)
    if not slope.exact:
        for k in np.flatnonzero(undecided(value, _RELATIVE_ERROR * np.abs(value.hi), dtype)):
            out[k] = round_fixed(slope.value * int(distances[k]), _BITS, dtype)
    return out
