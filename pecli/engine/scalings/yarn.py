"""YaRN (Peng et al., 2023): low frequencies are interpolated, and attention is sharpened for it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles
from pecli.engine.named_values import NamedValues
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, blended, extension, unscaled
from pecli.errors import ParameterError, spelled

DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
"""Values of parameters that are not given, from the paper."""
MAX_ATTENTION = 10**6
_CHECK_BITS = 100
"""With these bits, the least attention factor, 1e-30, is more than zero: 1.27 units."""
_FLOAT32_BITS = 160
_MIN_RAMP = Fraction(1, 1000)
"""The length of a ramp whose limits are equal, in pairs, as in transformers."""


class Betas(NamedTuple):
    """Rotations within O above which frequencies stay, and below which they are divided by f."""

    fast: float
    slow: float


class RampLimits(NamedTuple):
    """The pairs between which YaRN blends, as integers over 2**bits.

    They may be fractions of a pair: with 100 bits, pair 8.5 is the integer 8.5 · 2**100.
    """

    low: int
    high: int

    def in_pairs(self, bits: int) -> tuple[float, float]:
        """Return both limits as floats: 8.5 instead of 8.5 · 2**bits."""
        one = 1 << bits
        return self.low / one, self.high / one

    def rounded_outwards(self, bits: int) -> RampLimits:
        """Return the limits at whole pairs: 8.1 and 17.3 become 8 and 18."""
        one = 1 << bits
        low_pair = self.low // one  # rounded down
        high_pair = (self.high + one - 1) // one  # rounded up
        return RampLimits(low_pair * one, high_pair * one)

    def within_channels(self, dim: int, bits: int) -> RampLimits:
        """Return the limits cut to 0 … dim − 1, and apart from each other.

        The code of the paper cuts pairs at the last channel, not at the last pair: with 64 channels,
        the high limit is at most 63, although pairs end at 31. Equal limits are set apart by 0.001,
        because the ramp divides by their distance.
        """
        low = max(self.low, 0)
        high = min(self.high, (dim - 1) << bits)
        if low == high:
            high += numerics.fixed(_MIN_RAMP, bits)
        return RampLimits(low, high)

    def ramp_at(self, pair: int, bits: int) -> int:
        """Return the ramp at a pair: 0 up to the low limit, 1 from the high one on."""
        one = 1 << bits
        ramp = ((pair * one - self.low) << bits) // (self.high - self.low)
        return min(max(ramp, 0), one)


@dataclass(frozen=True)
class Yarn(Scaling):
    """Keeps high frequencies, divides low ones by f, and blends those between.

    The blend is a ramp over the pairs between two limits: with limits 8 and 18, pair 13 gets half
    of its frequency and half of frequency / f.
    """

    per_frequency = True
    defaults: ClassVar[NamedValues] = DEFAULTS

    original_max_position_embeddings: int
    factor: float | None = None
    max_position_embeddings: int | None = None
    attention_factor: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    truncate: bool | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    @classmethod
    def frequency_parameters(cls) -> tuple[str, ...]:
        return ("factor", "original_max_position_embeddings", *DEFAULTS)

    def with_defaults(self) -> Self:
        return replace(super().with_defaults(), factor=float(self.divisor()))

    def divisor(self) -> Fraction:
        """Return f, or M/O if f is not given."""
        return extension(
            self.factor, self.max_position_embeddings, self.original_max_position_embeddings
        )

    def betas(self) -> Betas:
        """Return beta_fast and beta_slow, or their defaults."""
        fast = self.beta_fast or DEFAULTS["beta_fast"]
        slow = self.beta_slow or DEFAULTS["beta_slow"]
        return Betas(fast, slow)

    def frequencies(self, base: float, dim: int) -> Frequencies:
        """Return frequency · (1 − ramp) + frequency / factor · ramp of each pair.

        The ramp is 0 up to the low limit, 1 from the high one on, and linear between: with limits 8
        and 18, pair 13 has the ramp 1/2.

        Frequencies are in radians per position. They and the ramp are integers over 2**bits, with
        more digits than a float64 has: a ramp of 1/2 is 2**bits / 2.
        """
        factor = self.divisor()
        unscaled_frequencies, bits = unscaled(base, dim)
        limits = self.limits(base, dim, bits)
        one = 1 << bits
        frequencies = []
        for pair, frequency in enumerate(unscaled_frequencies):
            kept_share = one - limits.ramp_at(pair, bits)
            frequencies.append(blended(frequency, factor, kept_share, bits))
        return Frequencies(tuple(frequencies), bits)

    def limits(self, base: float, dim: int, bits: int) -> RampLimits:
        """Return the pairs between which YaRN blends, as integers over 2**bits.

        A pair that rotates more often than beta_fast (32 times) within the original length keeps
        its frequency. One that rotates less often than beta_slow (once) has it divided by the whole
        factor. The limits are the pairs that rotate just so often.

        They are rounded to whole pairs unless `truncate` is False, as in gpt-oss.
        """
        betas = self.betas()
        low = self._pair_of_rotations(betas.fast, base, dim, bits)
        high = self._pair_of_rotations(betas.slow, base, dim, bits)
        limits = RampLimits(low, high)
        if self.truncate is not False:
            limits = limits.rounded_outwards(bits)
        return limits.within_channels(dim, bits)

    def _pair_of_rotations(self, rotations: float, base: float, dim: int, bits: int) -> int:
        """Return the pair that rotates so many times within O, as an integer over 2**bits.

        For β rotations it is d · (ln(O/β) − ln 2π) / (2 · ln b), with the original length O, the
        rotary dim d and the base b: pair i has the wavelength 2π · b^(2i/d), which fits β times
        into O.
        """
        length = Fraction(self.original_max_position_embeddings)
        log_base = numerics.log(Fraction(base), bits)
        log_turn = numerics.log(Fraction(2 * numerics.pi(bits), 1 << bits), bits)
        log_radians = numerics.log(length / Fraction(rotations), bits) - log_turn
        return (dim * log_radians << bits) // (2 * log_base)

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        """Return the frequencies in float64, by the formula of `frequencies`, for searches."""
        assert self.factor is not None  # `complete` has set it.
        low, high = self._approximate_limits(base, half)
        ramp = np.clip((np.arange(plain.shape[-1]) - low) / (high - low), 0, 1)
        return plain / self.factor * ramp + plain * (1 - ramp)

    def _approximate_limits(self, base: float | Floats, half: float) -> tuple[Floats, Floats]:
        """Return the two pairs of channels between which YaRN blends: 8.0 and 18.0, for example.

        Up to pair 8, which rotates beta_fast (32) times within the original context, frequencies
        stay as they are. From pair 18 on, which rotates beta_slow times (once), they are divided by
        the factor. They are computed in float64, for many scalings at once: a beta or the base may
        be a column of numbers.

        Args:
            base: The base of the frequencies.
            half: Half of the rotary dim, the number of pairs.
        """
        assert self.beta_fast is not None  # `complete` has set both.
        assert self.beta_slow is not None
        low = self._approximate_pair(self.beta_fast, base, half)
        high = self._approximate_pair(self.beta_slow, base, half)
        if self.truncate:
            low = np.floor(low)
            high = np.ceil(high)
        low = np.maximum(low, 0.0)
        # The last pair is half − 1, but the code of YaRN's paper has the number of the last channel
        # here, and transformers follows it.
        last_channel = 2 * half - 1
        high = np.minimum(high, last_channel)
        # The blend divides by high − low. As in transformers, 0.001 is added to it if it is 0.
        return low, np.where(low == high, high + float(_MIN_RAMP), high)

    def _approximate_pair(self, rotations: float, base: float | Floats, half: float) -> Floats:
        """Return the pair that rotates so many times within O, in float64; it may be 8.1."""
        length = self.original_max_position_embeddings
        pair: Floats = half * np.log(length / (2 * math.pi * rotations)) / np.log(base)
        return pair

    def known_mistakes(self) -> tuple[Yarn, ...]:
        """Return YaRN with limits rounded or not, with the betas swapped, and with radians for turns."""
        fast, slow = self.betas()
        other_rounding = replace(self, truncate=self.truncate is False)
        swapped = replace(self, beta_fast=slow, beta_slow=fast)
        in_radians = replace(self, beta_fast=fast / (2 * math.pi), beta_slow=slow / (2 * math.pi))
        return other_rounding, swapped, in_radians

    @property
    def exact_attention(self) -> Fraction | None:
        """The attention factor if it is given, 1 if both mscales are equal or f is 1, else None."""
        if self.attention_factor is not None:
            return Fraction(self.attention_factor)
        has_equal_mscales = bool(self.mscale) and self.mscale == self.mscale_all_dim
        if has_equal_mscales or self.divisor() <= 1:
            return Fraction(1)
        return None

    def attention(self, bits: int) -> int:
        """Return the attention factor, which multiplies cos and sin, as an integer over 2**bits.

        It is `attention_factor` if the config has one. Otherwise it is g(1), with

            g(m) = 0.1 · m · ln factor + 1.

        With both mscales, as in DeepSeek-V3, it is g(mscale) / g(mscale_all_dim).
        """
        if self.exact_attention is not None:  # a fraction: given, or 1
            return super().attention(bits)
        factor = self.divisor()
        if not (self.mscale and self.mscale_all_dim):
            return attention_term(factor, 1, bits)
        # Both have 16 more bits, so that the error of the quotient is below its last bit.
        numerator = attention_term(factor, self.mscale, bits + 16)
        denominator = attention_term(factor, self.mscale_all_dim, bits + 16)
        return (numerator << bits) // denominator

    def check(self, base: float, dim: int) -> None:
        """Raise ParameterError unless factor ≥ 1, beta_fast ≥ beta_slow, base > 1, and mscales fit."""
        if self.divisor() < 1:  # It follows from the lengths: a factor is at least 1.
            rule = "it is below the original length"
            raise ParameterError("max_position_embeddings", self.max_position_embeddings, rule)
        betas = self.betas()
        if betas.fast < betas.slow:
            rule = f"it must be at least beta_slow, {betas.slow:g}"
            raise ParameterError("beta_fast", spelled(betas.fast), rule)
        if base <= 1:
            rule = "yarn scaling divides by ln b, so b must be above 1"
            raise ParameterError("base", spelled(base), rule)
        if self.attention_factor is None and self.mscale and self.mscale_all_dim:
            self._check_attention_of_mscales(self.mscale, self.mscale_all_dim)

    def _check_attention_of_mscales(self, mscale: float, mscale_all_dim: float) -> None:
        """Raise ParameterError unless the attention factor of two mscales is from 1e-30 to 1e6.

        It is g(mscale) / g(mscale_all_dim), and both of these must be above 0, with

            g(m) = 0.1 · m · ln factor + 1.

        For factor 40 and the mscales 1 and 0.5, it is 1.369 / 1.184.

        Args:
            mscale: The field of this name, which is not None here.
            mscale_all_dim: The field of this name.
        """
        factor = self.divisor()
        for name, value in (("mscale", mscale), ("mscale_all_dim", mscale_all_dim)):
            g = attention_term(factor, value, _CHECK_BITS)  # an integer over 2**_CHECK_BITS
            if g <= 0:
                rule = "0.1 · mscale · ln factor + 1 must be above 0"
                raise ParameterError(name, spelled(value), rule)
        # This has so many bits after the point that only numbers below 1e-30 are rounded down to 0.
        attention_factor = Fraction(self.attention(_CHECK_BITS), 1 << _CHECK_BITS)
        is_allowed = 0 < attention_factor <= MAX_ATTENTION
        if not is_allowed:
            rule = (
                f"with mscale_all_dim {mscale_all_dim:g}, "
                "the attention factor is not from 1e-30 to 1e+06"
            )
            raise ParameterError("mscale", spelled(mscale), rule)

    def float32_keep(self, count: int, base: float, dim: int) -> Singles:
        """Return the share of its frequency that each of `count` pairs keeps, from 1 to 0, in float32.

        It is 1 minus a ramp, which is 0 up to the low limit and 1 from the high one on. The limits,
        which transformers computes in float64, are exact here, then rounded to float32.
        """
        limits = self.limits(base, dim, _FLOAT32_BITS)
        low, high = limits.in_pairs(_FLOAT32_BITS)
        pairs = np.arange(count, dtype=np.float32)
        ramp: Singles = (pairs - np.float32(low)) / np.float32(high - low)
        return np.float32(1) - np.clip(ramp, 0, 1)

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        """Return the inverse frequencies, each step rounded to float32 as in transformers.

        YaRN keeps the frequencies of pairs up to a limit, such as pair 8, and divides those from
        another one on, such as 18, by the factor. Between them, both are blended.

        Args:
            powers: The numbers p = base^(2i/dim) in float32, whose reciprocals are the frequencies.
            base: The base.
            dim: The rotary dim.
        """
        one = np.float32(1)
        keep = self.float32_keep(len(powers), base, dim)
        with np.errstate(over="ignore"):  # A factor of 1e39 is infinite in float32.
            divided = one / (np.float32(float(self.divisor())) * powers)
        blended: Singles = divided * (one - keep) + one / powers * keep
        return blended


def attention_term(factor: Fraction, mscale: float, bits: int) -> int:
    """Return 0.1 · mscale · ln factor + 1, as an integer over 2**bits.

    It is YaRN's attention factor for mscale 1; with two mscales, that is a quotient of such terms.
    """
    multiplier = Fraction(mscale) / 10
    logarithm = numerics.log(factor, bits + 16)
    product = logarithm * multiplier.numerator // multiplier.denominator >> 16
    return product + (1 << bits)
