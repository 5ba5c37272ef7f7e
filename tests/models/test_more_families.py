"""Families beyond those of test_oracle, as transformers computes them, and the rules that they taught."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pecli.models.find import load_config

DATA = Path(__file__).parent / "data"
CASES = [
    json.loads(line)
    for name in ("rope_families_more.jsonl", "rope_random_more.jsonl")
    for line in (DATA / name).read_text().splitlines()
]
LLAMA = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 8192}


def by_layer(config: dict[str, Any]) -> dict[str, tuple[Any, ...]]:
    """Layer type → rotary dim, base, scaling, layout."""
    return {
        each.layer_type: (each.rotary_dim, each.parameters["base"], each.parameters["scaling"], each.layout)
        for each in load_config(config).encodings
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_transformers_computes_the_same(case: dict[str, Any]) -> None:
    model = load_config(case["config"])
    found = {encoding.layer_type: encoding for encoding in model.encodings if encoding.scheme == "rope"}
    for layer_type, table in case["tables"].items():
        encoding, length = found.pop(layer_type), case.get("seq_len")
        blended = encoding.parameters["scaling"] == "llama3"
        expected = pytest.approx(table["inv_freq"], rel=5e-6 if blended else 1e-6, abs=0)
        assert encoding.inverse_frequencies(length) == expected
        assert encoding.attention_factor(length) == pytest.approx(table["attention_scaling"], abs=1e-6)
    for name in found:  # parts of the model with modules of their own
        part = name.split(".")[0]
        assert part in case["config"] or f"{part}_config" in case["config"]


def test_every_family_is_known() -> None:
    for case in CASES:
        if "model_type" in case["config"]:
            warnings = load_config(case["config"]).warnings
            assert not [warning for warning in warnings if warning.startswith("model_type ")], case["case"]


def test_layer_types_that_no_layer_has_are_left_out() -> None:
    settings = {name: {"rope_type": "default", "rope_theta": 1e4} for name in ("full_attention", "sliding_attention")}
    config = {**LLAMA, "layer_types": ["full_attention"] * 4, "rope_parameters": settings}
    model = load_config(config)
    assert [each.layer_type for each in model.encodings] == ["full_attention"]
    assert "settings of sliding_attention are not used: layer_types names no such layer" in model.warnings
    labels = {"main": settings["full_attention"], "compress": settings["full_attention"]}
    assert list(by_layer({**config, "rope_parameters": labels})) == ["main", "compress"]  # no layer types at all


def test_olmo3_scales_its_full_layers_only() -> None:
    scaling = {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8192}
    config = {**LLAMA, "model_type": "olmo3", "rope_theta": 5e5, "rope_scaling": scaling}
    assert by_layer(config) == {
        "full_attention": (128, 5e5, "yarn", "halves"),
        "sliding_attention": (128, 5e5, "none", "halves"),
    }


def test_compressed_layers_have_a_base_of_their_own() -> None:
    scaling = {"type": "yarn", "factor": 16, "original_max_position_embeddings": 65536}
    config = {
        "model_type": "deepseek_v4",
        "head_dim": 512,
        "qk_rope_head_dim": 64,
        "rope_theta": 1e4,
        "compress_rope_theta": 1.6e5,
        "rope_scaling": scaling,
    }
    assert by_layer(config) == {
        "main": (64, 1e4, "none", "interleaved"),
        "compress": (64, 1.6e5, "yarn", "interleaved"),
    }
    assert load_config(config).one("compress").attention_factor() == 1


def test_a_table_of_time_beside_the_language_model() -> None:
    config = next(case["config"] for case in CASES if case["case"].startswith("musicflamingo/"))
    model = load_config(config)
    assert {each.layer_type: each.part for each in model.encodings} == {"": "audio", "text": "", "audio": "audio"}
    assert model.one().layer_type == "text"


@pytest.mark.parametrize(
    ("config", "layout"),
    [
        ({**LLAMA, "model_type": "ernie4_5_moe"}, "interleaved"),
        ({**LLAMA, "model_type": "openai_privacy_filter"}, "interleaved"),
        ({**LLAMA, "model_type": "hy_v4", "qk_rope_head_dim": 64, "kv_lora_rank": 512}, "halves"),
        ({**LLAMA, "model_type": "mistral_large4_text", "qk_rope_head_dim": 64}, "deepseek"),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else value,
)
def test_layout(config: dict[str, Any], layout: str) -> None:
    assert [each.layout for each in load_config(config).encodings] == [layout]


@pytest.mark.parametrize("kind", ["yarn", "llama3", "longrope"])
def test_the_length_stands_in_for_the_original_one(kind: str) -> None:
    factors = {"short_factor": [1.0] * 64, "long_factor": [2.0] * 64} if kind == "longrope" else {}
    blend = {"low_freq_factor": 1.0, "high_freq_factor": 4.0} if kind == "llama3" else {}
    model = load_config({**LLAMA, "rope_scaling": {"rope_type": kind, "factor": 2.0, **factors, **blend}})
    assert model.encodings[0].parameters["original_max_position_embeddings"] == 8192
    assert any("max_position_embeddings is used instead" in warning for warning in model.warnings)


@pytest.mark.parametrize(
    ("keys", "warning"),
    [
        ({"model_type": "kimi_linear", "qk_rope_head_dim": 64}, "no positional encoding"),
        ({"model_type": "glm5_next_text", "head_dim": 0, "qk_rope_head_dim": 0}, "qk_rope_head_dim is 0"),
        (
            {"model_type": "wav2vec2-bert", "rotary_embedding_base": 10000, "position_embeddings_type": "relative_key"},
            "relative positions of its own kind",
        ),
        ({"model_type": "kimi", "qk_rope_head_dim": 64, "mla_use_nope": True}, "no positional encoding"),
    ],
)
def test_what_turns_nothing(keys: dict[str, Any], warning: str) -> None:
    model = load_config({**LLAMA, **keys})
    assert model.encodings == ()
    assert any(warning in each for each in model.warnings)


def test_patches_may_be_counted() -> None:
    config = {"model_type": "siglip2_vision_model", "hidden_size": 768, "num_patches": 256, "patch_size": 16}
    (encoding,) = load_config(config).encodings
    assert (encoding.scheme, encoding.parameters["max_len"], encoding.parameters["dim"]) == ("learned", 256, 768)


def test_settings_that_a_class_adds() -> None:
    """Those of gpt-oss: limits at 8.0928 and 17.398 of 32, which are not rounded."""
    found = load_config({"model_type": "gpt_oss"}).one()
    plain = [150000.0 ** (-i / 32) for i in range(32)]
    values = found.inverse_frequencies() or []
    assert values[:9] == pytest.approx(plain[:9], rel=1e-14)
    assert values[9] < plain[9] * (1 - 1e-3)
    assert values[18:] == pytest.approx([value / 32 for value in plain[18:]], rel=1e-14)
    assert found.sources["factor"] == "class default of GptOssConfig.rope_parameters.factor"
    given = {"model_type": "gpt_oss", "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
    assert by_layer(given) == {"": (64, 1e4, "none", "halves")}


def test_settings_by_layer_type_that_a_class_adds() -> None:
    assert by_layer({"model_type": "gemma4_text", "head_dim": 256}) == {
        "sliding_attention": (256, 1e4, "none", "halves"),
        "full_attention": (512, 1e6, "proportional", "halves"),
    }
