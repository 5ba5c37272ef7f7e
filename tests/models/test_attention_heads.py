"""The heads of a model's language part, as `convert` needs them: how many, how wide, how much of
them rotates.

Keys of other parts (a teacher, a tower for images or sound) and heads that rotate along axes of
images do not count. The sizes follow by division from each configuration, such as 4096 / 32 = 128
channels of Llama; they are class defaults of transformers if it has none.
"""

import pytest

import pecli
from pecli.tensors.model_heads import attention_of
from tests.models.configs import LLAMA_CONFIG, SMALL_CONFIG, Config

TEACHER: Config = {"hidden_size": 64, "num_attention_heads": 4, "rope_theta": 5.0}


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        pytest.param(
            {**LLAMA_CONFIG, "teacher_config": TEACHER},
            "head_dim",
            4096 // 32,
            id="a teacher of 64 / 4 channels does not count",
        ),
        pytest.param(
            {**SMALL_CONFIG, "model_type": "my_vision"},
            "rotary_dim",
            None,
            id="a model of images rotates along two axes",
        ),
        pytest.param(
            {
                "model_type": "dbrx",
                "d_model": 64,
                "n_heads": 8,
                "attn_config": {"kv_n_heads": 2, "rope_theta": 5e5},
            },
            "kv_heads",
            2,
            id="kv_n_heads is DBRX's key",
        ),
        pytest.param({"model_type": "llama"}, "heads", 32, id="default of LlamaConfig"),
        pytest.param(
            {"model_type": "llama", "num_attention_heads": [4, 8], "head_dim": 64},
            "heads",
            None,
            id="another number of heads in each layer",
        ),
        pytest.param(
            {"model_type": "gpt2", "audio_config": SMALL_CONFIG},
            "rotary_dim",
            None,
            id="the part for sound rotates, GPT-2 does not",
        ),
        pytest.param(
            {"model_type": "mamba", "hidden_size": 64}, "head_dim", None, id="Mamba has no heads"
        ),
    ],
)
def test_the_size_of_heads_is_that_of_the_language_model_or_none(
    config: Config, field: str, value: int | None
) -> None:
    """`convert` moves rows by the heads of the language model, so the heads of other parts must not
    count. LLAMA_CONFIG has 32 heads in 4096 channels, SMALL_CONFIG a rope and 4 heads in 64
    channels; None means that the model has no single such number.
    """
    assert getattr(attention_of(config), field) == value


def _warnings_of_divided_width(config: Config) -> list[str]:
    return [text for text in pecli.load_model(config).warnings if "no multiple" in text]


@pytest.mark.parametrize(
    ("config", "numbers"),
    [
        pytest.param({"hidden_size": 4100}, ("4100", "32", "128"), id="4100 = 32 · 128 + 4"),
        pytest.param({"num_attention_heads": 30}, ("4096", "30", "136"), id="4096 = 30 · 136 + 16"),
    ],
)
def test_a_width_that_heads_do_not_divide_is_warned_of(
    config: Config, numbers: tuple[str, ...]
) -> None:
    """transformers refuses such a Llama («The hidden size is not a multiple of the number of attention
    heads»), so that one of the numbers must be wrong. LLAMA_CONFIG has 32 heads in 4096 channels.
    """
    (warning,) = _warnings_of_divided_width({**LLAMA_CONFIG, **config})
    assert all(number in warning for number in numbers)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({}, id="4096 = 32 · 128"),
        pytest.param({"hidden_size": 4100, "head_dim": 64}, id="head_dim is stated"),
    ],
)
def test_a_width_that_is_not_divided_or_leaves_nothing_is_not_warned_of(config: Config) -> None:
    """4096 channels are 32 heads of 128; a stated size needs no division."""
    assert _warnings_of_divided_width({**LLAMA_CONFIG, **config}) == []
