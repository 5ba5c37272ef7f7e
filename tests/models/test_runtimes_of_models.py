"""Runtimes that replace parameters of a model because of other keys of its configuration.

A runtime is a program that runs models (candle, TensorRT-LLM, exllamav3, vLLM, …); an adaptation
has the parameters that it changes, and the cause in words. What each does was read from its source.
"""

import pytest

from pecli.engine.runtimes import runtime_named
from pecli.engine.runtimes.runtime import Adaptation
from pecli.models.find import load_config
from tests.models.configs import LINEAR_SCALING, LLAMA_CONFIG, SMALL_CONFIG, YARN_SCALING, Config


def adaptation_by(runtime: str, config: Config) -> Adaptation:
    return runtime_named(runtime).adapted(load_config(config).one())


@pytest.mark.parametrize(
    ("keys", "departs"),
    [
        pytest.param({"model_type": "qwen2"}, False, id="Qwen 2 unscaled"),
        pytest.param(
            {"model_type": "qwen2", "rope_scaling": LINEAR_SCALING}, True, id="Qwen 2 scaled"
        ),
        pytest.param(
            {"model_type": "llama", "rope_scaling": LINEAR_SCALING}, False, id="Llama scaled"
        ),
    ],
)
def test_candle_departs_from_a_config_of_qwen_2_with_a_scaling(keys: Config, departs: bool) -> None:
    """By candle's source, qwen2.rs does not read rope_scaling, and llama.rs does. The cause of a
    departure is stated in words.
    """
    cause = adaptation_by("candle", {**SMALL_CONFIG, **keys}).cause
    assert ("rope_scaling of qwen2" in cause) is departs


def test_candle_keeps_the_parameters_of_a_model_without_a_scaling() -> None:
    """Without rope_scaling there is nothing that candle could miss."""
    assert adaptation_by("candle", {**SMALL_CONFIG, "model_type": "qwen2"}).parameters == {}


def test_tensorrt_llm_keeps_the_parameters_of_yarn_if_the_original_length_is_given() -> None:
    """An adaptation has the parameters that a runtime changes: none here. By its source, TensorRT-LLM
    departs only if the original length is missing; YARN_SCALING has it.
    """
    adaptation = adaptation_by("tensorrt-llm", {**SMALL_CONFIG, "rope_scaling": YARN_SCALING})
    assert adaptation.parameters == {}


MODEL_WITH_YARN: Config = {
    "model_type": "llama",
    "head_dim": 128,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "rope_scaling": {
        "type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
    },
}
"""YaRN by 4, with an original length that would make 8192 / 4096 = 2; no betas and no mscales."""


def with_yarn_settings(**settings: object) -> Config:
    """Return MODEL_WITH_YARN with other settings of rope_scaling; None removes one."""
    changed = {**MODEL_WITH_YARN["rope_scaling"], **settings}
    present = {name: value for name, value in changed.items() if value is not None}
    return {**MODEL_WITH_YARN, "rope_scaling": present}


def slowest_frequency(runtime: str, config: Config) -> float:
    """Return the last frequency that a runtime computes; unscaled, it is 10000^(−126/128)."""
    rope = load_config(config).one().rope(seq_len=16, runtime=runtime)
    return float(rope.tables()["inv_freq"][-1])


UNSCALED_SLOWEST = 10000 ** (-126 / 128)


def test_onnxruntime_genai_does_not_apply_yarn_if_beta_fast_is_missing() -> None:
    """By its source, the model builder recognises YaRN by the key beta_fast. transformers fills in 32,
    and the adaptation removes that (None), so that frequencies stay unscaled.
    """
    config = with_yarn_settings(beta_fast=None)
    assert adaptation_by("onnxruntime-genai", config).parameters == {"beta_fast": None}
    slowest = slowest_frequency("onnxruntime-genai", config)
    assert slowest == pytest.approx(UNSCALED_SLOWEST, rel=1e-6)


def test_onnxruntime_genai_applies_yarn_if_beta_fast_is_given() -> None:
    """YaRN by 4 divides the slowest frequency by 4; nothing is adapted."""
    config = with_yarn_settings(beta_fast=32.0)
    assert adaptation_by("onnxruntime-genai", config).parameters == {}
    slowest = slowest_frequency("onnxruntime-genai", config)
    assert slowest == pytest.approx(UNSCALED_SLOWEST / 4, rel=1e-6)


def without_keys(settings: Config, *names: str) -> Config:
    return {name: value for name, value in settings.items() if name not in names}


