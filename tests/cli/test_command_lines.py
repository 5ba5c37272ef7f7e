"""Command lines, exit codes and a line of what they print, in two tables: refused.txt and answered.txt.

What is refused is one line on standard error that says what is wrong, and nothing is written. A row is a command line,
part of what it prints, and the exit code where it is not the usual one: 2 where it is refused, 0 where it is answered.
"""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

REFUSED, ANSWERED = (
    [
        row.split(" | ")
        for row in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()
    ]
    for name in ("refused.txt", "answered.txt")
)
REFUSED.append([f"sinusoidal --seq-len {'9' * 5000} --dim 4", "--seq-len is 999"])
LLAMA = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
DYNAMIC = {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 64}

FACTORS = {
    "short_factor": [1.0] * 4,
    "long_factor": [2.0] * 4,
    "original_max_position_embeddings": 32,
}
PHIMOE = {"type": "longrope", **FACTORS, "short_mscale": 1.25, "long_mscale": 1.5}


def write_files() -> None:
    rng = np.random.default_rng(0)
    x, ids = rng.standard_normal((2, 4, 8)).astype(np.float32), np.arange(4)
    arrays = {
        "x": x,
        "other/x": x,
        "vector": x[0, 0],
        "odd": x[..., :7],
        "flat": x[0],
        "narrow": x[0, :, :3],
    }
    arrays |= {
        "column": ids[:, None],
        "ids": ids,
        "few": ids[:3],
        "pair": np.stack([ids] * 2),
        "batch": np.stack([ids] * 3),
    }
    arrays |= {
        "tall": x.swapaxes(1, 2),
        "cube": np.zeros((1, 2, 4), int),
        "pe": rng.standard_normal((17, 8)),
    }
    arrays |= {
        "q": np.ones((1, 16, 4, 8)),
        "k": np.ones((1, 16, 2, 8)),
        "many": np.zeros((1000, 1000), np.int8),
    }
    arrays |= {
        "scores": np.ones((2, 4, 3, 8)),
        "head": np.ones((4, 128)),
        "mask": ids > 1,
        "nil": x[0, 0, :0],
    }
    Path("other").mkdir()
    Path("hollow").mkdir()
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    Path("torn.npy").write_bytes(Path("x.npy").read_bytes()[:-1])
    query, key = (f"layers.0.self_attn.{part}_proj.weight" for part in "qk")
    np.savez("two.npz", a=x[0], b=x[0])
    np.savez("mixed.npz", a=x[0] + 1, b=x[0, :2])
    np.savez("empty.npz")
    np.savez("qk.npz", **{query: np.ones((16, 6)), key: np.ones((16, 6))})
    np.savez("lone.npz", **{key: np.ones((8, 4))})
    np.savez("uneven.npz", **{query: np.ones((16, 4)), key: np.ones((12, 4))})
    Path("pecli.toml").write_text("[[check]]\nfile = 'x.npy'\n")
    configs = {"llama": LLAMA, "dinov3": {"model_type": "dinov3_vit"}, "other/index": {"cases": []}}
    configs |= {name: {**LLAMA, "model_type": name} for name in ("wibble", "mamba")} | {
        "dynamic": {**LLAMA, **DYNAMIC}
    }
    configs |= {"phimoe": {**LLAMA, "max_position_embeddings": 128, "rope_scaling": PHIMOE}}
    for name, config in configs.items():
        Path(f"{name}.json").write_text(json.dumps(config))


@pytest.mark.parametrize("command", dict.fromkeys(row[0].split()[0] for row in REFUSED))
def test_what_is_wrong_is_one_line(pecli_cli, command: str) -> None:
    write_files()
    before = sorted(os.listdir())
    for line, said, *code in REFUSED:
        if line.split()[0] == command:
            outcome = pecli_cli(*line.split())
            assert (outcome.code, outcome.out, outcome.err.count("\n")) == (
                int(*code or [2]),
                "",
                1,
            ), (line, outcome)
            assert outcome.err.startswith("pecli: error: ")
            assert said in outcome.err, (line, outcome.err)
            assert not re.search(
                r"(?<!--)\b(kv_heads|head_dim|rotary_dim|seq_len|layer_type)\b", outcome.err
            ), line
    assert sorted(os.listdir()) == before


def test_what_is_answered(pecli_cli) -> None:
    write_files()
    for line, said, *code in ANSWERED:
        outcome = pecli_cli(*line.split())
        assert (outcome.code, said in outcome.out + outcome.err) == (int(*code or [0]), True), (
            line,
            outcome,
        )
