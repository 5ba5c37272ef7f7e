"""params.json of Meta's releases, and GGUF headers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import struct
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.find import load_model

LLAMA = {"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8, "rope_theta": 500000.0, "use_scaled_rope": True}


def test_params_json_is_llama_3_1_in_meta_s_layout(tmp_path) -> None:
    (tmp_path / "params.json").write_text(json.dumps(LLAMA))
    (found,) = pecli.load_config(tmp_path).encodings
    (published,) = load_model("llama-3.1-8b").encodings
    assert found.inverse_frequencies() == published.inverse_frequencies()
    assert found.layout == "interleaved"
    assert found.sources["dim"] == "dim // n_heads"


def test_params_json_without_scaling() -> None:
    (found,) = pecli.load_config({"dim": 4096, "n_heads": 32, "n_layers": 32}).encodings
    assert (found.rotary_dim, found.parameters["base"], found.parameters["scaling"]) == (128, 1e4, "none")


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def value(item: Any) -> bytes:
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, list) and all(isinstance(each, int) for each in item):
        return struct.pack(f"<IIQ{len(item)}i", 9, 5, len(item), *item)
    if isinstance(item, list):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(map(text, item))
    return struct.pack("<II", 4, item)


def gguf(path: Path, values: dict[str, Any], tensors: dict[str, list[float]] | None = None, version: int = 3) -> Path:
    tensors = tensors or {}
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(values))
    data += b"".join(text(name) + value(item) for name, item in values.items())
    offset = 0
    for name, numbers in tensors.items():
        data += text(name) + struct.pack("<IQIQ", 1, len(numbers), 0, offset)
        offset += -(-4 * len(numbers) // 32) * 32
    data += b"\0" * (-len(data) % 32)
    for numbers in tensors.values():
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        data += b"\0" * (-len(data) % 32)
    path.write_bytes(data)
    return path


QWEN = {
    "general.architecture": "qwen2",
    "tokenizer.ggml.tokens": ["a", "bc", ""],
    "qwen2.context_length": 131072,
    "qwen2.embedding_length": 3584,
    "qwen2.attention.head_count": 28,
    "qwen2.rope.freq_base": 1000000.0,
    "qwen2.rope.scaling.type": "yarn",
    "qwen2.rope.scaling.factor": 4.0,
    "qwen2.rope.scaling.original_context_length": 32768,
}


@pytest.mark.parametrize("version", [2, 3])
def test_gguf_equals_the_config_it_was_made_from(tmp_path, version: int) -> None:
    model = pecli.load_config(gguf(tmp_path / "m.gguf", QWEN, version=version))
    config = {
        "model_type": "qwen2",
        "hidden_size": 3584,
        "num_attention_heads": 28,
        "rope_theta": 1000000.0,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
    }
    (found,), (same,) = model.encodings, pecli.load_config(config).encodings
    assert model.model_type == "qwen2"
    assert found.inverse_frequencies() == same.inverse_frequencies()
    assert found.attention_factor() == same.attention_factor()
    assert found.layout == "halves"
    assert found.sources["base"] == "qwen2.rope.freq_base"
    assert found.sources["dim"] == "qwen2.embedding_length // qwen2.attention.head_count"


def test_gguf_frequencies_are_divided_by_the_tensor(tmp_path) -> None:
    values = {
        "general.architecture": "llama",
        "llama.context_length": 131072,
        "llama.rope.dimension_count": 8,
        "llama.rope.freq_base": 500000.0,
    }
    path = gguf(tmp_path / "m.gguf", values, {"output.weight": [0.0] * 3, "rope_freqs.weight": [1.0, 1.0, 4.0, 8.0]})
    (found,) = pecli.load_config(path).encodings
    plain = [500000.0 ** (-i / 4) for i in range(4)]
    assert found.inverse_frequencies() == pytest.approx([plain[0], plain[1], plain[2] / 4, plain[3] / 8], rel=1e-14)
    assert found.attention_factor() == 1.0
    assert found.layout == "interleaved"


PHI = {
    "general.architecture": "phi3",
    "phi3.rope.dimension_count": 4,
    "phi3.rope.scaling.type": "longrope",
    "phi3.rope.scaling.original_context_length": 4096,
    "phi3.rope.scaling.attn_factor": 1.25,
}


def test_gguf_longrope_has_its_divisors_in_tensors(tmp_path) -> None:
    factors = {"rope_factors_long.weight": [2.0, 4.0], "rope_factors_short.weight": [1.0, 1.5]}
    (found,) = pecli.load_config(gguf(tmp_path / "m.gguf", PHI, factors)).encodings
    assert found.inverse_frequencies(4096) == pytest.approx([1.0, 0.01 / 1.5], rel=1e-15)
    assert found.inverse_frequencies(4097) == pytest.approx([0.5, 0.01 / 4], rel=1e-15)
    assert found.attention_factor() == 1.25


@pytest.mark.parametrize(("kind", "rule"), [("longrope", "it needs the tensors rope_factors_"), ("su", "known are")])
def test_gguf_scalings_that_cannot_be_read(tmp_path, kind: str, rule: str) -> None:
    path = gguf(tmp_path / "m.gguf", {**PHI, "phi3.rope.scaling.type": kind})
    with pytest.raises(pecli.FileError, match=f"phi3.rope.scaling.type is '{kind}'; {rule}"):
        pecli.load_config(path)


def test_gguf_yarn_and_linear(tmp_path) -> None:
    betas = {"qwen2.rope.scaling.yarn_beta_fast": 16.0, "qwen2.rope.scaling.yarn_beta_slow": 2.0}
    values = {**QWEN, **betas, "qwen2.rope.scaling.attn_factor": 0.5}
    (found,) = pecli.load_config(gguf(tmp_path / "y.gguf", values)).encodings
    assert (found.parameters["beta_fast"], found.parameters["beta_slow"]) == (16.0, 2.0)
    assert found.attention_factor() == pytest.approx(0.5 * (1 + 0.1 * math.log(4)), rel=1e-15)
    (found,) = pecli.load_config(gguf(tmp_path / "l.gguf", {**QWEN, "qwen2.rope.scaling.type": "linear"})).encodings
    assert found.inverse_frequencies() == pytest.approx([1e6 ** (-i / 64) / 4 for i in range(64)], rel=1e-14)


def test_gguf_alibi_and_learned(tmp_path) -> None:
    values = {"general.architecture": "bloom", "bloom.attention.head_count": 16, "bloom.attention.max_alibi_bias": 8.0}
    (found,) = pecli.load_config(gguf(tmp_path / "b.gguf", values)).encodings
    assert (found.scheme, found.parameters["heads"], found.parameters["max_bias"]) == ("alibi", 16, 8.0)
    values = {"general.architecture": "gpt2", "gpt2.context_length": 1024, "gpt2.embedding_length": 768}
    (found,) = pecli.load_config(gguf(tmp_path / "g.gguf", values)).encodings
    assert (found.scheme, found.parameters["max_len"], found.parameters["dim"]) == ("learned", 1024, 768)


GEMMA = {"context_length": 131072, "embedding_length": 2560, "attention.head_count": 8, "attention.key_length": 256,
         "attention.sliding_window": 1024, "rope.freq_base": 1e6, "rope.scaling.type": "linear",
         "rope.scaling.factor": 8.0}  # fmt: skip


def by_layer(path: Path, arch: str, values: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    header = {"general.architecture": arch, **{f"{arch}.{name}": item for name, item in values.items()}}
    found = pecli.load_config(gguf(path / "m.gguf", header)).encodings
    return {each.layer_type: (each.rotary_dim, each.parameters["base"], each.parameters["scaling"]) for each in found}


SLIDING = {  # what llama.cpp's source has for sliding layers: a base, scaling
    "gemma3": ({}, (256, 1e4, "none")),
    "gemma3 with a base": ({"rope.freq_base_swa": 2e4}, (256, 2e4, "none")),
    "gemma4 with a smaller head": (
        {"rope.dimension_count_swa": 128, "attention.key_length_swa": 128},
        (128, 1e4, "none"),
    ),
    "olmo2": ({}, (256, 1e6, "none")),
    "gpt-oss with a base": ({"rope.freq_base_swa": 2e4}, (256, 2e4, "linear")),
}


@pytest.mark.parametrize("name", SLIDING)
def test_gguf_sliding_layers(tmp_path, name: str) -> None:
    more, sliding = SLIDING[name]
    found = by_layer(tmp_path, name.split()[0], {**GEMMA, **more})
    assert found == {"full_attention": (256, 1e6, "linear"), "sliding_attention": sliding}


@pytest.mark.parametrize(("arch", "more"), [("gemma3", {"attention.sliding_window": 0}), ("gpt-oss", {})])
def test_gguf_layers_that_are_all_alike(tmp_path, arch: str, more: dict[str, Any]) -> None:
    assert by_layer(tmp_path, arch, {**GEMMA, **more}) == {"": (256, 1e6, "linear")}


def test_gguf_a_factor_without_a_type_is_linear(tmp_path) -> None:
    values = {name: item for name, item in GEMMA.items() if name != "rope.scaling.type"}
    assert by_layer(tmp_path, "llama", values) == {"": (256, 1e6, "linear")}
    assert by_layer(tmp_path, "llama", {**values, "rope.scaling.factor": 0.0}) == {"": (256, 1e6, "none")}


@pytest.mark.parametrize(("arch", "mixed"), [("qwen2vl", False), ("qwen3vl", True), ("glm4", False)])
def test_gguf_sections(tmp_path, arch: str, mixed: bool) -> None:
    values = {"general.architecture": arch, f"{arch}.rope.dimension_count": 128}
    sections = {f"{arch}.rope.dimension_sections": [16, 24, 24, 0]}
    (found,) = pecli.load_config(gguf(tmp_path / "m.gguf", {**values, **sections})).encodings
    assert (found.extra["mrope_section"], found.extra["mrope_interleaved"]) == ([16, 24, 24], mixed)
    assert found.rope(8).mrope_section == (16, 24, 24)
    assert found.layout == "halves"
    (plain,) = pecli.load_config(gguf(tmp_path / "m.gguf", values)).encodings
    assert "mrope_section" not in plain.extra
    assert plain.layout == ("interleaved" if arch == "glm4" else "halves")


@pytest.mark.parametrize(
    ("arch", "blocks", "scheme"),
    [
        ("bloom", 24, "alibi"), ("jina-bert-v2", 12, "alibi"), ("refact", 32, "alibi"), ("baichuan", 40, "alibi"),
        ("baichuan", 32, "rope"), ("mpt", 32, "learned"),
    ],
)  # fmt: skip
def test_gguf_alibi_without_a_key(tmp_path, arch: str, blocks: int, scheme: str) -> None:
    sizes = {"block_count": blocks, "embedding_length": 512, "attention.head_count": 8, "context_length": 2048}
    values = {"general.architecture": arch, **{f"{arch}.{name}": item for name, item in sizes.items()}}
    (found,) = pecli.load_config(gguf(tmp_path / "m.gguf", values)).encodings
    assert found.scheme == scheme
    if scheme == "alibi":
        assert (found.parameters["heads"], found.parameters["max_bias"]) == (8, 8.0)


LARGE = {
    "a million tensors": (struct.pack("<QQ", 1 << 20, 0), 1 << 26, "tensors"),
    "texts without end": (
        struct.pack("<QQ", 0, 1) + struct.pack("<Q", 1) + b"t" + struct.pack("<IIQ", 9, 8, 1 << 26),
        1 << 30,
        "more than any vocabulary",
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_sparse_gguf_takes_no_time(tmp_path, pecli_cli, name: str) -> None:
    counts, size, problem = LARGE[name]
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 3) + counts)
    os.truncate(path, size)
    outcome = pecli_cli("config", path)
    assert outcome.code == 3
    assert problem in outcome.err


LLAMA_3_1 = {
    "general.architecture": "llama",
    "llama.context_length": 131072,
    "llama.embedding_length": 4096,
    "llama.attention.head_count": 32,
    "llama.rope.dimension_count": 128,
    "llama.rope.freq_base": 500000.0,
}


def llama3_factors(factor: float) -> list[float]:
    """What divides frequencies, by the rule of Meta's code: nothing for short waves, all for those beyond 8192."""
    waves = [2 * math.pi * 500000.0 ** (i / 64) for i in range(64)]
    smooth = [min(max((8192 / wave - 1) / 3, 0.0), 1.0) for wave in waves]
    return [1 / ((1 - share) / factor + share) for share in smooth]


