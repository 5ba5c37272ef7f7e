"""Words and keys that name an encoding, beside the family that a model_type names.

position_embedding_type is such a word («absolute», «alibi», «rope»), rope_theta and attn_config are
such keys. Which classes read them was read from transformers; LLAMA_CONFIG and SMALL_CONFIG have
the sizes of rotary models.
"""

import pytest

from pecli.models.find import load_config
from tests.models.configs import LLAMA_CONFIG, SMALL_CONFIG, Config


def schemes_of(config: Config) -> list[str]:
    return [encoding.scheme for encoding in load_config(config)]


@pytest.mark.parametrize(
    ("model_type", "word", "keys", "scheme"),
    [
        ("llama", "absolute", {}, "rope"),
        ("gptj", "learned", {}, "rope"),
        ("llama", "alibi", {"rope_theta": 1e4}, "rope"),
        ("qwen2", "alibi", {"rope_theta": 1e4}, "rope"),
        ("mistral", "alibi", {"rope_theta": 1e4}, "rope"),
        ("esm", "absolute", {}, "learned"),
        ("bert", "absolute", {}, "learned"),
        ("wibble", "alibi", {}, "alibi"),
    ],
)
def test_a_class_that_always_rotates_ignores_the_word(
    model_type: str, word: str, keys: Config, scheme: str
) -> None:
    """position_embedding_type is read only by classes that have a choice, such as ESM and BERT, and
    for unknown ones.
    """
    config = {**LLAMA_CONFIG, "model_type": model_type, "position_embedding_type": word, **keys}
    assert schemes_of(config) == [scheme]


@pytest.mark.parametrize("word", ["nope", "none"])
def test_granite_hybrid_may_have_no_positions(word: str) -> None:
    """GraniteMoeHybrid's class rotates only if the word is «rope»."""
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
    """Granite's class has no such choice."""
    config = {**SMALL_CONFIG, "model_type": model_type, "position_embedding_type": word}
    assert schemes_of(config) == ["rope"]


@pytest.mark.parametrize(
    ("config", "scheme"),
    [
        ({**SMALL_CONFIG, "model_type": "gpt2"}, "rope"),
        (
            {
                "model_type": "foo",
                "d_model": 64,
                "n_heads": 4,
                "attn_config": {"alibi": True},
            },
            "alibi",
        ),
        (
            {"hidden_size": 64, "num_attention_heads": 4, "position_embedding_type": "rotary"},
            "rope",
        ),
        ({"d_model": 64, "n_heads": 4, "attn_config": {"rope": True}}, "rope"),
    ],
)
def test_keys_name_the_encoding_of_a_class_without_a_choice(config: Config, scheme: str) -> None:
    """For a class without a choice, or an unknown one, keys such as rope_theta and attn_config
    decide.
    """
    assert schemes_of(config) == [scheme]


@pytest.mark.parametrize(
    "config",
    [
        {"d_model": 64, "n_heads": 4, "attn_config": {"rope": False}},
        {"model_type": "bert", "position_embedding_type": "relative"},
        {**SMALL_CONFIG, "position_embedding_type": "relative_key_query"},
    ],
)
def test_a_model_without_an_encoding_that_pecli_makes_has_none(config: Config) -> None:
    """MPT without rope and alibi has none; «relative», in BERT and in files with a rope_theta that
    is left over, adds learned embeddings of distances, which no scheme is.
    """
    assert schemes_of(config) == []


def test_a_learned_table_may_be_called_absolute() -> None:
    """BERT's own word for its table."""
    model = load_config({"model_type": "bert", "position_embedding_type": "absolute"})
    assert [encoding.scheme for encoding in model] == ["learned"]
    assert model.warnings == ()


def test_keys_about_rope_overrule_a_word() -> None:
    """SMALL_CONFIG has rope_theta and no model_type that would decide."""
    model = load_config({**SMALL_CONFIG, "position_embedding_type": "learned"})
    assert model.warnings[1] == (
        "position_embedding_type is 'learned', but other keys ask for rope, which is what is read"
    )


def test_a_word_that_agrees_is_not_reported() -> None:
    """A Llama rotates, and its word says so."""
    config = {**SMALL_CONFIG, "model_type": "llama", "position_embedding_type": "rope"}
    assert load_config(config).warnings == ()


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"hidden_size": 3}, "no key that is read here names one"),
        ({"model": {"wibble": 1}}, "no key that is read here names one"),
        (
            {"model": {"_component_": "torchtune.models.llama3"}},
            "model._component_ is 'torchtune.models.llama3', whose code says what it has",
        ),
    ],
)
def test_a_warning_states_why_no_encoding_was_found(config: Config, reason: str) -> None:
    """torchtune names a function in `_component_`, whose code decides."""
    assert load_config(config).warnings == (f"no positional encoding was found: {reason}",)


def test_nothing_is_found_in_an_unknown_key() -> None:
    """rope_wibble sounds like an encoding, but no project has it."""
    expected = "no positional encoding was found: no key that is read here names one"
    assert load_config({"rope_wibble": 3}).warnings[0] == expected


def test_learned_embeddings_of_distances_are_described() -> None:
    """VITS in transformers has them; pecli has no scheme for them."""
    assert load_config({"model_type": "vits"}).warnings == (
        "attention of its text encoder adds learned embeddings by distance, up to window_size on either side:"
        " emb_rel_k to keys, emb_rel_v to values",
    )


def test_a_table_of_patches_without_a_class_token() -> None:
    """EoMT at the defaults of its class in transformers: images of 640 pixels in patches of 16 have
    (640 / 16)² = 1600 patches, and no row for a class token.
    """
    model = load_config({"model_type": "eomt"})
    assert model.one().parameters == {"max_len": 1600, "dim": 1024}
    assert model.warnings == ()


@pytest.mark.parametrize("model_type", ["dpr", "canine"])
def test_a_class_with_one_table_gives_it_no_name(model_type: str) -> None:
    """DPR and CANINE are encoders with a single learned table."""
    assert [encoding.layer_type for encoding in load_config({"model_type": model_type})] == [""]


def test_the_buckets_of_t5_are_read_from_its_keys() -> None:
    """T5's keys, under the names of pecli's parameters; its encoder sees both sides (not causal)."""
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
    """25 x 34 are 800 x 1066 pixels, DETR's usual size, at stride 32 (rounded up)."""
    assert load_config({"model_type": "detr"}).one().parameters == {
        "grid": (25, 34),
        "dim": 256,
        "style": "detr",
        "base": 10000.0,
    }
