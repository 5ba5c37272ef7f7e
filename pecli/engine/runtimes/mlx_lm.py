"""mlx-lm: periods instead of frequencies, and attention factors that multiply the input."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.named_values import required
from pecli.engine.numerics.float32_functions import log_single, polynomial, power, round_single
from pecli.engine.runtimes.runtime import (
    UNCHANGED,
    Adaptation,
    AngleFunction,
    Definition,
    ModelRope,
    RuntimeProfile,
    RuntimeReading,
    ScalingT,
    as_defined,
    with_attention_of_lengths,
    with_llama_3_length,
    with_rounded_limits,
)
from pecli.engine.scalings.linear import Linear, Proportional
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn

_ONE = np.float32(1)
_LOG2_E = np.float32(1.442695)
_EXP2_COEFFICIENTS = (
    1.535336188319500e-4,
    1.339887440266574e-3,
    9.618437357674640e-3,
    5.550332471162809e-2,
    2.402264791363012e-1,
    6.931472028550421e-1,
    1.0,
)
"""Of 2**x for |x| ≤ 1/2, in the vector loops of MLX."""


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as mlx-lm reads it: attention_factor is ignored, limits are always rounded.

    The mscale is 1 and mscale_all_dim 0 unless the config has them. With an mscale_all_dim, the
    attention factor is a ratio as in transformers; without one, it is 0.1 · mscale · ln f + 1.
    """
    reading = with_rounded_limits(definition)
    scaling = _with_attention_of_mscales(reading.scaling)
    reason = "computes it only from factor, mscale and mscale_all_dim"
    explained = replace(reading, scaling=scaling).with_attention_cause(definition, reason)
    return _with_note_on_attention(explained)


