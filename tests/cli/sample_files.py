"""Files that the command lines of refused.txt and answered.txt read."""

import json
from pathlib import Path
from typing import Any

import numpy as np

LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
DYNAMIC = {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 64}
PHIMOE = {
    "type": "longrope",
    "short_factor": [1.0] * 4,
    "long_factor": [2.0] * 4,
    "original_max_position_embeddings": 32,
    "short_mscale": 1.25,
    "long_mscale": 1.5,
}
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "truncate": False}
"""The ramp goes from pair 0.4 to 6.4, in llama.cpp from 0 to 7: it computes other tables."""
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": LLAMA,
    "dinov3": {"model_type": "dinov3_vit"},
    "other/index": {"cases": []},
    "wibble": {**LLAMA, "model_type": "wibble"},
    "mamba": {**LLAMA, "model_type": "mamba"},
    "dynamic": {**LLAMA, **DYNAMIC},
    "phimoe": {**LLAMA, "max_position_embeddings": 128, "rope_scaling": PHIMOE},
    "yarn": {**LLAMA, "head_dim": 32, "max_position_embeddings": 1024, "rope_scaling": YARN},
}


def write_sample_files() -> None:
    """Write the files to the current folder."""
    Path("other").mkdir()
    Path("hollow").mkdir()
    _write_arrays()
    _write_projections()
    Path("pecli.toml").write_text("[[check]]\nfile = 'x.npy'\n")
    for name, config in CONFIGS.items():
        Path(f"{name}.json").write_text(json.dumps(config))


def _write_arrays() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 4, 8)).astype(np.float32)
    ids = np.arange(4)
    arrays = {
        "x": x,
        "other/x": x,
        "vector": x[0, 0],
        "odd": x[..., :7],
        "flat": x[0],
        "narrow": x[0, :, :3],
        "column": ids[:, None],
        "ids": ids,
        "few": ids[:3],
        "pair": np.stack([ids] * 2),
        "batch": np.stack([ids] * 3),
        "tall": x.swapaxes(1, 2),
        "cube": np.zeros((1, 2, 4), int),
        "pe": rng.standard_normal((17, 8)),
        "q": np.ones((1, 16, 4, 8)),
        "k": np.ones((1, 16, 2, 8)),
        "many": np.zeros((1000, 1000), np.int8),
        "scores": np.ones((2, 4, 3, 8)),
        "head": np.ones((4, 128)),
        "mask": ids > 1,
        "nil": x[0, 0, :0],
    }
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    Path("torn.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    np.savez("two.npz", a=x[0], b=x[0])
    np.savez("mixed.npz", a=x[0] + 1, b=x[0, :2])
    np.savez("empty.npz")


def _write_projections() -> None:
    query = "layers.0.self_attn.q_proj.weight"
    key = "layers.0.self_attn.k_proj.weight"
    np.savez("qk.npz", **{query: np.ones((16, 6)), key: np.ones((16, 6))})
    np.savez("lone.npz", **{key: np.ones((8, 4))})
    np.savez("uneven.npz", **{query: np.ones((16, 4)), key: np.ones((12, 4))})
