"""NTK-aware scaling: a larger base, which leaves the highest frequency alone and divides the lowest by f."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from pecli.engine import numerics
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.scalings.scaling import Scaling, stretched
from pecli.errors import ParameterError

_BITS = 160


@dataclass(frozen=True)
class Ntk(Scaling):
    """Base b·f^(d/(d−2))."""

    name: ClassVar[str] = "ntk"

    factor: float

    def stretch(self) -> Fraction:
        """What the base is multiplied by, before it is raised to d/(d − 2)."""
        return Fraction(self.factor)

    def check(self, base: float, dim: int) -> None:
        if dim < 3:
            raise ParameterError("dim", dim, f"{self.name} scaling divides by d − 2, so d must be at least 3")

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return stretched(base, dim, self.stretch(), Fraction(dim, dim - 2))

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return plain * self.stretch_in_float64() ** (-np.arange(plain.shape[-1]) / (half - 1)) if half > 1 else plain

    def stretch_in_float64(self) -> Any:
        """The same, of columns of numbers, too."""
        return self.factor

    def float32_base(self, base: float, dim: int) -> float:
        value = Fraction(base) * numerics.power(self.stretch(), Fraction(dim, dim - 2), _BITS)
        return round_fixed(value.numerator // value.denominator, _BITS, "float32")
