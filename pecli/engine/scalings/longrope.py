"""LongRoPE (Ding et al., 2024): a divisor for every frequency, in two lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, divided, extension, reciprocal, unscaled
from pecli.errors import ParameterError


@dataclass(frozen=True)
class LongRope(Scaling):
    """Divides each frequency by its short factor, or by its long one if the length exceeds O."""

    per_frequency = True

    original_max_position_embeddings: int
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    factor: float | None = None
    max_position_embeddings: int | None = None
    attention_factor: float | None = None
    length: int | None = None

    @classmethod
    def frequency_parameters(cls) -> tuple[str, ...]:
        return ("divisors",)

    @property
    def is_long(self) -> bool:
        """True if the long factors are in use; at a length of exactly O the short ones still are."""
        return (self.length or 0) > self.original_max_position_embeddings

    @property
    def divisors(self) -> tuple[float, ...]:
        """The divisors in use."""
        if self.is_long:
            return self.long_factor
        return self.short_factor

    def divisor(self) -> Fraction:
        """Return f, or M/O if f is not given."""
        return extension(
            self.factor, self.max_position_embeddings, self.original_max_position_embeddings
        )

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return divided(unscaled(base, dim), [Fraction(divisor) for divisor in self.divisors])

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        if len(self.divisors) != plain.shape[-1]:  # The frequencies are those of another dim.
            return np.full_like(plain, np.nan)
        scaled: Floats = plain / np.array(self.divisors)
        return scaled

    def known_mistakes(self) -> tuple[LongRope, ...]:
        """Return the scaling with mistakes in its divisors, as wrong programs have them.

        The mistakes are the divisors in reverse order, their reciprocals (frequencies are then
        multiplied by them), and the other list: the short one instead of the long one, or vice
        versa. A mistake that changes nothing is left out.
        """
        has_long = self.divisors is self.long_factor
        other_list = self.short_factor if has_long else self.long_factor
        reversed_list = self.divisors[::-1]
        reciprocals = tuple(1 / divisor for divisor in self.divisors)
        distinct = dict.fromkeys((reversed_list, reciprocals, other_list))
        distinct.pop(self.divisors, None)
        return tuple(map(self.having, distinct))

    def having(self, divisors: tuple[float, ...]) -> LongRope:
        """Return the scaling with these divisors at any length."""
        return replace(self, short_factor=divisors, long_factor=divisors)

    @property
    def exact_attention(self) -> Fraction | None:
        if self.attention_factor is not None:
            return Fraction(self.attention_factor)
        return Fraction(1) if self.divisor() <= 1 else None

    def attention(self, bits: int) -> int:
        """Return the attention factor, which multiplies cos and sin, as an integer over 2**bits.

        It is `attention_factor` if that is given. Otherwise it is sqrt(1 + ln f / ln O), with the
        factor f and the original length O: 1.19 for f = 32 and O = 4096.
        """
        if self.exact_attention is not None:
            return super().attention(bits)
        work_bits = 2 * bits + 16  # Numbers are over 2**work_bits until the last step.
        log_factor = numerics.log(self.divisor(), work_bits)
        log_length = numerics.log(Fraction(self.original_max_position_embeddings), work_bits)
        square = (1 << work_bits) + (log_factor << work_bits) // log_length
        root = isqrt(square << work_bits)
        return root >> (work_bits - bits)

    def check(self, base: float, dim: int) -> None:
        """Raise ParameterError unless there is a divisor per pair and an attention factor."""
        pairs = (dim + 1) // 2
        _check_count("short_factor", self.short_factor, pairs)
        _check_count("long_factor", self.long_factor, pairs)
        # Without an attention factor, it is sqrt(1 + ln f / ln O).
        is_irrational = self.exact_attention is None
        if is_irrational and self.original_max_position_embeddings == 1:
            rule = "the attention factor divides by ln O, so O must be above 1"
            advice = "or give attention_factor"
            raise ParameterError("original_max_position_embeddings", 1, rule, advice)

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        return reciprocal(np.array(self.divisors, np.float32) * powers)


def _check_count(name: str, factors: tuple[float, ...], pairs: int) -> None:
    if len(factors) != pairs:
        rule = f"there must be one for each of {pairs} frequencies"
        raise ParameterError(name, f"{len(factors)} numbers", rule)
