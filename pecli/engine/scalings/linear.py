"""Position interpolation (Chen et al., 2023), and Gemma 4's, of which a part of a head rotates."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from pecli.engine.arrays import Floats, Singles
from pecli.engine.named_values import NamedValues
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import RotaryDims, Scaling, divided, reciprocal, unscaled


@dataclass(frozen=True)
class Linear(Scaling):
    """Divides all frequencies by f, which is to divide all positions by f."""

    per_frequency = True

    factor: float

    def divisor(self) -> float:
        """Return f, or 1 if f is not given, as in the subclass `Proportional`."""
        return self.factor or 1.0

    def frequencies(self, base: float, dim: int) -> Frequencies:
        divisors = [Fraction(self.divisor())] * ((dim + 1) // 2)
        return divided(unscaled(base, dim), divisors)

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        return plain / self.factor

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        return reciprocal(powers) / powers.dtype.type(self.divisor())


@dataclass(frozen=True)
class Proportional(Linear):
    """Divides the frequencies of the whole head by f, and rotates only the first pairs.

    With a partial factor of 1/4, a head of 64 channels has the 32 frequencies b^(−2i/64), of which
    the first 8 rotate; the others have angle 0. (A partial factor without this scaling has the 8
    frequencies b^(−2i/16).)
    """

    defaults: ClassVar[NamedValues] = {"factor": 1.0}

    factor: float | None = None  # type: ignore[assignment]

    @classmethod
    def rotary(cls, dim: int, share: float) -> RotaryDims:
        return RotaryDims(dim, int(dim * share // 2))
