"""Small models in three forms, written as the projects themselves write them.

What the converter does to tensors is llama.cpp's convert_hf_to_gguf.py: Llama's permutation, Gemma's
norms plus one, GPT-NeoX's rows regrouped. Names come from the map of the gguf package. K-quants,
which the gguf package does not write, are in ggml_blocks.npz: rows of 256 values, and what
quantize_q6_K and its like of ggml-quants.c (0.21.0) make of these, then of twice these. All
matrices are made of such rows.
"""

import json
import struct
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from safetensors.numpy import save_file

from tests.files.test_torch_file import REBUILD, text

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]
Settings = dict[str, Any]

BLOCKS = {**np.load(Path(__file__).parent / "data" / "ggml_blocks.npz")}
ROW_NUMBERS = {
    row.tobytes(): number for number, row in enumerate([*BLOCKS["values"], *(2 * BLOCKS["values"])])
}
HIDDEN = 256
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
LAYERS = 3
VOCABULARY = 32
INNER = 256
ATTENTION = {"q_proj": HIDDEN, "k_proj": KV_HEADS * HEAD_DIM, "v_proj": KV_HEADS * HEAD_DIM}
"""Rows of the projections of attention."""
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
SHORT_FACTORS = [1.0 + pair / 16 for pair in range(HEAD_DIM // 2)]
LONG_FACTORS = [2.0 + pair for pair in range(HEAD_DIM // 2)]
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": SHORT_FACTORS,
    "long_factor": LONG_FACTORS,
}
COMMON = {
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "vocab_size": VOCABULARY,
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "max_position_embeddings": 131072,
}
GROUPED = {**COMMON, "num_key_value_heads": KV_HEADS}
CONFIGS: dict[str, Settings] = {
    "llama": {**GROUPED, "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "qwen2": {**GROUPED, "rope_theta": 1e6},
    "gemma2": {**GROUPED, "head_dim": HEAD_DIM, "rope_theta": 20000.0, "sliding_window": 4096},
    "phi3": {
        **GROUPED,
        "rope_scaling": LONGROPE,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10000.0,
    },
    "gpt_neox": {**COMMON, "rotary_pct": 0.25, "rotary_emb_base": 10000},
}
ARCHITECTURES = {model: model for model in CONFIGS} | {"gpt_neox": "gptneox"}
"""GGUF's names of the models."""


def weights_of(model: str) -> Arrays:
    """Return the weights of a model by transformers' names."""
    shapes = neox_shapes() if model == "gpt_neox" else decoder_shapes(model)
    return {
        name: made_of_rows(shape, number) for number, (name, shape) in enumerate(shapes.items())
    }


def decoder_shapes(model: str) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    if model != "gemma2":  # whose embedding is the output projection as well
        shapes["lm_head.weight"] = (VOCABULARY, HIDDEN)
    norms = ["input_layernorm", "post_attention_layernorm"]
    projections = ATTENTION
    inner = {"gate_proj": INNER, "up_proj": INNER}
    if model == "gemma2":
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    if model == "phi3":
        projections = {"qkv_proj": sum(ATTENTION.values())}
        inner = {"gate_up_proj": 2 * INNER}
    for number in range(LAYERS):
        layer = f"model.layers.{number}"
        for norm in norms:
            shapes[f"{layer}.{norm}.weight"] = (HIDDEN,)
        for name, rows in projections.items():
            shapes[f"{layer}.self_attn.{name}.weight"] = (rows, HIDDEN)
        if model == "qwen2":
            for name, rows in projections.items():
                shapes[f"{layer}.self_attn.{name}.bias"] = (rows,)
        shapes[f"{layer}.self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        for name, rows in inner.items():
            shapes[f"{layer}.mlp.{name}.weight"] = (rows, HIDDEN)
        shapes[f"{layer}.mlp.down_proj.weight"] = (HIDDEN, INNER)
    return shapes


def neox_shapes() -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "gpt_neox.embed_in.weight": (VOCABULARY, HIDDEN),
        "embed_out.weight": (VOCABULARY, HIDDEN),
        "gpt_neox.final_layer_norm.weight": (HIDDEN,),
        "gpt_neox.final_layer_norm.bias": (HIDDEN,),
    }
    in_layer: dict[str, tuple[int, ...]] = {
        "attention.query_key_value": (3 * HIDDEN, HIDDEN),
        "attention.dense": (HIDDEN, HIDDEN),
        "mlp.dense_h_to_4h": (INNER, HIDDEN),
        "mlp.dense_4h_to_h": (HIDDEN, INNER),
        "input_layernorm": (HIDDEN,),
        "post_attention_layernorm": (HIDDEN,),
    }
    for number in range(LAYERS):
        for name, shape in in_layer.items():
            shapes[f"gpt_neox.layers.{number}.{name}.weight"] = shape
        for name, shape in in_layer.items():
            shapes[f"gpt_neox.layers.{number}.{name}.bias"] = shape[:1]
    return shapes


def made_of_rows(shape: tuple[int, ...], seed: int) -> Array:
    """Return random values; rows of 256 are those that K-quants are known of."""
    random = np.random.default_rng(seed)
    if shape[-1:] == (HIDDEN,) and len(shape) > 1:
        return BLOCKS["values"][random.integers(16, size=shape[:-1])]
    return (random.standard_normal(shape) / 16).astype(np.float32)


def permute(array: Array, heads: int) -> Array:
    """LlamaModel.permute."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def unpermute(array: Array, heads: int) -> Array:
    return array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def regroup(array: Array) -> Array:
    """GPTNeoXModel.modify_tensors."""
    parts = array.reshape(HEADS, 3, HEAD_DIM, *array.shape[1:])
    return np.concatenate([parts[:, k].reshape(HIDDEN, *array.shape[1:]) for k in range(3)])


def ungroup(array: Array) -> Array:
    """Undo `regroup`."""
    parts = array.reshape(3, HEADS, HEAD_DIM, *array.shape[1:])
    return parts.swapaxes(0, 1).reshape(array.shape)


def gguf_names(architecture: str, layers: int = LAYERS) -> Any:
    """Return the gguf package's map from transformers' names."""
    numbers = {name: number for number, name in gguf.MODEL_ARCH_NAMES.items()}
    return gguf.get_tensor_name_map(numbers[architecture], layers)


def converted_to_gguf(model: str, tensors: Arrays) -> tuple[Arrays, Settings]:
    """Return the tensors and keys that llama.cpp's converter writes."""
    names = gguf_names(ARCHITECTURES[model])
    made = {}
    for name, array in tensors.items():
        gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        made[gguf_name] = converted_tensor(model, gguf_name, array)
    config = CONFIGS[model]
    keys = {
        "context_length": 131072,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "attention.head_count": HEADS,
        "attention.head_count_kv": config.get("num_key_value_heads", HEADS),
        "rope.freq_base": float(config.get("rope_theta", 10000)),
        "rope.dimension_count": HEAD_DIM // 4 if model == "gpt_neox" else HEAD_DIM,
    }
    if model == "llama":
        made["rope_freqs.weight"] = llama3_factors()
    if model == "phi3":
        made["rope_factors_short.weight"] = np.array(SHORT_FACTORS, np.float32)
        made["rope_factors_long.weight"] = np.array(LONG_FACTORS, np.float32)
        keys["rope.scaling.original_context_length"] = 4096
        keys["rope.scaling.attn_factor"] = float(np.sqrt(1 + np.log(32) / np.log(4096)))
    return made, keys


def converted_tensor(model: str, gguf_name: str, array: Array) -> Array:
    part = gguf_name.split(".")[-2]
    if model == "llama" and part == "attn_q":
        return permute(array, HEADS)
    if model == "llama" and part == "attn_k":
        return permute(array, KV_HEADS)
    if model == "gpt_neox" and part == "attn_qkv":
        return regroup(array)
    if model == "gemma2" and gguf_name.endswith("norm.weight"):
        return array + np.float32(1)
    return array


def llama3_factors() -> Array:
    """Return the divisors of frequencies: 1 for short waves, 8 for long ones, a blend between."""
    wavelengths = 2 * np.pi * 5e5 ** (np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    smooth = (8192 / wavelengths - 1) / (4 - 1)
    blended = 1 / ((1 - smooth) / 8 + smooth)
    factors = np.where(wavelengths > 8192, 8, blended)
    factors = np.where(wavelengths < 8192 / 4, 1, factors)
    return factors.astype(np.float32)


def quantised(array: Array, kind: str) -> Array:
    if not kind.endswith("K"):
        return gguf.quantize(array, gguf.GGMLQuantizationType[kind])
    rows = [ROW_NUMBERS[row.tobytes()] for row in array.reshape(-1, HIDDEN)]
    return BLOCKS[kind][rows].reshape(*array.shape[:-1], -1)


def write_gguf(path: Path, architecture: str, tensors: Arrays, keys: Settings, kind: str) -> None:
    """Write a .gguf file whose matrices are of a type; arrays of bytes are written as IQ4_XS.

    Keys are written after the name of the architecture, except those of split files.
    """
    writer = gguf.GGUFWriter(path, architecture)
    add = {float: writer.add_float32, str: writer.add_string, int: writer.add_uint32}
    for name, value in keys.items():
        is_general = name.startswith("split.")
        add[type(value)](name if is_general else f"{architecture}.{name}", value)
    for name, array in tensors.items():
        if array.dtype == np.uint8:
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType.IQ4_XS)
        elif array.ndim == 1 or name.endswith("bias") or kind == "F32":
            writer.add_tensor(name, array)
        elif kind == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            number = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(name, quantised(array, kind), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_hugging_face(folder: Path, config: Settings, tensors: Arrays) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")


def config_of(model: str) -> Settings:
    return {"model_type": model, **CONFIGS[model]}


META_NAMES = {
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
    "model.": "",
    "self_attn": "attention",
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "mlp": "feed_forward",
    "gate_proj": "w1",
    "up_proj": "w3",
    "down_proj": "w2",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attention_norm",
}
"""Words of transformers' names, and Meta's."""
META_PARAMS: Settings = {
    "dim": HIDDEN,
    "n_heads": HEADS,
    "n_kv_heads": KV_HEADS,
    "n_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "norm_eps": 1e-5,
    "rope_theta": 5e5,
    "use_scaled_rope": True,
}
ROW_PARALLEL = ("wo", "w2", "tok_embeddings")
"""Tensors that Meta's model-parallel shards divide by columns; the others are divided by rows."""


def meta_weights(tensors: Arrays) -> Arrays:
    """Return tensors with Meta's names, and queries and keys with its interleaved rows."""
    made = {}
    for name, array in tensors.items():
        meta_name = name
        for word, meta_word in META_NAMES.items():
            meta_name = meta_name.replace(word, meta_word)
        if "q_proj" in name:
            array = permute(array, HEADS)
        if "k_proj" in name:
            array = permute(array, KV_HEADS)
        made[meta_name] = array
    return made


def write_meta(folder: Path, tensors: Arrays, params: Settings, shards: int) -> None:
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(params))
    for shard in range(shards):
        parts = {name: shard_of(name, array, shard, shards) for name, array in tensors.items()}
        torch_save(folder / f"consolidated.{shard:02}.pth", parts)


def shard_of(name: str, array: Array, shard: int, shards: int) -> Array:
    if "norm" in name:
        return array
    axis = 1 if any(word in name for word in ROW_PARALLEL) else 0
    return np.split(array, shards, axis=axis)[shard]


def torch_save(path: Path, tensors: Arrays) -> None:
    """Write an archive like torch.save's: a pickle that rebuilds float32 tensors, and storages."""
    pickled = b"\x80\x02}("
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, array) in enumerate(tensors.items()):
            storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(number))
            storage += text("cpu") + pickled_tuple((array.size,))[1:] + b"Q"
            strides = tuple(stride // 4 for stride in np.ascontiguousarray(array).strides)
            rebuilt = REBUILD + storage + b"K\x00" + pickled_tuple(array.shape)
            rebuilt += pickled_tuple(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
            pickled += text(name) + rebuilt
        archive.writestr("consolidated/data.pkl", pickled + b"u.")
        for number, array in enumerate(tensors.values()):
            archive.writestr(f"consolidated/data/{number}", array.tobytes())


def pickled_tuple(values: tuple[int, ...]) -> bytes:
    return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"
