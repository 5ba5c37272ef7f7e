"""ALiBi: a slope for every head, and the bias it makes over distances."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pecli.engine import fixed
from pecli.engine.parameters import Choice, Flag, Real, Whole
from pecli.engine.scheme import Scheme

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Floats
    from pecli.engine.table import Table

_BITS = 512
_RELATIVE_ERROR = 2.0**-100
"""Of a slope times a distance in 106 bits, with a margin."""


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
    max_bias: Annotated[float, Real(help="the last slope is 2 to minus this", above=0, up_to=256)] = 8.0
    form: Annotated[
        str,
        Choice(
            help="−m·|i−j|; the same with −inf above the diagonal; +m·j; m·(j−(L−1))",
            options=("symmetric", "causal", "key", "key-last"),
        ),
    ] = "symmetric"
    slopes: Annotated[bool, Flag(help="the slopes alone")] = False

    def exponents(self) -> list[Fraction]:
        """The slope of head h is 2 ** −exponents[h]."""
        if self.rule == "naive":
            return self._series(self.heads, self.heads)
        power = 1 << (self.heads.bit_length() - 1)
        return self._series(power, power) + self._series(2 * power, 2 * power)[::2][: self.heads - power]

    def _series(self, heads: int, count: int) -> list[Fraction]:
        return [Fraction(self.max_bias) * Fraction(h, heads) for h in range(1, count + 1)]

    def tensors(self) -> tuple[Table, ...]:
        from pecli.engine.table import Table

        slopes = Table("slopes", self.dtype, (self.heads,), self._fill_slopes)
        if self.slopes or self.seq_len is None:
            return (slopes,)
        rows = 1 if self.form.startswith("key") else self.seq_len
        return (Table("bias", self.dtype, (self.heads, rows, self.seq_len), self._bias(self.seq_len)), slopes)

    def _fill_slopes(self, start: int, out: Array) -> None:
        from pecli.engine.rounding import round_fixed

        for row, exponent in enumerate(self.exponents()[start : start + len(out)]):
            out[row, 0] = round_fixed(_slope(exponent), _BITS, self.dtype)

    def _bias(self, seq_len: int) -> Any:
        """How rows of the bias are filled: each is a window on one vector of its head (the matrix is Toeplitz)."""
        import numpy as np

        exponents = self.exponents()

        @lru_cache(maxsize=4)
        def vector(head: int) -> Array:
            if self.form.startswith("key"):
                first = 0 if self.form == "key" else 1 - seq_len
                return _multiples(exponents[head], np.arange(first, first + seq_len, dtype=np.float64), self.dtype)
            past = _multiples(exponents[head], np.arange(1 - seq_len, 1, dtype=np.float64), self.dtype)
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


@lru_cache(maxsize=4096)
def _slope(exponent: Fraction) -> int:
    """2 ** −exponent, over 2 ** _BITS."""
    if exponent.denominator == 1:
        return 1 << (_BITS - exponent.numerator)
    return fixed.power(Fraction(2), -exponent, _BITS)


def _multiples(exponent: Fraction, distances: Floats, dtype: str) -> Array:
    """slope · distance for whole distances, each rounded once."""
    import numpy as np

    from pecli.engine import doubled
    from pecli.engine.rounding import round_doubled, round_fixed, undecided

    value = doubled.scaled(doubled.constant(_slope(exponent), _BITS), distances)
    out = round_doubled(value, dtype)
    if exponent.denominator > 1:
        for k in np.flatnonzero(undecided(value, _RELATIVE_ERROR * np.abs(value.hi), dtype)):
            out[k] = round_fixed(_slope(exponent) * int(distances[k]), _BITS, dtype)
    return out
