"""Keys that only other classes of transformers read do not change a model; a warning names them.

Which class reads which key was read from transformers 5.23. 123456 and 0.25 are values that no
class has by default, so that reading the key would show. Heads have 256 / 2 = 128 channels.
"""

import pytest

from pecli.models.find import load_config

SIZES = {"hidden_size": 256, "num_attention_heads": 2}


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "mistral", "gemma", "phi3", "olmo2"])
@pytest.mark.parametrize(
    "key", ["rope_base", "rotary_emb_base", "rope_freq_base", "global_rope_theta"]
)
def test_a_key_of_the_base_that_only_another_class_reads_is_ignored_with_a_warning(
    model_type: str, key: str
) -> None:
    """These classes of transformers 5.23 read `rope_theta` or `rope_parameters`; GPT-NeoX's
    `rotary_emb_base`, for example, changes nothing in a Llama. 123456 is no class's default.
    """
    without_key = load_config({"model_type": model_type, **SIZES})
    model = load_config({"model_type": model_type, **SIZES, key: 123456.0})

    assert model.one().parameters == without_key.one().parameters
    assert any(key in warning and "ignores" in warning for warning in model.warnings)


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "starcoder2"])
@pytest.mark.parametrize("key", ["rotary_pct", "rope_pct", "rotary_percent"])
def test_a_key_of_the_rotary_fraction_that_only_another_class_reads_is_ignored_with_a_warning(
    model_type: str, key: str
) -> None:
    """GPT-NeoX's class rotates the fraction `rotary_pct` of a head; these classes of transformers
    5.23 do not read such a key, and rotate whole heads.
    """
    model = load_config({"model_type": model_type, **SIZES, key: 0.25})
    assert model.one().rotary_dim == model.one().head_dim
    assert any(key in warning and "ignores" in warning for warning in model.warnings)


@pytest.mark.parametrize(
    ("model_type", "key"),
    [
        ("gpt_neox", "rotary_emb_base"),
        ("gpt_neox_japanese", "rotary_emb_base"),
        ("llama", "rope_theta"),
        ("a_type_that_nobody_knows", "rotary_emb_base"),
    ],
)
def test_a_class_reads_the_base_from_its_own_key(model_type: str, key: str) -> None:
    """In transformers, GPT-NeoX calls its base rotary_emb_base, and Llama rope_theta; of an unknown
    class, any name of a base is read.
    """
    model = load_config({"model_type": model_type, **SIZES, key: 123456.0})
    assert model.one().parameters["base"] == 123456.0


@pytest.mark.parametrize(("model_type", "has_indexer"), [("deepseek_v32", True), ("llama", False)])
def test_a_key_of_the_indexer_has_a_warning_about_its_rotation_only_if_the_class_has_an_indexer(
    model_type: str, has_indexer: bool
) -> None:
    """DeepSeek-V3.2 selects the keys that a query attends to by an indexer, which rotates heads of its
    own; index_head_dim is their width. Llama's class has no indexer, and ignores the key.
    """
    warnings = load_config({"model_type": model_type, **SIZES, "index_head_dim": 128}).warnings
    assert any("the indexer rotates" in warning for warning in warnings) == has_indexer
