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


CLASSES_WITH_SINUSOIDS = [
    "distilbert sinusoidal_pos_embds dim",
    "xlm sinusoidal_embeddings emb_dim",
    "xlm sinusoidal_pos_embds emb_dim",
]


@pytest.mark.parametrize(
    "words", [*CLASSES_WITH_SINUSOIDS, "flaubert sinusoidal_embeddings emb_dim"]
)
def test_a_flag_makes_the_table_sinusoidal(words: str) -> None:
    """Channels 10 and 11 at position 3 are sin and cos of 3 / 10000^(10/64), the paper's formula.

    Each row is a model type, its flag, and its key for the width.
    """
    name, key, dim = words.split()
    config = {"model_type": name, dim: 64, "n_heads": 4, "max_position_embeddings": 16}
    table = pecli.Sinusoidal(
        **only_encoding({**config, key: True}).parameters, dtype="float64"
    ).tables()["pe"]
    angle = 3 / 10000 ** (10 / 64)

    assert table[3, 10:12] == pytest.approx([math.sin(angle), math.cos(angle)], rel=1e-15)
    assert has_facts(
        only_encoding({**config, key: False}), {"scheme": "learned", "max_len": 16, "dim": 64}
    )


def test_musicgen_has_cosines_first_over_half_the_channels_less_one() -> None:
    """Frequency 5 of 32 is 10000^(-5/31), by tensor2tensor's formula; cosines have channels 0 to
    31.
    """
    found = only_encoding(
        {"model_type": "musicgen_decoder", "hidden_size": 64, "max_position_embeddings": 16}
    )
    table = pecli.Sinusoidal(**found.parameters, dtype="float64").tables()["pe"]
    angle = 3 / 10000 ** (5 / 31)

    assert table[3, 5] == pytest.approx(math.cos(angle))
    assert table[3, 37] == pytest.approx(math.sin(angle))


def test_speecht5_has_four_tables() -> None:
    """The lengths are the config's; the styles were read from modeling_speecht5.py."""
    sizes = {"hidden_size": 768, "max_speech_positions": 1876, "max_text_positions": 600}
    model = load_config({"model_type": "speecht5", **sizes})

    assert {
        each.layer_type: (each.parameters["seq_len"], each.parameters["style"]) for each in model
    } == {
        "speech_encoder": (1876, "fairseq"),
        "text_encoder": (600, "paper"),
        "speech_decoder": (1876, "paper"),
        "text_decoder": (600, "fairseq"),
    }
    assert any("learned scales" in warning for warning in model.warnings)


CONFIGS_OF_TOWERS = stored("tables.json")["towers"]
"""Beside rope, or instead of it; rows of the class token included."""


@pytest.mark.parametrize("name", CONFIGS_OF_TOWERS)
def test_vision_towers_have_learned_tables_of_their_patches(name: str) -> None:
    """The rows of each tower's tables were written by hand from the models' code; (448 / 14)²
    patches, and one for a class token.
    """
    model_type, more, expected = CONFIGS_OF_TOWERS[name]
    vision = {"model_type": model_type, **VISION, **more}
    model = load_config({"model_type": name, "vision_config": vision})
    tower = [encoding for encoding in model if encoding.part == "vision"]
    rows = {encoding.layer_type: encoding.parameters.get("max_len") for encoding in tower}

    assert rows == expected

    learned = [encoding for encoding in model if encoding.scheme == "learned" and encoding.part]
    assert {encoding.parameters["dim"] for encoding in learned} == {1152}
    assert model.one("vision").scheme == ("rope" if None in expected.values() else "learned")
    assert any("tile" in warning for warning in model.warnings) == (name == "mllama")


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


@pytest.mark.parametrize(("value", "count"), [(True, 0), (False, 1)])
def test_deberta_without_relative_attention_is_warned_about(value: bool, count: int) -> None:
    """relative_attention switches DeBERTa's distances on; without it, the buckets of the
    configuration are unused.
    """
    config = {"model_type": "deberta-v2", "position_buckets": 256, "relative_attention": value}
    assert len(load_config({**config, "max_position_embeddings": 512}).warnings) == count


SIZES = {"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}


@pytest.mark.parametrize(
    ("keys", "scheme"),
    [
        ({"model_type": "bert"}, "rope"),
        ({"model_type": "t5", "relative_attention_num_buckets": 32}, "rope"),
        ({"model_type": "deberta-v2", "relative_attention": True, "position_buckets": 32}, "rope"),
        ({"model_type": "vit_mae", "image_size": 32, "patch_size": 16}, "rope"),
        ({"model_type": "whisper", "max_target_positions": 64}, "rope"),
        ({"model_type": "bloom"}, "alibi"),
    ],
)
def test_only_alibi_is_certain_beside_keys_of_rope(keys: dict[str, Any], scheme: str) -> None:
    """Files of models with ALiBi often have a `rope_theta` that their code ignores."""
    (encoding,) = load_config({**SIZES, **keys, "rope_theta": 5e5})
    assert encoding.scheme == scheme
