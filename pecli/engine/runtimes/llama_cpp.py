"""llama.cpp: no inverse frequencies; an angle is multiplied by b^(−2/d) from pair to pair."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import log_single, power, round_single
from pecli.engine.runtimes.runtime import (
    UNCHANGED,
    Adaptation,
    AngleFunction,
    Definition,
    ModelRope,
    RuntimeProfile,
    RuntimeReading,
    as_defined,
    recurrence,
    with_attention_of_lengths,
    with_llama_3_length,
    with_rounded_limits,
)
from pecli.engine.runtimes.transformers import torch_powers_of
from pecli.engine.scalings.linear import Linear
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import Scaling, reciprocal
from pecli.engine.scalings.yarn import Yarn

_MIN_RAMP = np.float32(0.001)
"""The least distance, in pairs, from those that keep their frequency to those that keep none of it,
so that nothing is divided by zero.
"""


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as llama.cpp computes it, and why that differs from the model.

    A GGUF file has no place for three settings of a config:

    - `truncate`: llama.cpp always rounds the two pairs between which YaRN blends frequencies;
    - `attention_factor`, by which cosines and sines are multiplied: llama.cpp computes it;
    - `mscale`, from which it is computed: llama.cpp assumes a value.
    """
    rounded = with_rounded_limits(definition)  # for the first of these
    yarn = rounded.scaling
    yarn_in_file = replace(
        yarn,
        attention_factor=None,  # It is then computed from the two mscales.
        mscale=_assumed_mscale(yarn),
        mscale_all_dim=yarn.mscale_all_dim or None,  # 0 stands for none
    )
    as_computed = replace(rounded, scaling=yarn_in_file)
    reason = "computes it only from factor and mscale_all_dim"
    return as_computed.with_attention_cause(definition, reason)


def _assumed_mscale(yarn: Yarn) -> float | None:
    """Return the mscale that llama.cpp assumes beside mscale_all_dim; None without the latter.

    It is 1, except if both mscales are equal, as in DeepSeek-V2.
    """
    if not yarn.mscale_all_dim:
        return None
    return yarn.mscale if yarn.mscale == yarn.mscale_all_dim else 1.0


def _llama_cpp_angles(definition: Definition[Scaling]) -> AngleFunction:
    """Return a function from positions to float32 angles, as ggml computes them for llama.cpp.

    The angle of pair i + 1 is that of pair i times base^(−2/d): a recurrence. A scaling changes the
    angles after that: it divides each pair's by a number (Llama 3.1, longrope), multiplies all by
    1 / factor (linear), or blends these two kinds of angles, scaled and unscaled (YaRN).
    """
    exponent = np.float32(-2) / np.float32(definition.dim)
    ratio = power(round_single(definition.base), float(exponent))
    unscaled_angles = partial(recurrence, pairs=definition.pairs, ratio=ratio)
    match definition.scaling:
        case Llama3() as llama3:
            return partial(unscaled_angles, divisors=_llama3_divisors(llama3, definition))
        case LongRope() as longrope:
            return partial(unscaled_angles, divisors=np.array(longrope.divisors, np.float32))
        case Linear() as linear:
            return partial(unscaled_angles, scale=_reciprocal(linear.factor))
        case Yarn() as yarn:
            scale = _reciprocal(float(yarn.divisor()))
            return partial(unscaled_angles, scale=scale, keep=_kept_shares(yarn, definition))
    return unscaled_angles


def _reciprocal(factor: float) -> float:
    """Return 1 / factor, computed in float32."""
    return float(np.float32(1) / np.float32(factor))


