"""vLLM: the same functions as transformers, in tables that are made once for the served context."""

import math
from dataclasses import replace

import numpy as np

from pecli.engine.runtimes.runtime import Given, Phases, Reading, Runtime
from pecli.engine.runtimes.transformers import torch_phases, torch_powers_of
from pecli.engine.scalings.scaling import Scaling, reciprocal


def _yarn(given: Given) -> Reading:
    yarn = given.scaling
    return Reading(yarn, rows=math.ceil(yarn.original_max_position_embeddings * yarn.divisor()))


def _longrope(given: Given) -> Reading:
    """Short or long factors once and for all, by the served context."""
    return replace(given.extension_attention(), rows=given.scaling.max_position_embeddings)


def _dynamic(given: Given) -> Reading:
    """Without `max_trained_positions`, which configs do not have, the base stays and the table ends at M."""
    scaling = given.scaling
    causes = (
        ("its dynamic NTK is not dynamic: the base stays, as with factor 1",)
        if scaling.stretch() != 1
        else ()
    )
    return Reading(Scaling(), causes, rows=scaling.max_position_embeddings)


def _phases(given: Given) -> Phases:
    if given.kind != "linear":
        return torch_phases(given)
    factor, inv_freq = (
        np.float32(given.scaling.factor),
        reciprocal(torch_powers_of(given.base, given)),
    )
    return lambda places: places / factor * inv_freq


RUNTIME = Runtime(
    "vllm",
    "0.32.0",
    "model_executor/layers/rotary_embedding, tables in float32 (PyTorch 2.13, x86-64)",
    {
        **dict.fromkeys(("none", "linear", "llama3", "ntk-fixed"), Given.as_defined),
        "yarn": _yarn,
        "longrope": _longrope,
        "dynamic": _dynamic,
    },
    _phases,
    limits_to_context=True,
    ignores_prompt=True,
)
