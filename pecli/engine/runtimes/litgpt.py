"""LitGPT: YaRN's ramp is inverted, and there is no attention factor."""

from dataclasses import replace

from pecli.engine.runtimes.runtime import Definition, RuntimeReading
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import unscaled
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[LongRope]:
    """Return YaRN as LitGPT reads it: with beta_fast and beta_slow exchanged.

    YaRN's own rules refuse such parameters, so the result is expressed as LongRoPE, which divides
    each frequency by a number of its own.
    """
    yarn = definition.scaling
    fast, slow = yarn.betas()
    inverted = replace(yarn, beta_fast=slow, beta_slow=fast)
    scaled = inverted.frequencies(definition.base, definition.dim).floats()
    plain = unscaled(definition.base, definition.dim).floats()
    divisors = tuple(frequency / divided for frequency, divided in zip(plain, scaled, strict=True))
    scaling = LongRope(
        original_max_position_embeddings=yarn.original_max_position_embeddings,
        short_factor=divisors,
        long_factor=divisors,
        attention_factor=1.0,
    )
    cause = "exchanges beta_fast and beta_slow: YaRN's ramp is inverted"
    return RuntimeReading(scaling, (cause,)).explain_attention(definition, "it has none")


RUNTIME = like_transformers("litgpt", {"yarn": _read_yarn}, version="0.5.13")