def test_exllamav3_goes_by_the_factor_if_the_original_length_is_missing() -> None:
    """Without an original length there is no quotient of lengths, and ExLlamaV3 takes the factor, 4. The
    adaptation removes max_position_embeddings (None), of which the quotient would be made.
    """
    config = with_yarn_settings(original_max_position_embeddings=None)
    assert adaptation_by("exllamav3", config).parameters == {"max_position_embeddings": None}
    slowest = slowest_frequency("exllamav3", config)
    assert slowest == pytest.approx(UNSCALED_SLOWEST / 4, rel=1e-6)


def test_exllamav3_keeps_both_lengths_if_the_original_length_is_given() -> None:
    """By its source, ExLlamaV3 computes YaRN's factor as max_position_embeddings / original length. It
    needs both as they are in MODEL_WITH_YARN, so that the adaptation changes nothing.
    """
    assert adaptation_by("exllamav3", MODEL_WITH_YARN).parameters == {}


@pytest.mark.parametrize(
    ("model_type", "changes"),
    [
        pytest.param("llama", {"mscale": None, "mscale_all_dim": None}, id="Llama: both removed"),
        pytest.param("deepseek_v3", {}, id="DeepSeek-V3: both used"),
    ],
)
def test_exllamav3_uses_mscales_only_for_deepseek(model_type: str, changes: Config) -> None:
    """Two mscales make the attention factor a ratio. By its source, ExLlamaV3 has that for DeepSeek-V3
    only; the adaptation of any other model removes both (None).
    """
    config = with_yarn_settings(mscale=1.0, mscale_all_dim=0.5)
    adaptation = adaptation_by("exllamav3", {**config, "model_type": model_type})
    assert adaptation.parameters == changes


def test_exllamav3_changes_mscales_and_lengths_of_one_config_independently() -> None:
    """A Llama has mscales, which ExLlamaV3 does not use, and no original length, so that it goes by the
    factor and not by max_position_embeddings. None removes a parameter.
    """
    config = with_yarn_settings(
        mscale=1.0, mscale_all_dim=0.5, original_max_position_embeddings=None
    )
    assert adaptation_by("exllamav3", config).parameters == {
        "max_position_embeddings": None,
        "mscale": None,
        "mscale_all_dim": None,
    }


FIVE_RUNTIMES = ["transformers", "vllm", "llama.cpp", "mlx-lm", "sglang"]
"""Runtimes whose source was read for what they do with contexts, prompts and images."""


@pytest.mark.parametrize("name", FIVE_RUNTIMES)
def test_of_five_runtimes_only_vllm_has_tables_that_end_at_the_context(name: str) -> None:
    """Others compute the angle of any position, or make their tables longer when they need to."""
    assert runtime_named(name).limits_to_context == (name == "vllm")


@pytest.mark.parametrize("name", FIVE_RUNTIMES)
def test_of_five_runtimes_transformers_and_sglang_follow_the_length_of_the_prompt(
    name: str,
) -> None:
    """LongRoPE has two sets of factors, for short prompts and for long ones. The other runtimes
    choose by the context that they serve, however short a prompt is.
    """
    follows_prompt = not runtime_named(name).ignores_prompt
    assert follows_prompt == (name in {"transformers", "sglang"})


@pytest.mark.parametrize("name", FIVE_RUNTIMES)
def test_of_five_runtimes_only_mlx_lm_has_no_positions_of_images(name: str) -> None:
    """mlx-lm serves text only, and so has no M-RoPE."""
    assert runtime_named(name).text_only == (name == "mlx-lm")


@pytest.mark.parametrize("runtime", ["tensorrt-llm", "exllamav3"])
def test_only_yarn_without_its_original_length_is_changed_by_tensorrt_llm_and_exllamav3(
    runtime: str,
) -> None:
    """By their source, both have a rule for YaRN without an original length: TensorRT-LLM takes 1024,
    and ExLlamaV3 goes by the factor. They have none for longrope, which they read as transformers
    does: the adaptation has no changes.
    """
    longrope: Config = {
        "model_type": "phi3",
        "hidden_size": 64,
        "num_attention_heads": 8,
        "max_position_embeddings": 4096,
        "rope_scaling": {
            "type": "longrope",
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
        },
    }
    yarn = with_yarn_settings(original_max_position_embeddings=None)

    assert adaptation_by(runtime, longrope).parameters == {}
    assert adaptation_by(runtime, yarn).parameters != {}


