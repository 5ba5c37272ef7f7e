"""Hugging Face transformers: what models are defined by, in float32."""

from functools import partial

import numpy as np

from pecli.engine.arrays import Singles
from pecli.engine.numerics.float32_functions import torch_powers
from pecli.engine.runtimes.runtime import Given, Phases, Runtime

COVERED = ("none", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional")


def torch_powers_of(base: float, given: Given) -> Singles:
    """b^(2i/d) for every pair."""
    return torch_powers(
        base, np.arange(0, 2 * given.pairs, 2, dtype=np.float32) / np.float32(given.dim)
    )


def torch_phases(given: Given) -> Phases:
    """Inverse frequencies by the scaling's float32 steps, from the powers of PyTorch."""
    scaling = given.scaling
    powers = torch_powers_of(scaling.float32_base(given.base, given.dim), given)
    return partial(np.multiply, scaling.float32_steps(powers, given.base, given.dim))


RUNTIME = Runtime(
    "transformers",
    "5.22.2",
    "modeling_rope_utils.py, ROPE_INIT_FUNCTIONS, and their tables in float32 (PyTorch 2.13, x86-64)",
    dict.fromkeys(COVERED, Given.as_defined),
    torch_phases,
)
