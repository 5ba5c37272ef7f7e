"""Two forms of one model (a Hugging Face folder, Meta's .pth files, a .gguf file): right pairs
pass, and mistakes of converters are named.

The forms are written in model_files.py with random weights, by the rules of llama.cpp's
convert_hf_to_gguf.py (which permutes the rows of q and k, for example) and with the gguf package:
hidden size 256, 8 heads of 32, 2 key heads, 3 layers. A is the first file and B the second;
expected sentences are written by hand. `write_converted` plants mistakes in the .gguf file.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.checks.model_forms import model_files
from pecli.errors import FileError
from tests.checks.model_forms.mistakes import Plant, edit_tensors, exchange_tensors, leave_out
from tests.checks.model_forms.model_files import (
    ARCHITECTURES,
    CONFIGS,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    META_PARAMS,
    Array,
    Arrays,
    Settings,
    config_of,
    converted_to_gguf,
    gguf_names,
    made_of_rows,
    meta_weights,
    permute,
    ungroup,
    unpermute,
    weights_of,
    write_gguf,
    write_hugging_face,
    write_meta,
)
from tests.exit_codes import CHECK_FAILED, FILE_ERROR, SUCCESS

GGUF_TYPES = ("F32", "F16", "BF16", "Q8_0", "Q5_1", "Q4_0", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K")
HuggingFace = Callable[[str], Path]


def permute_own_heads(array: Array) -> Array:
    """Permute rows of q in 8 heads, or of k in 2, from halves to interleaved."""
    return permute(array, len(array) // HEAD_DIM)


def unpermute_own_heads(array: Array) -> Array:
    """Take rows of q in 8 heads, or of k in 2, from interleaved back to halves."""
    return unpermute(array, len(array) // HEAD_DIM)


def permute_keys_as_queries(array: Array) -> Array:
    """Permute keys by the number of query heads (llama.cpp#3364)."""
    return permute(unpermute(array, KV_HEADS), HEADS)


def exchange_halves(array: Array) -> Array:
    return np.roll(array, len(array) // 2, axis=0)


def permute_queries_and_keys(array: Array) -> Array:
    """Permute q and k of a fused projection, whose values stay."""
    is_grouped = len(array) < 3 * HIDDEN
    heads = HEADS + KV_HEADS if is_grouped else 2 * HEADS
    rows = heads * HEAD_DIM
    return np.concatenate([permute(array[:rows], heads), array[rows:]])


def exchange_keys_and_values(array: Array) -> Array:
    queries, keys, values = np.split(array, 3)
    return np.concatenate([queries, values, keys])


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> HuggingFace:
    """Return a function that writes the Hugging Face folder of a model, once."""
    folders: dict[str, Path] = {}

    def folder(model: str) -> Path:
        if model not in folders:
            folders[model] = tmp_path_factory.mktemp("forms") / model
            write_hugging_face(folders[model], config_of(model), weights_of(model))
        return folders[model]

    return folder


def write_converted(path: Path, model: str, kind: str, *mistakes: Plant) -> Path:
    """Write the .gguf file of a model, with mistakes planted in it."""
    tensors, keys = converted_to_gguf(model, weights_of(model))
    for plant in mistakes:
        plant(tensors, keys)
    write_gguf(path, ARCHITECTURES[model], tensors, keys, kind)
    return path


@pytest.mark.parametrize("kind", GGUF_TYPES)
@pytest.mark.parametrize("model", CONFIGS)
@pytest.mark.sample(2)
def test_a_converted_model_passes_in_every_quantisation(
    hugging_face: HuggingFace, tmp_path: Path, model: str, kind: str
) -> None:
    """A Hugging Face folder with random weights, and the .gguf file that is made from it with the
    gguf package by the rules of llama.cpp's converter, pass in both directions. All tensors are
    compared (`weak` would list others).
    """
    path = write_converted(tmp_path / "model.gguf", model, kind)
    found = pecli.diff(hugging_face(model), path)

    assert found, found
    assert found.weak == ()
    assert found.tensors == ()
    assert found.forms.startswith(f"{len(weights_of(model))} tensors")
    assert pecli.diff(path, hugging_face(model))


QUANTISATIONS = ("F16", "Q8_0", "Q4_K", "Q6_K")
MAX_REPORT_LINES = 24
"""Lines of a terminal of the usual size: a report on one mistake should fit into it."""


def assert_diagnosed(hugging_face_folder: Path, gguf_file: Path, diagnosis: list[str]) -> None:
    """Assert that `diff` fails with these sentences and no others, and a report of one screen."""
    found = pecli.diff(hugging_face_folder, gguf_file)

    assert not found
    assert [*found.diagnosis] == diagnosis
    assert len(str(found).splitlines()) < MAX_REPORT_LINES


@pytest.mark.parametrize("kind", QUANTISATIONS)
@pytest.mark.parametrize(
    ("model", "mistake", "sentence"),
    [
        pytest.param(
            "llama",
            edit_tensors("attn_k", permute_keys_as_queries),
            "k of layers 0–2 is permuted in 8 heads; the model has 2 kv heads (llama.cpp#3364)",
            id="llama: keys permuted as queries",
        ),
        pytest.param(
            "llama",
            edit_tensors("attn_[qk]", unpermute_own_heads),
            "q and k of layers 0–2 are not permuted; llama in GGUF form is",
            id="llama: q and k not permuted",
        ),
        pytest.param(
            "llama",
            edit_tensors("blk.1.attn_q", permute_own_heads),
            "q of layer 1 is permuted twice",
            id="llama: q of one layer permuted twice",
        ),
        pytest.param(
            "qwen2",
            edit_tensors("attn_q.weight", permute_own_heads),
            "q of layers 0–2 is permuted; qwen2 in GGUF form is not",
            id="qwen2: q permuted",
        ),
        pytest.param(
            "qwen2",
            edit_tensors("attn_k.bias", permute_own_heads),
            "k bias of layers 0–2 is permuted; qwen2 in GGUF form is not",
            id="qwen2: bias of k permuted",
        ),
        pytest.param(
            "qwen2",
            edit_tensors("attn_k.weight", lambda array: permute(array, HEADS)),
            "k of layers 0–2 is permuted in 8 heads; the model has 2 kv heads (llama.cpp#3364)",
            id="qwen2: k permuted as queries",
        ),
        pytest.param(
            "gemma2",
            edit_tensors("attn_[qk]", permute_own_heads),
            "q and k of layers 0–2 are permuted; gemma2 in GGUF form is not",
            id="gemma2: q and k permuted",
        ),
        pytest.param(
            "phi3",
            edit_tensors("attn_qkv", permute_queries_and_keys),
            "qkv of layers 0–2 is permuted in q and k; phi3 in GGUF form is not",
            id="phi3: qkv permuted",
        ),
        pytest.param(
            "gpt_neox",
            edit_tensors("attn_qkv.weight", permute_queries_and_keys),
            "qkv of layers 0–2 is permuted in q and k; gptneox in GGUF form is not",
            id="gpt_neox: qkv permuted",
        ),
        pytest.param(
            "gpt_neox",
            edit_tensors("attn_qkv", ungroup),
            "qkv and qkv bias of layers 0–2 are in the order of A; "
            "gptneox in GGUF form has rows q of all heads, then k, then v",
            id="gpt_neox: qkv in the order of A",
        ),
        pytest.param(
            "gpt_neox",
            edit_tensors("attn_qkv.bias", exchange_keys_and_values),
            "qkv bias of layers 0–2 has its k and v exchanged",
            id="gpt_neox: bias of k and v exchanged",
        ),
        pytest.param(
            "phi3",
            edit_tensors("blk.[01].ffn_up", exchange_halves),
            "ffn_up of layers 0–1 has its halves exchanged",
            id="phi3: halves of up exchanged",
        ),
    ],
)
@pytest.mark.sample(3)
def test_a_wrong_order_of_rows_in_a_gguf_file_is_named(
    hugging_face: HuggingFace, tmp_path: Path, model: str, mistake: Plant, sentence: str, kind: str
) -> None:
    """`mistake` edits the tensors whose GGUF names match. llama.cpp's converter permutes rows of q and
    k by head for Llama (8 query heads, 2 key heads; 3 layers), and collects q, k and v of GPT-NeoX;
    the other models keep their rows. `diff` must name what the file has instead, and nothing else.
    """
    path = write_converted(tmp_path / "model.gguf", model, kind, mistake)
    assert_diagnosed(hugging_face(model), path, [f"B: {sentence}"])


@pytest.mark.parametrize("kind", QUANTISATIONS)
@pytest.mark.parametrize(
    ("model", "left_out", "sentence"),
    [
        ("llama", "rope.freq_base", "base 500000 → 10000: rope.freq_base is missing"),
        ("qwen2", "rope.freq_base", "base 1e+06 → 10000: rope.freq_base is missing"),
        ("gemma2", "rope.freq_base", "base 20000 → 10000: rope.freq_base is missing"),
        (
            "gpt_neox",
            "rope.dimension_count",
            "rotary dimension 8 → 32: rope.dimension_count is missing",
        ),
        ("phi3", "rope.scaling.attn_factor", "attention factor 1.19024 → 1"),
        ("llama", "rope_freqs.weight", "rope_freqs.weight is missing: the llama3 scaling is lost"),
        (
            "phi3",
            "rope_factors_long.weight rope_factors_short.weight",
            "rope_factors_long.weight is missing: the longrope scaling is lost",
        ),
        ("gpt_neox", "blk.2.ffn_down.bias", "ffn_down bias of layer 2 is missing in B"),
    ],
)
@pytest.mark.sample(2)
def test_a_key_or_tensor_that_a_gguf_file_lacks_is_named_with_what_is_lost(
    hugging_face: HuggingFace, tmp_path: Path, model: str, left_out: str, sentence: str, kind: str
) -> None:
    """Left of the arrow stands the setting of the config, here rope_theta or rotary_pct · 32 channels
    = 8; right of it llama.cpp's default. Phi-3's attention factor is √(1 + ln 32 / ln 4096) =
    1.19024: its context is 32 times the original 4096. A tensor has the factors of a scaling.
    """
    path = write_converted(tmp_path / "model.gguf", model, kind, leave_out(*left_out.split()))
    assert_diagnosed(hugging_face(model), path, [f"B: {sentence}"])


def take_1_from_norms(tensors: Arrays, keys: Settings) -> None:
    """Store Gemma's norms as the Hugging Face folder has them, without the 1 that GGUF adds."""
    names = gguf_names("gemma2")
    for name, weight in weights_of("gemma2").items():
        if "norm" in name:
            tensors[names.get_name(name, try_suffixes=(".weight",))] = weight


@pytest.mark.parametrize("kind", QUANTISATIONS)
@pytest.mark.parametrize(
    ("model", "mistake", "sentences"),
    [
        pytest.param(
            "qwen2",
            exchange_tensors("ffn_gate", "ffn_up"),
            ["ffn_gate of layers 0–2 is ffn_up of A", "ffn_up of layers 0–2 is ffn_gate of A"],
            id="qwen2: gate and up exchanged",
        ),
        pytest.param(
            "gemma2",
            exchange_tensors("blk.0.", "blk.2."),
            [
                "attn_norm, attn_output, ffn_down, ffn_gate, ffn_norm, ffn_up and 5 more "
                f"of layer {layer} are layer {other_layer} of A"
                for layer, other_layer in ((0, 2), (2, 0))
            ],
            id="gemma2: two layers of 11 tensors exchanged",
        ),
        pytest.param(
            "gemma2",
            take_1_from_norms,
            [
                "attn_norm, ffn_norm, post_attention_norm, post_ffw_norm of layers 0–2 are "
                "1 too small: GGUF keeps norms of gemma2 with 1 added",
                "output_norm is 1 too small: GGUF keeps norms of gemma2 with 1 added",
            ],
            id="gemma2: norms without the 1",
        ),
        pytest.param(
            "gemma2",
            edit_tensors("ffn_down", np.zeros_like),
            ["ffn_down of layers 0–2 is all zeros"],
            id="gemma2: zeros",
        ),
        pytest.param(
            "phi3",
            edit_tensors("token_embd", lambda array: array * 2),
            ["token_embd is multiplied by 2"],
            id="phi3: embeddings doubled",
        ),
    ],
)
@pytest.mark.sample(1)
def test_values_of_tensors_that_a_converter_got_wrong_are_named(
    hugging_face: HuggingFace,
    tmp_path: Path,
    model: str,
    mistake: Plant,
    sentences: list[str],
    kind: str,
) -> None:
    """The mistake of a row is planted in the .gguf file of a model with 3 layers. Tensors with the
    same mistake share a sentence, which names six of them and counts the others.
    """
    path = write_converted(tmp_path / "model.gguf", model, kind, mistake)
    assert_diagnosed(hugging_face(model), path, [f"B: {sentence}" for sentence in sentences])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({"block_count": 4}, ("B: layers 3 → 4 (block_count)",), id="4 layers"),
        pytest.param(
            {"block_count": 4, "nextn_predict_layers": 1},
            (),
            id="4 layers, one of which predicts further tokens",
        ),
        pytest.param({"attention.max_alibi_bias": 8.0}, ("B: no rotary encoding",), id="ALiBi"),
        pytest.param(
            {"rope.scaling.type": "linear", "rope.scaling.factor": 2.0},
            ("B: frequencies of pairs 0–15 differ",),
            id="linear scaling",
        ),
        pytest.param(
            {"block_count": None}, ("B: block_count is missing",), id="no number of layers"
        ),
        pytest.param({"context_length": None}, ("B: context_length is missing",), id="no context"),
        pytest.param(
            {"attention.head_count": None},
            ("B: attention.head_count is missing",),
            id="no number of heads",
        ),
        pytest.param(
            {"attention.head_count": 4, "rope.dimension_count": 32},
            ("B: heads 8 → 4 (attention.head_count)",),
            id="4 heads",
        ),
    ],
)
def test_keys_of_a_gguf_file_that_differ_from_the_config_are_named(
    hugging_face: HuggingFace, tmp_path: Path, changes: dict[str, Any], expected: tuple[str, ...]
) -> None:
    """Keys of Qwen2's .gguf file are changed or left out (None). Its config.json has 3 layers, and 8
    heads of 32 channels, 16 pairs, that rotate without scaling. Each sentence is the difference from
    it. One of 4 blocks may be a layer that predicts further tokens (nextn), which the config does
    not count. With 4 heads, the key dimension_count keeps heads of 32 channels, not 256 / 4.
    """

    def plant(tensors: Arrays, keys: dict[str, Any]) -> None:
        for key, value in changes.items():
            if value is None:
                del keys[key]
            else:
                keys[key] = value

    path = write_converted(tmp_path / "model.gguf", "qwen2", "F16", plant)

    assert pecli.diff(hugging_face("qwen2"), path).diagnosis == expected


