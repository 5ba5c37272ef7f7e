"""Runtimes that replace parameters of a model because of other keys of its configuration.

A runtime is a program that runs models (candle, TensorRT-LLM, exllamav3, vLLM, …); an adaptation
has the parameters that it changes, and the cause in words. What each does was read from its source.
"""

from typing import NamedTuple

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


@pytest.mark.parametrize(
    ("settings", "parameters"),
    [
        pytest.param(YARN_SCALING, {"beta_fast": None}, id="without beta_fast"),
        pytest.param({**YARN_SCALING, "beta_fast": 32.0}, {}, id="with beta_fast"),
    ],
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
def test_a_missing_original_length_of_longrope_changes_nothing_in_runtimes_that_derive_yarns(
    runtime: str,
) -> None:
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


class OriginalLengths(NamedTuple):
    """Where a Llama 3 states its original length, and the length that each program finds.

    By `Llama3RoPE` of mlx-lm's models/rope_utils.py, mlx-lm reads the key in rope_scaling only. By
    its conversion/llama.py, llama.cpp reads it at the top of the config only. transformers prefers
    the one at the top, and takes max_position_embeddings, 16384, without both.
    """

    top: int | None
    nested: int | None
    in_transformers: int
    in_llama_cpp: int = 8192
    in_mlx_lm: int = 8192


LLAMA_3_ORIGINAL_LENGTHS = [
    pytest.param(OriginalLengths(None, None, 16384), id="nowhere"),
    pytest.param(OriginalLengths(4096, None, 4096, in_llama_cpp=4096), id="at the top"),
    pytest.param(OriginalLengths(8192, None, 8192), id="at the top, the default"),
    pytest.param(OriginalLengths(None, 4096, 4096, in_mlx_lm=4096), id="nested"),
    pytest.param(OriginalLengths(None, 8192, 8192), id="nested, the default"),
    pytest.param(
        OriginalLengths(4096, 4096, 4096, in_llama_cpp=4096, in_mlx_lm=4096), id="in both places"
    ),
    pytest.param(
        OriginalLengths(4096, 2048, 4096, in_llama_cpp=4096, in_mlx_lm=2048), id="two lengths"
    ),
]


def changed_length(in_transformers: int, in_runtime: int) -> Config:
    """Return the parameter that a runtime changes: none if it has the length of transformers."""
    if in_runtime == in_transformers:
        return {}
    return {"original_max_position_embeddings": in_runtime}


@pytest.mark.parametrize("lengths", LLAMA_3_ORIGINAL_LENGTHS)
def test_llama_cpp_takes_8192_for_an_original_length_that_is_not_at_the_top(
    lengths: OriginalLengths,
) -> None:
    """OriginalLengths has the lengths by the source of llama.cpp and transformers."""
    config = llama_3_config(lengths.top, lengths.nested)
    expected = changed_length(lengths.in_transformers, lengths.in_llama_cpp)

    assert adaptation_by("llama.cpp", config).parameters == expected


@pytest.mark.parametrize("lengths", LLAMA_3_ORIGINAL_LENGTHS)
def test_mlx_lm_takes_8192_for_an_original_length_that_is_not_in_rope_scaling(
    lengths: OriginalLengths,
) -> None:
    """OriginalLengths has the lengths by the source of mlx-lm and transformers."""
    config = llama_3_config(lengths.top, lengths.nested)
    expected = changed_length(lengths.in_transformers, lengths.in_mlx_lm)

    assert adaptation_by("mlx-lm", config).parameters == expected


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
