"""Position interpolation (Chen et al., 2023): all positions are divided by f."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, divided, reciprocal, unscaled


@dataclass(frozen=True)
class Linear(Scaling):
    """inv_freq / f."""

    per_frequency = True

    factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return divided(unscaled(base, dim), [Fraction(self.factor)])

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return plain / self.factor

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        return reciprocal(powers) / powers.dtype.type(self.factor)