def test_two_gguf_files_of_one_model_pass_within_their_rounding(tmp_path: Path) -> None:
    """A Llama in F16 against Q8_0. Both keep the two norms of each of 3 layers and the last one in
    float32, 2 · 3 + 1 = 7 equal tensors. The 7 matrices per layer, the embedding and the output, 7
    · 3 + 2 = 23, are rounded differently.
    """
    half = write_converted(tmp_path / "F16.gguf", "llama", "F16")
    quantised = write_converted(tmp_path / "Q8_0.gguf", "llama", "Q8_0")
    found = pecli.diff(half, quantised)

    assert found
    assert ": 7 equal, 23 within the rounding" in found.forms


def test_a_gguf_file_that_is_not_permuted_is_named_beside_a_right_one(tmp_path: Path) -> None:
    """Two .gguf files of a Llama with 3 layers. The second has two mistakes: rows of q and k are in
    Hugging Face's order, and the factors of Llama 3.1's frequencies are left out.
    """
    right = write_converted(tmp_path / "right.gguf", "llama", "Q8_0")
    mistakes = edit_tensors("attn_[qk]", unpermute_own_heads), leave_out("rope_freqs.weight")
    wrong = write_converted(tmp_path / "wrong.gguf", "llama", "Q8_0", *mistakes)

    assert pecli.diff(right, wrong).diagnosis == (
        "B: rope_freqs.weight is missing: the llama3 scaling is lost",
        "B: q and k of layers 0–2 are not permuted; llama in GGUF form is",
    )


