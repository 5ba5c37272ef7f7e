"""What a scaling of rotary frequencies is, and the frequencies before any.

b is the base, d the rotary dim, f the factor, O the original length, M the max_position_embeddings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies


@dataclass(frozen=True)
class Scaling:
    """No scaling, and the base of all others: a frozen value whose fields are parameters of `Rope`, required where they
    have no default. `length` is the length that a scaling which depends on it is evaluated at."""

    per_frequency: ClassVar[bool] = False
    """Whether frequencies are scaled one by one; if not, all that changes is the base."""
    defaults: ClassVar[Mapping[str, Any]] = {}  #: the values of parameters that are left out

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(each.name for each in fields(cls))

    @classmethod
    def required(cls) -> tuple[str, ...]:
        return tuple(each.name for each in fields(cls) if each.default is MISSING)

    @classmethod
    def frequency_parameters(cls) -> tuple[str, ...]:
        return cls.names()

    def divisor(self) -> Fraction:
        """f, or M/O where it is not given."""
        own: Any = self
        if own.factor is not None:
            return Fraction(own.factor)
        return Fraction(own.max_position_embeddings or 0, own.original_max_position_embeddings)

    def complete(self) -> Self:
        """The same with the values of parameters that were left out."""
        return replace(
            self,
            **{name: value for name, value in self.defaults.items() if getattr(self, name) is None},
        )

    def brief(self) -> Self:
        """The same without the values that are the defaults."""
        return replace(
            self,
            **{name: None for name, value in self.defaults.items() if getattr(self, name) == value},
        )

    @classmethod
    def rotary(cls, dim: int, share: float) -> tuple[int, int]:
        """d in the formulas, and how many pairs rotate, for a head of `dim` channels of which a share is rotary."""
        d = int(dim * share)
        return d, (d + 1) // 2

    def check(self, base: float, dim: int) -> None:
        """Refuse parameters that do not fit together."""

    def frequencies(self, base: float, dim: int) -> Frequencies:
        """The inverse frequencies, exact: radians per position of every pair."""
        return unscaled(base, dim)

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        """The frequencies in float64, from unscaled ones b^(−i/half): for searches, which ask thousands of times. A
        parameter that is a column of numbers gives a row of frequencies for each of them; none may be left out."""
        return plain

    def attention(self, bits: int) -> int:
        """What cos and sin are multiplied by, as an integer over 2**bits."""
        return numerics.fixed(self.exact_attention or Fraction(1), bits)

    @property
    def exact_attention(self) -> Fraction | None:
        """The same where it is a fraction, so that ties at position 0 can be decided."""
        return Fraction(1)

    @property
    def attention_value(self) -> float:
        return self.attention(200) / (1 << 200)

    def known_mistakes(self) -> "tuple[Scaling, ...]":
        """The same scaling read otherwise, where no single number tells the difference."""
        return ()

    def float32_base(self, base: float, dim: int) -> float:
        """The base of the powers that transformers computes in float32."""
        return base

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        """The inverse frequencies from the powers p_i = b^(2i/d), step by step as transformers takes them: every step
        rounds to float32; what is computed in float64 before is exact here, then rounded."""
        return reciprocal(powers)


def reciprocal(powers: Singles) -> Singles:
    """1 / p, in float32."""
    return powers.dtype.type(1) / powers


def unscaled(base: float, dim: int) -> Frequencies:
    """b^(−2i/d)."""
    return numerics.geometric(base, Fraction(dim, 2), (dim + 1) // 2)


def divided(before: Frequencies, by: Sequence[Fraction]) -> Frequencies:
    """Each frequency by its own divisor."""
    values = (
        value * f.denominator // f.numerator for value, f in zip(before.values, by, strict=True)
    )
    return Frequencies(tuple(values), before.bits)
