"""Words and keys that name an encoding, beside the family that a model_type names.

position_embedding_type is such a word («absolute», «alibi», «rope»), rope_theta and attn_config are
such keys. Which classes read them was read from transformers; LLAMA_CONFIG and SMALL_CONFIG have
the sizes of rotary models.
"""

import math
from typing import Any

import pytest

from pecli.models.find import load_config
from tests.models.configs import LLAMA_CONFIG, SMALL_CONFIG, Config


def schemes_of(config: Config) -> list[str]:
    return [encoding.scheme for encoding in load_config(config)]


def schemes_with_word(model_type: str, word: str, **keys: Any) -> list[str]:
    """Return the schemes of a Llama's configuration with another type and this word for positions."""
    config = {**LLAMA_CONFIG, "model_type": model_type, "position_embedding_type": word, **keys}
    return schemes_of(config)


@pytest.mark.parametrize("model_type", ["llama", "gptj", "qwen2", "mistral"])
@pytest.mark.parametrize("word", ["absolute", "learned", "alibi"])
def test_classes_that_always_rotate_ignore_position_embedding_type(
    model_type: str, word: str
) -> None:
    """In transformers, the classes of these model types have no code for other positions."""
    assert schemes_with_word(model_type, word, rope_theta=1e4) == ["rope"]


@pytest.mark.parametrize("model_type", ["esm", "bert"])
def test_classes_with_a_choice_read_position_embedding_type(model_type: str) -> None:
    """In transformers, ESM and BERT add a learned table if the word is «absolute»."""
    assert schemes_with_word(model_type, "absolute") == ["learned"]


def test_an_unknown_class_has_the_encoding_of_position_embedding_type() -> None:
    """No project has a model type «wibble», of which the word is all that is known."""
    assert schemes_with_word("wibble", "alibi") == ["alibi"]


@pytest.mark.parametrize("word", ["nope", "none"])
def test_granitemoehybrid_has_no_positions_unless_its_word_is_rope(word: str) -> None:
    """GraniteMoeHybrid's class in transformers rotates only if position_embedding_type is «rope»."""
    config = {**SMALL_CONFIG, "model_type": "granitemoehybrid", "position_embedding_type": word}
    assert schemes_of(config) == []


@pytest.mark.parametrize(
    ("model_type", "word"),
    [
        ("granitemoehybrid", "rope"),
        ("granite", "nope"),
        ("granite", "none"),
        ("granite", "rope"),
    ],
)
def test_granite_rotates_whatever_its_key_states_and_granitemoehybrid_by_rope(
    model_type: str, word: str
) -> None:
    """Granite's class in transformers always rotates; GraniteMoeHybrid's does if
    position_embedding_type is «rope».
    """
    config = {**SMALL_CONFIG, "model_type": model_type, "position_embedding_type": word}
    assert schemes_of(config) == ["rope"]


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        pytest.param({**SMALL_CONFIG, "model_type": "gpt2"}, "rope", id="GPT-2 with rope_theta"),
        pytest.param(
            {
                "model_type": "foo",
                "d_model": 64,
                "n_heads": 4,
                "attn_config": {"alibi": True},
            },
            "alibi",
            id="an unknown class with alibi",
        ),
        pytest.param(
            {"hidden_size": 64, "num_attention_heads": 4, "position_embedding_type": "rotary"},
            "rope",
            id="no class, and the word rotary",
        ),
        pytest.param(
            {"d_model": 64, "n_heads": 4, "attn_config": {"rope": True}},
            "rope",
            id="no class, and rope in attn_config",
        ),
    ],
)
def test_keys_name_the_encoding_of_a_class_without_a_choice(config: Config, scheme: str) -> None:
    """GPT-2's class has no rope, so a rope_theta (in SMALL_CONFIG) is a sign of changed code. For an
    unknown class, attn_config (MPT's key) or position_embedding_type decides.
    """
    assert schemes_of(config) == [scheme]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"d_model": 64, "n_heads": 4, "attn_config": {"rope": False}}, id="MPT"),
        pytest.param({"model_type": "bert", "position_embedding_type": "relative"}, id="BERT"),
        pytest.param(
            {**SMALL_CONFIG, "position_embedding_type": "relative_key_query"}, id="rope_theta"
        ),
    ],
)
def test_a_model_without_an_encoding_that_pecli_makes_has_none(config: Config) -> None:
    """MPT without rope and alibi has none; «relative», in BERT and in files with a rope_theta that
    is left over, adds learned embeddings of distances, which no scheme is.
    """
    assert schemes_of(config) == []


