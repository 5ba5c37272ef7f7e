"""Tables that are added, biases, and encodings that pecli has no scheme for: which families have
them, by which keys.

The families' code in transformers decides; lengths are the configurations' own, and tables of the
data file tables.json were written by hand from that code. A style is a convention for sines and
cosines: paper (Vaswani et al. 2017), fairseq, whisper.
"""

import math
from typing import Any

import pytest

import pecli
from pecli.models.encoding import ModelEncodings
from pecli.models.find import load_config
from tests.models.facts import has_facts, only_encoding, stored

SIZES = {"hidden_size": 768, "num_attention_heads": 12}
VISION = {
    "hidden_size": 1152,
    "image_size": 448,
    "patch_size": 14,
    "num_attention_heads": 16,
    "num_heads": 16,
}


@pytest.mark.parametrize(
    ("model_type", "flag", "key_of_width"),
    [
        ("distilbert", "sinusoidal_pos_embds", "dim"),
        ("xlm", "sinusoidal_embeddings", "emb_dim"),
        ("xlm", "sinusoidal_pos_embds", "emb_dim"),
        ("flaubert", "sinusoidal_embeddings", "emb_dim"),
    ],
)
def test_a_flag_of_the_config_makes_a_learned_table_sinusoidal(
    model_type: str, flag: str, key_of_width: str
) -> None:
    """These classes of transformers have a learned table unless the flag is true. By the paper's
    formula (Vaswani et al. 2017), channels 10 and 11 of 64 at position 3 are sin and cos of
    3 / 10000^(10/64).
    """
    sizes = {key_of_width: 64, "n_heads": 4, "max_position_embeddings": 16}
    config = {"model_type": model_type, **sizes}
    sinusoidal = only_encoding({**config, flag: True})
    learned = only_encoding({**config, flag: False})
    table = pecli.Sinusoidal(**sinusoidal.parameters, dtype="float64").tables()["pe"]
    angle = 3 / 10000 ** (10 / 64)

    assert table[3, 10:12] == pytest.approx([math.sin(angle), math.cos(angle)], rel=1e-15)
    assert has_facts(learned, {"scheme": "learned", "max_len": 16, "dim": 64})


def test_musicgen_has_32_cosines_then_32_sines_by_tensor2tensors_formula() -> None:
    """tensor2tensor divides exponents by one less than the number of pairs: frequency 5 of 32 is
    10000^(−5/31). Its cosine is in channel 5, its sine in channel 32 + 5.
    """
    encoding = only_encoding(
        {"model_type": "musicgen_decoder", "hidden_size": 64, "max_position_embeddings": 16}
    )
    table = pecli.Sinusoidal(**encoding.parameters, dtype="float64").tables()["pe"]
    position = 3
    angle = position * 10000 ** (-5 / 31)

    assert table[position, 5] == pytest.approx(math.cos(angle))
    assert table[position, 32 + 5] == pytest.approx(math.sin(angle))


def test_speecht5_has_four_tables() -> None:
    """The lengths are the config's; the styles, conventions for sines and cosines, were read from
    modeling_speecht5.py.
    """
    sizes = {"hidden_size": 768, "max_speech_positions": 1876, "max_text_positions": 600}
    model = load_config({"model_type": "speecht5", **sizes})
    lengths_and_styles = {
        each.layer_type: (each.parameters["seq_len"], each.parameters["style"]) for each in model
    }

    assert lengths_and_styles == {
        "speech_encoder": (1876, "fairseq"),
        "text_encoder": (600, "paper"),
        "speech_decoder": (1876, "paper"),
        "text_decoder": (600, "fairseq"),
    }
    assert any("learned scales" in warning for warning in model.warnings)


CONFIGS_OF_TOWERS = stored("tables.json")["towers"]
"""By the model_type of a model with images: the model_type of its tower, keys beside VISION, and by
layer type the rows of its learned table, or None for a rope. They were written by hand from the
model's code:

    "llama4": ["llama4_vision_model", {}, {"vision": null, "vision.patches": 1025}]

Llama 4's tower has a rope, and a table with a row for each of (448 / 14)² patches and one for the
class token.
"""


def model_with_tower(name: str) -> ModelEncodings:
    """Return a model of CONFIGS_OF_TOWERS, whose tower has images of 448 and patches of 14 pixels."""
    model_type, keys, _ = CONFIGS_OF_TOWERS[name]
    vision = {"model_type": model_type, **VISION, **keys}
    return load_config({"model_type": name, "vision_config": vision})


