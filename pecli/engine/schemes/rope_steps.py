"""Scalings of rotary frequencies in float32, step by step as transformers takes them.

Each starts from the powers p_i = b^(2i/d) and ends with inverse frequencies; every step rounds to float32. What
transformers computes in float64 before (the base of ntk and dynamic, the limits of yarn) is exact here, then rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics import fixed_point
from pecli.engine.numerics.rounding import round_fixed
from pecli.engine.schemes import rope_scaling, yarn
from pecli.engine.schemes.recipe_tables import FrequencyRecipe
from pecli.engine.schemes.rope_frequencies import given

if TYPE_CHECKING:
    from fractions import Fraction

    from pecli.engine.schemes.rope import Rope


_ONE = np.float32(1)


def course(rope: Rope, denominator: Fraction) -> FrequencyRecipe:
    """What a recipe needs to know of a rotary scheme."""
    attention = rope.attention_factor_value()
    if rope.scaling in ("ntk", "dynamic"):
        return FrequencyRecipe(_stretched_base(rope), denominator, rope.rotating_pairs, amplitude=attention)
    steps = _STEPS.get(rope.scaling)
    if steps is None:
        return FrequencyRecipe(rope.base, denominator, rope.rotating_pairs, amplitude=attention)

    def scale(powers: Singles) -> Singles:
        return steps(rope, powers)

    return FrequencyRecipe(
        rope.base, denominator, rope.rotating_pairs, amplitude=attention, steps=scale, scaled=rope.frequencies
    )


def _stretched_base(rope: Rope) -> float:
    stretch, power = rope_scaling.stretch(rope)
    value = given(rope.base) * fixed_point.power(stretch, power, 160)
    return round_fixed(value.numerator // value.denominator, 160, "float32")


def _divided(rope: Rope, powers: Singles) -> Singles:
    return _ONE / powers / np.float32(rope.factor or 1.0)


def _yarn(rope: Rope, powers: Singles) -> Singles:
    bits = 160
    low, high = (value / (1 << bits) for value in yarn.limits(rope, bits))
    places = np.arange(len(powers), dtype=np.float32)
    keep = _ONE - np.clip((places - np.float32(low)) / np.float32(high - low), 0, 1)
    slow = _ONE / (np.float32(float(yarn.factor(rope))) * powers)
    found: Singles = slow * (_ONE - keep) + _ONE / powers * keep
    return found


def _longrope(rope: Rope, powers: Singles) -> Singles:
    return _ONE / (np.array(rope_scaling.divisors(rope), np.float32) * powers)


def _llama3(rope: Rope, powers: Singles) -> Singles:
    factor, length = (np.float32(float(given(each))) for each in (rope.factor, rope.original_max_position_embeddings))
    low, high = float(given(rope.low_freq_factor)), float(given(rope.high_freq_factor))
    inverse = _ONE / powers
    wavelength = np.float32(2 * math.pi) / inverse
    long = wavelength > np.float32(float(length) / low)
    between = ~long & ~(wavelength < np.float32(float(length) / high))
    found = np.where(long, inverse / factor, inverse)
    share = (length / wavelength - np.float32(low)) / np.float32(high - low)
    return np.where(between, (_ONE - share) * found / factor + share * found, found)


_STEPS: dict[str, Callable[[Rope, Singles], Singles]] = {
    "linear": _divided,
    "proportional": _divided,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
}
