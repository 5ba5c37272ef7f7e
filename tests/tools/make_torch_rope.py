"""Writes torch_rope.json: what transformers' own rotary embedding computes, in float32, on a CPU.

    python tests/tools/make_torch_rope.py    # needs torch and transformers; the tests do not

Numbers are the bits of float32, in hexadecimal. The file there is of transformers 5.22.2 and torch 2.13.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

POSITIONS = [0, 1, 2, 255, 257, 4095, 131071, 1048575, 16777217]
YARN = {"rope_type": "yarn", "factor": 10.0, "original_max_position_embeddings": 2048}
GPT_OSS = {**YARN, "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
LONGROPE = {
    "rope_type": "longrope",
    "factor": 10.0,
    "original_max_position_embeddings": 2048,
    "short_factor": [1.0 + k / 7 for k in range(16)],
    "long_factor": [1.0 + k * 1.7 for k in range(16)],
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
CASES = [
    (128, 10000.0, {}),
    (64, 500000.0, {}),
    (96, 1e6, {}),
    (64, 10000.0, {"rope_type": "linear", "factor": 3.0}),
    (128, 10000.0, YARN),
    (64, 150000.0, GPT_OSS),
    (32, 10000.0, LONGROPE),
    (32, 1e6, {"rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 3.0}),
    (128, 500000.0, LLAMA3),
]


def hexadecimal(values: Any) -> list[str]:
    import torch

    return [f"{int(bits) & 0xFFFFFFFF:08x}" for bits in values.contiguous().view(torch.int32).flatten()]


def case(dim: int, base: float, scaling: dict[str, object]) -> dict[str, object]:
    import torch
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    parameters = {"rope_type": "default", "rope_theta": base, **scaling}
    config = LlamaConfig(
        hidden_size=dim, num_attention_heads=1, max_position_embeddings=20480, rope_parameters=parameters
    )
    layer = LlamaRotaryEmbedding(config)
    cosines, sines = layer(torch.zeros(1, dtype=torch.float32), torch.tensor([POSITIONS]))
    return {
        "dim": dim,
        "base": base,
        "scaling": scaling,
        "inv_freq": hexadecimal(layer.inv_freq),
        "cos": [hexadecimal(row) for row in cosines[0, :, : dim // 2]],
        "sin": [hexadecimal(row) for row in sines[0, :, : dim // 2]],
    }


if __name__ == "__main__":
    found = {"positions": POSITIONS, "cases": [case(*each) for each in CASES]}
    text = json.dumps(found).replace('[["', '[\n["').replace('"], ["', '"],\n["').replace("}, {", "},\n{")
    (Path(__file__).parents[1] / "engine/schemes/torch_rope.json").write_text(text + "\n")
