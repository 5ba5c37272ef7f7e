"""The heads of a model's language part, as `convert` needs them: how many, how wide, how much of
them rotates.

Keys of other parts (a teacher, a tower for images or sound) and heads that rotate along axes of
images do not count. The sizes follow by division from each configuration, such as 4096 / 32 = 128
channels of Llama; they are class defaults of transformers if it has none.
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
def test_heads_are_read_from_the_language_part_alone(
    config: Config, field: str, value: int | None
) -> None:
    """Sizes are read from the language model's own keys; None stands for a model that has no such
    heads.
    """
    assert getattr(attention_of(config), field) == value
