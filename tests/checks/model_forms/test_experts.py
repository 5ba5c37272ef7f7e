"""Mixtures of experts as a Hugging Face folder and as a .gguf file: right pairs pass, mistakes are
named.

Hugging Face has one tensor per expert, or fused ones; GGUF stacks them. Both forms are written here
with random weights, by the rules of llama.cpp's conversion/deepseek.py, gpt_oss.py, llama.py and
qwen.py, with the gguf package. A is the folder and B the .gguf file.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pecli
from tests.checks.model_forms.mistakes import Plant
from tests.checks.model_forms.model_files import (
    ATTENTION,
    GROUPED,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    INNER,
    KV_HEADS,
    LAYERS,
    VOCABULARY,
    Arrays,
    Settings,
    gguf_names,
    made_of_rows,
    permute,
    write_gguf,
    write_hugging_face,
)

EXPERTS = 3
RANK = 64
NOPE = 32
ROTARY = 32
VALUE = 32
"""Channels of DeepSeek's attention: the latent vector, and of each head the unrotated and rotated
part of the key, and the value."""
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
CONFIGS: dict[str, Settings] = {
    "mixtral": {**GROUPED, "rope_theta": 1e6, "num_local_experts": EXPERTS},
    "qwen3_moe": {**GROUPED, "head_dim": HEAD_DIM, "rope_theta": 1e6, "num_experts": EXPERTS},
    "deepseek_v3": {
        **GROUPED,
        "num_key_value_heads": HEADS,
        "kv_lora_rank": RANK,
        "q_lora_rank": RANK,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": ROTARY,
        "v_head_dim": VALUE,
        "rope_scaling": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0},
    },
    "gpt_oss": {
        **GROUPED,
        "head_dim": HEAD_DIM,
        "rope_theta": 150000.0,
        "rope_scaling": {**YARN, "truncate": False},
    },
}
ARCHITECTURES = {
    "mixtral": "llama",
    "qwen3_moe": "qwen3moe",
    "deepseek_v3": "deepseek2",
    "gpt_oss": "gpt-oss",
}
LATENT_ATTENTION: dict[str, tuple[int, ...]] = {
    "q_a_proj": (RANK, HIDDEN),
    "q_a_layernorm": (RANK,),
    "q_b_proj": (HEADS * (NOPE + ROTARY), RANK),
    "kv_a_proj_with_mqa": (RANK + ROTARY, HIDDEN),
    "kv_a_layernorm": (RANK,),
}
ROUTERS = {
    "mixtral": "block_sparse_moe.gate",
    "qwen3_moe": "mlp.gate",
    "deepseek_v3": "mlp.gate",
    "gpt_oss": "mlp.router",
}


def layer_shapes(model: str) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a layer, apart from its experts."""
    shapes: dict[str, tuple[int, ...]] = {}
    if model == "deepseek_v3":
        for name, shape in LATENT_ATTENTION.items():
            shapes[f"self_attn.{name}"] = shape
        for name in ("gate", "up", "down"):
            shapes[f"mlp.shared_experts.{name}_proj"] = (INNER, HIDDEN)
    else:
        for name, rows in ATTENTION.items():
            shapes[f"self_attn.{name}"] = (rows, HIDDEN)
    shapes["self_attn.o_proj"] = (HIDDEN, HIDDEN)
    shapes["input_layernorm"] = (HIDDEN,)
    shapes["post_attention_layernorm"] = (HIDDEN,)
    shapes[ROUTERS[model]] = (EXPERTS, HIDDEN)
    if model == "qwen3_moe":
        shapes["self_attn.q_norm"] = (HEAD_DIM,)
        shapes["self_attn.k_norm"] = (HEAD_DIM,)
    return shapes


