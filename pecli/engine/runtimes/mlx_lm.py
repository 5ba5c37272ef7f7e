"""mlx-lm: periods instead of frequencies, and attention factors that multiply the input."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import log_single, polynomial, power, round_single
from pecli.engine.runtimes.runtime import Given, Phases, Reading, Runtime
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.yarn import Yarn

_EXP_TERMS = (
    1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2, 2.402264791363012e-1,
    6.931472028550421e-1, 1.0,
)  # fmt: skip
"""2**x for |x| ≤ 1/2, in the vector loops of MLX."""


def _yarn(given: Given) -> Reading:
    """mscale is 1 and mscale_all_dim 0 unless they are given; attention_factor is not read."""
    reading = given.rounded_limits()
    yarn: Yarn = reading.scaling
    if yarn.mscale_all_dim:
        scaling = replace(yarn, mscale=yarn.mscale or 1.0, attention_factor=None)
    else:
        factor = float(yarn.divisor())
        magnitude = 0.1 * (1.0 if yarn.mscale is None else yarn.mscale) * math.log(factor) + 1
        scaling = replace(yarn, mscale=None, mscale_all_dim=None, attention_factor=magnitude)
    why = "computes it from factor, mscale and mscale_all_dim alone"
    return _on_input(replace(reading, scaling=scaling).with_attention(given, why))


def _longrope(given: Given) -> Reading:
    scaling: LongRope = given.scaling
    original = scaling.original_max_position_embeddings
    if (scaling.length or 0) > original:
        return _on_input(given.extension_attention())
    reading = given._replace(scaling=replace(scaling, length=original + 1)).extension_attention()
    cause = f"takes the long factors at any length; up to {original:,} the model has the short ones"
    return _on_input(replace(reading, causes=(cause, *reading.causes)))


def _on_input(reading: Reading) -> Reading:
    if reading.scaling.attention_value == 1:
        return reading
    return replace(reading, notes=("its attention factor multiplies q and k, not the table",))


def _phases(given: Given) -> Phases:
    if given.kind not in ("none", "dynamic", "linear"):
        return partial(np.multiply, np.float32(1) / _periods(given))
    inv_freq = _exponentials(given)
    scale = np.float32(1 / given.scaling.factor) if given.kind == "linear" else np.float32(1)
    return lambda places: places * scale * inv_freq


def _exponentials(given: Given) -> Singles:
    """exp(−i·ln b/(d/2)), by the polynomial that MLX has for float32 vectors."""
    base = round_single(given.scaling.float32_base(given.base, given.dim))
    step = np.float32(log_single(base)) / np.float32(given.dim // 2)
    powers = -np.arange(given.pairs, dtype=np.float32) * step * np.float32(1.442695)
    whole = np.floor(powers + np.float32(0.5))
    found: Singles = np.ldexp(polynomial(_EXP_TERMS, powers - whole), whole.astype(np.int32))
    return found


def _periods(given: Given) -> Singles:
    scaling, base = given.scaling, round_single(given.base)
    exponents = np.arange(0, 2 * given.pairs, 2, dtype=np.float32) / np.float32(given.dim)
    powers = np.array([power(base, float(exponent)) for exponent in exponents], np.float32)
    if given.kind == "llama3":
        return _llama3(scaling, powers)
    if given.kind == "yarn":
        keep, slow = (
            scaling.float32_keep(given.pairs, given.base, given.dim),
            np.float32(scaling.divisor()) * powers,
        )
        blended: Singles = slow * powers / (slow * keep + powers * (np.float32(1) - keep))
        return blended
    if given.kind == "proportional":
        return np.float32(scaling.factor or 1) * powers
    return np.array(scaling.divisors, np.float32) * powers


def _llama3(scaling: Llama3, powers: Singles) -> Singles:
    length, factor = (
        np.float32(scaling.original_max_position_embeddings),
        np.float32(scaling.factor),
    )
    low, high = np.float32(scaling.low_freq_factor), np.float32(scaling.high_freq_factor)
    waves = np.float32(2 * math.pi) * powers
    found = np.where(waves > length / low, powers * factor, powers)
    between = (waves > length / high) & (waves < length / low)
    share = (length / waves - low) / (high - low or np.float32(1))
    return np.where(between, found / ((np.float32(1) - share) / factor + share), found)


RUNTIME = Runtime(
    "mlx-lm",
    "0.32.2",
    "models/rope_utils.py, initialize_rope, and mlx.core.fast.rope on the CPU",
    {
        **dict.fromkeys(("none", "linear", "dynamic", "llama3", "proportional"), Given.as_defined),
        "yarn": _yarn,
        "longrope": _longrope,
    },
    _phases,
    ignores_prompt=True,
    text_only=True,
)
