"""Heads of a model's language part: other parts, and heads that rotate along axes of images, do not
count.
"""

import pytest

from pecli.tensors.model_heads import attention_of
from tests.models.configs import LLAMA_CONFIG, SMALL_CONFIG, Config

TEACHER: Config = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5.0}


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        ({**LLAMA_CONFIG, "teacher_config": TEACHER}, "head_dim", 128),
        ({**SMALL_CONFIG, "model_type": "my_vision"}, "rotary_dim", None),
        (
            {
                "model_type": "dbrx",
                "d_model": 64,
                "n_heads": 8,
                "attn_config": {"kv_n_heads": 2, "rope_theta": 5e5},
            },
            "kv_heads",
            2,
        ),
        ({"model_type": "llama"}, "heads", 32),
        ({"model_type": "llama", "num_attention_heads": [4, 8], "head_dim": 64}, "heads", None),
        ({"model_type": "gpt2", "audio_config": SMALL_CONFIG}, "rotary_dim", None),
        ({"model_type": "mamba", "hidden_size": 64}, "head_dim", None),
    ],
)
def test_the_heads_of_the_language_model(config: Config, field: str, value: int | None) -> None:
    """Sizes are read from the language model's own keys; None stands for a model that has no such
    heads.
    """
    assert getattr(attention_of(config), field) == value
