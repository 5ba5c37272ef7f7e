"""YaRN (Peng et al., 2023): which frequencies are interpolated, and by how much attention is sharpened for it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from pecli.engine.numerics import fixed_point
from pecli.engine.numerics.geometric import Frequencies
from pecli.engine.schemes.parameters import spelled
from pecli.engine.schemes.rope_frequencies import Amplitude, changed, given, plain
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.rope import Rope

DEFAULTS = {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": True}
"""What counts where it is not given."""
LEAST, LARGEST = 1e-30, 10**6
"""Between which an attention factor is."""
_BITS = 100
"""With which LEAST is more than nothing."""


def limits(rope: Rope, bits: int) -> tuple[int, int]:
    """The frequencies between which YaRN blends: indices, over 2**bits."""
    log_base = fixed_point.log(Fraction(rope.base), bits)
    length = given(rope.original_max_position_embeddings)
    circle = fixed_point.log(Fraction(2 * fixed_point.pi(bits), 1 << bits), bits)

    def index(rotations: Fraction) -> int:
        return (rope.exponent_dim * (fixed_point.log(length / rotations, bits) - circle) << bits) // (2 * log_base)

    low, high = (index(Fraction(beta)) for beta in _betas(rope))
    one = 1 << bits
    if rope.truncate is not False:
        low, high = low // one * one, -(-high // one) * one
    low, high = max(low, 0), min(high, (rope.exponent_dim - 1) * one)
    return low, high + (fixed_point.fixed(Fraction(1, 1000), bits) if low == high else 0)


def _betas(rope: Rope) -> tuple[float, float]:
    return rope.beta_fast or DEFAULTS["beta_fast"], rope.beta_slow or DEFAULTS["beta_slow"]


def frequencies(rope: Rope) -> Frequencies:
    """YaRN (Peng et al., 2023): high frequencies stay, low ones are interpolated, those between are blended."""
    by = factor(rope)

    def blend(values: Sequence[int], bits: int) -> list[int]:
        low, high = limits(rope, bits)
        one, blended = 1 << bits, []
        for k, value in enumerate(values):
            ramp = min(max(((k * one - low) << bits) // (high - low), 0), one)
            scaled = value * by.denominator // by.numerator
            blended.append((scaled * ramp + value * (one - ramp)) >> bits)
        return blended

    return changed(plain(rope), blend)


def factor(rope: Rope) -> Fraction:
    """f, or M/O where it is not given."""
    if rope.factor is not None:
        return Fraction(rope.factor)
    return given(rope.max_position_embeddings) / given(rope.original_max_position_embeddings)


def magnitude(factor: Fraction, scale: Fraction = Fraction(1)) -> Amplitude:
    """YaRN's g(f, m) = 0.1·m·ln f + 1, and 1 where f ≤ 1."""

    def value(bits: int) -> int:
        if factor <= 1:
            return 1 << bits
        part = scale / 10
        return (fixed_point.log(factor, bits + 16) * part.numerator // part.denominator >> 16) + (1 << bits)

    return value


def attention(rope: Rope) -> Amplitude:
    """g(f, mscale) / g(f, mscale_all_dim) where both are given, else g(f)."""
    by = factor(rope)
    if not (rope.mscale and rope.mscale_all_dim):
        return magnitude(by)
    if rope.mscale == rope.mscale_all_dim:
        return lambda bits: 1 << bits
    above, below = magnitude(by, Fraction(rope.mscale)), magnitude(by, Fraction(rope.mscale_all_dim))
    return lambda bits: (above(bits + 16) << bits) // below(bits + 16)


def check(rope: Rope) -> None:
    """Whether the parameters fit together."""
    if rope.factor is None and rope.max_position_embeddings is None:
        rule = "yarn scaling needs it, or max_position_embeddings to divide by the original length"
        raise ParameterError("factor", "missing", rule)
    if factor(rope) < 1:
        raise ParameterError("max_position_embeddings", rope.max_position_embeddings, "it is below the original length")
    fast, slow = _betas(rope)
    if fast < slow:
        raise ParameterError("beta_fast", spelled(fast), f"it must be at least beta_slow, {slow:g}")
    if rope.base <= 1:
        raise ParameterError("base", spelled(rope.base), "yarn scaling divides by ln b, so b must be above 1")
    _check_attention(rope)


def _check_attention(rope: Rope) -> None:
    """What follows from mscale has the limits of an attention factor that is given."""
    if rope.attention_factor is not None or not (rope.mscale and rope.mscale_all_dim):
        return
    for name in ("mscale", "mscale_all_dim"):
        if magnitude(factor(rope), Fraction(getattr(rope, name)))(_BITS) <= 0:
            raise ParameterError(name, spelled(getattr(rope, name)), "0.1 · mscale · ln factor + 1 must be above 0")
    if not 0 < attention(rope)(_BITS) <= LARGEST << _BITS:
        rule = f"with mscale_all_dim {rope.mscale_all_dim:g}, the attention factor is not from 1e-30 to 1e+06"
        raise ParameterError("mscale", spelled(rope.mscale), rule)