@pytest.mark.parametrize("against", ["folder", "gguf"])
def test_verify_names_factors_of_frequencies_that_a_converter_lost(
    hugging_face: HuggingFace, tmp_path: Path, run_pecli: Any, against: str
) -> None:
    """`pecli verify wrong.gguf --model …`: a converter that drops rope_freqs.weight loses Llama 3.1's
    scaling. The model is given as a Hugging Face folder or as a right .gguf file.
    """
    right = write_converted(tmp_path / "right.gguf", "llama", "F16")
    mistake = leave_out("rope_freqs.weight")
    wrong = write_converted(tmp_path / "wrong.gguf", "llama", "F16", mistake)
    model = right if against == "gguf" else hugging_face("llama")
    found = run_pecli("verify", wrong, "--model", model, "--json")

    assert found.exit_code == CHECK_FAILED
    assert found.json["status"] == "failed"
    assert found.json["diagnosis"] == ["rope_freqs.weight is missing: the llama3 scaling is lost"]


LOST_SCALING = "rope_freqs.weight is missing: the llama3 scaling is lost"


def write_without_factors(path: Path, keys: Settings) -> Path:
    """Write a .gguf file of a Llama 3.1 without the factors of its frequencies, rope_freqs.weight."""
    tensors, _ = converted_to_gguf("llama", weights_of("llama"))
    del tensors["rope_freqs.weight"]
    write_gguf(path, "llama", tensors, keys, "F16")
    return path


