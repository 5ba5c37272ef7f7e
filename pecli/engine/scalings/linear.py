"""Position interpolation (Chen et al., 2023): all positions are divided by f; and Gemma 4's, for part of a head."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, divided, reciprocal, unscaled


@dataclass(frozen=True)
class Linear(Scaling):
    """inv_freq / f."""

    per_frequency = True

    factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return divided(unscaled(base, dim), [Fraction(self.factor or 1.0)] * ((dim + 1) // 2))

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return plain / self.factor

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        return reciprocal(powers) / powers.dtype.type(self.factor or 1.0)


@dataclass(frozen=True)
class Proportional(Linear):
    """inv_freq / f, as for the whole head, for the pairs within the partial factor; the others have angle 0."""

    defaults: ClassVar[Mapping[str, Any]] = {"factor": 1.0}

    factor: float | None = None  # type: ignore[assignment]

    @classmethod
    def rotary(cls, dim: int, share: float) -> tuple[int, int]:
        return dim, int(dim * share // 2)
