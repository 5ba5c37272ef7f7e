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
def test_a_thinker_holds_the_only_language_model(model_type: str, audio: dict[str, Any]) -> None:
    """The class's default language model, with a base of 10000, is not there beside it."""
    thinker = {"model_type": f"{model_type}_thinker", "text_config": TEXT, **audio}
    model = load_config({"model_type": model_type, "thinker_config": thinker})

    assert [rope.parameters["base"] for rope in model.ropes()] == [1e6]


@pytest.mark.parametrize("model_type", ["llama", "qwen2", "mistral"])
def test_rope_traditional_changes_nothing_but_is_reported_for_mlx(model_type: str) -> None:
    """In mlx-lm it means interleaved pairs; transformers' classes rotate halves whatever it says."""
    sizes = {"hidden_size": 256, "num_attention_heads": 2}
    model = load_config({"model_type": model_type, **sizes, "rope_traditional": True})

    assert model.one().layout == "halves"
    assert any("mlx-lm" in warning for warning in model.warnings)