def _with_attention_of_mscales(yarn: Yarn) -> Yarn:
    """Return YaRN with the attention factor that mlx-lm computes from its mscales."""
    if yarn.mscale_all_dim:
        return replace(yarn, mscale=yarn.mscale or 1.0, attention_factor=None)
    mscale = 1.0 if yarn.mscale is None else yarn.mscale
    attention = 0.1 * mscale * math.log(float(yarn.divisor())) + 1
    return replace(yarn, mscale=None, mscale_all_dim=None, attention_factor=attention)


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as mlx-lm computes it, and why that differs from the model.

    LongRoPE divides frequencies by one of two lists of factors. The model takes the short list for
    prompts up to its original length. mlx-lm takes the long one for all prompts.
    """
    longrope = definition.scaling
    original = longrope.original_max_position_embeddings
    model_takes_long_list = required(longrope.length) > original
    if model_takes_long_list:
        reading = with_attention_of_lengths(definition)
        return _with_note_on_attention(reading)
    # `LongRope` takes the long list for any length above the original one.
    longrope_with_long_list = replace(longrope, length=original + 1)
    changed_definition = replace(definition, scaling=longrope_with_long_list)
    reading = with_attention_of_lengths(changed_definition)
    cause = f"uses the long factors at any length; the model uses the short ones up to {original:,}"
    reading_with_cause = replace(reading, causes=(cause, *reading.causes))
    return _with_note_on_attention(reading_with_cause)


def _with_note_on_attention(reading: RuntimeReading[ScalingT]) -> RuntimeReading[ScalingT]:
    """Return a reading that notes that mlx-lm multiplies queries and keys by the attention factor.

    Other runtimes multiply the table of cos and sin by it. The scores are the same, so that this is
    no departure. A factor of 1 needs no note.
    """
    if reading.scaling.attention_value == 1:
        return reading
    return replace(reading, notes=("its attention factor multiplies q and k, not the table",))


def _mlx_lm_angles(definition: Definition[Scaling]) -> AngleFunction:
    """Return float32 angles as mlx-lm computes them.

    A scaling that changes single frequencies has a list of periods, by which positions are divided.
    """
    periods = _periods(definition)
    if periods is None:
        return _scaled_positions(definition)
    return partial(np.multiply, _ONE / periods)


def _periods(definition: Definition[Scaling]) -> Singles | None:
    """Return the periods 1 / frequency of all pairs, by which mlx-lm divides positions.

    It has periods only for scalings that change single frequencies; None for any other.
    """
    scaling = definition.scaling
    match scaling:
        case Llama3():
            return _llama3_periods(scaling, _powers(definition))
        case Yarn():
            return _yarn_periods(scaling, definition)
        case Proportional():
            return np.float32(scaling.divisor()) * _powers(definition)
        case LongRope():
            return np.array(scaling.divisors, np.float32) * _powers(definition)
    return None


def _scaled_positions(definition: Definition[Scaling]) -> AngleFunction:
    """Return a function from positions to angles, for a scaling without periods.

    An angle is position · 1/f · frequency, in this order; f is 1 unless the scaling is linear.
    """
    scaling = definition.scaling
    inv_freq = _inverse_frequencies(definition)
    scale = _ONE
    if isinstance(scaling, Linear):
        scale = np.float32(1 / scaling.factor)

    def angles(positions: Singles) -> Singles:
        return positions * scale * inv_freq

    return angles


def _inverse_frequencies(definition: Definition[Scaling]) -> Singles:
    """Return the frequency e**(−i·ln b/(d/2)) of each pair i, in the float32 steps of MLX.

    MLX computes e**x as 2**n · 2**r: x·log2 e is split into the nearest integer n and a remainder r
    from −1/2 to 1/2, and 2**r is a polynomial. For x = −1, n is −1 and r is −0.44.
    """
    base = round_single(definition.scaling.float32_base(definition.base, definition.dim))
    step = np.float32(log_single(base)) / np.float32(definition.dim // 2)
    exponents = -np.arange(definition.pairs, dtype=np.float32) * step * _LOG2_E
    whole = np.floor(exponents + np.float32(0.5))
    fractions = polynomial(_EXP2_COEFFICIENTS, exponents - whole)
    frequencies: Singles = np.ldexp(fractions, whole.astype(np.int32))
    return frequencies


def _powers(definition: Definition[Scaling]) -> Singles:
    """Return b^(2i/d) for every pair."""
    base = round_single(definition.base)
    numerators = np.arange(0, 2 * definition.pairs, 2, dtype=np.float32)
    exponents = numerators / np.float32(definition.dim)
    return np.array([power(base, float(exponent)) for exponent in exponents], np.float32)


def _yarn_periods(yarn: Yarn, definition: Definition[Scaling]) -> Singles:
    """Return the periods 1 / frequency of YaRN, which blends scaled and unscaled frequencies.

    A period p, scaled f·p, of which a share s is kept, becomes f·p·p / (f·p·s + p·(1 − s)). Its
    reciprocal is s/p + (1 − s)/(f·p), the blend of both frequencies.
    """
    unscaled_periods = _powers(definition)
    kept_share = yarn.float32_keep(definition.pairs, definition.base, definition.dim)
    scaled_periods = np.float32(yarn.divisor()) * unscaled_periods
    products = scaled_periods * unscaled_periods
    weighted_sum = scaled_periods * kept_share + unscaled_periods * (_ONE - kept_share)
    blended: Singles = products / weighted_sum
    return blended


def _llama3_periods(llama3: Llama3, powers: Singles) -> Singles:
    """Return the periods 1 / frequency of Llama 3.1's scaling, in the float32 steps of mlx-lm.

    An unscaled period p becomes p·f for long waves and stays p for short ones. Between them, a share
    s of the frequency is kept, and the period is p / ((1 − s)/f + s). Wavelengths are 2π·p; one that
    equals a limit is neither long nor between.

    Args:
        llama3: The scaling.
        powers: The unscaled periods p = b^(2i/d) of the pairs.
    """
    length = np.float32(llama3.original_max_position_embeddings)
    factor = np.float32(llama3.factor)
    low = np.float32(llama3.low_freq_factor)
    high = np.float32(llama3.high_freq_factor)
    wavelengths = np.float32(2 * math.pi) * powers
    is_long = wavelengths > length / low
    is_between = (wavelengths > length / high) & (wavelengths < length / low)
    multiplied_or_kept = np.where(is_long, powers * factor, powers)
    kept_share = (length / wavelengths - low) / (high - low or _ONE)  # unused if both are equal
    blended = powers / ((_ONE - kept_share) / factor + kept_share)
    return np.where(is_between, blended, multiplied_or_kept)


def _adapted(encoding: ModelRope) -> Adaptation:
    """Replace the original length of llama3 unless `rope_scaling` states it.

    `Llama3RoPE` in models/rope_utils.py takes 8,192 then, whatever stands at the top of the config.
    """
    lengths = encoding.stated_lengths
    if lengths is None:
        return UNCHANGED
    return with_llama_3_length(encoding, lengths.in_settings, "within rope_scaling")


RUNTIME = RuntimeProfile(
    name="mlx-lm",
    version="0.32.2",
    source="models/rope_utils.py, initialize_rope, and mlx.core.fast.rope on the CPU",
    readings={
        "none": as_defined,
        "linear": as_defined,
        "dynamic": as_defined,
        "llama3": as_defined,
        "proportional": as_defined,
        "yarn": _read_yarn,
        "longrope": _read_longrope,
    },
    angle_function=_mlx_lm_angles,
    ignores_prompt=True,
    text_only=True,
    adapted=_adapted,
)
