"""Runtimes that are known by how they read a config; their arithmetic is the float32 of transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pecli.engine.runtimes.runtime import Given, Read, Reading, Runtime
from pecli.engine.runtimes.transformers import COVERED, torch_phases
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling, unscaled
from pecli.engine.scalings.yarn import Yarn


def _constant_ntk(given: Given) -> Reading:
    """Dynamic NTK as at f times M, at any length."""
    factor = given.scaling.factor
    always = factor**2 - factor + 1
    cause = f"its dynamic NTK is not dynamic: the base is that of NTK with factor {always:g}, at any length"
    return Reading(Ntk(always), (cause,) * (given.scaling.stretch() != always))


def _yarn_to_the_context(given: Given) -> Reading:
    yarn: Yarn = given.scaling
    if yarn.max_position_embeddings is None or yarn.factor is None:
        return Reading(yarn)
    stretched = replace(yarn, factor=None)
    own, defined = float(stretched.divisor()), float(yarn.divisor())
    cause = f"YaRN's factor is max_position_embeddings / original, {own:g}; it ignores factor, {defined:g}"
    return Reading(stretched, (cause,) * (own != defined))


def _long_factors_by_context(given: Given) -> Reading:
    scaling: LongRope = given.scaling
    original, longest = scaling.original_max_position_embeddings, scaling.max_position_embeddings or 0
    if longest <= original or (scaling.length or 0) > original:
        return Reading(scaling)
    cause = f"takes the long factors from position 0 on; up to {original:,} the model has the short ones"
    return Reading(replace(scaling, length=original + 1), (cause,))


def _yarn_by_beta_fast(given: Given) -> Reading:
    yarn: Yarn = given.scaling
    if yarn.beta_fast is None:
        return Reading(Scaling(), ("knows YaRN by beta_fast, which the config does not have: nothing is scaled",))
    rounded = ("does not round YaRN's limits",) * (yarn.truncate is not False)
    lone = yarn.mscale if yarn.mscale and not yarn.mscale_all_dim else None
    reading = Reading(replace(yarn, truncate=False, attention_factor=lone), rounded)
    return reading.with_attention(given, "computes it from factor, or takes mscale")


def _multiplied(given: Given) -> Reading:
    scaling: LongRope = given.scaling
    lists: dict[str, Any] = {
        name: tuple(1 / each for each in getattr(scaling, name)) for name in ("short_factor", "long_factor")
    }
    causes = ("multiplies frequencies by LongRoPE's factors, and each position by its own list of them",)
    reading = Reading(replace(scaling, **lists, attention_factor=1.0), causes)
    return reading.with_attention(given, "it has none")


def _plain_yarn(given: Given) -> Reading:
    reading = given.rounded_limits()
    scaling = replace(reading.scaling, attention_factor=None)
    return replace(reading, scaling=scaling).with_attention(given, "attention_factor is not passed on")


def _inverted_ramp(given: Given) -> Reading:
    """Which a YaRN scaling may not have, and divisors for every frequency can say."""
    yarn: Yarn = given.scaling
    fast, slow = yarn.betas()
    inverted = replace(yarn, beta_fast=slow, beta_slow=fast).frequencies(given.base, given.dim).floats()
    plain = unscaled(given.base, given.dim).floats()
    divisors = tuple(own / other for own, other in zip(plain, inverted, strict=True))
    scaling = LongRope(yarn.original_max_position_embeddings, divisors, divisors, attention_factor=1.0)
    reading = Reading(scaling, ("exchanges beta_fast and beta_slow: YaRN's ramp is inverted",))
    return reading.with_attention(given, "it has none")


def _reader(name: str, version: str, readings: Mapping[str, Read | str], **more: Any) -> Runtime:
    known = {**dict.fromkeys(COVERED, Given.as_defined), **readings}
    return Runtime(name, version, "how it reads a config", known, torch_phases, **more)


_EXLLAMA: Mapping[str, Read | str] = {
    "yarn": _yarn_to_the_context,
    "longrope": _long_factors_by_context,
    "dynamic": "it raises an error",
}
READERS = {
    each.name: each
    for each in (
        _reader("sglang", "2026", {"dynamic": _constant_ntk}),
        _reader("exllamav3", "2026", _EXLLAMA, ignores_prompt=True),
        _reader("onnxruntime-genai", "2026", {"yarn": _yarn_by_beta_fast}),
        _reader("candle", "2026", {"longrope": _multiplied}, unscaled_families=("qwen2", "qwen3")),
        _reader("mlc", "2026", {}, unscaled_families=("gemma3", "gemma3_text")),
        _reader("tensorrt-llm", "older", {"yarn": _plain_yarn}),
        _reader("litgpt", "0.5.13", {"yarn": _inverted_ramp}),
    )
}
