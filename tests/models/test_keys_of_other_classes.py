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
def test_a_base_of_another_class_is_ignored(model_type: str, key: str) -> None:
    """transformers 5.23 reads `rope_theta`, or `rope_parameters`, and takes 10000 or its class's base."""
    plain = load_config({"model_type": model_type, **SIZES})
    model = load_config({"model_type": model_type, **SIZES, key: 123456.0})

    assert model.one().parameters == plain.one().parameters
    assert any(key in warning and "ignores" in warning for warning in model.warnings)


@pytest.mark.parametrize("model_type", ["llama", "qwen3", "starcoder2"])
@pytest.mark.parametrize("key", ["rotary_pct", "rope_pct", "rotary_percent"])
def test_a_fraction_of_another_class_is_ignored(model_type: str, key: str) -> None:
    """Llama's class in transformers rotates whole heads; `rotary_pct` is a key of GPT-NeoX."""
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
def test_a_class_reads_its_own_key(model_type: str, key: str) -> None:
    """GPT-NeoX calls its base rotary_emb_base; of an unknown class, any name of a base is read."""
    model = load_config({"model_type": model_type, **SIZES, key: 123456.0})
    assert model.one().parameters["base"] == 123456.0