def _llama3_divisors(llama3: Llama3, definition: Definition[Scaling]) -> Singles:
    """Return the numbers by which llama.cpp divides the frequencies of a Llama 3.1 model.

    The script that converts a model to GGUF writes them as the tensor `rope_freqs`. It computes them
    in float64 from float32 frequencies: 1 for short waves, f for long ones, and 1/((1 − s)/f + s)
    between, if a share s of the frequency is kept.
    """
    inv_freq = reciprocal(torch_powers_of(definition.base, definition))
    wavelengths = 2 * math.pi / inv_freq.astype(np.float64)
    length = llama3.original_max_position_embeddings
    low = llama3.low_freq_factor
    high = llama3.high_freq_factor
    is_long = wavelengths > length / low
    is_short = wavelengths < length / high
    kept_share = (length / wavelengths - low) / (high - low or 1)  # unused if both are equal
    blended = 1 / ((1 - kept_share) / llama3.factor + kept_share)
    divided_or_blended = np.where(is_long, llama3.factor, blended)
    return np.where(is_short, 1, divided_or_blended).astype(np.float32)


def _kept_shares(yarn: Yarn, definition: Definition[Scaling]) -> Singles:
    """Return the share of its frequency that each pair keeps under YaRN, from 1 down to 0.

    Pairs rotate the slower the larger their number is. Those that rotate more than beta_fast (32)
    times within the original context keep their frequency, and those that rotate less than beta_slow
    (once) keep none of it: YaRN divides it by the factor. If these are pairs 8 and 18, pair 13 keeps
    a half. The steps round to float32, as in ggml.
    """
    betas = yarn.betas()
    last_kept = np.floor(_pair_by_rotations(betas.fast, yarn, definition))
    first_divided = np.ceil(_pair_by_rotations(betas.slow, yarn, definition))
    low = max(np.float32(0), last_kept)
    # The last pair is dim / 2 − 1, but ggml has the number of the last channel here, as the code of
    # YaRN's paper has.
    high = min(np.float32(definition.dim - 1), first_divided)
    pairs = np.arange(definition.pairs, dtype=np.float32)
    divided_share: Singles = (pairs - low) / max(_MIN_RAMP, high - low)
    return np.float32(1) - np.clip(divided_share, 0, 1)


def _pair_by_rotations(rotations: float, yarn: Yarn, definition: Definition[Scaling]) -> np.float32:
    """Return the number of the pair that rotates so many times over YaRN's original length.

    Pair i rotates by base^(−2i/dim) radians per position. Over the length, these are 2π · rotations
    radians for

        i = dim · ln(length / (2π · rotations)) / (2 · ln base),

    which may lie between two pairs, such as 8.1.
    """
    dim = np.float32(definition.dim)
    length = np.float32(yarn.original_max_position_embeddings)
    # Every step is rounded to float32, in the order of llama.cpp's own code. Another order could
    # give another last bit, and so another whole pair.
    with np.errstate(over="ignore", divide="ignore"):  # 1e-45 and 1e39 rotations are 0 and ∞ here.
        radians_of_rotations = np.float32(rotations) * np.float32(2) * np.float32(math.pi)
        ratio = length / radians_of_rotations
    if ratio == 0:
        return np.float32(-math.inf)  # as ln 0, which `_log` does not accept
    twice_log_base = np.float32(2) * _log(round_single(definition.base))
    return dim * _log(float(ratio)) / twice_log_base


def _log(number: float) -> np.float32:
    """Return the natural logarithm of a positive float32 number, rounded to float32."""
    return np.float32(log_single(number))


def _adapted(encoding: ModelRope) -> Adaptation:
    """Replace the original length of llama3 unless the config states it at its top.

    The script that converts a model to GGUF takes 8,192 then, whatever stands within `rope_scaling`
    (`generate_extra_tensors` in conversion/llama.py).
    """
    lengths = encoding.stated_lengths
    if lengths is None:
        return UNCHANGED
    return with_llama_3_length(encoding, lengths.at_top, "at the top of config.json")


RUNTIME = RuntimeProfile(
    name="llama.cpp",
    version="ggml 0.25.3",
    source="ggml_rope_ext on the CPU (x86-64, fused multiply-add), as llama.cpp calls it",
    readings={
        "none": as_defined,
        "linear": as_defined,
        "llama3": as_defined,
        "yarn": _read_yarn,
        "longrope": with_attention_of_lengths,
        "dynamic": "GGUF files have none, and the converter drops it",
    },
    angle_function=_llama_cpp_angles,
    ignores_prompt=True,
    adapted=_adapted,
)
