"""Random queries before and after the rotation of a small model; layers of two kinds."""

from typing import Any

import numpy as np

import pecli
from tests.checks.rope_dumps import CONFIG
from tests.checks.waves import Array

BEFORE: Array = np.random.default_rng(0).normal(size=(3, 12, 16))  # heads, positions, channels

TWO_LAYER_KINDS = {
    **CONFIG,
    "model_type": "gemma3_text",
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_local_base_freq": 100.0,
    "head_dim": 16,
}
"""A model whose layer 0 slides, with a base of 100, and whose layer 1 has the usual base."""

YARN = {
    **CONFIG,
    "max_position_embeddings": 64,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
}


def rotated_queries(**settings: Any) -> Array:
    """Return the queries as the model rotates them."""
    rotated: Array = pecli.apply(BEFORE, CONFIG, **settings)
    return rotated