def test_factors_that_one_part_of_a_split_file_lacks_are_not_reported_as_lost(
    hugging_face: HuggingFace, tmp_path: Path, run_pecli: Any
) -> None:
    """A file with the key split.count = 2 is one of two parts. Llama 3.1's factors of frequencies,
    rope_freqs.weight, may be in the other one: the part only has no tables to verify, which is a
    file error.
    """
    part = write_without_factors(tmp_path / "part.gguf", {"split.count": 2})
    outcome = run_pecli("verify", part, "--model", hugging_face("llama"))

    assert outcome.exit_code == FILE_ERROR
    assert "part.gguf: has no positional tables of rope" in outcome.err
    assert LOST_SCALING not in outcome.out + outcome.err


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, id="never split"),
        pytest.param({"split.count": 0}, id="merged"),
        pytest.param({"split.count": 1}, id="split into one file"),
    ],
)
def test_factors_that_a_whole_file_lacks_are_reported_as_lost(
    keys: Settings, hugging_face: HuggingFace, tmp_path: Path, run_pecli: Any
) -> None:
    """A file without the key split.count is whole, and so is one with a count below 2: the program
    llama-gguf-split writes 0 into a file that it has merged. Llama 3.1's factors of frequencies,
    rope_freqs.weight, are in no other file.
    """
    whole = write_without_factors(tmp_path / "whole.gguf", keys)
    outcome = run_pecli("verify", whole, "--model", hugging_face("llama"))

    assert outcome.exit_code == CHECK_FAILED
    assert LOST_SCALING in outcome.out


