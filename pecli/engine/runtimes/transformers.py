"""Hugging Face transformers, by which models are defined; its tables in float32."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import torch_powers
from pecli.engine.runtimes.runtime import (
    Adaptation,
    AngleFunction,
    AnyDefinition,
    Definition,
    ModelRope,
    Read,
    RuntimeProfile,
    as_defined,
    unchanged,
)
from pecli.engine.scalings.scaling import Scaling

READINGS: Mapping[str, Read] = {
    "none": as_defined,
    "linear": as_defined,
    "dynamic": as_defined,
    "yarn": as_defined,
    "longrope": as_defined,
    "llama3": as_defined,
    "proportional": as_defined,
}


def torch_powers_of(base: float, definition: Definition[Scaling]) -> Singles:
    """Return b^(2i/d) for every pair."""
    numerators = np.arange(0, 2 * definition.pairs, 2, dtype=np.float32)
    return torch_powers(base, numerators / np.float32(definition.dim))


def torch_angles(definition: Definition[Scaling]) -> AngleFunction:
    """Multiply positions by inverse frequencies, which PyTorch computes in float32 steps."""
    scaling = definition.scaling
    base = scaling.float32_base(definition.base, definition.dim)
    powers = torch_powers_of(base, definition)
    return partial(
        np.multiply, scaling.float32_frequencies(powers, definition.base, definition.dim)
    )


def like_transformers(
    name: str,
    readings: Mapping[str, Read | str],
    *,
    version: str = "2026",
    angle_function: Callable[[AnyDefinition], AngleFunction] = torch_angles,
    ignores_prompt: bool = False,
    adapted: Callable[[ModelRope], Adaptation] = unchanged,
) -> RuntimeProfile:
    """Return a runtime that reads configs as transformers does, except for some scalings.

    Args:
        name: The runtime, such as "vllm".
        readings: How it reads a scaling differently, by its name, such as "yarn"; a text is the
            reason why it cannot read it at all.
        version: The version that was examined.
        angle_function: Computes its angles.
        ignores_prompt: LongRoPE's factors follow the served context, however short a prompt is.
        adapted: Returns the parameters that it reads differently for some models.
    """
    return RuntimeProfile(
        name=name,
        version=version,
        source="how it reads a config",
        readings={**READINGS, **readings},
        angle_function=angle_function,
        ignores_prompt=ignores_prompt,
        adapted=adapted,
    )


RUNTIME = RuntimeProfile(
    name="transformers",
    version="5.22.2",
    source="modeling_rope_utils.py, ROPE_INIT_FUNCTIONS, tables in float32 (PyTorch 2.13, x86-64)",
    readings=READINGS,
    angle_function=torch_angles,
)
