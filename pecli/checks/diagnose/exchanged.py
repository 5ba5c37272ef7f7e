"""Frequencies whose scaling has its two limits the wrong way round, which pecli itself refuses to make."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope


def exchanged_betas(plain: Floats, scaled: Floats, rope: Rope) -> Floats:
    """YaRN's ramp with beta_fast and beta_slow in each other's place: it falls where it should rise.

    `plain` are the frequencies without scaling, `scaled` those with it, of which the last has all of the factor.
    """
    original, d = rope.original_max_position_embeddings or 1, rope.exponent_dim
    low, high = (
        d * (math.log(original / (2 * math.pi)) - math.log(beta)) / (2 * math.log(rope.base))
        for beta in (rope.beta_slow or 1.0, rope.beta_fast or 32.0)
    )
    if rope.truncate is not False:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    high += 0.001 * (low == high)
    ramp = np.clip((np.arange(len(plain)) - low) / (high - low), 0.0, 1.0)
    return np.asarray(scaled[-1] / plain[-1] * plain * ramp + plain * (1 - ramp))


def exchanged_factors(plain: Floats, scaled: Floats, at: float) -> Floats:
    """Llama 3's blend with both factors in each other's place: nothing is left between them, so that wavelengths are
    scaled from one limit on, and which one is up to the order of the comparisons.
    """
    return np.where(2 * np.pi / plain > at, plain * (scaled[-1] / plain[-1]), plain)
