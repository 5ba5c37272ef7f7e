"""Runtimes that are known by how they read a config; their arithmetic is the float32 of transformers."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from pecli.engine.runtimes.runtime import UNCHANGED, Adapted, Given, Phases, Read, Reading, Runtime
from pecli.engine.runtimes.transformers import COVERED, torch_phases
from pecli.engine.scalings import SCALINGS
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling, unscaled
from pecli.engine.scalings.yarn import Yarn
from pecli.errors import UnsupportedError

_ORIGINAL = "original_max_position_embeddings"


def _constant_ntk(given: Given) -> Reading:
    """Dynamic NTK as at f times M, at any length."""
    factor = given.scaling.factor
    always = factor**2 - factor + 1
    same = given.scaling.stretch() == always
    cause = f"its dynamic NTK is not dynamic: the base is that of NTK with factor {always:g}, at any length"
    short = "shorter prompts get the same base, too; that of the model follows their length"
    return Reading(Ntk(always), (cause,) * (not same), short_prompts=short * (same and always != 1))


def _yarn_to_the_context(given: Given) -> Reading:
    yarn: Yarn = given.scaling
    if yarn.max_position_embeddings is None:
        return Reading(yarn)
    stretched = replace(yarn, factor=None)
    own, defined = float(stretched.divisor()), float(yarn.divisor())
    cause = f"YaRN's factor is max_position_embeddings / original, {own:g}; it ignores factor, {defined:g}"
    return Reading(stretched, (cause,) * (own != defined))


def _long_factors_by_context(given: Given) -> Reading:
    scaling: LongRope = given.scaling
    original, longest = (
        scaling.original_max_position_embeddings,
        scaling.max_position_embeddings or 0,
    )
    if longest <= original or (scaling.length or 0) > original:
        return Reading(scaling)
    cause = f"takes the long factors from position 0 on; up to {original:,} the model has the short ones"
    return Reading(replace(scaling, length=original + 1), (cause,))


def _yarn_by_beta_fast(given: Given) -> Reading:
    yarn: Yarn = given.scaling
    if yarn.beta_fast is None:
        return Reading(
            Scaling(),
            ("knows YaRN by beta_fast, which the config does not have: nothing is scaled",),
        )
    causes = ("does not round YaRN's limits",) * (yarn.truncate is not False)
    if given.head != given.dim:  # the betas that have these limits in the rotary dimension
        one = yarn.original_max_position_embeddings / (2 * math.pi)
        fast, slow = (one * (beta / one) ** (given.head / given.dim) for beta in yarn.betas())
        yarn = replace(yarn, beta_fast=fast, beta_slow=slow)
        causes += (
            f"computes YaRN's limits over the head size, {given.head}, not the rotary dimension, {given.dim}",
        )
    lone = yarn.mscale if yarn.mscale and not yarn.mscale_all_dim else None
    reading = Reading(replace(yarn, truncate=False, attention_factor=lone), causes)
    return reading.with_attention(given, "computes it from factor, or takes mscale")


def _multiplied(given: Given) -> Reading:
    scaling: LongRope = given.scaling
    lists: dict[str, Any] = {
        name: tuple(1 / each for each in getattr(scaling, name))
        for name in ("short_factor", "long_factor")
    }
    first = scaling.original_max_position_embeddings
    cause = f"multiplies frequencies by LongRoPE's factors, those of positions from {first:,} on by the long ones"
    reading = Reading(replace(scaling, **lists, attention_factor=1.0), (cause,), by_position=True)
    return reading.with_attention(given, "it has none")


def _switched_phases(given: Given) -> Phases:
    """Every position by the list of LongRoPE's factors that is its own, in one table."""
    scaling = given.scaling
    if given.kind != "longrope":
        return torch_phases(given)
    lists = (scaling.short_factor, scaling.long_factor)
    short, long = (torch_phases(given._replace(scaling=scaling.having(each))) for each in lists)
    return lambda places: np.where(
        places < scaling.original_max_position_embeddings, short(places), long(places)
    )


def _plain_yarn(given: Given) -> Reading:
    reading = given.rounded_limits()
    scaling = replace(reading.scaling, attention_factor=None)
    return replace(reading, scaling=scaling).with_attention(
        given, "attention_factor is not passed on"
    )


