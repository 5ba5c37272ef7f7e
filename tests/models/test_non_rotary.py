"""Tables that are added, biases, and what pecli has no scheme for: which families have them, by which keys."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pecli
from pecli.models.find import load_config

SIZES = {"hidden_size": 768, "num_attention_heads": 12}


def one(config: dict[str, Any]) -> Any:
    (encoding,) = load_config(config).encodings
    return encoding


@pytest.mark.parametrize(
    ("config", "form"),
    [
        ({"model_type": "baichuan", "num_hidden_layers": 40, "hidden_size": 5120, "num_attention_heads": 40}, "causal"),
        (
            {"model_type": "bert", "alibi_starting_size": 512, "position_embedding_type": "absolute", **SIZES},
            "symmetric",
        ),
        ({"model_type": "mpt", "d_model": 4096, "n_heads": 32}, "key-last"),
    ],
    ids=["baichuan-13b", "mosaicbert", "mpt by default"],
)
def test_alibi(config: dict[str, Any], form: str) -> None:
    found = one(config)
    heads = config.get("num_attention_heads", config.get("n_heads"))
    assert found.parameters == {"heads": heads, "rule": "paper", "max_bias": 8.0, "form": form}


def test_baichuan_7b_turns() -> None:
    config = {"model_type": "baichuan", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32}
    assert (one(config).scheme, one(config).rotary_dim) == ("rope", 128)


def test_falcon_rounds_its_slopes_and_divides_its_bias() -> None:
    model = load_config({"model_type": "falcon", "hidden_size": 2048, "num_attention_heads": 32, "alibi": True})
    (found,) = model.encodings
    assert (found.parameters["form"], found.extra["slope_dtype"]) == ("key", "bfloat16")
    assert found.extra["bias_divisor"] == 8.0  # √64
    assert any("bfloat16" in warning and "√head_dim" in warning for warning in model.warnings)


@pytest.mark.parametrize(
    ("name", "key", "dim"),
    [
        ("distilbert", "sinusoidal_pos_embds", "dim"),
        ("xlm", "sinusoidal_embeddings", "emb_dim"),
        ("xlm", "sinusoidal_pos_embds", "emb_dim"),
        ("flaubert", "sinusoidal_embeddings", "emb_dim"),
    ],
)
def test_a_flag_makes_the_table_sinusoidal(name: str, key: str, dim: str) -> None:
    config = {"model_type": name, dim: 64, "n_heads": 4, "max_position_embeddings": 16}
    found = one({**config, key: True})
    table = pecli.Sinusoidal(**found.parameters, dtype="float64").tables()["pe"]
    assert table[3, 10] == pytest.approx(math.sin(3 / 10000 ** (10 / 64)), rel=1e-15)
    assert table[3, 11] == pytest.approx(math.cos(3 / 10000 ** (10 / 64)), rel=1e-15)
    learned = one({**config, key: False})
    assert (learned.scheme, learned.parameters["max_len"], learned.parameters["dim"]) == ("learned", 16, 64)


def test_musicgen_has_cosines_first_over_half_the_channels_less_one() -> None:
    found = one({"model_type": "musicgen_decoder", "hidden_size": 64, "max_position_embeddings": 16})
    table = pecli.Sinusoidal(**found.parameters, dtype="float64").tables()["pe"]
    angle = 3 / 10000 ** (5 / 31)
    assert (table[3, 5], table[3, 37]) == (pytest.approx(math.cos(angle)), pytest.approx(math.sin(angle)))


def test_videomae_counts_patches_through_time() -> None:
    config = {"model_type": "videomae", "hidden_size": 64, "image_size": 224, "patch_size": 16, "num_frames": 16}
    found = one({**config, "tubelet_size": 2})
    assert (found.scheme, found.parameters["seq_len"], found.parameters["layout"]) == (
        "sinusoidal",
        1568,
        "interleaved",
    )


def test_speecht5_has_four_tables() -> None:
    sizes = {"hidden_size": 768, "max_speech_positions": 1876, "max_text_positions": 600}
    model = load_config({"model_type": "speecht5", **sizes})
    assert {each.layer_type: (each.parameters["seq_len"], each.parameters["style"]) for each in model} == {
        "speech_encoder": (1876, "fairseq"),
        "text_encoder": (600, "paper"),
        "speech_decoder": (1876, "paper"),
        "text_decoder": (600, "fairseq"),
    }
    assert any("learned scales" in warning for warning in model.warnings)


VISION = {"hidden_size": 1152, "image_size": 448, "patch_size": 14, "num_attention_heads": 16, "num_heads": 16}
TOWERS = {  # beside rope, or instead of it; rows of the class token included
    "qwen3_vl": ("qwen3_vl_vision", {"num_position_embeddings": 2304}, {"vision": None, "vision.patches": 2304}),
    "glm4v": ("glm4v_vision", {}, {"vision": None, "vision.patches": 1024}),
    "paddleocr_vl": ("paddleocr_vl_vision", {}, {"vision": None, "vision.patches": 1024}),
    "llama4": ("llama4_vision_model", {}, {"vision": None, "vision.patches": 1025}),
    "internvl": ("internvl_vision", {"image_size": [448, 448], "patch_size": [14, 14]}, {"vision": 1025}),
    "mllama": ("mllama_vision_model", {}, {"vision": 1025}),
    "phi4_multimodal": ("phi4_multimodal_vision", {}, {"vision": 1024}),
    "aimv2": ("aimv2_vision_model", {}, {"vision": 1024}),
}


@pytest.mark.parametrize("name", TOWERS)
def test_learned_tables_of_vision_towers(name: str) -> None:
    model_type, more, expected = TOWERS[name]
    model = load_config({"model_type": name, "vision_config": {"model_type": model_type, **VISION, **more}})
    found = {each.layer_type: each.parameters.get("max_len") for each in model if each.part == "vision"}
    assert found == expected
    assert {each.parameters["dim"] for each in model if each.scheme == "learned" and each.part} == {1152}
    assert model.one("vision").scheme == ("rope" if None in expected.values() else "learned")


def test_tables_of_tiles_are_told() -> None:
    model = load_config({"model_type": "mllama", "vision_config": {"model_type": "mllama_vision_model", **VISION}})
    assert any("tile" in warning for warning in model.warnings)


def test_internvl_may_have_no_table() -> None:
    tower = {"model_type": "internvl_vision", **VISION, "use_absolute_position_embeddings": False}
    assert not load_config(tower).encodings


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        ({"model_type": "vit_mae", **VISION}, "fixed table of 1024 patches × 1152 that is sinusoidal in two axes"),
        ({"model_type": "aimv2_vision_model", "is_native": True, **VISION}, "sinusoidal in two axes"),
        ({"model_type": "t5", **SIZES}, "relative positions of its own kind"),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_what_no_scheme_makes_is_described(config: dict[str, Any], warning: str) -> None:
    model = load_config(config)
    assert model.encodings == ()
    assert len(model.warnings) == 1
    assert warning in model.warnings[0]


@pytest.mark.parametrize(("name", "rows"), [("dinov2_with_registers", 1025), ("aimv2_vision_model", 1024)])
def test_registers_have_no_rows(name: str, rows: int) -> None:
    assert one({"model_type": name, "num_register_tokens": 4, **VISION}).parameters["max_len"] == rows


def test_a_style_is_spelled_out() -> None:
    encoder, _ = load_config({"model_type": "whisper", "d_model": 384, "max_source_positions": 1500}).encodings
    said = {"style": "whisper", "base": 10000.0, "layout": "halves", "freq_shift": 1.0}
    assert {name: encoder.parameters[name] for name in said} == said
    assert encoder.sources["freq_shift"] == "style whisper"
    (marian,) = load_config({"model_type": "marian", "d_model": 64, "max_position_embeddings": 512}).encodings
    assert (marian.parameters["layout"], marian.parameters["freq_shift"]) == ("halves", 0.0)


def test_slopes_follow_the_paper() -> None:
    (bloom,) = load_config({"model_type": "bloom", "n_head": 16, "hidden_size": 1024}).encodings
    assert bloom.parameters == {"heads": 16, "rule": "paper", "max_bias": 8.0, "form": "key"}
