"""Tiny random models of each family, converted: their attention scores, by formulas of their own, stay the same.

The formulas are written from the published layouts of the families: how q and k are cut out of the projections, which
channels rotate and how they pair. A pair is a complex number, multiplied by exp(i · position · base^(−2i/d)).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

HEADS, DIM, HIDDEN = 4, 8, 32
POSITIONS = np.array([0, 1, 7, 40])
Weights = dict[str, np.ndarray]
QK = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def per_head(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """GPT-NeoX, BLOOM, Persimmon: [head, (q, k, v), channel]."""
    split = rows.reshape(HEADS, 3, DIM, -1)
    return split[:, 0], split[:, 1]


def multi_query(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Falcon 7B: the heads' queries, then one key and one value."""
    split = rows.reshape(HEADS + 2, DIM, -1)
    return split[:-2], split[-2:-1]


def grouped(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Falcon 40B, InternLM2: [key head, (its queries, k, v), channel]."""
    split = rows.reshape(2, HEADS // 2 + 2, DIM, -1)
    return split[:, :-2].reshape(HEADS, DIM, -1), split[:, -2]


def blocks(kv: int) -> QK:
    """Phi-3, ChatGLM: all queries, all keys, all values."""
    return lambda rows: (
        rows[: HEADS * DIM].reshape(HEADS, DIM, -1),
        rows[HEADS * DIM : (HEADS + kv) * DIM].reshape(kv, DIM, -1),
    )


def shards(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CodeGen: four shards, each with its queries, values and keys in that order."""
    split = rows.reshape(4, 3, HEADS // 4, DIM, -1)
    return split[:, 0].reshape(HEADS, DIM, -1), split[:, 2].reshape(HEADS, DIM, -1)


@dataclass(frozen=True)
class Family:
    """A family's configuration, its tensors with their rows, and what of them q and k are."""

    config: dict[str, Any]
    rotary: int
    tensors: dict[str, int]
    split: QK | None = None
    """How q and k lie in the one fused tensor, the first; None where they are the first two tensors."""
    kv: int = HEADS
    pairing: str = "halves"
    norms: tuple[str, ...] = ()


def sizes(**more: Any) -> dict[str, Any]:
    return {"hidden_size": HIDDEN, "num_attention_heads": HEADS, "max_position_embeddings": 64, **more}


def separate(at: str, kv: int, *, bias: bool = False, names: tuple[str, str] = ("q_proj", "k_proj")) -> dict[str, int]:
    rows = dict(zip(names, (HEADS * DIM, kv * DIM), strict=True))
    made = {f"{at}.{name}.weight": count for name, count in rows.items()}
    if bias:
        made |= {f"{at}.{name}.bias": count for name, count in rows.items()}
    return made


def fused(name: str, heads: int, *, bias: bool = False) -> dict[str, int]:
    return {f"{name}.weight": heads * DIM} | ({f"{name}.bias": heads * DIM} if bias else {})


NEOX = "gpt_neox.layers.0.attention.query_key_value"
FALCON = "transformer.h.0.self_attention.query_key_value"
GLM = "transformer.encoder.layers.0.self_attention.query_key_value"
LLAMA = "model.layers.0.self_attn"
GPTJ = {"n_embd": HIDDEN, "n_head": HEADS, "rotary_dim": 4, "n_positions": 64}
MULTI_QUERY, NEW = "multi_query", "new_decoder_architecture"
GROUPED = sizes(num_key_value_heads=2)
WIDE = GROUPED | {"head_dim": DIM, "hidden_size": 20}
FALCON_KEYS = sizes(model_type="falcon", alibi=False)
GLM_KEYS = sizes(model_type="chatglm", kv_channels=DIM, add_qkv_bias=True)
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt_neox": sizes(model_type="gpt_neox", rotary_pct=0.5),
    "bloom": sizes(model_type="bloom", n_head=HEADS),
    "falcon-7b": FALCON_KEYS | {MULTI_QUERY: True, NEW: False},
    "falcon-40b": FALCON_KEYS | {MULTI_QUERY: True, NEW: True, "num_kv_heads": 2},
    "falcon-rw": FALCON_KEYS | {MULTI_QUERY: False, NEW: False},
    "phi3": GROUPED | {"model_type": "phi3"},
    "gptj": GPTJ | {"model_type": "gptj"},
    "codegen": GPTJ | {"model_type": "codegen"},
    "chatglm": GLM_KEYS | {"multi_query_attention": True, "multi_query_group_num": 2},
    "chatglm, a key for each head": GLM_KEYS | {"multi_query_attention": False},
    "internlm2": GROUPED | {"model_type": "internlm2"},
    "llama": GROUPED | {"model_type": "llama"},
    "params.json": {"dim": HIDDEN, "n_heads": HEADS, "n_kv_heads": 2},
    "mistral, silent about keys": sizes(model_type="mistral"),
    "qwen2": GROUPED | {"model_type": "qwen2"},
    "qwen3": WIDE | {"model_type": "qwen3"},
    "gemma": WIDE | {"model_type": "gemma", "num_key_value_heads": 1},
}
NORMS = (f"{LLAMA}.q_norm.weight", f"{LLAMA}.k_norm.weight")
ROWS: dict[str, tuple[Any, ...]] = {
    "gpt_neox": (4, fused(NEOX, 3 * HEADS, bias=True), per_head),
    "bloom": (0, fused("h.0.self_attention.query_key_value", 3 * HEADS, bias=True), per_head),
    "falcon-7b": (DIM, fused(FALCON, HEADS + 2), multi_query, 1),
    "falcon-40b": (DIM, fused(FALCON, HEADS + 4), grouped, 2),
    "falcon-rw": (DIM, fused(FALCON, 3 * HEADS, bias=True), per_head),
    "phi3": (DIM, fused(f"{LLAMA}.qkv_proj", HEADS + 4), blocks(2), 2),
    "gptj": (4, separate("transformer.h.0.attn", HEADS), None, HEADS, "interleaved"),
    "codegen": (4, fused("transformer.h.0.attn.qkv_proj", 3 * HEADS), shards, HEADS, "interleaved"),
    "chatglm": (4, fused(GLM, HEADS + 4, bias=True), blocks(2), 2, "interleaved"),
    "chatglm, a key for each head": (4, fused(GLM, 3 * HEADS, bias=True), per_head, HEADS, "interleaved"),
    "internlm2": (DIM, fused("model.layers.0.attention.wqkv", HEADS + 4), grouped, 2),
    "llama": (DIM, separate(LLAMA, 2), None, 2),
    "params.json": (DIM, separate("layers.0.attention", 2, names=("wq", "wk")), None, 2, "interleaved"),
    "mistral, silent about keys": (DIM, separate(LLAMA, 1), None, 1),
    "qwen2": (DIM, separate(LLAMA, 2, bias=True), None, 2),
    "qwen3": (DIM, separate(LLAMA, 2) | dict.fromkeys(NORMS, DIM), None, 2, "halves", NORMS),
    "gemma": (DIM, separate(LLAMA, 1), None, 1),
}
FAMILIES = {name: Family(CONFIGS[name], *row) for name, row in ROWS.items()}
ASSUMED = {
    "gpt_neox": "4 heads of 8, the first 4 of 8 channels, 4 kv heads, rows q, k, v of each head",
    "bloom": "4 heads of 8, none of which the model rotates, 4 kv heads, rows q, k, v of each head",
    "falcon-7b": "4 heads of 8, 1 kv head, rows 4 q, k, v of each kv head",
    "falcon-40b": "4 heads of 8, 2 kv heads, rows 2 q, k, v of each kv head",
    "phi3": "4 heads of 8, 2 kv heads, rows q of all heads, then k, then v",
    "gptj": "4 heads of 8, the first 4 of 8 channels, 4 kv heads, rows q or k of each head",
}


def random_model(family: Family) -> Weights:
    rng = np.random.default_rng(5)
    width = int(family.config.get("hidden_size", HIDDEN))
    made = {
        name: rng.standard_normal((rows, width) if name.endswith("weight") and "norm" not in name else rows)
        for name, rows in family.tensors.items()
    }
    return made | {"embed.weight": rng.standard_normal((6, width)), f"{LLAMA}.v_proj.weight": np.ones((32, 3))}


def rotated(heads: np.ndarray, rotary: int, pairing: str) -> np.ndarray:
    """(heads, channels, positions) with the first channels rotated, as complex numbers."""
    turning, still = heads[:, :rotary], heads[:, rotary:]
    if pairing == "halves":
        pairs = turning[:, : rotary // 2] + 1j * turning[:, rotary // 2 :]
    else:
        pairs = turning[:, 0::2] + 1j * turning[:, 1::2]
    exponents = np.arange(rotary // 2) / (rotary // 2) if rotary else np.zeros(0)
    pairs = pairs * np.exp(1j * np.outer(10000.0**-exponents, POSITIONS))
    return np.concatenate([pairs.real, pairs.imag, still], axis=1)


def scores(family: Family, weights: Weights, pairing: str) -> np.ndarray:
    """q · k of every head between every two positions."""
    width = int(family.config.get("hidden_size", HIDDEN))
    inputs = np.random.default_rng(1).standard_normal((width, len(POSITIONS)))

    def projected(name: str) -> np.ndarray:
        bias = weights.get(name.replace("weight", "bias"))
        return weights[name] @ inputs + (0 if bias is None else bias[:, None])

    first, *others = (name for name in family.tensors if name.endswith("weight"))
    if family.split is not None:
        queries, keys = family.split(projected(first))
    else:
        queries, keys = (projected(name).reshape(-1, DIM, len(POSITIONS)) for name in (first, others[0]))
    if family.norms:
        queries, keys = (
            each / np.sqrt((each**2).mean(axis=1, keepdims=True)) * weights[name][:, None]
            for each, name in zip((queries, keys), family.norms, strict=True)
        )
    queries, keys = (rotated(each, family.rotary, pairing) for each in (queries, keys))
    return np.einsum("hcq,hck->hqk", queries, np.repeat(keys, HEADS // family.kv, axis=0))


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Family], Weights]:
    """A family's model in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(family: Family) -> Weights:
        weights = random_model(family)
        save_file(weights, "model.safetensors")
        Path("config.json").write_text(json.dumps(family.config))
        return weights

    return write


BY_MODEL = ("convert", "model.safetensors", "--from", "halves", "--to", "interleaved", "--config", "config.json")


def both(family: Family) -> tuple[str, str]:
    return family.pairing, "interleaved" if family.pairing == "halves" else "halves"


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_of_a_converted_model_are_the_same(pecli_cli, model, name: str) -> None:
    family = FAMILIES[name]
    old, (source, target) = model(family), both(family)
    words = ("convert", "model.safetensors", "--from", source, "--to", target, "--config", "config.json", "--check")
    done = pecli_cli(*words, "-o", "out.safetensors")
    assert (done.code, done.err) == (0, "")
    assert ASSUMED.get(name, "") in done.out
    assert f"1 layer with the {HEADS} heads of config.json" in done.out
    new = load_file("out.safetensors")
    expected = scores(family, old, source)
    assert np.allclose(scores(family, new, target), expected, rtol=0, atol=1e-9 * np.abs(expected).max())
    if family.rotary:
        assert not np.allclose(scores(family, old, target), expected, atol=0.1)
    moved = set(family.tensors)
    assert {name for name in old if not np.array_equal(old[name], new[name])} == moved
    assert set(pecli_cli(*words, "--json").json["moved"]) == moved
    for tensor in moved if family.split else ():  # every row that moved is a rotary one of a query or key head
        parts = family.split(np.arange(len(old[tensor]))[:, None])
        rotary = family.rotary or DIM
        may_move = {int(row) for part in parts for row in part[:, :rotary].reshape(-1)}
        rows = {
            row for row, (a, b) in enumerate(zip(old[tensor], new[tensor], strict=True)) if not np.array_equal(a, b)
        }
        assert rows <= may_move
        assert len(rows) == len(may_move) // rotary * (rotary - 2)  # the first and last of a head stay where they are


@pytest.mark.parametrize(
    "options", [["--kv-heads", "1", "--head-dim", "8"], ["--rotary-dim", "4"], ["--trailing"], ["--fused", "groups"]]
)
def test_options_override_the_model_and_are_told(pecli_cli, model, options: list[str]) -> None:
    family = FAMILIES["gpt_neox" if options[0] == "--trailing" else "phi3"]
    model(family)
    done = pecli_cli(*BY_MODEL, *options, "--check", "--json")
    if options[0] == "--kv-heads":
        assert "config.json has 6 q, k and v heads of 8" in done.err
        return
    assert f"{options[0]} as the command line has it" in done.json["assumed"]["text"]
    name = options[0][2:].replace("-", "_")
    assert str(done.json["assumed"][name]).strip("[]'") in (*options[1:], "True")


@pytest.mark.parametrize(
    ("written", "read", "said"),
    [
        ("gpt_neox", "falcon-7b", "(96); config.json has 6 q, k and v heads of 8, that is 48 rows"),
        ("falcon-7b", "gpt_neox", "(48, 32); config.json has 12 q, k and v heads of 8, that is 96 rows"),
        ("phi3", "llama", "neither"),
        ("llama", "unknown", "--rotary-dim is missing; config.json has no rotary encoding that is known"),
        ("llama", "gptj", "(16, 32); config.json has 4 key heads of 8, that is 32 rows"),
    ],
)
def test_a_model_that_does_not_fit(pecli_cli, model, written: str, read: str, said: str) -> None:
    weights = model(FAMILIES[written])
    config = sizes(model_type="unknown") if read == "unknown" else FAMILIES[read].config
    Path("config.json").write_text(json.dumps(config))
    if said == "neither":
        save_file({"model.layers.0.attn.qkv_proj.weight": weights[f"{LLAMA}.qkv_proj.weight"]}, "model.safetensors")
        said = "in an order that neither its name nor config.json tells; give --fused"
    done = pecli_cli(*BY_MODEL, "-o", "out.safetensors")
    assert (done.code, done.err.count("\n"), Path("out.safetensors").exists()) == (2, 1, False)
    assert said in done.err


NO_MODEL = ("convert", "model.safetensors", "--from", "halves", "--to", "interleaved", "--heads", HEADS)


@pytest.mark.parametrize("options", [(), ("--rotary-dim", "4"), ("--kv-heads", "4"), ("--head-dim", "8")])
def test_a_fused_order_that_no_name_tells_is_asked_for(pecli_cli, model, options: tuple[str, ...]) -> None:
    for name in ("gpt_neox", "bloom", "falcon-40b", "chatglm", "codegen", "internlm2"):
        model(FAMILIES[name])
        done = pecli_cli(*NO_MODEL, *options, "-o", "out.safetensors")
        assert (done.code, Path("out.safetensors").exists()) == (2, False)
        assert "--fused is missing" in done.err


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gpt_neox", ("--fused", "groups", "--head-dim", "8", "--rotary-dim", "4")),
        ("falcon-40b", ("--fused", "groups", "--kv-heads", "2")),
        ("falcon-7b", ("--fused", "blocks", "--head-dim", "8")),
        ("phi3", ("--kv-heads", "2")),
        ("chatglm", ("--fused", "blocks", "--kv-heads", "2", "--rotary-dim", "4")),
        ("codegen", ("--fused", "codegen", "--head-dim", "8", "--rotary-dim", "4")),
    ],
)
def test_options_are_the_other_way(pecli_cli, model, name: str, options: tuple[str, ...]) -> None:
    model(FAMILIES[name])
    source, target = both(FAMILIES[name])
    words = ("convert", "model.safetensors", "--from", source, "--to", target)
    assert pecli_cli(*words, "--heads", HEADS, *options, "-o", "one.safetensors").code == 0
    assert pecli_cli(*words, "--config", "config.json", "-o", "other.safetensors").code == 0
    assert Path("one.safetensors").read_bytes() == Path("other.safetensors").read_bytes()


def test_key_heads_of_fused_rows_are_not_guessed(pecli_cli, model) -> None:
    model(FAMILIES["phi3"])
    save_file({"self_attn.qkv_proj.weight": np.zeros((64, 3))}, "model.safetensors")
    done = pecli_cli(*NO_MODEL, "-o", "out.safetensors")
    assert (done.code, Path("out.safetensors").exists()) == (2, False)
    assert "--kv-heads is missing; 'self_attn.qkv_proj.weight' (64, 3) holds q, k and v of 4 heads;" in done.err
    for rows in (64, 50, 24, 8):
        save_file({"self_attn.qkv_proj.weight": np.zeros((rows, 3))}, "model.safetensors")
        done = pecli_cli(*NO_MODEL, "--head-dim", 8, "-o", "out.safetensors")
        assert done.code == (0 if rows == 64 else 2)
        assert rows == 64 or f"{rows} rows are not q, k and v of 4 heads of 8; check --heads" in done.err


def test_a_check_says_whose_heads_it_proves(pecli_cli, model) -> None:
    """Twice as many heads of half the size pass the check, which is then no proof for the model."""
    model(FAMILIES["llama"])
    words = ("convert", "model.safetensors", "--from", "halves", "--to", "interleaved", "--check")
    done = pecli_cli(*words, "--heads", 8)
    assert done.code == 0
    assert "8 heads of 4, 4 kv heads" in done.out
    assert "proved for 1 layer with the 8 heads given on the command line, which no model confirms" in done.out
    assert pecli_cli(*words, "--heads", 8, "--json").json["assumed"]["model"] is None
    assert pecli_cli(*words, "--heads", 8, "--config", "config.json").code == 2


def test_what_is_assumed_is_always_told(pecli_cli, model) -> None:
    model(FAMILIES["gpt_neox"])
    told = pecli_cli(*BY_MODEL, "-o", "out.safetensors", "--json").json["assumed"]
    assert told.pop("text").endswith("(as config.json has it)")
    counts = {"heads": 4, "kv_heads": 4, "head_dim": 8, "rotary_dim": 4}
    assert told == counts | {"trailing": False, "fused": ["groups"], "model": "config.json"}


def test_what_the_model_leaves_open_is_told_apart(pecli_cli, model) -> None:
    model(FAMILIES["mistral, silent about keys"])
    done = pecli_cli(*BY_MODEL, "--kv-heads", 1, "-o", "out.safetensors")
    assert (
        "1 kv head, rows q or k of each head (as config.json has it, --kv-heads as the command line has it)" in done.out
    )
    Path("config.json").write_text(json.dumps({"model_type": "yi", "head_dim": DIM}))
    done = pecli_cli(*BY_MODEL, "--heads", HEADS, "--check")
    assert "the 4 heads given on the command line, which no model confirms" in done.out


def test_latent_attention(pecli_cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DeepSeek: the last rows of every query head, and of the compressed keys, which all heads share."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    config = sizes(
        model_type="deepseek_v3", q_lora_rank=10, kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=6
    )
    Path("config.json").write_text(json.dumps(config))
    at = "model.layers.0.self_attn"
    old = {
        f"{at}.q_a_proj.weight": rng.standard_normal((10, HIDDEN)),
        f"{at}.q_b_proj.weight": rng.standard_normal((HEADS * 10, 10)),
        f"{at}.kv_a_proj_with_mqa.weight": rng.standard_normal((16, HIDDEN)),
    }
    save_file(old, "model.safetensors")
    words = ("convert", "model.safetensors", "--from", "deepseek", "--to", "halves", "--config", "config.json")
    done = pecli_cli(*words, "--check", "-o", "out.safetensors")
    assert (done.code, done.err) == (0, "")
    assert "4 heads of 10, the last 4 of 10 channels, 1 key that all heads share" in done.out
    new = load_file("out.safetensors")
    swap = [0, 2, 1, 3]
    q, k = old[f"{at}.q_b_proj.weight"].reshape(HEADS, 10, 10), old[f"{at}.kv_a_proj_with_mqa.weight"]
    expected = np.concatenate([q[:, :6], q[:, 6:][:, swap]], axis=1).reshape(-1, 10)
    assert np.array_equal(new[f"{at}.q_b_proj.weight"], expected)
    assert np.array_equal(new[f"{at}.kv_a_proj_with_mqa.weight"], np.concatenate([k[:12], k[12:][swap]]))
    assert np.array_equal(new[f"{at}.q_a_proj.weight"], old[f"{at}.q_a_proj.weight"])
    refused = pecli_cli(*words[:-2], "--heads", HEADS, "-o", "x.safetensors")
    assert refused.code == 2
    assert "keeps its rotary key in its last rows" in refused.err


def test_a_gate_beside_each_query_stays(pecli_cli, model) -> None:
    family = Family(sizes(model_type="qwen3_next", num_key_value_heads=2, head_dim=DIM), 2, separate(LLAMA, 2), kv=2)
    model(family)
    old = random_model(family) | {f"{LLAMA}.q_proj.weight": np.arange(2.0 * HEADS * DIM)[:, None] * np.ones(HIDDEN)}
    save_file(old, "model.safetensors")
    Path("config.json").write_text(json.dumps(family.config | {"partial_rotary_factor": 0.5}))
    assert pecli_cli(*BY_MODEL, "--check", "-o", "out.safetensors").code == 0
    rows = load_file("out.safetensors")[f"{LLAMA}.q_proj.weight"][:, 0].reshape(HEADS, 2 * DIM)
    assert rows[1].tolist() == [16, 18, 17, 19, *range(20, 32)]


def test_towers_for_images_have_heads_of_their_own(pecli_cli, model) -> None:
    weights = model(FAMILIES["llama"])
    tower = {f"visual.blocks.0.attn.{name}.weight": np.zeros((32, 32)) for name in ("q_proj", "k_proj")}
    save_file(weights | tower, "model.safetensors")
    done = pecli_cli(*BY_MODEL, "-o", "out.safetensors")
    assert done.code == 2
    assert "--include is missing" in done.err
    chosen = pecli_cli(*BY_MODEL, "--include", "model.layers.*.[qk]_proj.*", "-o", "out.safetensors", "--json")
    assert chosen.json["moved"] == sorted(FAMILIES["llama"].tensors)


def test_a_weight_without_its_partner_is_not_called_checked(pecli_cli, model) -> None:
    weights = model(FAMILIES["llama"])
    save_file(weights | {"model.layers.1.self_attn.q_proj.weight": np.ones((32, 32))}, "model.safetensors")
    done = pecli_cli(*BY_MODEL, "--check")
    assert "1 moved weights were not checked" in done.out
    assert pecli_cli(*BY_MODEL, "--check", "--json").json["checked"]["unpaired"] == [
        "model.layers.1.self_attn.q_proj.weight"
    ]
