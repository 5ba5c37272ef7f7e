"""YaRN (Peng et al., 2023): which frequencies are interpolated, and by how much attention is sharpened for it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Singles
from pecli.engine.numerics import Frequencies
from pecli.engine.scalings.scaling import Scaling, unscaled
from pecli.errors import ParameterError, spelled

DEFAULTS = {
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": True,
}  #: what counts where it is not given
MAX_ATTENTION = 10**6
_BITS = 100  #: with which the least attention factor, 1e-30, is more than nothing


@dataclass(frozen=True)
class Yarn(Scaling):
    """High frequencies stay, low ones are divided by f, those between are blended."""

    per_frequency = True
    defaults: ClassVar[Mapping[str, Any]] = DEFAULTS

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

    def complete(self) -> Self:
        return replace(super().complete(), factor=float(self.divisor()))

    def frequencies(self, base: float, dim: int) -> Frequencies:
        by, (values, bits) = self.divisor(), unscaled(base, dim)
        low, high = self.limits(base, dim, bits)
        one, blended = 1 << bits, []
        for k, value in enumerate(values):
            ramp = min(max(((k * one - low) << bits) // (high - low), 0), one)
            blended.append(
                ((value * by.denominator // by.numerator) * ramp + value * (one - ramp)) >> bits
            )
        return Frequencies(tuple(blended), bits)

    def limits(self, base: float, dim: int, bits: int) -> tuple[int, int]:
        """The frequencies between which YaRN blends: indices, over 2**bits."""
        log_base = numerics.log(Fraction(base), bits)
        length = Fraction(self.original_max_position_embeddings)
        circle = numerics.log(Fraction(2 * numerics.pi(bits), 1 << bits), bits)

        def index(rotations: Fraction) -> int:
            return (dim * (numerics.log(length / rotations, bits) - circle) << bits) // (
                2 * log_base
            )

        low, high = (index(Fraction(beta)) for beta in self.betas())
        one = 1 << bits
        if self.truncate is not False:
            low, high = low // one * one, -(-high // one) * one
        low, high = max(low, 0), min(high, (dim - 1) * one)
        return low, high + (numerics.fixed(Fraction(1, 1000), bits) if low == high else 0)

    def approximate(self, plain: Any, base: Any, half: float) -> Any:
        low, high = (
            half
            * np.log(self.original_max_position_embeddings / (2 * math.pi * getattr(self, beta)))
            / np.log(base)
            for beta in ("beta_fast", "beta_slow")
        )
        if self.truncate:
            low, high = np.floor(low), np.ceil(high)
        low, high = np.maximum(low, 0.0), np.minimum(high, 2 * half - 1)
        high = high + np.where(low == high, 0.001, 0.0)
        ramp = np.clip((np.arange(plain.shape[-1]) - low) / (high - low), 0, 1)
        return plain / self.factor * ramp + plain * (1 - ramp)

    def betas(self) -> tuple[float, float]:
        """The rotations above which frequencies are unchanged, and below which all is scaled."""
        return self.beta_fast or DEFAULTS["beta_fast"], self.beta_slow or DEFAULTS["beta_slow"]

    def known_mistakes(self) -> "tuple[Yarn, ...]":
        """Limits rounded or not, and the two betas swapped."""
        fast, slow = self.betas()
        return replace(self, truncate=self.truncate is False), replace(
            self, beta_fast=slow, beta_slow=fast
        )

    @property
    def exact_attention(self) -> Fraction | None:
        if self.attention_factor is not None:
            return Fraction(self.attention_factor)
        same = self.mscale and self.mscale == self.mscale_all_dim
        return Fraction(1) if same or self.divisor() <= 1 else None

    def attention(self, bits: int) -> int:
        """As given; else g(f, mscale) / g(f, mscale_all_dim) where both are given; else g(f)."""
        if self.exact_attention is not None:
            return super().attention(bits)
        by = self.divisor()
        if not (self.mscale and self.mscale_all_dim):
            return magnitude(by, 1, bits)
        above, below = (
            magnitude(by, scale, bits + 16) for scale in (self.mscale, self.mscale_all_dim)
        )
        return (above << bits) // below

    def check(self, base: float, dim: int) -> None:
        if self.factor is None and self.max_position_embeddings is None:
            rule = (
                "yarn scaling needs it, or max_position_embeddings to divide by the original length"
            )
            raise ParameterError("factor", "missing", rule)
        if self.divisor() < 1:
            rule = "it is below the original length"
            raise ParameterError("max_position_embeddings", self.max_position_embeddings, rule)
        fast, slow = self.betas()
        if fast < slow:
            raise ParameterError(
                "beta_fast", spelled(fast), f"it must be at least beta_slow, {slow:g}"
            )
        if base <= 1:
            raise ParameterError(
                "base", spelled(base), "yarn scaling divides by ln b, so b must be above 1"
            )
        if self.attention_factor is not None or not (self.mscale and self.mscale_all_dim):
            return  # else what follows from mscale has the limits of an attention factor that is given
        for name in ("mscale", "mscale_all_dim"):
            if magnitude(self.divisor(), getattr(self, name), _BITS) <= 0:
                raise ParameterError(
                    name,
                    spelled(getattr(self, name)),
                    "0.1 · mscale · ln factor + 1 must be above 0",
                )
        if not 0 < self.attention(_BITS) <= MAX_ATTENTION << _BITS:
            rule = f"with mscale_all_dim {self.mscale_all_dim:g}, the attention factor is not from 1e-30 to 1e+06"
            raise ParameterError("mscale", spelled(self.mscale), rule)

    def float32_keep(self, count: int, base: float, dim: int) -> Singles:
        bits, one = 160, np.float32(1)
        low, high = (value / (1 << bits) for value in self.limits(base, dim, bits))
        ramp: Singles = (np.arange(count, dtype=np.float32) - np.float32(low)) / np.float32(
            high - low
        )
        return one - np.clip(ramp, 0, 1)

    def float32_steps(self, powers: Singles, base: float, dim: int) -> Singles:
        one, keep = np.float32(1), self.float32_keep(len(powers), base, dim)
        slow = one / (np.float32(float(self.divisor())) * powers)
        found: Singles = slow * (one - keep) + one / powers * keep
        return found


def magnitude(factor: Fraction, scale: float, bits: int) -> int:
    """YaRN's g(f, m) = 0.1·m·ln f + 1, as an integer over 2**bits."""
    part = Fraction(scale) / 10
    return (numerics.log(factor, bits + 16) * part.numerator // part.denominator >> 16) + (
        1 << bits
    )