def _inverted_ramp(given: Given) -> Reading:
    """Which a YaRN scaling may not have, and divisors for every frequency can say."""
    yarn: Yarn = given.scaling
    fast, slow = yarn.betas()
    inverted = (
        replace(yarn, beta_fast=slow, beta_slow=fast).frequencies(given.base, given.dim).floats()
    )
    plain = unscaled(given.base, given.dim).floats()
    divisors = tuple(own / other for own, other in zip(plain, inverted, strict=True))
    scaling = LongRope(
        yarn.original_max_position_embeddings, divisors, divisors, attention_factor=1.0
    )
    reading = Reading(scaling, ("exchanges beta_fast and beta_slow: YaRN's ramp is inverted",))
    return reading.with_attention(given, "it has none")


def _unscaled(families: tuple[str, ...], encoding: Any) -> Adapted:
    plain = dict.fromkeys(SCALINGS[encoding.parameters["scaling"]].names()) | {"scaling": "none"}
    is_one = encoding.family in families and encoding.parameters["scaling"] != "none"
    return (plain, f"reads no rope_scaling of {encoding.family}") if is_one else UNCHANGED


def _alpha_and_fope(encoding: Any) -> Adapted:
    if encoding.use_fope:
        rule = "it reads use_fope: cos and sin are then sums of all frequencies, with coefficients that were learned"
        raise UnsupportedError(
            "runtime", "sglang", f"{rule} for each kv head; pecli does not compute them"
        )
    if encoding.alpha is None:
        return UNCHANGED
    ntk = {"scaling": "ntk", "factor": encoding.alpha, "max_position_embeddings": None}
    return ntk, f"reads alpha, {encoding.alpha:g}, as NTK's factor; the model's own code does not"


def _lacks_original(encoding: Any) -> bool:
    return encoding.parameters["scaling"] == "yarn" and bool(encoding.lacks_original_length)


def _ratio_of_deepseek(encoding: Any) -> Adapted:
    """And a factor that is given counts where the original length is not."""
    own = encoding.parameters
    changes = (
        {"max_position_embeddings": None} if "factor" in own and _lacks_original(encoding) else {}
    )
    if own.get("mscale") and own.get("mscale_all_dim") and encoding.family != "deepseek_v3":
        ratio = "takes the ratio of both mscales in DeepSeek-V3 alone"
        return {**changes, "mscale": None, "mscale_all_dim": None}, ratio
    return changes, ""


def _known_by_beta_fast(encoding: Any) -> Adapted:
    return (
        ({"beta_fast": None}, "") if encoding.sources.get("beta_fast") == "default" else UNCHANGED
    )


def _short_original(encoding: Any) -> Adapted:
    said = f"takes 1,024 for {_ORIGINAL}, which is missing"
    return ({_ORIGINAL: 1024}, said) if _lacks_original(encoding) else UNCHANGED


def _reader(name: str, readings: Mapping[str, Read | str], **more: Any) -> Runtime:
    known = {**dict.fromkeys(COVERED, Given.as_defined), **readings}
    others: dict[str, Any] = {
        "version": "2026",
        "source": "how it reads a config",
        "phases": torch_phases,
        **more,
    }
    return Runtime(name, readings=known, **others)


_EXLLAMA: Mapping[str, Read | str] = {
    "yarn": _yarn_to_the_context,
    "longrope": _long_factors_by_context,
    "dynamic": "it raises an error",
}
_CANDLE = ("qwen2", "qwen3")  #: families whose rope_scaling it does not read
READERS = {
    each.name: each
    for each in (
        _reader(
            "sglang", {"dynamic": _constant_ntk, "ntk": Given.as_defined}, adapted=_alpha_and_fope
        ),
        _reader("exllamav3", _EXLLAMA, ignores_prompt=True, adapted=_ratio_of_deepseek),
        _reader("onnxruntime-genai", {"yarn": _yarn_by_beta_fast}, adapted=_known_by_beta_fast),
        _reader(
            "candle",
            {"longrope": _multiplied},
            phases=_switched_phases,
            adapted=partial(_unscaled, _CANDLE),
        ),
        _reader("mlc", {}, adapted=partial(_unscaled, ("gemma3",))),
        _reader("tensorrt-llm", {"yarn": _plain_yarn}, version="older", adapted=_short_original),
        _reader("litgpt", {"yarn": _inverted_ramp}, version="0.5.13"),
    )
}
