"""Fixed NTK scaling: vLLM's and GTE's `rope_type: ntk`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, reciprocal, stretched, transformed

_BITS = 160


@dataclass(frozen=True)
class NtkFixed(Scaling):
    """(b·f)^(−2i/d) / f^(2/d)."""

    per_frequency = True

    factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        factor = Fraction(self.factor)

        def slowed(values: Sequence[int], bits: int) -> list[int]:
            by = numerics.power(factor, Fraction(-2, dim), bits)
            return [value * by >> bits for value in values]

        return transformed(stretched(base, dim, factor), slowed)

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        return plain * self.factor ** (-(np.arange(plain.shape[-1]) + 1) / half)

    def float32_base(self, base: float, dim: int) -> float:
        return base * self.factor

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        by = numerics.power(Fraction(self.factor), Fraction(2, dim), _BITS) / (1 << _BITS)
        return reciprocal(powers) / powers.dtype.type(by)