def test_factors_of_a_gguf_are_verified_against_a_model(tmp_path, pecli_cli) -> None:
    weights = {"token_embd.weight": [0.5] * 7}
    right = gguf(tmp_path / "r.gguf", LLAMA_3_1, {"rope_freqs.weight": llama3_factors(8.0), **weights})
    wrong = gguf(tmp_path / "w.gguf", LLAMA_3_1, {"rope_freqs.weight": llama3_factors(32.0), **weights})
    assert pecli_cli("verify", right, "--config", "llama-3.1-8b").code == 0
    assert pecli_cli("verify", f"{right}:rope_freqs.weight", "--model", "llama-3.1-8b").code == 0
    outcome = pecli_cli("verify", wrong, "--config", "llama-3.1-8b")
    assert outcome.code == 1
    assert "factor is 32 (the spec says 8)" in outcome.out


def test_the_header_of_a_gguf_is_its_own_model(tmp_path, pecli_cli) -> None:
    path = gguf(tmp_path / "r.gguf", LLAMA_3_1, {"rope_freqs.weight": llama3_factors(8.0)})
    for given in (path, tmp_path):
        found = pecli_cli("verify", given, "--json").json
        assert found["passed"]
        assert found["tensors"][0]["name"] == "rope_freqs.weight/inv_freq"
    found = pecli_cli("verify", path, "--json").json
    assert found["readings"]["rope_freqs.weight/inv_freq"].startswith("llama3, factor 8, low_freq_factor 1")
    assert "cannot tell these factors from others" in found["weak"][-1]