LLAMA_3_SCALING = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}


def llama_3_config(top: int | None, nested: int | None) -> Config:
    """Return a Llama of 16,384 positions with original lengths at the top and in rope_scaling."""
    lengths = {"max_position_embeddings": 16384, "original_max_position_embeddings": top}
    scaling = {**LLAMA_3_SCALING, "original_max_position_embeddings": nested}
    return {**LLAMA_CONFIG, **lengths, "rope_scaling": scaling}


@pytest.mark.parametrize(
    ("top", "nested", "length_in_llama_cpp"),
    [
        pytest.param(None, None, 8192, id="nowhere: transformers has 16384, the whole context"),
        pytest.param(None, 4096, 8192, id="nested: transformers has 4096"),
        pytest.param(None, 8192, None, id="nested, and llama.cpp's default"),
        pytest.param(4096, None, None, id="at the top"),
        pytest.param(8192, None, None, id="at the top, and llama.cpp's default"),
        pytest.param(4096, 4096, None, id="in both places"),
        pytest.param(4096, 2048, None, id="in both places, of which both prefer the top"),
    ],
)
def test_llama_cpp_takes_8192_for_an_original_length_that_is_not_at_the_top(
    top: int | None, nested: int | None, length_in_llama_cpp: int | None
) -> None:
    """By its conversion/llama.py, llama.cpp reads a Llama 3's original length at the top of the config,
    and takes 8192 if it is not there, also if rope_scaling has it. None: it has the length that
    transformers has, and the adaptation changes nothing.
    """
    changes = adaptation_by("llama.cpp", llama_3_config(top, nested)).parameters
    if length_in_llama_cpp is None:
        assert changes == {}
    else:
        assert changes == {"original_max_position_embeddings": length_in_llama_cpp}


@pytest.mark.parametrize(
    ("top", "nested", "length_in_mlx_lm"),
    [
        pytest.param(None, None, 8192, id="nowhere: transformers has 16384, the whole context"),
        pytest.param(4096, None, 8192, id="at the top: transformers has 4096"),
        pytest.param(8192, None, None, id="at the top, and mlx-lm's default"),
        pytest.param(None, 4096, None, id="nested"),
        pytest.param(None, 8192, None, id="nested, and mlx-lm's default"),
        pytest.param(4096, 4096, None, id="in both places"),
        pytest.param(4096, 2048, 2048, id="in both places, of which transformers prefers the top"),
    ],
)
def test_mlx_lm_takes_8192_for_an_original_length_that_is_not_in_rope_scaling(
    top: int | None, nested: int | None, length_in_mlx_lm: int | None
) -> None:
    """By `Llama3RoPE` of its models/rope_utils.py, mlx-lm reads a Llama 3's original length in
    rope_scaling, and takes 8192 if it is not there. None: it has the length that transformers has,
    and the adaptation changes nothing.
    """
    changes = adaptation_by("mlx-lm", llama_3_config(top, nested)).parameters
    if length_in_mlx_lm is None:
        assert changes == {}
    else:
        assert changes == {"original_max_position_embeddings": length_in_mlx_lm}


def test_a_missing_original_length_of_llama_3_is_a_cause() -> None:
    """mlx-lm then has 8192, and transformers max_position_embeddings, 16384."""
    assert adaptation_by("mlx-lm", llama_3_config(None, None)).cause == (
        "assumes 8,192 for original_max_position_embeddings, not 16,384:"
        " it reads the key only within rope_scaling"
    )


def test_an_original_length_of_another_scaling_is_no_matter_of_llama_3() -> None:
    """Only llama3's scaling has the default 8192 in these runtimes."""
    settings = without_keys(YARN_SCALING, "original_max_position_embeddings")
    changes = adaptation_by("llama.cpp", {**LLAMA_CONFIG, "rope_scaling": settings}).parameters
    assert changes == {}


def test_mlx_lm_computes_a_llama_3_without_the_original_length_as_one_that_states_8192() -> None:
    """8192 is mlx-lm's default. transformers takes the whole context instead, 16,384 positions."""
    without_length = load_config(llama_3_config(top=None, nested=None)).one()
    with_8192 = load_config(llama_3_config(top=None, nested=8192)).one()

    by_mlx_lm = without_length.rope(16, runtime="mlx-lm").frequencies()
    assert by_mlx_lm == with_8192.rope(16).frequencies()
    assert by_mlx_lm != without_length.rope(16, runtime="transformers").frequencies()