def test_the_word_absolute_of_bert_means_its_learned_table() -> None:
    """«absolute» is the default of position_embedding_type in BERT's class."""
    model = load_config({"model_type": "bert", "position_embedding_type": "absolute"})
    assert [encoding.scheme for encoding in model] == ["learned"]
    assert model.warnings == ()


def test_rope_theta_overrules_position_embedding_type_with_a_warning() -> None:
    """SMALL_CONFIG has rope_theta and no model_type that would decide; the first warning is about
    the missing model_type.
    """
    model = load_config({**SMALL_CONFIG, "position_embedding_type": "learned"})
    assert model.warnings[1] == (
        "position_embedding_type is 'learned', but other keys ask for rope, which is what is read"
    )


def test_a_position_embedding_type_that_agrees_with_the_class_is_not_reported() -> None:
    """A Llama rotates whatever the word is; here it is «rope»."""
    config = {**SMALL_CONFIG, "model_type": "llama", "position_embedding_type": "rope"}
    assert load_config(config).warnings == ()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        pytest.param({"hidden_size": 3}, "no key that is read here names one", id="only a size"),
        pytest.param(
            {"model": {"wibble": 1}}, "no key that is read here names one", id="an unknown key"
        ),
        pytest.param(
            {"model": {"_component_": "torchtune.models.llama3"}},
            "model._component_ is 'torchtune.models.llama3', whose code says what it has",
            id="torchtune",
        ),
    ],
)
def test_a_warning_states_why_no_encoding_was_found(config: Config, reason: str) -> None:
    """Usually no key names an encoding. torchtune's configs name a function in `_component_`, whose
    code decides.
    """
    assert load_config(config).warnings == (f"no positional encoding was found: {reason}",)


def test_an_unknown_key_about_rope_is_no_encoding() -> None:
    """No project has rope_wibble, so that nothing is known of its meaning."""
    expected = "no positional encoding was found: no key that is read here names one"
    assert load_config({"rope_wibble": 3}).warnings[0] == expected


def test_the_learned_embeddings_of_distances_of_vits_are_described_in_a_warning() -> None:
    """VITS in transformers has them (emb_rel_k, emb_rel_v); pecli has no scheme for them."""
    assert load_config({"model_type": "vits"}).warnings == (
        "attention of its text encoder adds learned embeddings by distance, up to window_size on either side:"
        " emb_rel_k to keys, emb_rel_v to values",
    )


def test_the_table_of_eomt_has_a_row_per_patch_and_none_for_a_class_token() -> None:
    """EoMT at the defaults of its class in transformers: images of 640 pixels in patches of 16 have
    (640 / 16)² = 1600 patches, and no row for a class token.
    """
    model = load_config({"model_type": "eomt"})
    assert model.one().parameters == {"max_len": (640 // 16) ** 2, "dim": 1024}
    assert model.warnings == ()


@pytest.mark.parametrize("model_type", ["dpr", "canine"])
def test_the_only_table_of_a_class_has_an_empty_layer_type(model_type: str) -> None:
    """DPR and CANINE are encoders with a single learned table, which needs no name."""
    assert [encoding.layer_type for encoding in load_config({"model_type": model_type})] == [""]


def test_the_buckets_of_t5_are_read_from_its_keys() -> None:
    """The values are those of T5's keys, under the names of pecli's parameters. The first encoding is
    the encoder's, which sees both sides (not causal).
    """
    config = {
        "model_type": "t5",
        "relative_attention_max_distance": 64,
        "relative_attention_num_buckets": 16,
        "n_positions": 100,
    }
    assert load_config(config).encodings[0].parameters == {
        "style": "t5",
        "seq_len": 100,
        "buckets": 16,
        "max_distance": 64,
        "causal": False,
    }


def test_the_grid_of_detr_is_that_of_a_usual_image() -> None:
    """DETR's config states no size of images. 800 x 1066 pixels are usual, at stride 32 (rounded up);
    256 channels are the default of d_model.
    """
    assert load_config({"model_type": "detr"}).one().parameters == {
        "grid": (math.ceil(800 / 32), math.ceil(1066 / 32)),
        "dim": 256,
        "style": "detr",
        "base": 10000.0,
    }