@pytest.mark.parametrize(
    ("factors", "code", "problem"),
    [
        (llama3_factors(8.0)[:32], 2, "rope_freqs.weight is 32 numbers; there must be one for each of 64 frequencies"),
        ([math.nan] * 64, 3, "rope_freqs.weight is [nan, "),
        ([0.0] * 64, 2, "rope_freqs.weight[0] is 0; it must be a finite number"),
    ],
)
def test_factors_that_divide_nothing(tmp_path, pecli_cli, factors: list[float], code: int, problem: str) -> None:
    path = gguf(tmp_path / "x.gguf", LLAMA_3_1, {"rope_freqs.weight": factors})
    outcome = pecli_cli("verify", path)
    assert outcome.code == code
    assert problem in outcome.err
    assert pecli_cli("verify", path, "--config", "llama-3.1-8b").code == 1


def test_long_and_short_factors_of_a_gguf(tmp_path, pecli_cli) -> None:
    """Each is read at lengths that it is for: swapped, both are wrong."""
    long, short = [1.0, 2.0, 8.0, 40.0], [1.0, 1.0, 1.5, 2.0]
    scaling = {"type": "longrope", "long_factor": long, "short_factor": short}
    lengths = {"max_position_embeddings": 131072, "original_max_position_embeddings": 4096}
    config = {"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 8, "rope_scaling": scaling, **lengths}
    (tmp_path / "config.json").write_text(json.dumps(config))
    header = {**PHI, "phi3.embedding_length": 64, "phi3.attention.head_count": 8, "phi3.rope.dimension_count": 8}
    for first, second, code in ((long, short, 0), (short, long, 1)):
        tensors = {"rope_factors_long.weight": first, "rope_factors_short.weight": second}
        path = gguf(tmp_path / "m.gguf", header, tensors)
        outcome = pecli_cli("verify", path, "--config", tmp_path / "config.json")
        assert outcome.code == code
        assert ("short_factor is used where long_factor belongs" in outcome.out) == bool(code)


@pytest.mark.parametrize(("kind", "length", "size"), [(8, 1 << 20, 1 << 20), (9, 4096, 4096)])
def test_values_of_a_sparse_gguf_do_not_add_up(tmp_path, pecli_cli, kind: int, length: int, size: int) -> None:
    path = tmp_path / "m.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, 0, 1000))
        for key in range(1000):
            file.write(struct.pack("<Q", 4) + b"%04d" % key + struct.pack("<I", kind))
            file.write(struct.pack("<Q", length) if kind == 8 else struct.pack("<IQ", 0, length))
            file.seek(size, os.SEEK_CUR)
        file.truncate()
    outcome = pecli_cli("config", path)
    assert outcome.code == 3
    assert "more than 16 MB" in outcome.err


@pytest.mark.parametrize(("code", "kind"), [("e", 1), ("d", 28)])
def test_factors_of_other_float_types(tmp_path, code: str, kind: int) -> None:
    factors = [1.0, 1.5, 4.0, 8.0]
    values = {**LLAMA_3_1, "llama.rope.dimension_count": 8}
    data = gguf(tmp_path / "m.gguf", values, {"rope_freqs.weight": factors}).read_bytes()
    floats = struct.pack("<IQIQ", 1, 4, 0, 0)
    assert floats in data
    changed = data.replace(floats, struct.pack("<IQIQ", 1, 4, kind, 0))[:-32] + struct.pack(f"<4{code}", *factors)
    (tmp_path / "m.gguf").write_bytes(changed)
    (found,) = pecli.load_config(tmp_path / "m.gguf").encodings
    expected = [500000.0 ** (-i / 4) / factor for i, factor in enumerate(factors)]
    assert found.inverse_frequencies() == pytest.approx(expected, rel=1e-15)


def test_a_file_that_is_only_called_gguf(tmp_path, pecli_cli) -> None:
    (tmp_path / "m.gguf").write_text("{}")
    outcome = pecli_cli("config", tmp_path / "m.gguf")
    assert (outcome.code, "is not a GGUF file" in outcome.err) == (3, True)


def test_hostile_gguf(tmp_path, pecli_cli) -> None:
    whole = gguf(tmp_path / "m.gguf", QWEN).read_bytes()
    path = tmp_path / "h.gguf"
    lies = [whole[:4], whole[:20], whole[:60], whole[:-200], whole[:4] + b"\x09" + whole[5:]]
    lies += [whole[:at] + b"\xff" * 8 + whole[at + 8 :] for at in range(8, len(whole) - 40, 5)]
    for lie in lies:
        path.write_bytes(lie)
        with contextlib.suppress(pecli.PecliError):
            pecli.load_config(path).as_json()
    path.write_bytes(whole[:60])
    outcome = pecli_cli("config", path)
    assert outcome.code == 3
    assert outcome.err.count("\n") == 1
