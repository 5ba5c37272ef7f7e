"""Tables that are added, biases, and what pecli has no scheme for: which families have them, by which keys."""

import math

import pytest

import pecli
from pecli.models.find import load_config
from tests.models.facts import agrees, one

SIZES = {"hidden_size": 768, "num_attention_heads": 12}
VISION = {"hidden_size": 1152, "image_size": 448, "patch_size": 14, "num_attention_heads": 16, "num_heads": 16}


SINES = ["distilbert sinusoidal_pos_embds dim", "xlm sinusoidal_embeddings emb_dim", "xlm sinusoidal_pos_embds emb_dim"]


@pytest.mark.parametrize("words", [*SINES, "flaubert sinusoidal_embeddings emb_dim"])
def test_a_flag_makes_the_table_sinusoidal(words: str) -> None:
    name, key, dim = words.split()
    config = {"model_type": name, dim: 64, "n_heads": 4, "max_position_embeddings": 16}
    table = pecli.Sinusoidal(**one({**config, key: True}).parameters, dtype="float64").tables()["pe"]
    angle = 3 / 10000 ** (10 / 64)
    assert table[3, 10:12] == pytest.approx([math.sin(angle), math.cos(angle)], rel=1e-15)
    assert agrees(one({**config, key: False}), {"scheme": "learned", "max_len": 16, "dim": 64})


def test_musicgen_has_cosines_first_over_half_the_channels_less_one() -> None:
    found = one({"model_type": "musicgen_decoder", "hidden_size": 64, "max_position_embeddings": 16})
    table = pecli.Sinusoidal(**found.parameters, dtype="float64").tables()["pe"]
    angle = 3 / 10000 ** (5 / 31)
    assert (table[3, 5], table[3, 37]) == (pytest.approx(math.cos(angle)), pytest.approx(math.sin(angle)))


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


TOWERS = {  # beside rope, or instead of it; rows of the class token included
    "qwen3_vl": ("qwen3_vl_vision", {"num_position_embeddings": 2304}, {"vision": None, "vision.patches": 2304}),
    "glm4v": ("glm4v_vision", {}, {"vision": None, "vision.patches": 1024}),
    "paddleocr_vl": ("paddleocr_vl_vision", {}, {"vision": None, "vision.patches": 1024}),
    "llama4": ("llama4_vision_model", {}, {"vision": None, "vision.patches": 1025}),
    "internvl": ("internvl_vision", {"image_size": [448, 448], "patch_size": [14, 14]}, {"vision": 1025}),
    "kimi_vl": (
        "moonvit",
        {"init_pos_emb_height": 64, "init_pos_emb_width": 60},
        {"vision": None, "vision.patches": 3840},
    ),
    "internvl_chat": ("intern_vit_6b", {}, {"vision": 1025}),
    "minicpmv4_6": ("minicpmv4_6_vision", {}, {"vision": 1024}),
    "mllama": ("mllama_vision_model", {}, {"vision": 1025}),
    "phi4_multimodal": ("phi4_multimodal_vision", {}, {"vision": 1024}),
    "aimv2": ("aimv2_vision_model", {}, {"vision": 1024}),
}


def test_learned_tables_of_vision_towers() -> None:
    for name, (model_type, more, expected) in TOWERS.items():
        model = load_config({"model_type": name, "vision_config": {"model_type": model_type, **VISION, **more}})
        found = {each.layer_type: each.parameters.get("max_len") for each in model if each.part == "vision"}
        assert found == expected
        assert {each.parameters["dim"] for each in model if each.scheme == "learned" and each.part} == {1152}
        assert model.one("vision").scheme == ("rope" if None in expected.values() else "learned")
        assert any("tile" in warning for warning in model.warnings) == (name == "mllama")


DESCRIBED = [
    ({"model_type": "aimv2_vision_model", "is_native": True, **VISION}, "1024 patches × 1152 that is sinusoidal"),
    ({"model_type": "inkling_mm_model", "text_config": {"model_type": "inkling_text", **SIZES}}, "a bias by distance"),
    ({"model_type": "llava_llama", "llm_cfg": "./llm"}, "llm_cfg is './llm', whose config.json says"),
    ({"model_type": "telechat", **SIZES}, "model_type 'telechat' is unknown"),
    ({"model_type": "phi4flash", **SIZES}, "the model has none"),
    ({"model_type": "longt5", **SIZES}, "relative positions of its own kind"),
    ({"model_type": "internvl_vision", **VISION, "use_absolute_position_embeddings": False}, "the model has none"),
]


def test_what_no_scheme_makes_is_described() -> None:
    for config, said in DESCRIBED:
        model = load_config(config)
        assert (model.encodings, len(model.warnings), said in model.warnings[0]) == ((), 1, True)
