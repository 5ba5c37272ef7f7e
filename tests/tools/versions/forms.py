"""Random pairs of two forms of one small model: a Hugging Face folder and a .gguf file, or two."""

import json
import os
import tempfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import pecli
from versions.commands import working_folder
from versions.draw import Draw
from versions.outcomes import Case

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
HIDDEN = 64
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
LAYERS = 2
ROWS = {
    "self_attn.q_proj": HIDDEN,
    "self_attn.k_proj": KV_HEADS * HEAD_DIM,
    "self_attn.v_proj": KV_HEADS * HEAD_DIM,
    "self_attn.o_proj": HIDDEN,
    "mlp.gate_proj": HIDDEN,
    "mlp.up_proj": HIDDEN,
    "mlp.down_proj": HIDDEN,
}
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}
"""Names of tensors of a layer in Hugging Face's form, and in GGUF's."""


@dataclass
class Model:
    """A model in GGUF form, before it is written."""

    architecture: str
    tensors: Arrays
    keys: dict[str, Any]
    storage: str
    planted: list[str] = field(default_factory=list)


def draw_weights(draw: Draw, architecture: str) -> Arrays:
    """Return weights by their names in Hugging Face's form."""
    rows = dict(ROWS)
    if architecture == "phi3":
        kv_rows = KV_HEADS * HEAD_DIM
        rows = {"self_attn.qkv_proj": HIDDEN + 2 * kv_rows, "mlp.gate_up_proj": 2 * HIDDEN}
        rows |= {name: ROWS[name] for name in ("self_attn.o_proj", "mlp.down_proj")}
    weights = {
        "model.embed_tokens.weight": _weight(draw, 16, HIDDEN),
        "model.norm.weight": _weight(draw, HIDDEN),
        "lm_head.weight": _weight(draw, 16, HIDDEN),
    }
    for layer in range(LAYERS):
        for name, count in rows.items():
            weights[f"model.layers.{layer}.{name}.weight"] = _weight(draw, count, HIDDEN)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"model.layers.{layer}.{name}.weight"] = _weight(draw, HIDDEN)
    return weights


def _weight(draw: Draw, *shape: int) -> Array:
    return (draw.normal(*shape) / 8).astype(np.float32)


def config_of(architecture: str, base: float) -> dict[str, Any]:
    return {
        "model_type": architecture,
        "hidden_size": HIDDEN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "num_hidden_layers": LAYERS,
        "max_position_embeddings": 4096,
        "rope_theta": base,
    }


def permute(array: Array, heads: int) -> Array:
    """Reorder the rows of each head from halves to interleaved, as llama.cpp's converter does."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def to_gguf(architecture: str, weights: Arrays, base: float, storage: str) -> Model:
    """Return what the converter of llama.cpp makes of the weights."""
    tensors = {}
    for name, array in weights.items():
        converted = _gguf_name(name)
        if architecture == "llama" and "attn_q" in converted:
            array = permute(array, HEADS)
        if architecture == "llama" and "attn_k" in converted:
            array = permute(array, KV_HEADS)
        if architecture == "gemma" and converted.endswith("norm.weight"):
            array = array + np.float32(1)
        tensors[converted] = array
    keys = {
        "context_length": 4096,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "rope.freq_base": base,
        "rope.dimension_count": HEAD_DIM,
    }
    return Model(architecture, tensors, keys, storage)


def _gguf_name(name: str) -> str:
    whole = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in whole:
        return whole[name]
    _, _, layer, *part, suffix = name.split(".")
    return f"blk.{layer}.{NAMES['.'.join(part)]}.{suffix}"


def plant(draw: Draw, model: Model) -> None:
    """Change a tensor or a key of the model, and note what was done."""
    if draw.chance(0.4):
        key = draw.choice(sorted(model.keys))
        model.planted.append(f"key {key}")
        if draw.chance(0.5):
            del model.keys[key]
        else:
            model.keys[key] *= 2
        return
    name = draw.choice(sorted(model.tensors))
    array = model.tensors[name]
    heads = draw.choice([HEADS, KV_HEADS, 1, 4])
    changes = {
        "zeros": np.zeros_like(array),
        "negated": -array,
        "doubled": 2 * array,
        "plus one": array + np.float32(1),
        "rows rolled": np.roll(array, len(array) // 2, axis=0),
        "transposed": array.T,
        "permuted": permute(array, heads) if len(array) % (2 * heads) == 0 else array,
        "one element": _with_element(array, 9.0),
        "nan": _with_element(array, np.nan),
        "shorter": array[:-1],
    }
    kind = draw.choice([*sorted(changes), "missing", "exchanged"])
    model.planted.append(f"{name} {kind}")
    if kind == "missing":
        del model.tensors[name]
    elif kind == "exchanged":
        twin = draw.choice(sorted(model.tensors))
        model.tensors[name], model.tensors[twin] = model.tensors[twin], array
    else:
        model.tensors[name] = np.ascontiguousarray(changes[kind])


def _with_element(array: Array, value: float) -> Array:
    changed = array.copy()
    changed.reshape(-1)[array.size // 3] = value
    return changed


def forms_case(draw: Draw) -> Case:
    """Return a case that compares two forms of a model, with up to three mistakes planted."""
    architecture = draw.choice(["llama", "qwen2", "gemma", "phi3"])
    base = draw.choice([10000.0, 500000.0])
    weights = draw_weights(draw, architecture)
    model = to_gguf(architecture, weights, base, draw.choice(["F32", "F16", "Q8_0"]))
    for _ in range(draw.integer(0, 3)):
        plant(draw, model)
    other = to_gguf(architecture, weights, base, draw.choice(["F32", "F16", "Q8_0"]))
    both_gguf = draw.chance(0.2)
    swapped = draw.chance(0.2)

    def compute() -> Any:
        with tempfile.TemporaryDirectory() as folder, working_folder(folder):
            write_gguf("model.gguf", model)
            if both_gguf:
                write_gguf("other.gguf", other)
            else:
                write_hugging_face("folder", config_of(architecture, base), weights)
            pair = ["other.gguf" if both_gguf else "folder", "model.gguf"]
            if swapped:
                pair.reverse()
            return pecli.diff(*pair)

    first = f"{other.storage} .gguf" if both_gguf else "Hugging Face folder"
    planted = ", ".join(model.planted) or "nothing"
    return Case(f"{architecture}: {first}, {model.storage} .gguf, planted: {planted}", compute)


def write_hugging_face(folder: str, config: dict[str, Any], weights: Arrays) -> None:
    from safetensors.numpy import save_file

    os.mkdir(folder)
    with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    save_file(weights, f"{folder}/model.safetensors")


def write_gguf(path: str, model: Model) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, model.architecture)
    for name, value in model.keys.items():
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{model.architecture}.{name}", value)
    for name, array in model.tensors.items():
        is_matrix = array.ndim == 2 and array.shape[1] % 32 == 0
        if model.storage == "F32" or not is_matrix:
            writer.add_tensor(name, array)
        elif model.storage == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            kind = gguf.GGMLQuantizationType[model.storage]
            writer.add_tensor(name, gguf.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
