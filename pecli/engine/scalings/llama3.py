"""Llama 3.1: by wavelength, long waves are interpolated, short ones stay, those between are blended."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, unscaled
from pecli.errors import ParameterError, spelled


@dataclass(frozen=True)
class Llama3(Scaling):
    """λ > O/low: inv_freq/f; λ < O/high: inv_freq; between: blended. Where low = high, a step (Llama 4 Scout)."""

    per_frequency = True

    factor: float
    original_max_position_embeddings: int
    low_freq_factor: float
    high_freq_factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        factor, length = Fraction(self.factor), self.original_max_position_embeddings
        low, high = Fraction(self.low_freq_factor), Fraction(self.high_freq_factor)

        values, bits = unscaled(base, dim)
        one, turn, blended = 1 << bits, 2 * numerics.pi(bits), []
        for value in values:
            rotations = Fraction(value * length, turn)  # O/λ
            share = Fraction(rotations > low) if low == high else (rotations - low) / (high - low)
            keep = numerics.fixed(min(max(share, Fraction(0)), Fraction(1)), bits)
            blended.append(
                ((value * factor.denominator // factor.numerator) * (one - keep) + value * keep)
                >> bits
            )
        return Frequencies(tuple(blended), bits)

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        rotations = self.original_max_position_embeddings * plain / (2 * math.pi)
        keep = np.clip(
            (rotations - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor),
            0,
            1,
        )
        return plain / self.factor * (1 - keep) + plain * keep

    def check(self, base: float, dim: int) -> None:
        if self.high_freq_factor < self.low_freq_factor:
            rule = f"it must be at least low_freq_factor, {self.low_freq_factor:g}"
            raise ParameterError("high_freq_factor", spelled(self.high_freq_factor), rule)

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        one, factor = np.float32(1), np.float32(self.factor)
        length = np.float32(self.original_max_position_embeddings)
        low, high = self.low_freq_factor, self.high_freq_factor
        inverse = one / powers
        wavelength = np.float32(2 * math.pi) / inverse
        long = wavelength > np.float32(float(length) / low)
        between = ~long & ~(wavelength < np.float32(float(length) / high))
        found = np.where(long, inverse / factor, inverse)
        span = np.float32(high - low)
        share = (length / wavelength - np.float32(low)) / span if span else np.float32(0)
        return np.where(between, (one - share) * found / factor + share * found, found)
