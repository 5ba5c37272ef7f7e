"""LitGPT: YaRN's ramp is inverted, and there is no attention factor."""

from dataclasses import replace

from pecli.engine.runtimes.runtime import Definition, RuntimeReading
from pecli.engine.runtimes.transformers import like_transformers
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import unscaled
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[LongRope]:
    """Return YaRN as LitGPT computes it: with beta_fast and beta_slow exchanged.

    `Yarn` refuses such parameters. So the result is LongRoPE, another scaling, which divides each
    frequency by a given number. LitGPT also lacks YaRN's attention factor, which multiplies cosines
    and sines.
    """
    yarn = definition.scaling
    betas = yarn.betas()
    inverted = replace(yarn, beta_fast=betas.slow, beta_slow=betas.fast)
    divisors = _divisors_of(inverted, definition.base, definition.dim)
    scaling = LongRope(
        original_max_position_embeddings=yarn.original_max_position_embeddings,
        short_factor=divisors,
        long_factor=divisors,
        attention_factor=1.0,  # It multiplies by 1: there is none.
    )
    cause = "exchanges beta_fast and beta_slow: YaRN's ramp is inverted"
    reading = RuntimeReading(scaling, (cause,))
    return reading.with_attention_cause(definition, "it has none")


def _divisors_of(yarn: Yarn, base: float, dim: int) -> tuple[float, ...]:
    """Return by which number a scaling divides each frequency: 4 if 1 becomes 1/4."""
    before = unscaled(base, dim).floats()
    after = yarn.frequencies(base, dim).floats()
    return tuple(plain / scaled for plain, scaled in zip(before, after, strict=True))


RUNTIME = like_transformers("litgpt", {"yarn": _read_yarn}, version="0.5.13")
