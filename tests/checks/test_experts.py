"""Mixtures of experts in two forms: Hugging Face's tensors, one for each expert or fused, and GGUF's stacked ones.

What the converter does is that of llama.cpp's conversion/deepseek.py, gpt_oss.py, llama.py and qwen.py.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.checks.model_forms import GGUF, Form, _pairs
from pecli.checks.stored_tensors import Pair, Stored
from pecli.models.encoding import ModelEncodings
from tests.checks import test_model_forms as forms
from tests.checks.test_model_forms import (
    HEADS,
    HIDDEN,
    INNER,
    KV,
    LAYERS,
    SIZE,
    VOCABULARY,
    Arrays,
    made_of_rows,
)

EXPERTS, RANK, NOPE, ROTARY, VALUE = 3, 64, 32, 32, 32
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
MOE: dict[str, dict[str, Any]] = {
    "mixtral": {**forms.COMMON, "rope_theta": 1e6, "num_local_experts": EXPERTS},
    "qwen3_moe": {**forms.COMMON, "head_dim": SIZE, "rope_theta": 1e6, "num_experts": EXPERTS},
    "deepseek_v3": {**forms.COMMON, "num_key_value_heads": HEADS, "kv_lora_rank": RANK, "q_lora_rank": RANK,
                    "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROTARY, "v_head_dim": VALUE,
                    "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
    "gpt_oss": {**forms.COMMON, "head_dim": SIZE, "rope_theta": 150000.0, "rope_scaling": {**YARN, "truncate": False}},
}  # fmt: skip
ARCHITECTURES = {
    "mixtral": "llama",
    "qwen3_moe": "qwen3moe",
    "deepseek_v3": "deepseek2",
    "gpt_oss": "gpt-oss",
}
LATENT = {
    "q_a_proj": (RANK, HIDDEN),
    "q_a_layernorm": (RANK,),
    "q_b_proj": (HEADS * (NOPE + ROTARY), RANK),
}
LATENT |= {"kv_a_proj_with_mqa": (RANK + ROTARY, HIDDEN), "kv_a_layernorm": (RANK,)}


def experts(model: str) -> tuple[Arrays, Arrays]:
    """The tensors of a mixture of experts: Hugging Face's, and under the converter's names those of GGUF."""
    hf: Arrays = {"model.embed_tokens.weight": made_of_rows((VOCABULARY, HIDDEN), 1)}
    hf["lm_head.weight"] = made_of_rows((VOCABULARY, HIDDEN), 3)
    hf["model.norm.weight"] = made_of_rows((HIDDEN,), 2)
    stacked: Arrays = {}
    for number, layer in enumerate(f"model.layers.{k}." for k in range(LAYERS)):
        shapes: dict[str, tuple[int, ...]] = {
            f"self_attn.{name}": (count, HIDDEN) for name, count in forms.ATTENTION.items()
        }
        if model == "deepseek_v3":
            shapes = {f"self_attn.{name}": shape for name, shape in LATENT.items()}
            shapes |= {
                f"mlp.shared_experts.{name}_proj": (INNER, HIDDEN)
                for name in ("gate", "up", "down")
            }
        shapes |= {"self_attn.o_proj": (HIDDEN, HIDDEN), "input_layernorm": (HIDDEN,)}
        shapes |= {"post_attention_layernorm": (HIDDEN,)}
        gate = {"mixtral": "block_sparse_moe.gate", "gpt_oss": "mlp.router"}.get(model, "mlp.gate")
        shapes[gate] = (EXPERTS, HIDDEN)
        if model == "qwen3_moe":
            shapes |= {f"self_attn.{name}_norm": (SIZE,) for name in "qk"}
        hf |= {
            f"{layer}{name}.weight": made_of_rows(shape, 7 * number + len(name))
            for name, shape in shapes.items()
        }
        stem = "block_sparse_moe.experts" if model == "mixtral" else "mlp.experts"
        words = ("w1", "w3", "w2") if model == "mixtral" else ("gate_proj", "up_proj", "down_proj")
        for k, word in enumerate(words):
            made = made_of_rows((EXPERTS, INNER, HIDDEN), 50 * number + k)
            stacked[f"{layer}{stem}.{word}.weight"] = made
            if model != "gpt_oss":
                hf |= {f"{layer}{stem}.{e}.{word}.weight": made[e] for e in range(EXPERTS)}
        if model == "gpt_oss":
            both = [stacked[f"{layer}{stem}.{word}.weight"] for word in words]
            joined = np.stack(both[:2], axis=2).reshape(EXPERTS, 2 * INNER, HIDDEN)
            hf |= {f"{layer}mlp.experts.gate_up_proj": np.ascontiguousarray(joined.swapaxes(1, 2))}
            hf |= {f"{layer}mlp.experts.down_proj": np.ascontiguousarray(both[2].swapaxes(1, 2))}
            hf |= {f"{layer}self_attn.sinks": made_of_rows((HEADS,), number)}
            bias = made_of_rows((EXPERTS, 2 * INNER), number + 90)
            hf[f"{layer}mlp.experts.gate_up_proj_bias"] = bias
            stacked |= {f"{layer}mlp.experts.gate_proj.bias": bias[:, ::2]}
            stacked |= {f"{layer}mlp.experts.up_proj.bias": bias[:, 1::2]}
            stacked[f"{layer}self_attn.sinks.weight"] = hf[f"{layer}self_attn.sinks"]
        if model == "deepseek_v3":
            whole = made_of_rows((HEADS, NOPE + VALUE, RANK), number + 70)
            hf[f"{layer}self_attn.kv_b_proj.weight"] = whole.reshape(-1, RANK)
            stacked[f"{layer}self_attn.k_b_proj.weight"] = whole[:, :NOPE].swapaxes(1, 2)
            stacked[f"{layer}self_attn.v_b_proj.weight"] = whole[:, NOPE:]
            hf[f"{layer}mlp.gate.e_score_correction_bias"] = made_of_rows((EXPERTS,), number)
    arch = next(
        each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == ARCHITECTURES[model]
    )
    names = gguf.get_tensor_name_map(arch, LAYERS)
    plain = {
        name: array
        for name, array in hf.items()
        if not re.search(r"[.]experts[.]|kv_b|sinks", name)
    }
    made = {}
    for name, array in {**plain, **stacked}.items():
        known = names.get_name(name.replace("_bias", ".bias"), try_suffixes=(".weight", ".bias"))
        heads = (
            {"attn_q": HEADS, "attn_k": KV}.get(known.split(".")[-2])
            if model == "mixtral"
            else None
        )
        made[known] = forms.permute(array, heads) if heads else array.copy()
    return hf, made


def moe_pair(
    folder: Path, model: str, kind: str, mistake: forms.Mistake = lambda tensors, keys: None
) -> Any:
    tensors, made = experts(model)
    keys: dict[str, Any] = {
        "context_length": 131072,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
    }
    keys |= {
        "attention.head_count": HEADS,
        "attention.head_count_kv": 1 if model == "deepseek_v3" else KV,
    }
    keys |= {
        "rope.freq_base": float(MOE[model].get("rope_theta", 10000.0)),
        "rope.dimension_count": SIZE,
    }
    if model in ("deepseek_v3", "gpt_oss"):
        keys |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": 32.0,
            "rope.scaling.original_context_length": 4096,
        }
    if model == "deepseek_v3":
        keys["rope.scaling.yarn_log_multiplier"] = 0.1
        keys |= {"attention.kv_lora_rank": RANK, "attention.q_lora_rank": RANK}
        keys |= {"attention.key_length": RANK + ROTARY, "attention.value_length": RANK}
        keys |= {"attention.key_length_mla": NOPE + ROTARY, "attention.value_length_mla": VALUE}
    mistake(made, keys)
    forms.write_gguf(folder / "model.gguf", ARCHITECTURES[model], made, keys, kind)
    (folder / "hf").mkdir()
    (folder / "hf" / "config.json").write_text(json.dumps({"model_type": model, **MOE[model]}))
    save_file(tensors, folder / "hf" / "model.safetensors")
    return pecli.diff(folder / "hf", folder / "model.gguf")


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
@pytest.mark.parametrize("model", MOE)
def test_a_right_mixture_of_experts_passes(tmp_path: Path, model: str, kind: str) -> None:
    found = moe_pair(tmp_path, model, kind)
    assert found, found
    assert not found.weak


@pytest.mark.parametrize("model", MOE)
def test_mistakes_with_experts_are_named(tmp_path: Path, model: str) -> None:
    def wrong(tensors: Arrays, keys: dict[str, Any]) -> None:
        del tensors["blk.1.ffn_up_exps.weight"]
        tensors["blk.0.ffn_down_exps.weight"][1] *= 2
        tensors["blk.2.ffn_gate_exps.weight"] = tensors["blk.2.ffn_gate_exps.weight"][[0, 2, 1]]

    found = moe_pair(tmp_path, model, "F16", wrong)
    assert sorted(found.diagnosis) == [
        "B: ffn_down_exps (expert 1) of layer 0 is multiplied by 2",
        "B: ffn_gate_exps (expert 1) of layer 2 is ffn_gate_exps.2 of A",
        "B: ffn_gate_exps (expert 2) of layer 2 is ffn_gate_exps.1 of A",
        f"B: ffn_up_exps (experts 0–{EXPERTS - 1}) of layer 1 is missing in B",
    ]


def test_stacked_experts_of_shards_are_joined_one_by_one() -> None:
    whole = made_of_rows((EXPERTS, INNER, HIDDEN), 1)
    shards = Stored.of(whole[:, :96], [whole[:, 96:]])
    found = [
        each.fitted(whole.shape[1:]).array
        for _, each in shards.by_expert("blk.0.ffn_up_exps.weight")
    ]
    assert np.array_equal(found, whole)


def test_the_same_bytes_are_equal_unless_something_is_added() -> None:
    one = Stored.of(np.array([[1.0, np.nan]], np.float32))
    pairs = [Pair("output_norm.weight", one, one, None, added) for added in (0, 1)]
    assert [pair.compared(pecli.Tolerance()).mismatched for pair in pairs] == [0, 2]


def test_a_latent_projection_in_one_or_in_two() -> None:
    """GGUF files of before had it in one."""
    whole = made_of_rows((2, 6, 64), 1)
    one = {"attn_kv_b.weight": Stored.of(whole.reshape(12, 64))}
    two = {
        "attn_k_b.weight": Stored.of(whole[:, :4].swapaxes(1, 2)),
        "attn_v_b.weight": Stored.of(whole[:, 4:]),
    }
    about = "", GGUF, "deepseek2", ModelEncodings("", "", ()), "halves", None, {}
    pairs, problems = _pairs(*(Form(*about, each, {}) for each in (two, one)))
    assert not problems
    assert [pair.compared(pecli.Tolerance()).mismatched for pair in pairs] == [0, 0]


def test_experts_in_mxfp4_are_named_and_not_missing(tmp_path: Path) -> None:
    moe_pair(tmp_path, "gpt_oss", "F16")
    tensors, _ = experts("gpt_oss")
    for layer in range(LAYERS):
        stem = f"model.layers.{layer}.mlp.experts."
        for name, rows in (("gate_up_proj", 2 * INNER), ("down_proj", HIDDEN)):
            del tensors[stem + name]
            tensors[f"{stem}{name}_blocks"] = np.zeros((EXPERTS, rows, HIDDEN // 32, 16), np.uint8)
            tensors[f"{stem}{name}_scales"] = np.zeros((EXPERTS, rows, HIDDEN // 32), np.uint8)
    save_file(tensors, tmp_path / "hf" / "model.safetensors")
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")
    assert (found.passed, found.diagnosis) == (True, ())
    assert found.weak[0].startswith(
        "not compared: model.layers.0.mlp.experts.down_proj_blocks (uint8), "
    )
