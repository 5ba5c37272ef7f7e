"""Language models within a part, and keys that only another runtime reads.

A «thinker» is the part of Qwen's speech models that holds the language model. mlx-lm is Apple's
runtime, which reads keys that transformers ignores.
"""

from typing import Any

import pytest

from pecli.models.find import load_config

TEXT = {
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "head_dim": 64,
    "rope_theta": 1e6,
}


@pytest.mark.parametrize("model_type", ["qwen3_asr", "qwen2_5_omni"])
@pytest.mark.parametrize("audio", [{}, {"audio_config": {"d_model": 896}}])
def test_the_language_model_of_a_thinker_replaces_the_default_one_of_the_class(
    model_type: str, audio: dict[str, Any]
) -> None:
    """thinker_config of Qwen's speech models holds the language model, here with base 1e6. The
    language model that the class has by default, with base 10000, must not be read besides.
    """
    thinker = {"model_type": f"{model_type}_thinker", "text_config": TEXT, **audio}
    model = load_config({"model_type": model_type, "thinker_config": thinker})

    assert [rope.parameters["base"] for rope in model.ropes()] == [1e6]


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "mistral"])
def test_rope_traditional_leaves_the_layout_of_transformers_and_has_a_warning_about_mlx(
    model_type: str,
) -> None:
    """The key means interleaved pairs in mlx-lm; transformers' classes ignore it and rotate halves."""
    sizes = {"hidden_size": 256, "num_attention_heads": 2}
    model = load_config({"model_type": model_type, **sizes, "rope_traditional": True})

    assert model.one().layout == "halves"
    assert any("mlx-lm" in warning for warning in model.warnings)
