"""What families mean where a configuration is silent: bases and shares of a head, as their code in transformers has."""

from __future__ import annotations

from typing import Any

import pytest

from pecli.models.find import load_config

PLAIN: dict[str, Any] = {"hidden_size": 1280, "num_attention_heads": 16, "max_position_embeddings": 2048}
HALF = ("phi", "glm", "glm4", "glm4_moe", "persimmon", "nemotron", "fuyu", "recurrent_gemma")
SHARES = {**dict.fromkeys(HALF, 0.5), "stablelm": 0.25, "qwen3_next": 0.25, "qwen3_5": 0.25, "moonshine": 0.9}
BASES = {
    "llama": {1e4},
    "mixtral": {1e6},
    "qwen2_vl": {1e6},
    "cohere": {5e5},
    "llama4": {5e5},
    "qwen3_vl": {5e5},
    "gpt_oss": {150000.0},
    "smollm3": {2e6},
    "apertus": {1.2e7},
    "nomic_bert": {1000.0},
    "dinov3": {100.0},
    "dinov3_vit": {100.0},
    "gemma3": {1e6, 1e4},
    "gemma3_text": {1e6, 1e4},
    "modernbert": {160000.0, 1e4},
}


@pytest.mark.parametrize("name", SHARES)
def test_the_share_of_a_head_that_turns(name: str) -> None:
    (encoding,) = load_config({"model_type": name, "head_dim": 80, **PLAIN}).encodings
    assert (encoding.head_dim, encoding.rotary_dim) == (80, int(80 * SHARES[name]))


@pytest.mark.parametrize("name", BASES)
def test_bases(name: str) -> None:
    assert {each.parameters["base"] for each in load_config({"model_type": name, **PLAIN}).encodings} == BASES[name]


SECTIONS = {
    "qwen2_vl": ([16, 24, 24], False),
    "qwen2_5_vl": ([16, 24, 24], False),
    "qwen2_5_vl_text": ([16, 24, 24], False),
    "paddleocr_vl": ([16, 24, 24], False),
    "qwen3_vl": ([24, 20, 20], True),
    "qwen3_vl_moe_text": ([24, 20, 20], True),
}


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_of_time_rows_and_columns(name: str) -> None:
    config = {"model_type": name, "hidden_size": 2048, "num_attention_heads": 16, "head_dim": 128}
    (encoding,) = load_config(config).encodings
    section, mixed = SECTIONS[name]
    assert (encoding.extra["mrope_section"], encoding.extra["mrope_interleaved"]) == (section, mixed)
    assert encoding.sources["mrope_section"].startswith("family default")
    assert encoding.rope(8).mrope_section == tuple(section)
    (other,) = load_config({**config, "rope_scaling": {"type": "mrope", "mrope_section": [32, 16, 16]}}).encodings
    assert (other.extra["mrope_section"], other.extra["mrope_interleaved"]) == ([32, 16, 16], mixed)
    (narrow,) = load_config({**config, "head_dim": 64}).encodings  # a head that they do not fit
    assert "mrope_section" not in narrow.extra
