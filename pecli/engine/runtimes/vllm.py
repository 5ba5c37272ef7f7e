"""vLLM: the formulas of transformers, in tables that are made once for the served context."""

import math
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.runtimes.runtime import (
    AngleFunction,
    Definition,
    RuntimeProfile,
    RuntimeReading,
    as_defined,
    with_attention_of_lengths,
)
from pecli.engine.runtimes.transformers import torch_angles, torch_powers_of
from pecli.engine.scalings.linear import Linear
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Dynamic
from pecli.engine.scalings.scaling import Scaling, reciprocal
from pecli.engine.scalings.yarn import Yarn


def _read_yarn(definition: Definition[Yarn]) -> RuntimeReading[Yarn]:
    """Return YaRN as vLLM reads it: as defined, with a table of original length · f rows."""
    yarn = definition.scaling
    rows = math.ceil(yarn.original_max_position_embeddings * yarn.divisor())
    return RuntimeReading(yarn, rows=rows)


def _read_longrope(definition: Definition[LongRope]) -> RuntimeReading[LongRope]:
    """Return LongRoPE as vLLM reads it: short or long factors are chosen by the served context."""
    reading = with_attention_of_lengths(definition)
    return replace(reading, rows=definition.scaling.max_position_embeddings)


def _read_dynamic(definition: Definition[Dynamic]) -> RuntimeReading[Scaling]:
    """Return dynamic NTK as vLLM reads it: without scaling.

    The base would grow only with `max_trained_positions`, which configs do not have.
    """
    dynamic = definition.scaling
    reading = RuntimeReading(Scaling(), rows=dynamic.max_position_embeddings)
    if dynamic.stretch() == 1:
        return reading
    cause = "its dynamic NTK is not dynamic: the base stays, as with factor 1"
    return replace(reading, causes=(cause,))


def _vllm_angles(definition: Definition[Scaling]) -> AngleFunction:
    """Return a function from positions to float32 angles as vLLM computes them.

    Linear scaling divides the positions, and not the frequencies as transformers does.
    """
    scaling = definition.scaling
    if not isinstance(scaling, Linear):
        return torch_angles(definition)
    factor = np.float32(scaling.factor)
    inv_freq = reciprocal(torch_powers_of(definition.base, definition))

    def angles(positions: Singles) -> Singles:
        return positions / factor * inv_freq

    return angles


RUNTIME = RuntimeProfile(
    name="vllm",
    version="0.32.0",
    source="model_executor/layers/rotary_embedding, tables in float32 (PyTorch 2.13, x86-64)",
    readings={
        "none": as_defined,
        "linear": as_defined,
        "llama3": as_defined,
        "ntk-fixed": as_defined,
        "yarn": _read_yarn,
        "longrope": _read_longrope,
        "dynamic": _read_dynamic,
    },
    angle_function=_vllm_angles,
    limits_to_context=True,
    ignores_prompt=True,
)
