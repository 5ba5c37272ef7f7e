"""Two forms of one model: pairs made with the official GGUF writer and name maps, right and with known mistakes.

What the converter does to tensors is llama.cpp's convert_hf_to_gguf.py: llama's permutation, Gemma's norms plus one,
GPT-NeoX's rows regrouped. K-quants, which the gguf package does not write, are in ggml_blocks.npz: rows of 256
values, and what quantize_q6_K and its like of ggml-quants.c (0.21.0) make of these, then of twice these. All matrices
are made of such rows.
"""

import json
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

import pecli
from pecli.checks import model_forms
from pecli.errors import FileError
from tests.files.test_torch_file import REBUILD, text

Arrays = dict[str, np.ndarray]
BLOCKS = {**np.load(Path(__file__).parent / "data" / "ggml_blocks.npz")}
NUMBER_OF_ROW = {
    row.tobytes(): k for k, row in enumerate([*BLOCKS["values"], *(2 * BLOCKS["values"])])
}
HIDDEN, HEADS, KV, LAYERS, VOCABULARY, INNER = 256, 8, 2, 3, 32, 256
SIZE = HIDDEN // HEADS
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3["original_max_position_embeddings"] = 8192
SHORT, LONG = [1.0 + k / 16 for k in range(SIZE // 2)], [2.0 + k for k in range(SIZE // 2)]
LONGROPE = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG}
COMMON = {
    "hidden_size": HIDDEN,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV,
    "vocab_size": VOCABULARY,
}
COMMON |= {
    "num_hidden_layers": LAYERS,
    "intermediate_size": INNER,
    "max_position_embeddings": 131072,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {**COMMON, "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "qwen2": {**COMMON, "rope_theta": 1e6},
    "gemma2": {**COMMON, "head_dim": SIZE, "rope_theta": 20000.0, "sliding_window": 4096},
    "phi3": {
        **COMMON,
        "rope_scaling": LONGROPE,
        "original_max_position_embeddings": 4096,
        "rope_theta": 10000.0,
    },
    "gpt_neox": {**COMMON, "rotary_pct": 0.25, "rotary_emb_base": 10000},
}
del CONFIGS["gpt_neox"]["num_key_value_heads"]
ATTENTION = {"q_proj": HIDDEN, "k_proj": KV * SIZE, "v_proj": KV * SIZE}


def weights(model: str) -> Arrays:
    """By the names that transformers has for them."""
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    shapes |= {"model.norm.weight": (HIDDEN,)}
    shapes |= {} if model == "gemma2" else {"lm_head.weight": (VOCABULARY, HIDDEN)}
    for layer in (f"model.layers.{k}." for k in range(LAYERS)):
        norms = ["input_layernorm", "post_attention_layernorm"]
        norms += (
            ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if model == "gemma2" else []
        )
        shapes |= {f"{layer}{norm}.weight": (HIDDEN,) for norm in norms}
        rows = {"qkv_proj": sum(ATTENTION.values())} if model == "phi3" else ATTENTION
        shapes |= {
            f"{layer}self_attn.{name}.weight": (count, HIDDEN) for name, count in rows.items()
        }
        shapes |= {
            f"{layer}self_attn.{name}.bias": (count,)
            for name, count in rows.items()
            if model == "qwen2"
        }
        shapes[f"{layer}self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        up = (
            {"gate_up_proj": 2 * INNER}
            if model == "phi3"
            else {"gate_proj": INNER, "up_proj": INNER}
        )
        shapes |= {f"{layer}mlp.{name}.weight": (count, HIDDEN) for name, count in up.items()}
        shapes[f"{layer}mlp.down_proj.weight"] = (HIDDEN, INNER)
    if model == "gpt_neox":
        shapes = {
            "gpt_neox.embed_in.weight": (VOCABULARY, HIDDEN),
            "embed_out.weight": (VOCABULARY, HIDDEN),
        }
        shapes |= {f"gpt_neox.final_layer_norm.{part}": (HIDDEN,) for part in ("weight", "bias")}
        for layer in (f"gpt_neox.layers.{k}." for k in range(LAYERS)):
            linear = {
                "attention.query_key_value": (3 * HIDDEN, HIDDEN),
                "attention.dense": (HIDDEN, HIDDEN),
            }
            linear |= {"mlp.dense_h_to_4h": (INNER, HIDDEN), "mlp.dense_4h_to_h": (HIDDEN, INNER)}
            linear |= {"input_layernorm": (HIDDEN,), "post_attention_layernorm": (HIDDEN,)}
            shapes |= {f"{layer}{name}.weight": shape for name, shape in linear.items()}
            shapes |= {f"{layer}{name}.bias": shape[:1] for name, shape in linear.items()}
    return {
        name: made_of_rows(shape, number) for number, (name, shape) in enumerate(shapes.items())
    }


def made_of_rows(shape: tuple[int, ...], seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    if shape[-1:] == (HIDDEN,) and len(shape) > 1:
        return BLOCKS["values"][random.integers(16, size=shape[:-1])]
    return (random.standard_normal(shape) / 16).astype(np.float32)


def permute(array: np.ndarray, heads: int) -> np.ndarray:
    """LlamaModel.permute."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def unpermute(array: np.ndarray, heads: int) -> np.ndarray:
    return array.reshape(heads, -1, 2, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def regroup(array: np.ndarray) -> np.ndarray:
    """GPTNeoXModel.modify_tensors."""
    parts = array.reshape(HEADS, 3, SIZE, *array.shape[1:])
    return np.concatenate([parts[:, k].reshape(HIDDEN, *array.shape[1:]) for k in range(3)])


def converted(model: str, tensors: Arrays) -> tuple[Arrays, dict[str, Any]]:
    arch = {"gpt_neox": "gptneox"}.get(model, model)
    number = next(each for each, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, LAYERS)
    made = {
        names.get_name(name, try_suffixes=(".weight", ".bias")): array
        for name, array in tensors.items()
    }
    for name, array in made.items():
        if model == "llama" and (heads := {"attn_q": HEADS, "attn_k": KV}.get(name.split(".")[-2])):
            made[name] = permute(array, heads)
        if model == "gpt_neox" and "attn_qkv" in name:
            made[name] = regroup(array)
        if model == "gemma2" and name.endswith("norm.weight"):
            made[name] = array + np.float32(1)
    keys = {"context_length": 131072, "embedding_length": HIDDEN, "block_count": LAYERS}
    keys |= {
        "attention.head_count": HEADS,
        "attention.head_count_kv": HEADS if model == "gpt_neox" else KV,
    }
    config = CONFIGS[model]
    keys["rope.freq_base"] = float(config.get("rope_theta", 10000))
    keys["rope.dimension_count"] = SIZE // 4 if model == "gpt_neox" else SIZE
    if model == "llama":
        with np.errstate(all="raise"):
            waves = 2 * np.pi * 5e5 ** (np.arange(0, SIZE, 2) / SIZE)
            share = (8192 / waves - 1) / 3
        factors = np.where(
            waves < 2048, 1, np.where(waves > 8192, 8, 1 / ((1 - share) / 8 + share))
        )
        made["rope_freqs.weight"] = factors.astype(np.float32)
    if model == "phi3":
        made["rope_factors_short.weight"] = np.array(SHORT, np.float32)
        made["rope_factors_long.weight"] = np.array(LONG, np.float32)
        keys["rope.scaling.original_context_length"] = 4096
        keys["rope.scaling.attn_factor"] = float(np.sqrt(1 + np.log(32) / np.log(4096)))
    return made, keys


def quantised(array: np.ndarray, kind: str) -> np.ndarray:
    if kind.endswith("K"):
        rows = [NUMBER_OF_ROW[row.tobytes()] for row in array.reshape(-1, HIDDEN)]
        return BLOCKS[kind][rows].reshape(*array.shape[:-1], -1)
    return gguf.quantize(array, gguf.GGMLQuantizationType[kind])


def write_gguf(path: Path, arch: str, tensors: Arrays, keys: dict[str, Any], kind: str) -> None:
    writer = gguf.GGUFWriter(path, arch)
    for name, value in keys.items():
        add = {float: writer.add_float32, str: writer.add_string, int: writer.add_uint32}[
            type(value)
        ]
        add(f"{arch}.{name}", value)
    number = gguf.GGMLQuantizationType[kind]
    for name, array in tensors.items():
        if array.dtype == np.uint8:
            writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType.IQ4_XS)
        elif array.ndim == 1 or name.endswith("bias") or kind == "F32":
            writer.add_tensor(name, array)
        elif kind == "F16":
            writer.add_tensor(name, array.astype(np.float16))
        else:
            writer.add_tensor(name, quantised(array, kind), raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_hugging_face(folder: Path, model: str, tensors: Arrays) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": model, **CONFIGS[model]}))
    save_file(tensors, folder / "model.safetensors")


Mistake = Callable[[Arrays, dict[str, Any]], object]


def on(pattern: str, change: Callable[[np.ndarray], np.ndarray]) -> Mistake:
    def make(tensors: Arrays, keys: dict[str, Any]) -> None:
        chosen = [name for name in tensors if re.search(pattern, name)]
        assert chosen
        for name in chosen:
            tensors[name] = np.ascontiguousarray(change(tensors[name]))

    return make


def swap(one: str, other: str) -> Mistake:
    def make(tensors: Arrays, keys: dict[str, Any]) -> None:
        for name in [name for name in tensors if one in name]:
            twin = name.replace(one, other)
            tensors[name], tensors[twin] = tensors[twin], tensors[name]

    return make


def without(*names: str) -> Mistake:
    return lambda tensors, keys: [
        tensors.pop(name, None) is None and keys.pop(name) for name in names
    ]


def exchanged_halves(array: np.ndarray) -> np.ndarray:
    return np.roll(array, len(array) // 2, axis=0)


def permuted_queries_and_keys(array: np.ndarray) -> np.ndarray:
    both = HEADS + KV if len(array) < 3 * HIDDEN else 2 * HEADS
    return np.concatenate([permute(array[: both * SIZE], both), array[both * SIZE :]])


def ungrouped(array: np.ndarray) -> np.ndarray:
    """What `regroup` is made of."""
    return array.reshape(3, HEADS, SIZE, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)


NEOX_VALUES = np.concatenate(
    [np.arange(HIDDEN), np.arange(2 * HIDDEN, 3 * HIDDEN), np.arange(HIDDEN, 2 * HIDDEN)]
)


def unpermuted(tensors: Arrays, keys: dict[str, Any]) -> None:
    on("attn_[qk]", lambda array: unpermute(array, len(array) // SIZE))(tensors, keys)


MISTAKES: dict[str, list[tuple[Mistake, str]]] = {
    "llama": [
        (on("attn_k", lambda array: permute(unpermute(array, KV), HEADS)),
         r"B: k of layers 0–2 is permuted in 8 heads; the model has 2 kv heads \(llama.cpp#3364\)"),
        (unpermuted, "B: q and k of layers 0–2 are not permuted; llama in GGUF form is"),
        (on("blk.1.attn_q", lambda array: permute(array, HEADS)), "B: q of layer 1 is permuted twice"),
        (without("rope.freq_base"), "B: base 500000 → 10000: rope.freq_base is missing"),
        (without("rope_freqs.weight"), "B: rope_freqs.weight is missing: the llama3 scaling is lost"),
    ],
    "qwen2": [
        (on("attn_q.weight", lambda array: permute(array, HEADS)),
         "B: q of layers 0–2 is permuted; qwen2 in GGUF form is not"),
        (on("attn_k.bias", lambda array: permute(array, KV)),
         "B: k bias of layers 0–2 is permuted; qwen2 in GGUF form is not"),
        (on("attn_k.weight", lambda array: permute(array, HEADS)), "B: k of .* is permuted in 8 heads; .* 2 kv heads"),
        (without("rope.freq_base"), "B: base 1e[+]06 → 10000: rope.freq_base is missing"),
        (swap("ffn_gate", "ffn_up"), "B: ffn_up of layers 0–2 is ffn_gate of A"),
    ],
    "gemma2": [
        (on("norm.weight", lambda array: array - 1), "too small: GGUF keeps norms of gemma2 with 1 added"),
        (on("attn_[qk]", lambda array: permute(array, len(array) // SIZE)),
         "q and k of layers 0–2 are permuted; gemma2"),
        (without("rope.freq_base"), "base 20000 → 10000"),
        (swap("blk.0.", "blk.2."), "attn_norm, .* and 5 more of layer 0 are layer 2 of A"),
        (on("ffn_down", np.zeros_like), "B: ffn_down of layers 0–2 is all zeros"),
    ],
    "phi3": [
        (on("attn_qkv", permuted_queries_and_keys),
         "B: qkv of layers 0–2 is permuted in q and k; phi3 in GGUF form is not"),
        (on("blk.[01].ffn_up", exchanged_halves), "B: ffn_up of layers 0–1 has its halves exchanged"),
        (without("rope_factors_long.weight", "rope_factors_short.weight"), "rope_factors_long.weight is missing"),
        (without("rope.scaling.attn_factor"), "attention factor 1.19024 → 1"),
        (on("token_embd", lambda array: array * 2), "token_embd is multiplied by 2"),
    ],
    "gpt_neox": [
        (on("attn_qkv", ungrouped),
         "qkv and qkv bias of layers 0–2 are in the order of A; gptneox .* rows q of all heads, then k, then v"),
        (on("attn_qkv.weight", permuted_queries_and_keys), "qkv of layers 0–2 is permuted in q and k"),
        (without("rope.dimension_count"), "rotary dimension 8 → 32: rope.dimension_count is missing"),
        (on("attn_qkv.bias", lambda array: array[NEOX_VALUES]), "qkv bias .* has its k and v exchanged"),
        (without("blk.2.ffn_down.bias"), "ffn_down bias of layer 2 is missing in B"),
    ],
}  # fmt: skip
Made = Callable[[str], Path]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folders: dict[str, Path] = {}

    def folder(model: str) -> Path:
        if model not in folders:
            folders[model] = tmp_path_factory.mktemp("forms") / model
            write_hugging_face(folders[model], model, weights(model))
        return folders[model]

    return folder


@pytest.mark.parametrize(
    "kind", ["F32", "F16", "BF16", "Q8_0", "Q5_1", "Q4_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K"]
)
@pytest.mark.parametrize("model", CONFIGS)
@pytest.mark.sample(10)
def test_a_right_pair_passes(made: Made, tmp_path: Path, model: str, kind: str) -> None:
    arch = {"gpt_neox": "gptneox"}.get(model, model)
    write_gguf(tmp_path / "model.gguf", arch, *converted(model, weights(model)), kind)
    found = pecli.diff(made(model), tmp_path / "model.gguf")
    assert found, found
    assert (found.weak, found.tensors, found.forms.split()[0]) == ((), (), str(len(weights(model))))
    assert pecli.diff(tmp_path / "model.gguf", made(model))


@pytest.mark.parametrize(
    "other", [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in (1, 2, 3))]
)
@pytest.mark.parametrize(("model", "number"), [(model, k) for model in MISTAKES for k in range(5)])
def test_mistakes_are_named(
    made: Made, tmp_path: Path, model: str, number: int, other: int
) -> None:
    kind = ("F16", "Q8_0", "Q4_K", "Q6_K")[(number + other) % 4]
    mistake, expected = MISTAKES[model][number]
    tensors, keys = converted(model, weights(model))
    mistake(tensors, keys)
    arch = {"gpt_neox": "gptneox"}.get(model, model)
    write_gguf(tmp_path / "model.gguf", arch, tensors, keys, kind)
    found = pecli.diff(made(model), tmp_path / "model.gguf")
    assert not found
    assert re.search(expected, "\n".join(found.diagnosis)), found
    assert len(str(found).splitlines()) < 24


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"block_count": 4}, "B: layers 3 → 4 (block_count)"),
        ({"block_count": 4, "nextn_predict_layers": 1}, ""),
        ({"attention.max_alibi_bias": 8.0}, "B: no rotary encoding"),
        (
            {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
            "B: frequencies of pairs 0–15 differ",
        ),
        ({"block_count": None}, "B: block_count is missing"),
        ({"context_length": None}, "B: context_length is missing"),
        ({"attention.head_count": None}, "B: attention.head_count is missing"),
        (
            {"attention.head_count": 4, "rope.dimension_count": 32},
            "B: heads 8 → 4 (attention.head_count)",
        ),
    ],
)
def test_what_a_file_says_of_the_model(
    made: Made, tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    tensors, keys = converted("qwen2", weights("qwen2"))
    said = {name: value for name, value in (keys | changes).items() if value is not None}
    write_gguf(tmp_path / "model.gguf", "qwen2", tensors, said, "F16")
    found = pecli.diff(made("qwen2"), tmp_path / "model.gguf")
    assert found.diagnosis == (expected,) * bool(expected)


def test_two_right_files_of_one_model(tmp_path: Path) -> None:
    """F16 against Q8_0, without a folder of Hugging Face's; both keep norms in float32."""
    for kind in ("F16", "Q8_0"):
        write_gguf(tmp_path / f"{kind}.gguf", "llama", *converted("llama", weights("llama")), kind)
    found = pecli.diff(tmp_path / "F16.gguf", tmp_path / "Q8_0.gguf")
    assert found
    assert f": {2 * LAYERS + 1} equal, {7 * LAYERS + 2} within the rounding" in found.forms


def test_two_files_of_which_one_is_not_permuted(tmp_path: Path) -> None:
    tensors, keys = converted("llama", weights("llama"))
    write_gguf(tmp_path / "right.gguf", "llama", tensors, keys, "Q8_0")
    unpermuted(tensors, keys)
    del tensors["rope_freqs.weight"]
    write_gguf(tmp_path / "wrong.gguf", "llama", tensors, keys, "Q8_0")
    lost = "B: rope_freqs.weight is missing: the llama3 scaling is lost"
    expected = (lost, "B: q and k of layers 0–2 are not permuted; llama in GGUF form is")
    assert pecli.diff(tmp_path / "right.gguf", tmp_path / "wrong.gguf").diagnosis == expected


def test_verify_names_lost_factors(made: Made, tmp_path: Path, pecli_cli: Any) -> None:
    tensors, keys = converted("llama", weights("llama"))
    write_gguf(tmp_path / "right.gguf", "llama", tensors, keys, "F16")
    del tensors["rope_freqs.weight"]
    write_gguf(tmp_path / "wrong.gguf", "llama", tensors, keys, "F16")
    for model in (made("llama"), tmp_path / "right.gguf"):
        found = pecli_cli("verify", tmp_path / "wrong.gguf", "--model", model, "--json")
        assert found.json["diagnosis"] == [
            "rope_freqs.weight is missing: the llama3 scaling is lost"
        ]
        assert (found.code, found.json["status"]) == (1, "failed")
    write_gguf(
        tmp_path / "part.gguf", "split", tensors, {"count": 2}, "F16"
    )  # split.count: another part may have them
    assert pecli_cli("verify", tmp_path / "part.gguf", "--model", made("llama")).code == 3


@pytest.mark.parametrize(
    ("pattern", "change", "expected"),
    [
        (
            "ffn_up|attn_output",
            np.transpose,
            "B: attn_output and ffn_up of layers 0–2 are transposed",
        ),
        (
            "ffn_up",
            lambda array: array[:, :128],
            r"B: ffn_up of layers 0–2 is \(256, 128\), not \(256, 256\)",
        ),
        ("attn_k", np.transpose, r"k of layers 0–2 is transposed: \(256, 64\), not \(64, 256\)"),
        (
            "ffn|attn_v",
            lambda array: array + 0.5,
            "B: attn_.* ffn_.* and v|ffn_down, ffn_gate, .*off by up to 0.5",
        ),
        (
            "token_embd",
            lambda array: np.vstack([array] * 2),
            r"B: token_embd is \(64, 256\), not \(32, 256\)",
        ),
        (
            "ffn_up",
            lambda array: np.full_like(array, np.nan),
            "B: ffn_up of layers 0–2 is off by up to inf",
        ),
    ],
)
def test_departures_take_one_line(
    made: Made, tmp_path: Path, pattern: str, change: Any, expected: str
) -> None:
    tensors, keys = converted("llama", weights("llama"))
    on(pattern, change)(tensors, keys)
    write_gguf(tmp_path / "model.gguf", "llama", tensors, keys, "F16")
    found = pecli.diff(made("llama"), tmp_path / "model.gguf")
    assert re.search(expected, found.diagnosis[0]), found
    assert len(found.diagnosis) <= 2


def test_types_that_are_not_read_are_named_and_not_missing(made: Made, tmp_path: Path) -> None:
    tensors, keys = converted("qwen2", weights("qwen2"))
    packed = {name: np.zeros((256, 136), np.uint8) for name in tensors if "ffn_up" in name}
    write_gguf(tmp_path / "model.gguf", "qwen2", tensors | packed, keys, "F32")
    found = pecli.diff(made("qwen2"), tmp_path / "model.gguf")
    assert (found.passed, found.diagnosis) == (True, ())
    assert "blk.0.ffn_up.weight (IQ4_XS), blk.1.ffn_up" in found.weak[0]
    eighths = {
        name: array.astype(ml_dtypes.float8_e4m3fn) for name, array in weights("qwen2").items()
    }
    write_hugging_face(tmp_path / "hf", "qwen2", eighths)
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")
    assert (found.passed, found.diagnosis) == (
        False,
        ("no tensor of A can be compared with one of B",),
    )


def test_weights_that_hugging_face_keeps_transposed(tmp_path: Path) -> None:
    """GPT-2's Conv1D, which the converter transposes; its masks are no weights."""
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (64, HIDDEN), "wpe.weight": (32, HIDDEN)}
    shapes |= {"ln_f.weight": (HIDDEN,), "ln_f.bias": (HIDDEN,), "h.0.attn.bias": (1, 1, 32, 32)}
    linear = {"attn.c_attn": 3 * HIDDEN, "attn.c_proj": HIDDEN, "mlp.c_fc": 4 * HIDDEN}
    shapes |= {f"h.0.{name}.weight": (HIDDEN, count) for name, count in linear.items()}
    shapes |= {f"h.0.{name}.bias": (count,) for name, count in linear.items()} | {
        "h.0.ln_1.weight": (HIDDEN,)
    }
    tensors = {name: made_of_rows(shape, k) for k, (name, shape) in enumerate(shapes.items())}
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, 1)
    arrays = {
        names.get_name(name, try_suffixes=(".weight", ".bias")): array.T if ".c_" in name else array
        for name, array in tensors.items()
        if not name.endswith(".attn.bias")
    }
    keys = {
        "context_length": 32,
        "embedding_length": HIDDEN,
        "block_count": 1,
        "attention.head_count": HEADS,
    }
    write_gguf(
        tmp_path / "model.gguf",
        "gpt2",
        {name: array.copy() for name, array in arrays.items()},
        keys,
        "F16",
    )
    (tmp_path / "hf").mkdir()
    config = {
        "model_type": "gpt2",
        "n_embd": HIDDEN,
        "n_head": HEADS,
        "n_layer": 1,
        "n_positions": 32,
    }
    (tmp_path / "hf" / "config.json").write_text(json.dumps(config))
    save_file(tensors, tmp_path / "hf" / "model.safetensors")
    found = pecli.diff(tmp_path / "hf" / "config.json", tmp_path / "model.gguf")
    assert (found.passed, found.weak, found.forms.split()[0]) == (True, (), str(len(arrays)))
    assert pecli.verify(tmp_path / "model.gguf").readings.keys() == {
        "position_embd.weight"
    }  # as its own header says


META = {
    "embed_tokens": "tok_embeddings",
    "lm_head": "output",
    "model.": "",
    "self_attn": "attention",
}
META |= {
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "mlp": "feed_forward",
    "gate_proj": "w1",
}
META |= {"up_proj": "w3", "down_proj": "w2", "post_attention_layernorm": "ffn_norm"}
META |= {"input_layernorm": "attention_norm"}
PARAMS = {
    "dim": HIDDEN,
    "n_heads": HEADS,
    "n_kv_heads": KV,
    "n_layers": LAYERS,
    "vocab_size": VOCABULARY,
}
PARAMS |= {"norm_eps": 1e-5, "rope_theta": 5e5, "use_scaled_rope": True}
ROW_PARALLEL = ("wo", "w2", "tok_embeddings")


def meta(tensors: Arrays) -> Arrays:
    """Meta's names, and its interleaved rows."""
    made = {}
    for name, array in tensors.items():
        heads = {"q_proj": HEADS, "k_proj": KV}.get(name.split(".")[-2])
        for word, other in META.items():
            name = name.replace(word, other)
        made[name] = permute(array, heads) if heads else array
    return made


def torch_save(path: Path, tensors: Arrays) -> None:
    """An archive like that of torch.save: a pickle that rebuilds float32 tensors, and their storages."""

    def numbers(values: tuple[int, ...]) -> bytes:
        return b"(" + b"".join(b"J" + struct.pack("<i", value) for value in values) + b"t"

    pickled = b"\x80\x02}("
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, array) in enumerate(tensors.items()):
            storage = (
                b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(str(number)) + text("cpu")
            )
            storage += numbers((array.size,))[1:] + b"Q"
            strides = tuple(stride // 4 for stride in np.ascontiguousarray(array).strides)
            rebuilt = REBUILD + storage + b"K\x00" + numbers(array.shape)
            pickled += (
                text(name) + rebuilt + numbers(strides) + b"\x89ccollections\nOrderedDict\n)RtR"
            )
        archive.writestr("consolidated/data.pkl", pickled + b"u.")
        for number, array in enumerate(tensors.values()):
            archive.writestr(f"consolidated/data/{number}", array.tobytes())


def write_meta(folder: Path, tensors: Arrays, params: dict[str, Any], shards: int) -> None:
    folder.mkdir()
    (folder / "params.json").write_text(json.dumps(params))
    for shard in range(shards):
        parts = {}
        for name, array in tensors.items():
            axis = any(word in name for word in ROW_PARALLEL)
            parts[name] = (
                array if "norm" in name else np.split(array, shards, axis=int(axis))[shard]
            )
        torch_save(folder / f"consolidated.{shard:02}.pth", parts)


@pytest.mark.parametrize("shards", [1, 2])
def test_a_right_pair_of_metas(made: Made, tmp_path: Path, shards: int) -> None:
    write_meta(tmp_path / "meta", meta(weights("llama")), PARAMS, shards)
    assert pecli.diff(made("llama"), tmp_path / "meta")
    write_gguf(tmp_path / "model.gguf", "llama", *converted("llama", weights("llama")), "Q8_0")
    assert pecli.diff(tmp_path / "meta", tmp_path / "model.gguf")


@pytest.mark.parametrize(
    ("pattern", "change", "params", "expected"),
    [
        (
            "wk",
            lambda array: permute(unpermute(array, KV), HEADS),
            {},
            "k of layers 0–2 is permuted in 8 heads",
        ),
        (
            "w[qk]",
            lambda array: unpermute(array, len(array) // SIZE),
            {},
            "q and k of layers 0–2 are not permuted",
        ),
        ("1.*wq", lambda array: permute(array, HEADS), {}, "q of layer 1 is permuted twice"),
        ("norm", lambda array: array, {"rope_theta": 1e4}, r"base 500000 → 10000 \(rope_theta\)"),
        (
            "norm",
            lambda array: array,
            {"use_scaled_rope": False},
            "use_scaled_rope is missing: the llama3 scaling",
        ),
        ("norm", lambda array: array, {"n_kv_heads": 4}, r"kv heads 2 → 4 \(n_kv_heads\)"),
    ],
)
def test_metas_mistakes(
    made: Made, tmp_path: Path, pattern: str, change: Any, params: Any, expected: str
) -> None:
    tensors = meta(weights("llama"))
    on(pattern, change)(tensors, {})
    write_meta(tmp_path / "meta", tensors, PARAMS | params, 1)
    found = pecli.diff(made("llama"), tmp_path / "meta")
    assert not found
    assert re.search(expected, "\n".join(found.diagnosis)), found


def test_the_command(made: Made, tmp_path: Path, pecli_cli: Any) -> None:
    tensors, keys = converted("llama", weights("llama"))
    write_gguf(tmp_path / "right.gguf", "llama", tensors, keys, "Q8_0")
    on("attn_k", lambda array: unpermute(array, KV))(tensors, keys)
    write_gguf(tmp_path / "wrong.gguf", "llama", tensors, keys, "Q8_0")
    right = pecli_cli("diff", made("llama"), tmp_path / "right.gguf")
    assert (right.code, right.out[:10]) == (0, "same model")
    wrong = pecli_cli("diff", made("llama"), tmp_path / "wrong.gguf", "--json")
    assert (wrong.code, wrong.json["diagnosis"]) == (
        1,
        ["B: k of layers 0–2 is not permuted; llama in GGUF form is"],
    )
    assert [each["name"] for each in wrong.json["tensors"]] == [
        f"blk.{k}.attn_k.weight" for k in range(LAYERS)
    ]


def test_unknown_names_and_a_missing_package_are_said(
    made: Made, tmp_path: Path, monkeypatch: Any
) -> None:
    tensors, keys = converted("llama", weights("llama"))
    write_gguf(tmp_path / "model.gguf", "llama", tensors, keys, "Q4_0")
    strange = {**weights("llama"), "model.layers.0.adapter.weight": np.ones((2, 2), np.float32)}
    write_hugging_face(tmp_path / "hf", "llama", strange)
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")
    assert (bool(found), found.weak) == (True, ("not compared: model.layers.0.adapter.weight (A)",))
    monkeypatch.setattr(model_forms, "find_spec", lambda name: None)
    with pytest.raises(FileError, match="pip install gguf"):
        pecli.diff(made("llama"), tmp_path / "model.gguf")


def test_one_element_beyond_the_rounding_is_seen(made: Made, tmp_path: Path) -> None:
    for kind, error in (("F32", 1e-6), ("F16", 1e-3), ("Q8_0", 0.1)):
        tensors, keys = converted("llama", weights("llama"))
        tensors["blk.1.ffn_up.weight"][3, 5] += error
        write_gguf(tmp_path / f"{kind}.gguf", "llama", tensors, keys, kind)
        (line,) = pecli.diff(made("llama"), tmp_path / f"{kind}.gguf").diagnosis
        assert line.startswith("B: ffn_up of layer 1 is off by up to"), (kind, line)


@pytest.mark.parametrize(
    ("kind", "dtype", "value"), [("F16", "float16", 1e5), ("Q8_0", "Q8_0", 1e7)]
)
def test_what_overflows_is_seen(tmp_path: Path, kind: str, dtype: str, value: float) -> None:
    """float16 ends at 65504: elements of F16 and scales of Q8_0 become infinite."""
    tensors = weights("qwen2")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = value
    write_hugging_face(tmp_path / "hf", "qwen2", tensors)
    with np.errstate(over="ignore", invalid="ignore"):
        write_gguf(tmp_path / "model.gguf", "qwen2", *converted("qwen2", tensors), kind)
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")
    assert found.diagnosis == (
        f"B: ffn_up of layer 1 is off by up to inf, beyond the rounding of {dtype}",
    )


@pytest.mark.parametrize(("steps", "passes"), [(3.5, True), (4.5, False), (np.inf, False)])
def test_how_many_steps_an_element_of_q8_0_may_be_off(
    made: Made, tmp_path: Path, steps: float, passes: bool
) -> None:
    """One element of one block, whose step is the largest of its row: far below what its row may be off in sum."""
    tensors, keys = converted("qwen2", weights("qwen2"))
    name = "blk.1.ffn_up.weight"
    scales = np.abs(tensors[name][7]).reshape(-1, 32).max(axis=1) / 127
    block = int(scales.argmax())
    original = weights("qwen2")
    place = block * 32 + int(np.abs(tensors[name][7, block * 32 : block * 32 + 32]).argmin())
    kind = gguf.GGMLQuantizationType.Q8_0
    exact = gguf.dequantize(gguf.quantize(tensors[name][7:8], kind), kind)
    original["model.layers.1.mlp.up_proj.weight"][7, place] = exact[0, place] + steps * np.float16(
        scales[block]
    )
    write_hugging_face(tmp_path / "hf", "qwen2", original)
    write_gguf(tmp_path / "model.gguf", "qwen2", tensors, keys, "Q8_0")
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")
    assert found.passed == passes
    assert passes or found.tensors[0].max_abs_error == pytest.approx(
        steps * scales[block], rel=1e-3
    )
