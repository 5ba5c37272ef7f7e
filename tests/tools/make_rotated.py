"""Writes data/rotated.jsonl: what transformers makes of q, by the rotary code of its own models.

    python tests/tools/make_rotated.py        with torch and transformers installed

Every line has a configuration, the positions, the shape of q and q after the rotation, float32. The input is `queries`
below, which the test writes out again.
"""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path

POSITIONS = [0, 1, 2, 31, 100, 4097]
SMALL = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "rope_theta": 10000.0}
CASES = [
    ("llama", "apply_rotary_pos_emb", {**SMALL, "head_dim": 16}),
    ("llama", "apply_rotary_pos_emb", {**SMALL, "head_dim": 16, "rope_parameters": YARN}),
    ("gpt_neox", "apply_rotary_pos_emb", {"hidden_size": 128, "num_attention_heads": 2, "num_hidden_layers": 1}),
    ("cohere", "apply_rotary_pos_emb", {**SMALL}),
    ("glm", "apply_rotary_pos_emb", {**SMALL, "head_dim": 16}),
    ("deepseek_v3", "apply_rotary_pos_emb_interleave", {**SMALL, "qk_rope_head_dim": 16, "qk_nope_head_dim": 8}),
    ("gpt_oss", "apply_rotary_pos_emb", {**SMALL, "head_dim": 16}),
]


def queries(heads: int, rows: int, dim: int) -> list[list[list[float]]]:
    """Numbers without a pattern that float32 holds exactly."""
    count = iter(range(heads * rows * dim))
    return [[[(next(count) * 37 % 101 - 50) / 32 for _ in range(dim)] for _ in range(rows)] for _ in range(heads)]


def rotated(family: str, function: str, settings: dict) -> dict:
    import torch
    from transformers import AutoConfig

    config = AutoConfig.for_model(family, **settings)
    module = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    kind = next(value for name, value in vars(module).items() if name.endswith("RotaryEmbedding"))
    embedding = kind(config)
    ids = torch.tensor([POSITIONS])
    dim = (
        settings.get("qk_rope_head_dim")
        or getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads
    )
    q = torch.tensor([queries(2, len(POSITIONS), dim)], dtype=torch.float32)
    cos, sin = embedding(q, ids)
    turned, _ = getattr(module, function)(q, q, cos, sin)
    saved = json.loads(config.to_json_string())
    keys = (
        "model_type",
        "hidden_size",
        "num_attention_heads",
        "head_dim",
        "rope_parameters",
        "max_position_embeddings",
    )
    keys += ("qk_rope_head_dim", "qk_nope_head_dim", "kv_lora_rank", "rope_interleave", "partial_rotary_factor")
    return {
        "config": {key: saved[key] for key in keys if saved.get(key) is not None},
        "positions": POSITIONS,
        "shape": list(q.shape),
        "rotated": [float(f"{value:.9g}") for value in turned.reshape(-1).tolist()],
    }


def gptj() -> dict:
    """GPT-J makes its table by itself."""
    import torch
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    rotary, dim = 8, 16
    table = create_sinusoidal_positions(max(POSITIONS) + 1, rotary)[torch.tensor([POSITIONS])]
    sin, cos = torch.split(table, rotary // 2, dim=-1)
    q = torch.tensor([queries(2, len(POSITIONS), dim)], dtype=torch.float32)
    rows = q.permute(0, 2, 1, 3)  # rows before heads, there
    turned = torch.cat([apply_rotary_pos_emb(rows[..., :rotary], sin, cos), rows[..., rotary:]], dim=-1)
    values = turned.permute(0, 2, 1, 3).reshape(-1).tolist()
    return {
        "config": {"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": rotary, "n_positions": 2048},
        "positions": POSITIONS,
        "shape": list(q.shape),
        "rotated": [float(f"{value:.9g}") for value in values],
    }


if __name__ == "__main__":
    lines = [rotated(*case) for case in CASES] + [gptj()]
    assert all(math.isfinite(value) for line in lines for value in line["rotated"])
    path = Path(__file__).parents[1] / "tensors/data/rotated.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
