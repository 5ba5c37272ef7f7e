"""NTK-aware scaling: a larger base, which leaves the highest frequency alone and divides the lowest by f."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.scalings.scaling import Scaling, reciprocal
from pecli.errors import ParameterError

_BITS = 160


@dataclass(frozen=True)
class Ntk(Scaling):
    """Base b·f^(d/(d−2))."""

    factor: float

    def stretch(self, number: Callable[[Any], Any] = Fraction) -> Any:
        """What the base is multiplied by, before it is raised to d/(d − 2): a fraction, or numbers of another kind."""
        return number(self.factor)

    def check(self, base: float, dim: int) -> None:
        if dim < 3:
            name = type(self).__name__.lower()
            raise ParameterError(
                "dim", dim, f"{name} scaling divides by d − 2, so d must be at least 3"
            )

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return _stretched(base, dim, self.stretch(), Fraction(dim, dim - 2))

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return (
            plain * self.stretch(np.asarray) ** (-np.arange(plain.shape[-1]) / (half - 1))
            if half > 1
            else plain
        )

    def float32_base(self, base: float, dim: int) -> float:
        value = Fraction(base) * numerics.power(self.stretch(), Fraction(dim, dim - 2), _BITS)
        return round_fixed(value.numerator // value.denominator, _BITS, "float32")


@dataclass(frozen=True)
class Dynamic(Ntk):
    """Base b·(f·L/M − (f − 1))^(d/(d−2)), with L = max(length, M): it grows once the length exceeds M."""

    max_position_embeddings: int
    length: int | None = None

    def stretch(self, number: Callable[[Any], Any] = Fraction) -> Any:
        factor, longest = number(self.factor), number(self.max_position_embeddings)
        length = longest if self.length is None else np.maximum(number(self.length), longest)
        return factor * length / longest - (factor - 1)


@dataclass(frozen=True)
class NtkFixed(Scaling):
    """(b·f)^(−2i/d) / f^(2/d): vLLM's and GTE's `rope_type: ntk`."""

    per_frequency = True

    factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        values, bits = _stretched(base, dim, Fraction(self.factor))
        by = numerics.power(Fraction(self.factor), Fraction(-2, dim), bits)
        return Frequencies(tuple(value * by >> bits for value in values), bits)

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return plain * self.factor ** (-(np.arange(plain.shape[-1]) + 1) / half)

    def float32_base(self, base: float, dim: int) -> float:
        return base * self.factor

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        by = numerics.power(Fraction(self.factor), Fraction(2, dim), _BITS) / (1 << _BITS)
        return reciprocal(powers) / powers.dtype.type(by)


def _stretched(base: float, dim: int, by: Fraction, power: Fraction = Fraction(1)) -> Frequencies:
    """(b · by^power)^(−2i/d)."""

    def log_base(bits: int) -> int:
        stretch = numerics.log(by, bits + 8) * power.numerator // power.denominator
        return numerics.round_shift(numerics.log(Fraction(base), bits + 8) + stretch, 8)

    return numerics.geometric(base, Fraction(dim, 2), (dim + 1) // 2, log_base=log_base)
