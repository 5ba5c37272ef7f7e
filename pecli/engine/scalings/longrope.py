"""LongRoPE (Ding et al., 2024): a divisor for every frequency, one list up to the original length, one beyond it."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, divided, reciprocal, unscaled
from pecli.errors import ParameterError


@dataclass(frozen=True)
class LongRope(Scaling):
    """inv_freq / short_factor, or / long_factor where the length exceeds O."""

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
    def divisors(self) -> tuple[float, ...]:
        """At exactly O still the short ones."""
        return (
            self.long_factor
            if (self.length or 0) > self.original_max_position_embeddings
            else self.short_factor
        )

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return divided(unscaled(base, dim), [Fraction(each) for each in self.divisors])

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        if len(self.divisors) != plain.shape[-1]:  # of another dimension
            return np.full_like(plain, np.nan)
        return plain / np.array(self.divisors)

    def known_mistakes(self) -> "tuple[LongRope, ...]":
        """Divisors in reverse order, multiplied by, and the other list of them, for any length."""
        other = self.short_factor if self.divisors is self.long_factor else self.long_factor
        lists = (self.divisors[::-1], tuple(1 / each for each in self.divisors), other)
        return tuple(self.having(each) for each in dict.fromkeys(lists) if each != self.divisors)

    def having(self, divisors: tuple[float, ...]) -> "LongRope":
        return replace(self, short_factor=divisors, long_factor=divisors)

    @property
    def exact_attention(self) -> Fraction | None:
        if self.attention_factor is not None:
            return Fraction(self.attention_factor)
        return Fraction(1) if self.divisor() <= 1 else None

    def attention(self, bits: int) -> int:
        """As given, or sqrt(1 + ln f / ln O)."""
        if self.exact_attention is not None:
            return super().attention(bits)
        factor, length = self.divisor(), Fraction(self.original_max_position_embeddings)
        work = 2 * bits + 16
        ratio = (numerics.log(factor, work) << work) // numerics.log(length, work)
        return isqrt(((1 << work) + ratio) << work) >> (work - bits)

    def check(self, base: float, dim: int) -> None:
        count = (dim + 1) // 2
        for name in ("short_factor", "long_factor"):
            given = len(getattr(self, name))
            if given != count:
                raise ParameterError(
                    name, f"{given} numbers", f"there must be one for each of {count} frequencies"
                )
        if self.attention_factor is not None:
            return
        if self.factor is None and self.max_position_embeddings is None:
            rule = "longrope scaling needs it, max_position_embeddings or attention_factor"
            raise ParameterError("factor", "missing", rule)
        if self.divisor() > 1 and self.original_max_position_embeddings == 1:
            rule = "the attention factor divides by ln O, so O must be above 1"
            raise ParameterError(
                "original_max_position_embeddings", 1, rule, "or give attention_factor"
            )

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        return reciprocal(np.array(self.divisors, np.float32) * powers)