@pytest.mark.parametrize("name", CONFIGS_OF_TOWERS)
def test_vision_towers_have_learned_tables_of_their_patches(name: str) -> None:
    """A table has a row for each patch, (448 / 14)² = 1024 by default, and one more if the model has a
    class token. A rope, which some towers have beside the table, has no rows: None.
    """
    *_, rows_by_hand = CONFIGS_OF_TOWERS[name]
    tower = [encoding for encoding in model_with_tower(name) if encoding.part == "vision"]
    rows = {encoding.layer_type: encoding.parameters.get("max_len") for encoding in tower}
    assert rows == rows_by_hand


@pytest.mark.parametrize("name", CONFIGS_OF_TOWERS)
def test_the_learned_table_of_a_vision_tower_is_as_wide_as_its_hidden_states(name: str) -> None:
    """The table is added to the hidden states, which have VISION's hidden_size, 1152 channels."""
    model = model_with_tower(name)
    learned = [encoding for encoding in model if encoding.scheme == "learned" and encoding.part]
    assert {encoding.parameters["dim"] for encoding in learned} == {1152}


@pytest.mark.parametrize("name", CONFIGS_OF_TOWERS)
def test_one_of_a_vision_tower_is_its_rope_or_else_its_learned_table(name: str) -> None:
    """`one("vision")` returns a single encoding. Towers with a rope have None for its rows in
    CONFIGS_OF_TOWERS.
    """
    *_, rows_by_hand = CONFIGS_OF_TOWERS[name]
    has_rope = None in rows_by_hand.values()
    scheme = model_with_tower(name).one("vision").scheme
    assert scheme == ("rope" if has_rope else "learned")


@pytest.mark.parametrize("name", CONFIGS_OF_TOWERS)
def test_only_mllama_has_a_warning_about_tables_by_tile(name: str) -> None:
    """Mllama cuts images into tiles, and has a further table by tile and aspect ratio, which no scheme
    of pecli makes.
    """
    has_warning = any("tile" in warning for warning in model_with_tower(name).warnings)
    assert has_warning == (name == "mllama")


DESCRIBED = stored("tables.json")["described"]


@pytest.mark.parametrize(("config", "description"), DESCRIBED)
def test_an_encoding_that_no_scheme_makes_is_described_in_a_warning(
    config: dict[str, Any], description: str
) -> None:
    """tables.json has a configuration per family, and a part of the description, written by hand
    from the family's code.
    """
    model = load_config(config)
    assert model.encodings == ()

    (warning,) = model.warnings
    assert description in warning


@pytest.mark.parametrize(("is_on", "count_of_warnings"), [(True, 0), (False, 1)])
def test_buckets_of_deberta_without_relative_attention_are_warned_about(
    is_on: bool, count_of_warnings: int
) -> None:
    """relative_attention switches DeBERTa's distances on; without it, the position_buckets of the
    configuration are unused.
    """
    config = {"model_type": "deberta-v2", "position_buckets": 256, "relative_attention": is_on}
    model = load_config({**config, "max_position_embeddings": 512})
    assert len(model.warnings) == count_of_warnings


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}


@pytest.mark.parametrize(
    ("keys", "scheme"),
    [
        pytest.param({"model_type": "bert"}, "rope", id="BERT"),
        pytest.param({"model_type": "t5", "relative_attention_num_buckets": 32}, "rope", id="T5"),
        pytest.param(
            {"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 32},
            "rope",
            id="DeBERTa",
        ),
        pytest.param(
            {"model_type": "vit_mae", "image_size": 32, "patch_size": 16}, "rope", id="ViT-MAE"
        ),
        pytest.param({"model_type": "whisper", "max_target_positions": 64}, "rope", id="Whisper"),
        pytest.param({"model_type": "bloom"}, "alibi", id="BLOOM"),
    ],
)
def test_a_rope_theta_makes_every_model_rotary_except_one_with_alibi(
    keys: dict[str, Any], scheme: str
) -> None:
    """A rope_theta in a config of BERT or T5 is a sign of changed code. Configs of models with ALiBi,
    such as BLOOM, often have one that their code ignores.
    """
    (encoding,) = load_config({**SIZES, **keys, "rope_theta": 5e5})
    assert encoding.scheme == scheme
