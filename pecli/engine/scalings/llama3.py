"""Llama 3.1: long waves are interpolated, short ones stay, those between are blended."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, blended, unscaled
from pecli.errors import ParameterError, spelled


@dataclass(frozen=True)
class Llama3(Scaling):
    """Divides a frequency by f, or by less, according to its rotations within the original length.

    A wave of λ positions rotates O/λ times within O, the original length. Up to `low_freq_factor`
    rotations its frequency is divided by f, from `high_freq_factor` on it stays. In between, a share
    of (rotations − low) / (high − low) stays: with low 1 and high 4, a wave that rotates twice keeps
    1/3 of its frequency and gets 2/3 of frequency / f. If both are equal, the blend is a step (Llama
    4 Scout).
    """

    per_frequency = True

    factor: float
    original_max_position_embeddings: int
    low_freq_factor: float
    high_freq_factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        """Return the scaled frequencies of all pairs, in radians per position.

        A pair keeps a share of its frequency, and the rest is divided by the factor. The share is 1
        for pairs that rotate often within the original length, and 0 for slow ones.

        Frequencies are stored as integers, with more digits than a float64 has: 1/4 is 2**bits / 4.
        """
        factor = Fraction(self.factor)
        unscaled_frequencies, bits = unscaled(base, dim)
        stored_turn = 2 * numerics.pi(bits)  # 2π, stored as an integer like the frequencies
        frequencies = []
        for stored_frequency in unscaled_frequencies:
            stored_angle = stored_frequency * self.original_max_position_embeddings
            rotations = Fraction(stored_angle, stored_turn)  # The powers of two cancel out.
            stored_share = numerics.fixed(self._kept_share(rotations), bits)
            frequencies.append(blended(stored_frequency, factor, stored_share, bits))
        return Frequencies(tuple(frequencies), bits)

    def _kept_share(self, rotations: Fraction) -> Fraction:
        """Return the share of a frequency that stays, from 0 to 1; the rest is divided by the factor.

        With the limits 1 and 4, a pair that rotates 2 times within the original length keeps 1/3.
        """
        low = Fraction(self.low_freq_factor)
        high = Fraction(self.high_freq_factor)
        if low == high:
            return Fraction(rotations > low)
        share = (rotations - low) / (high - low)
        return min(max(share, Fraction(0)), Fraction(1))

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        rotations = self.original_max_position_embeddings * plain / (2 * math.pi)
        span = self.high_freq_factor - self.low_freq_factor
        keep = np.clip((rotations - self.low_freq_factor) / span, 0, 1)
        return plain / self.factor * (1 - keep) + plain * keep

    def known_mistakes(self) -> tuple["Llama3", ...]:
        """Return the scaling that compares its limits with 1/f for a frequency f, not with wavelengths 2π/f."""
        low = self.low_freq_factor / (2 * math.pi)
        high = self.high_freq_factor / (2 * math.pi)
        return (replace(self, low_freq_factor=low, high_freq_factor=high),)

    def check(self, base: float, dim: int) -> None:
        if self.high_freq_factor < self.low_freq_factor:
            rule = f"it must be at least low_freq_factor, {self.low_freq_factor:g}"
            raise ParameterError("high_freq_factor", spelled(self.high_freq_factor), rule)

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        """Return the inverse frequencies, each step rounded to float32 as in transformers.

        Those of long waves are divided by the factor, those of short waves stay, and those between
        are blended. A wave is long if it fits less than `low_freq_factor` times into the original
        length, and short if it fits more than `high_freq_factor` times.

        Args:
            powers: The wavelengths over 2π, b^(2i/d), in float32.
            base: The base, b.
            dim: The rotary dim, d.
        """
        one = np.float32(1)
        factor = np.float32(self.factor)
        length = np.float32(self.original_max_position_embeddings)
        inv_freq = one / powers
        wavelength = np.float32(2 * math.pi) / inv_freq
        is_long = wavelength > np.float32(float(length) / self.low_freq_factor)
        is_short = wavelength < np.float32(float(length) / self.high_freq_factor)
        is_between = ~is_long & ~is_short
        divided_or_kept = np.where(is_long, inv_freq / factor, inv_freq)
        kept_share = self._float32_share(length / wavelength)
        blended = (one - kept_share) * inv_freq / factor + kept_share * inv_freq
        return np.where(is_between, blended, divided_or_kept)

    def _float32_share(self, rotations: Singles) -> Singles | np.float32:
        """Return the share of a frequency that stays, by its rotations within the original length.

        If both limits are equal, only a wave just as long as they are is between; it is divided.
        """
        low = self.low_freq_factor
        span = np.float32(self.high_freq_factor - low)
        if not span:
            return np.float32(0)
        share: Singles = (rotations - np.float32(low)) / span
        return share