@pytest.mark.parametrize(
    ("pattern", "edit", "sentence"),
    [
        pytest.param(
            "ffn_up|attn_output",
            np.transpose,
            "attn_output and ffn_up of layers 0–2 are transposed",
            id="two square tensors transposed",
        ),
        pytest.param(
            "attn_k",
            np.transpose,
            "k of layers 0–2 is transposed: (256, 64), not (64, 256)",
            id="keys transposed",
        ),
        pytest.param(
            "ffn_up",
            lambda array: array[:, :128],
            "ffn_up of layers 0–2 is (256, 128), not (256, 256)",
            id="half of the columns",
        ),
        pytest.param(
            "token_embd",
            lambda array: np.vstack([array, array]),
            "token_embd is (64, 256), not (32, 256)",
            id="all rows twice",
        ),
    ],
)
@pytest.mark.sample(2)
def test_tensors_with_the_same_wrong_shape_share_a_sentence(
    hugging_face: HuggingFace, tmp_path: Path, pattern: str, edit: Any, sentence: str
) -> None:
    """In a .gguf file of a Llama with 3 layers, `edit` changes all tensors whose names match. Its
    embedding is (32, 256), its keys (64, 256), and the other tensors here are (256, 256).
    """
    path = write_converted(tmp_path / "model.gguf", "llama", "F16", edit_tensors(pattern, edit))
    assert pecli.diff(hugging_face("llama"), path).diagnosis == (f"B: {sentence}",)


@pytest.mark.parametrize(
    ("pattern", "edit", "sentences"),
    [
        pytest.param(
            "ffn|attn_v",
            lambda array: array + 0.5,
            (
                "B: ffn_down, ffn_gate, ffn_up, v of layers 0–2 are off by up to 0.5, "
                "beyond the rounding of float16",
                "B: ffn_norm of layers 0–2 is off by up to 0.5, beyond the rounding of float32",
            ),
            id="0.5 added",
        ),
        pytest.param(
            "ffn_up",
            lambda array: np.full_like(array, np.nan),
            ("B: ffn_up of layers 0–2 is off by up to inf, beyond the rounding of float16",),
            id="NaN, which counts as an infinite error",
        ),
    ],
)
def test_tensors_that_are_off_share_a_sentence_if_they_have_one_dtype(
    hugging_face: HuggingFace, tmp_path: Path, pattern: str, edit: Any, sentences: tuple[str, ...]
) -> None:
    """In a .gguf file of a Llama with 3 layers, `edit` changes all tensors whose names match. In F16,
    matrices are float16 and norms float32.
    """
    path = write_converted(tmp_path / "model.gguf", "llama", "F16", edit_tensors(pattern, edit))
    assert pecli.diff(hugging_face("llama"), path).diagnosis == sentences


def pack_ffn_up(tensors: Arrays, keys: Settings) -> None:
    """Replace ffn_up, (256, 256) in each layer, by blocks of IQ4_XS: 136 bytes for 256 elements.

    `write_gguf` writes arrays of bytes in this type.
    """
    for name in tensors:
        if "ffn_up" in name:
            tensors[name] = np.zeros((256, 136), np.uint8)


def test_types_that_are_not_read_are_named_and_not_missing(
    hugging_face: HuggingFace, tmp_path: Path
) -> None:
    """The .gguf file has the tensors ffn_up in IQ4_XS, which is not decoded, and the others in F32.
    The former are listed as not compared (`weak`), and not as missing; the rest passes.
    """
    path = write_converted(tmp_path / "model.gguf", "qwen2", "F32", pack_ffn_up)
    found = pecli.diff(hugging_face("qwen2"), path)

    assert found.passed
    assert found.diagnosis == ()
    assert "blk.0.ffn_up.weight (IQ4_XS), blk.1.ffn_up" in found.weak[0]


def test_a_model_of_which_nothing_is_read_fails(tmp_path: Path) -> None:
    """All tensors of the folder are float8, which is not decoded, so that nothing can be compared: a
    pass would be wrong.
    """
    path = write_converted(tmp_path / "model.gguf", "qwen2", "F32")
    in_float8 = {
        name: array.astype(ml_dtypes.float8_e4m3fn) for name, array in weights_of("qwen2").items()
    }
    write_hugging_face(tmp_path / "hf", config_of("qwen2"), in_float8)
    found = pecli.diff(tmp_path / "hf", path)

    assert not found.passed
    assert found.diagnosis == ("no tensor of A can be compared with one of B",)


