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
        ({"model_type": "qwen2"}, False),
        ({"model_type": "qwen2", "rope_scaling": LINEAR_SCALING}, True),
        ({"model_type": "llama", "rope_scaling": LINEAR_SCALING}, False),
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


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [(YARN_SCALING, {"beta_fast": None}), ({**YARN_SCALING, "beta_fast": 32.0}, {})],
)
def test_onnxruntime_genai_applies_yarn_only_if_beta_fast_is_given(
    settings: Config, parameters: Config
) -> None:
    """By its source, the model builder looks for beta_fast to recognise YaRN. An adaptation has the
    parameters that a runtime changes; None marks the one that it misses.
    """
    changes = adaptation_by(
        "onnxruntime-genai", {**LLAMA_CONFIG, "rope_scaling": settings}
    ).parameters
    assert changes == parameters


def without_keys(settings: Config, *names: str) -> Config:
    return {name: value for name, value in settings.items() if name not in names}


def test_exllamav3_goes_by_the_factor_if_the_original_length_is_missing() -> None:
    """ExLlamaV3 takes YaRN's factor as it is stated, where transformers would divide
    max_position_embeddings by the original length, and without that takes it for the original one.
    None in an adaptation marks a parameter that the runtime does not use.
    """
    settings = without_keys(YARN_SCALING, "mscale", "original_max_position_embeddings")
    changes = adaptation_by("exllamav3", {**LLAMA_CONFIG, "rope_scaling": settings}).parameters

    assert changes == {"max_position_embeddings": None}


def test_exllamav3_keeps_an_original_length_that_is_given() -> None:
    """Only a missing one is derived differently than in transformers. YARN_SCALING has an original
    length; its mscale, which exllamav3 reads differently, is left out here.
    """
    changes = adaptation_by(
        "exllamav3", {**LLAMA_CONFIG, "rope_scaling": without_keys(YARN_SCALING, "mscale")}
    ).parameters
    assert changes == {}


def test_exllamav3_takes_the_ratio_of_mscales_only_for_deepseek() -> None:
    """By exllamav3's source, both mscales are dropped for a Llama: the adaptation changes them, and
    max_position_embeddings, because the original length is left out here.
    """
    settings = without_keys(YARN_SCALING, "original_max_position_embeddings")
    changes = adaptation_by("exllamav3", {**LLAMA_CONFIG, "rope_scaling": settings}).parameters

    assert [*changes] == ["max_position_embeddings", "mscale", "mscale_all_dim"]


@pytest.mark.parametrize(
    ("name", "limits_to_context", "ignores_prompt", "text_only"),
    [
        ("transformers", False, False, False),
        ("vllm", True, True, False),
        ("llama.cpp", False, True, False),
        ("mlx-lm", False, True, True),
        ("sglang", False, False, False),
    ],
)
def test_runtimes_treat_context_and_prompts_as_their_source_does(
    name: str, limits_to_context: bool, ignores_prompt: bool, text_only: bool
) -> None:
    """Each row was read from the source of the runtime: whether its tables end at the context,
    whether they ignore the length of the prompt, and whether it knows no images.
    """
    runtime = runtime_named(name)
    assert runtime.limits_to_context is limits_to_context
    assert runtime.ignores_prompt is ignores_prompt
    assert runtime.text_only is text_only


@pytest.mark.parametrize("runtime", ["tensorrt-llm", "exllamav3"])
def test_only_yarn_depends_on_an_original_length_that_is_missing(runtime: str) -> None:
    """A longrope without the original length is read alike by these runtimes and transformers: the
    adaptation changes no parameter.
    """
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    config = {
        "model_type": "phi3",
        "hidden_size": 64,
        "num_attention_heads": 8,
        "max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", **factors},
    }
    assert adaptation_by(runtime, config).parameters == {}


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
    ("top", "nested", "of_llama_cpp", "of_mlx_lm"),
    [
        (None, None, {"original_max_position_embeddings": 8192}, {"original_max_position_embeddings": 8192}),
        (4096, None, {}, {"original_max_position_embeddings": 8192}),
        (None, 4096, {"original_max_position_embeddings": 8192}, {}),
        (4096, 4096, {}, {}),
        (4096, 2048, {}, {"original_max_position_embeddings": 2048}),
        (None, 8192, {}, {}),
        (8192, None, {}, {}),
    ],
)  # fmt: skip
def test_the_original_length_of_llama_3_is_8192_where_a_runtime_finds_none(
    top: int | None, nested: int | None, of_llama_cpp: Config, of_mlx_lm: Config
) -> None:
    """`Llama3RoPE` of mlx-lm's models/rope_utils.py reads the key in rope_scaling only, and llama.cpp's
    conversion/llama.py at the top of the config only; both take 8192 if it is not there.
    Transformers prefers the one at the top, and takes max_position_embeddings, here 16384, without
    both. Nothing changes for a runtime that has the same length.
    """
    config = llama_3_config(top, nested)
    assert adaptation_by("llama.cpp", config).parameters == of_llama_cpp
    assert adaptation_by("mlx-lm", config).parameters == of_mlx_lm


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


def test_mlx_lm_has_its_own_table_of_a_llama_3_without_the_original_length() -> None:
    """The table that mlx-lm computes is that of the config with 8192 within rope_scaling."""
    of_missing = load_config(llama_3_config(None, None)).one()
    of_stated = load_config(llama_3_config(None, 8192)).one()

    frequencies = of_missing.rope(16, runtime="mlx-lm").frequencies()
    assert frequencies == of_stated.rope(16).frequencies()
