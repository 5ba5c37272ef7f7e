"""llama.cpp: no inverse frequencies; a phase is multiplied by b^(−2/d) from pair to pair, in float32."""

import math
from dataclasses import replace
from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import log_single, power, round_single
from pecli.engine.runtimes.runtime import Given, Phases, Reading, Runtime, recurrence
from pecli.engine.runtimes.transformers import torch_powers_of
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.scaling import reciprocal
from pecli.engine.scalings.yarn import Yarn


def _yarn(given: Given) -> Reading:
    """From the file come f, O, the betas, and mscale_all_dim alone of the magnitudes."""
    reading = given.rounded_limits()
    yarn: Yarn = reading.scaling
    whole = yarn.mscale_all_dim or None
    same = whole == yarn.mscale  # DeepSeek-V2, which has a rule of its own
    scaling = replace(
        yarn, attention_factor=None, mscale=whole if same else whole and 1.0, mscale_all_dim=whole
    )
    return replace(reading, scaling=scaling).with_attention(
        given, "computes it from factor and mscale_all_dim alone"
    )


def _phases(given: Given) -> Phases:
    scaling = given.scaling
    ratio = power(round_single(given.base), float(np.float32(-2) / np.float32(given.dim)))
    plain = partial(recurrence, pairs=given.pairs, ratio=ratio)
    if given.kind == "llama3":
        return partial(
            plain, divisors=_llama3_factors(scaling, reciprocal(torch_powers_of(given.base, given)))
        )
    if given.kind == "longrope":
        return partial(plain, divisors=np.array(scaling.divisors, np.float32))
    if given.kind == "linear":
        return partial(plain, scale=float(np.float32(1) / np.float32(scaling.factor)))
    if given.kind == "yarn":
        scale = float(np.float32(1) / np.float32(float(scaling.divisor())))
        return partial(plain, scale=scale, keep=_kept(scaling, given))
    return plain


def _llama3_factors(scaling: Llama3, inv_freq: Singles) -> Singles:
    """The tensor `rope_freqs` that the converter writes: in float64, from float32 frequencies."""
    length, low, high = (
        scaling.original_max_position_embeddings,
        scaling.low_freq_factor,
        scaling.high_freq_factor,
    )
    waves = 2 * math.pi / inv_freq.astype(np.float64)
    share = (length / waves - low) / (high - low or 1)
    blended = 1 / ((1 - share) / scaling.factor + share)
    found = np.where(
        waves < length / high, 1, np.where(waves > length / low, scaling.factor, blended)
    )
    return found.astype(np.float32)


def _kept(scaling: Yarn, given: Given) -> Singles:
    """1 minus the ramp between the limits, which come from float32 logarithms."""
    length = np.float32(scaling.original_max_position_embeddings)
    base = round_single(given.base)

    def limit(rotations: float) -> np.float32:
        log = log_single(
            float(length / (np.float32(rotations) * np.float32(2) * np.float32(math.pi)))
        )
        return np.float32(
            np.float32(given.dim) * np.float32(log) / np.float32(2 * log_single(base))
        )

    fast, slow = (limit(beta) for beta in scaling.betas())
    low, high = max(np.float32(0), np.floor(fast)), min(np.float32(given.dim - 1), np.ceil(slow))
    ramp: Singles = (np.arange(given.pairs, dtype=np.float32) - low) / max(
        np.float32(0.001), high - low
    )
    return np.float32(1) - np.clip(ramp, 0, 1)


RUNTIME = Runtime(
    "llama.cpp",
    "ggml 0.25.3",
    "ggml_rope_ext on the CPU (x86-64, fused multiply-add), with the arguments and tensors that llama.cpp gives it",
    {
        **dict.fromkeys(("none", "linear", "llama3"), Given.as_defined),
        "yarn": _yarn,
        "longrope": Given.extension_attention,
        "dynamic": "GGUF files have none, and the converter drops it",
    },
    _phases,
    ignores_prompt=True,
)