class Mixture:
    """A mixture of experts: tensors as Hugging Face has them, and as GGUF has them.

    `stacked` are GGUF's tensors that Hugging Face has differently, by names that the gguf package
    maps.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.hugging_face: Arrays = {
            "model.embed_tokens.weight": made_of_rows((VOCABULARY, HIDDEN), 1),
            "lm_head.weight": made_of_rows((VOCABULARY, HIDDEN), 3),
            "model.norm.weight": made_of_rows((HIDDEN,), 2),
        }
        self.stacked: Arrays = {}
        for number in range(LAYERS):
            layer = f"model.layers.{number}"
            for name, shape in layer_shapes(model).items():
                weight = made_of_rows(shape, 7 * number + len(name))
                self.hugging_face[f"{layer}.{name}.weight"] = weight
            if model == "gpt_oss":
                self._add_fused_experts(layer, number)
            else:
                self._add_single_experts(layer, number)
            if model == "deepseek_v3":
                self._add_latent_projection(layer, number)

    def _add_single_experts(self, layer: str, number: int) -> None:
        stem = f"{layer}.mlp.experts"
        words = ("gate_proj", "up_proj", "down_proj")
        if self.model == "mixtral":
            stem = f"{layer}.block_sparse_moe.experts"
            words = ("w1", "w3", "w2")
        for k, word in enumerate(words):
            experts = made_of_rows((EXPERTS, INNER, HIDDEN), 50 * number + k)
            self.stacked[f"{stem}.{word}.weight"] = experts
            for expert in range(EXPERTS):
                self.hugging_face[f"{stem}.{expert}.{word}.weight"] = experts[expert]

    def _add_fused_experts(self, layer: str, number: int) -> None:
        """gpt-oss interleaves the rows of gate and up, and transposes."""
        stem = f"{layer}.mlp.experts"
        gate, up, down = [made_of_rows((EXPERTS, INNER, HIDDEN), 50 * number + k) for k in range(3)]
        both = np.stack([gate, up], axis=2).reshape(EXPERTS, 2 * INNER, HIDDEN)
        bias = made_of_rows((EXPERTS, 2 * INNER), number + 90)
        sinks = made_of_rows((HEADS,), number)
        self.hugging_face[f"{stem}.gate_up_proj"] = np.ascontiguousarray(both.swapaxes(1, 2))
        self.hugging_face[f"{stem}.down_proj"] = np.ascontiguousarray(down.swapaxes(1, 2))
        self.hugging_face[f"{stem}.gate_up_proj_bias"] = bias
        self.hugging_face[f"{layer}.self_attn.sinks"] = sinks
        self.stacked[f"{stem}.gate_proj.weight"] = gate
        self.stacked[f"{stem}.up_proj.weight"] = up
        self.stacked[f"{stem}.down_proj.weight"] = down
        self.stacked[f"{stem}.gate_proj.bias"] = bias[:, ::2]
        self.stacked[f"{stem}.up_proj.bias"] = bias[:, 1::2]
        self.stacked[f"{layer}.self_attn.sinks.weight"] = sinks

    def _add_latent_projection(self, layer: str, number: int) -> None:
        by_head = made_of_rows((HEADS, NOPE + VALUE, RANK), number + 70)
        correction = made_of_rows((EXPERTS,), number)
        self.hugging_face[f"{layer}.self_attn.kv_b_proj.weight"] = by_head.reshape(-1, RANK)
        self.hugging_face[f"{layer}.mlp.gate.e_score_correction_bias"] = correction
        self.stacked[f"{layer}.self_attn.k_b_proj.weight"] = by_head[:, :NOPE].swapaxes(1, 2)
        self.stacked[f"{layer}.self_attn.v_b_proj.weight"] = by_head[:, NOPE:]

    def gguf(self) -> Arrays:
        """Return the tensors that llama.cpp's converter writes."""
        names = gguf_names(ARCHITECTURES[self.model])
        is_stacked = re.compile(r"[.]experts[.]|kv_b|sinks")
        same = {
            name: array for name, array in self.hugging_face.items() if not is_stacked.search(name)
        }
        tensors = {}
        for name, array in {**same, **self.stacked}.items():
            suffixed = name.replace("_bias", ".bias")
            gguf_name = names.get_name(suffixed, try_suffixes=(".weight", ".bias"))
            if self.model == "mixtral" and "attn_q." in gguf_name:
                array = permute(array, HEADS)
            if self.model == "mixtral" and "attn_k." in gguf_name:
                array = permute(array, KV_HEADS)
            tensors[gguf_name] = array.copy()
        return tensors


def gguf_keys(model: str) -> Settings:
    keys: Settings = {
        "context_length": 131072,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "rope.freq_base": float(CONFIGS[model].get("rope_theta", 10000.0)),
        "rope.dimension_count": HEAD_DIM,
    }
    if "rope_scaling" in CONFIGS[model]:
        keys["rope.scaling.type"] = "yarn"
        keys["rope.scaling.factor"] = 32.0
        keys["rope.scaling.original_context_length"] = 4096
    if model == "deepseek_v3":
        keys["rope.scaling.yarn_log_multiplier"] = 0.1
        keys["attention.head_count_kv"] = 1
        keys["attention.kv_lora_rank"] = RANK
        keys["attention.q_lora_rank"] = RANK
        keys["attention.key_length"] = RANK + ROTARY
        keys["attention.value_length"] = RANK
        keys["attention.key_length_mla"] = NOPE + ROTARY
        keys["attention.value_length_mla"] = VALUE
    return keys