GPT2_CONFIG = {
    "model_type": "gpt2",
    "n_embd": HIDDEN,
    "n_head": HEADS,
    "n_layer": 1,
    "n_positions": 32,
}
GPT2_KEYS = {
    "context_length": 32,
    "embedding_length": HIDDEN,
    "block_count": 1,
    "attention.head_count": HEADS,
}
"""GGUF's keys for the same model."""


def gpt2_weights() -> Arrays:
    """Return random weights of one layer of GPT-2 by transformers' names, with the mask attn.bias.

    Weights of its Conv1D layers, c_attn, c_proj and c_fc, are (inputs, outputs).
    """
    columns_of_conv1d = {
        "attn.c_attn": 3 * HIDDEN,
        "attn.c_proj": HIDDEN,
        "mlp.c_fc": 4 * HIDDEN,
    }
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (64, HIDDEN),
        "wpe.weight": (32, HIDDEN),
        "ln_f.weight": (HIDDEN,),
        "ln_f.bias": (HIDDEN,),
        "h.0.attn.bias": (1, 1, 32, 32),
        "h.0.ln_1.weight": (HIDDEN,),
    }
    for name, columns in columns_of_conv1d.items():
        shapes[f"h.0.{name}.weight"] = (HIDDEN, columns)
        shapes[f"h.0.{name}.bias"] = (columns,)
    return {name: made_of_rows(shape, k) for k, (name, shape) in enumerate(shapes.items())}


def converted_gpt2(tensors: Arrays) -> Arrays:
    """Return GPT-2's weights as llama.cpp's converter writes them.

    It transposes the weights of Conv1D layers, and leaves out the mask.
    """
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.GPT2, 1)
    converted = {}
    for name, array in tensors.items():
        is_mask = name.endswith(".attn.bias")
        is_conv1d = ".c_" in name
        if not is_mask:
            gguf_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
            converted[gguf_name] = array.T.copy() if is_conv1d else array
    return converted


def test_gpt2_whose_weights_hugging_face_keeps_transposed_passes(tmp_path: Path) -> None:
    """llama.cpp's converter transposes GPT-2's Conv1D weights, and leaves out the mask, attn.bias. All
    tensors of the .gguf file are compared: `forms` begins with their number, and `weak`, which
    lists those that are not compared, is empty.
    """
    weights = gpt2_weights()
    converted = converted_gpt2(weights)
    write_hugging_face(tmp_path / "hf", GPT2_CONFIG, weights)
    write_gguf(tmp_path / "model.gguf", "gpt2", converted, GPT2_KEYS, "F16")

    found = pecli.diff(tmp_path / "hf" / "config.json", tmp_path / "model.gguf")

    assert found.passed
    assert found.weak == ()
    assert found.forms.startswith(f"{len(converted)} tensors")


def test_the_learned_positions_of_gpt2_are_verified_in_a_gguf_file(tmp_path: Path) -> None:
    """GGUF's name of the table wpe is position_embd.weight. `verify` needs no other file for it."""
    converted = converted_gpt2(gpt2_weights())
    write_gguf(tmp_path / "model.gguf", "gpt2", converted, GPT2_KEYS, "F16")
    found = pecli.verify(tmp_path / "model.gguf")

    assert found.readings.keys() == {"position_embd.weight"}


@pytest.mark.parametrize("shards", [1, 2])
def test_weights_of_meta_pass_against_hugging_face_and_gguf(
    hugging_face: HuggingFace, tmp_path: Path, shards: int
) -> None:
    """Meta's consolidated.NN.pth, whole or in two model-parallel shards, with interleaved rows of q
    and k, against a Hugging Face folder and a .gguf file.
    """
    write_meta(tmp_path / "meta", meta_weights(weights_of("llama")), META_PARAMS, shards)
    path = write_converted(tmp_path / "model.gguf", "llama", "Q8_0")

    assert pecli.diff(hugging_face("llama"), tmp_path / "meta")
    assert pecli.diff(tmp_path / "meta", path)


def test_a_folder_of_hugging_face_is_read_even_if_metas_files_lie_beside_it(tmp_path: Path) -> None:
    """A converter may write config.json and model.safetensors into the folder of Meta's weights, in
    which consolidated.00.pth has other names and another order of rows.
    """
    write_meta(tmp_path / "meta", meta_weights(weights_of("llama")), META_PARAMS, shards=1)
    write_hugging_face(tmp_path / "both", config_of("llama"), weights_of("llama"))
    shard = "consolidated.00.pth"
    (tmp_path / "meta" / shard).rename(tmp_path / "both" / shard)
    path = write_converted(tmp_path / "model.gguf", "llama", "Q8_0")

    assert pecli.diff(tmp_path / "both", path)


