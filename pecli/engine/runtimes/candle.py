"""candle: multiplies by LongRoPE's factors, which it switches at a position; no scaling of Qwen."""

from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.runtimes.runtime import (
    Adaptation,
    AngleFunction,
    Definition,
    ModelRope,
    RuntimeReading,
)
from pecli.engine.runtimes.transformers import like_transformers, torch_angles
from pecli.engine.runtimes.unscaled_families import without_scaling
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.scaling import Scaling


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as candle reads it: frequencies are multiplied by the factors, not divided.

    Positions below the original length have the short factors, the others the long ones. There is
    no attention factor.
    """
    longrope = definition.scaling
    original = longrope.original_max_position_embeddings
    multiplied = replace(
        longrope,
        short_factor=_reciprocals(longrope.short_factor),
        long_factor=_reciprocals(longrope.long_factor),
        attention_factor=1.0,
    )
    cause = (
        "multiplies frequencies by LongRoPE's factors, "
        f"by the long ones from position {original:,} on"
    )
    reading = RuntimeReading(multiplied, (cause,), by_position=True)
    return reading.with_attention_cause(definition, "it has none")


def _reciprocals(factors: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(1 / factor for factor in factors)


def _candle_angles(definition: Definition[Scaling]) -> AngleFunction:
    """Return a function from positions to float32 angles as candle computes them.

    LongRoPE's factors depend on the position: up to the original length they are the short ones,
    and beyond it the long ones, in the same prompt.
    """
    longrope = definition.scaling
    if not isinstance(longrope, LongRope):
        return torch_angles(definition)
    with_short_factors = replace(definition, scaling=longrope.having(longrope.short_factor))
    with_long_factors = replace(definition, scaling=longrope.having(longrope.long_factor))
    angles_with_short = torch_angles(with_short_factors)
    angles_with_long = torch_angles(with_long_factors)

    def angles(positions: Singles) -> Singles:
        is_near = positions < longrope.original_max_position_embeddings
        return np.where(is_near, angles_with_short(positions), angles_with_long(positions))

    return angles


def _adapted(encoding: ModelRope) -> Adaptation:
    """Remove the scaling of Qwen models, which candle does not read."""
    return without_scaling(encoding, ("qwen2", "qwen3"))


RUNTIME = like_transformers(
    "candle", {"longrope": _read_longrope}, angle_function=_candle_angles, adapted=_adapted
)