def write_mixture_as_gguf(path: Path, model: str, kind: str, mistake: Plant | None = None) -> None:
    """Write the .gguf file of a mixture, with a mistake planted in it."""
    tensors = Mixture(model).gguf()
    keys = gguf_keys(model)
    if mistake is not None:
        mistake(tensors, keys)
    write_gguf(path, ARCHITECTURES[model], tensors, keys, kind)


def write_mixture_as_folder(folder: Path, model: str, tensors: Arrays) -> None:
    """Write the Hugging Face folder of a mixture, with these tensors."""
    write_hugging_face(folder, {"model_type": model, **CONFIGS[model]}, tensors)


def diff_mixture(folder: Path, model: str, kind: str, mistake: Plant | None = None) -> Any:
    """Write a mixture in both forms, with a mistake in the .gguf file, and compare them."""
    write_mixture_as_gguf(folder / "model.gguf", model, kind, mistake)
    write_mixture_as_folder(folder / "hf", model, Mixture(model).hugging_face)
    return pecli.diff(folder / "hf", folder / "model.gguf")


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
@pytest.mark.parametrize("model", CONFIGS)
@pytest.mark.sample(2)
def test_a_right_mixture_of_experts_passes(tmp_path: Path, model: str, kind: str) -> None:
    """The Hugging Face folder and the .gguf file hold the same random weights, the latter in the
    order and shapes of llama.cpp's converter, as F16 or Q8_0; `weak` would list what was not
    compared.
    """
    found = diff_mixture(tmp_path, model, kind)
    assert found, found
    assert not found.weak


@pytest.mark.parametrize("model", CONFIGS)
def test_mistakes_with_the_experts_of_a_mixture_are_named(tmp_path: Path, model: str) -> None:
    """Planted in the .gguf file: the up projections of layer 1 are missing, expert 1 of layer 0 is
    doubled, and experts 1 and 2 of layer 2 are exchanged.
    """

    def plant(tensors: Arrays, keys: Settings) -> None:
        del tensors["blk.1.ffn_up_exps.weight"]
        tensors["blk.0.ffn_down_exps.weight"][1] *= 2
        tensors["blk.2.ffn_gate_exps.weight"] = tensors["blk.2.ffn_gate_exps.weight"][[0, 2, 1]]

    found = diff_mixture(tmp_path, model, "F16", plant)

    assert sorted(found.diagnosis) == [
        "B: ffn_down_exps (expert 1) of layer 0 is multiplied by 2",
        "B: ffn_gate_exps (expert 1) of layer 2 is ffn_gate_exps.2 of A",
        "B: ffn_gate_exps (expert 2) of layer 2 is ffn_gate_exps.1 of A",
        f"B: ffn_up_exps (experts 0–{EXPERTS - 1}) of layer 1 is missing in B",
    ]


def gpt_oss_in_mxfp4() -> Arrays:
    """Return gpt-oss' tensors as its released folder has them, whose experts are in MXFP4.

    Each expert's matrix is two tensors: blocks of 16 bytes, which hold 32 elements of 4 bits, and a
    scale of one byte per block. The bytes are zeros here.
    """
    tensors = Mixture("gpt_oss").hugging_face
    for layer in range(LAYERS):
        for name, rows in (("gate_up_proj", 2 * INNER), ("down_proj", HIDDEN)):
            weight = f"model.layers.{layer}.mlp.experts.{name}"
            del tensors[weight]
            tensors[f"{weight}_blocks"] = np.zeros((EXPERTS, rows, HIDDEN // 32, 16), np.uint8)
            tensors[f"{weight}_scales"] = np.zeros((EXPERTS, rows, HIDDEN // 32), np.uint8)
    return tensors


def test_experts_in_mxfp4_are_named_and_not_missing(tmp_path: Path) -> None:
    """In the folder, the experts of gpt-oss are stored as blocks and scales of MXFP4, which are not
    decoded: they are listed as not compared (`weak`), and the rest passes. The .gguf file has them
    in F16.
    """
    write_mixture_as_gguf(tmp_path / "model.gguf", "gpt_oss", kind="F16")
    write_mixture_as_folder(tmp_path / "hf", "gpt_oss", gpt_oss_in_mxfp4())
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")

    assert found.passed
    assert found.diagnosis == ()
    assert found.weak[0].startswith(
        "not compared: model.layers.0.mlp.experts.down_proj_blocks (uint8), "
    )