@pytest.mark.parametrize(
    ("pattern", "edit", "expected"),
    [
        pytest.param(
            "wk",
            permute_keys_as_queries,  # from interleaved in 2 heads to interleaved in 8 heads
            "B: k of layers 0–2 is permuted in 8 heads; the model has 2 kv heads (llama.cpp#3364)",
            id="keys interleaved in 8 heads",
        ),
        pytest.param(
            "w[qk]",
            unpermute_own_heads,  # from interleaved back to halves
            "B: q and k of layers 0–2 are not permuted; Meta in Meta form is",
            id="queries and keys in halves",
        ),
        pytest.param(
            "1.*wq",
            permute_own_heads,  # the rows are interleaved already
            "B: q of layer 1 is permuted twice",
            id="queries of layer 1 interleaved twice",
        ),
    ],
)
def test_a_wrong_order_of_rows_in_metas_weights_is_named(
    hugging_face: HuggingFace, tmp_path: Path, pattern: str, edit: Any, expected: str
) -> None:
    """Of each head, Hugging Face keeps the rows as halves, and Meta interleaved, the first of one half
    beside the first of the other: 8 heads of queries (wq) and 2 of keys (wk). «Permuted» means
    interleaved. The edit is made to those of Meta's tensors whose names match.
    """
    tensors = meta_weights(weights_of("llama"))
    edit_tensors(pattern, edit)(tensors, {})
    write_meta(tmp_path / "meta", tensors, META_PARAMS, shards=1)
    found = pecli.diff(hugging_face("llama"), tmp_path / "meta")

    assert not found
    assert found.diagnosis == (expected,)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        pytest.param({"rope_theta": 1e4}, "base 500000 → 10000 (rope_theta)", id="another base"),
        pytest.param(
            {"use_scaled_rope": False},
            "use_scaled_rope is missing: the llama3 scaling",
            id="no scaling",
        ),
        pytest.param(
            {"n_kv_heads": 4}, "kv heads 2 → 4 (n_kv_heads)", id="another number of key heads"
        ),
    ],
)
def test_a_wrong_setting_in_metas_params_is_named(
    hugging_face: HuggingFace, tmp_path: Path, params: dict[str, Any], expected: str
) -> None:
    """Meta's params.json should have rope_theta 500000, use_scaled_rope: true and 2 key heads, as the
    Hugging Face folder has; one of them is changed.
    """
    write_meta(tmp_path / "meta", meta_weights(weights_of("llama")), META_PARAMS | params, 1)
    found = pecli.diff(hugging_face("llama"), tmp_path / "meta")

    assert not found
    assert expected in "\n".join(found.diagnosis)


def test_the_command_diff_reports_a_right_pair_as_the_same_model(
    hugging_face: HuggingFace, tmp_path: Path, run_pecli: Any
) -> None:
    """`pecli diff` of a Hugging Face folder and the .gguf file made from it in Q8_0, whose rounding is
    no difference.
    """
    path = write_converted(tmp_path / "right.gguf", "llama", "Q8_0")
    right = run_pecli("diff", hugging_face("llama"), path)

    assert right.exit_code == SUCCESS
    assert right.out.startswith("same model")


def test_the_command_diff_reports_a_wrong_pair_in_json(
    hugging_face: HuggingFace, tmp_path: Path, run_pecli: Any
) -> None:
    """In the .gguf file, keys are in Hugging Face's order in all three layers: the JSON has one
    sentence, and each tensor by name.
    """
    mistake = edit_tensors("attn_k", lambda array: unpermute(array, KV_HEADS))
    path = write_converted(tmp_path / "wrong.gguf", "llama", "Q8_0", mistake)
    wrong = run_pecli("diff", hugging_face("llama"), path, "--json")

    assert wrong.exit_code == CHECK_FAILED
    assert wrong.json["diagnosis"] == ["B: k of layers 0–2 is not permuted; llama in GGUF form is"]

    names = [tensor["name"] for tensor in wrong.json["tensors"]]
    assert names == [f"blk.{layer}.attn_k.weight" for layer in range(LAYERS)]


def test_tensors_with_unknown_names_are_listed_as_not_compared(tmp_path: Path) -> None:
    """The Hugging Face folder has an adapter, for which GGUF has no name: it is listed as not
    compared, and the rest passes.
    """
    path = write_converted(tmp_path / "model.gguf", "llama", "Q4_0")
    adapter = {"model.layers.0.adapter.weight": np.ones((2, 2), np.float32)}
    write_hugging_face(tmp_path / "hf", config_of("llama"), weights_of("llama") | adapter)
    found = pecli.diff(tmp_path / "hf", path)

    assert found
    assert found.weak == ("not compared: model.layers.0.adapter.weight (A)",)


def test_the_missing_package_gguf_is_named_with_how_to_install_it(
    hugging_face: HuggingFace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors in Q4_0 are decoded with the gguf package, which is optional, and here is not found."""
    path = write_converted(tmp_path / "model.gguf", "llama", "Q4_0")
    monkeypatch.setattr(model_files, "find_spec", lambda name: None)

    with pytest.raises(FileError, match="pip install gguf"):
        pecli.diff(hugging_face("llama"), path)


@pytest.mark.parametrize(("kind", "error"), [("F32", 1e-6), ("F16", 1e-3), ("Q8_0", 0.1)])
def test_one_element_beyond_the_rounding_of_the_type_is_found(
    hugging_face: HuggingFace, tmp_path: Path, kind: str, error: float
) -> None:
    """One element of ffn_up in layer 1 is changed before the .gguf file is written. The error is just
    above what the type rounds by: 1e-6 in F32, 1e-3 in F16, 0.1 in Q8_0.
    """

    def plant(tensors: Arrays, keys: dict[str, Any]) -> None:
        tensors["blk.1.ffn_up.weight"][3, 5] += error

    path = write_converted(tmp_path / "model.gguf", "llama", kind, plant)
    (line,) = pecli.diff(hugging_face("llama"), path).diagnosis

    assert line.startswith("B: ffn_up of layer 1 is off by up to")


@pytest.mark.parametrize(
    ("kind", "dtype", "value"), [("F16", "float16", 1e5), ("Q8_0", "Q8_0", 1e7)]
)
def test_a_weight_that_overflows_in_the_type_of_the_file_is_found(
    tmp_path: Path, kind: str, dtype: str, value: float
) -> None:
    """float16 ends at 65504. A weight of 1e5 becomes infinite in F16, and one of 1e7 makes the scale
    of its block, 1e7 / 127, infinite in Q8_0.
    """
    tensors = weights_of("qwen2")
    tensors["model.layers.1.mlp.up_proj.weight"][3, 5] = value
    write_hugging_face(tmp_path / "hf", config_of("qwen2"), tensors)
    with np.errstate(over="ignore", invalid="ignore"):
        write_gguf(tmp_path / "model.gguf", "qwen2", *converted_to_gguf("qwen2", tensors), kind)
    found = pecli.diff(tmp_path / "hf", tmp_path / "model.gguf")

    assert found.diagnosis == (
        f"B: ffn_up of layer 1 is off by up to inf, beyond the rounding of {dtype}",
    )


def put_off_q8_0_row(row: Array, steps: float) -> float:
    """Change one element of a row so that it is off by some steps from its value in Q8_0.

    Q8_0 stores 32 elements of a block in steps of their largest magnitude / 127. The block with the
    largest steps is taken, as the limit is four of these, and its smallest element, so that the
    step stays as it is.

    Args:
        row: The row, which is changed in place.
        steps: The error in steps.

    Returns:
        The error.
    """
    steps_of_blocks = np.abs(row).reshape(-1, 32).max(axis=1) / 127
    block = int(steps_of_blocks.argmax())
    elements = row.reshape(-1, 32)[block]  # a view of the row
    smallest = int(np.abs(elements).argmin())
    kind = gguf.GGMLQuantizationType.Q8_0
    stored = gguf.dequantize(gguf.quantize(row[None], kind), kind).reshape(-1, 32)[block]
    # The file has the step in float16.
    elements[smallest] = stored[smallest] + steps * np.float16(steps_of_blocks[block])
    return float(steps * steps_of_blocks[block])


@pytest.mark.parametrize(
    ("steps", "passes"),
    [(3.5, True), (4.5, False), (np.inf, False)],
    ids=["3.5 steps", "4.5 steps", "infinity"],
)
def test_a_weight_in_a_q8_0_file_may_be_off_by_four_steps(
    tmp_path: Path, steps: float, passes: bool
) -> None:
    """The .gguf file is written from right weights. Then one element of row 7 is changed in the
    Hugging Face folder, so that both differ by some steps of Q8_0. Beyond four, which no quantiser
    makes, `diff` fails and reports this error; 1e-3 allows for the step's rounding to float16.
    """
    path = write_converted(tmp_path / "model.gguf", "qwen2", "Q8_0")
    weights = weights_of("qwen2")
    error = put_off_q8_0_row(weights["model.layers.1.mlp.up_proj.weight"][7], steps)
    write_hugging_face(tmp_path / "hf", config_of("qwen2"), weights)
    found = pecli.diff(tmp_path / "hf", path)

    assert found.passed == passes
    errors = [tensor.max_abs_error for tensor in found.tensors]
    assert errors == ([] if passes else [pytest.approx(error, rel=1e-3)])
