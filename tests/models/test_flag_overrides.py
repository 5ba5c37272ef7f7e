"""Flags of vLLM that replace keys of config.json: which base, scaling and context count then.

The model has heads of 64 channels, 4,096 positions and the base 10000 unless a test states another.
vLLM fills in a base of its own, 10000 for Llama, if `rope_parameters` has none; its own source
(`patch_rope_parameters`) has this rule.
"""

import json
from pathlib import Path
from typing import Any

import pytest

import pecli
from pecli.models.encoding import ModelEncodings
from pecli.models.flag_report import FlagProblem

TINY_GGUF = Path(__file__).parents[1] / "files" / "data" / "tiny.gguf"
LINEAR_2: dict[str, Any] = {"rope_type": "linear", "factor": 2.0}
LINEAR_2_WITH_BASE = {**LINEAR_2, "rope_theta": 1e4}


def served(flags: str, **keys: Any) -> ModelEncodings:
    """Return the encodings of a Llama whose configuration has these keys as well."""
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "num_attention_heads": 4,
        "max_position_embeddings": 4096,
        "rope_theta": 1e4,
        **keys,
    }
    return pecli.load_model(config, f"vllm serve m {flags}")


def problems_of(model: ModelEncodings) -> list[FlagProblem]:
    assert model.flags is not None
    return [warning.problem for warning in model.flags.warnings]


def overrides(**keys: Any) -> str:
    return f"--hf-overrides '{json.dumps(keys)}'"


def test_overriding_settings_without_a_base_get_vllms_default_with_a_warning() -> None:
    """--hf-overrides replaces all of rope_parameters. The model's own base, 500000, is lost if the new
    settings state none: vLLM then takes 10000.
    """
    model = served(overrides(rope_parameters=LINEAR_2), rope_theta=5e5)
    encoding = model.one()

    assert encoding.parameters["base"] == 1e4
    assert encoding.sources["base"] == "default of vLLM"
    assert model.warnings == (
        "--hf-overrides.rope_parameters has no rope_theta: vLLM takes 10000, not 500000; "
        'add "rope_theta": 500000',
    )


def test_overriding_settings_without_a_base_are_not_warned_of_if_vllms_default_is_the_models() -> (
    None
):
    """The model's own base is 10000, which vLLM also takes if the new settings state none."""
    model = served(overrides(rope_parameters=LINEAR_2))

    assert model.one().parameters["base"] == 1e4
    assert model.warnings == ()


@pytest.mark.parametrize(
    "flags",
    [
        overrides(rope_parameters={**LINEAR_2, "rope_theta": 2e6}),
        overrides(rope_parameters=LINEAR_2, rope_theta=2e6),
    ],
    ids=["in the settings", "beside them"],
)
def test_a_larger_base_that_overrides_state_replaces_the_models_without_a_warning(
    flags: str,
) -> None:
    """The model's own base is 500000; the flags state 2000000 with the new settings."""
    model = served(flags, rope_theta=5e5)

    assert model.one().parameters["base"] == 2e6
    assert problems_of(model) == []


def test_a_smaller_base_that_overrides_state_is_warned_of() -> None:
    """The model's own base is 500000; 10000, that of Llama 2, is in many examples of the flag."""
    model = served(overrides(rope_parameters=LINEAR_2_WITH_BASE), rope_theta=5e5)
    assert problems_of(model) == [FlagProblem.BASE_LOST]


def test_settings_of_each_layer_type_keep_their_own_bases() -> None:
    """Gemma 3 has the base 1e6 in full layers and 1e4 in sliding ones, which the overrides state once
    more. The object that holds both has no base of its own, of which there is no warning.
    """
    full = {**LINEAR_2, "rope_theta": 1e6}
    sliding = {"rope_type": "default", "rope_theta": 1e4}
    settings = {"full_attention": full, "sliding_attention": sliding}
    flags = overrides(rope_parameters=settings)
    model = pecli.load_model("gemma-3-4b", f"vllm serve m {flags}")

    assert model.one("full_attention").parameters["base"] == 1e6
    assert model.one("sliding_attention").parameters["base"] == 1e4
    assert FlagProblem.BASE_LOST not in problems_of(model)


@pytest.mark.parametrize(
    ("settings", "context"),
    [
        (LINEAR_2_WITH_BASE, 2 * 4096),
        (
            {
                "rope_type": "yarn",
                "factor": 4.0,
                "original_max_position_embeddings": 1024,
                "rope_theta": 1e4,
            },
            4 * 1024,
        ),
        ({"rope_type": "default", "rope_theta": 1e4}, 4096),
    ],
    ids=["the model's context", "a stated one", "without a factor"],
)
def test_the_context_of_overriding_settings_is_their_factor_times_the_original_context(
    settings: dict[str, Any], context: int
) -> None:
    """The original context is 1,024 if the settings state it, and otherwise the model's 4,096; without
    a factor it is not stretched.
    """
    assert served(overrides(rope_parameters=settings)).context == context


def test_an_override_of_null_removes_the_scaling_of_the_model() -> None:
    """The config has linear scaling, and its base 500000 within the settings and beside them. `null`
    removes the settings; the base beside them stays.
    """
    own = {"rope_parameters": {**LINEAR_2, "rope_theta": 5e5}, "rope_theta": 5e5}
    encoding = served(overrides(rope_scaling=None), **own).one()

    assert encoding.parameters["scaling"] == "none"
    assert encoding.parameters["base"] == 5e5


def test_an_override_of_an_object_that_the_model_does_not_have_changes_nothing() -> None:
    """vLLM adds the object «other» to the configuration, where nothing reads it: the base stays at
    10000, and there is no warning.
    """
    model = served(overrides(other={"factor": 5.0}))

    assert model.one().parameters["base"] == 1e4
    assert problems_of(model) == []


def test_an_override_within_an_object_keeps_the_other_keys_of_the_object() -> None:
    """A model of text and images has the settings of its text model in the object text_config. The
    override has only a base in it: the head of 64 channels stays.
    """
    text = {
        "model_type": "qwen3_vl_text",
        "hidden_size": 256,
        "num_attention_heads": 2,
        "head_dim": 64,
        "rope_theta": 5e6,
    }
    config = {"model_type": "qwen3_vl", "text_config": text}
    flags = overrides(text_config={"rope_theta": 2e4})
    parameters = pecli.load_model(config, f"vllm serve m {flags}").ropes()[0].parameters

    assert parameters["base"] == 2e4
    assert parameters["dim"] == 64


@pytest.mark.parametrize(
    "own",
    [{"rope_theta": 5e5}, {"rope_theta": None, "rope_parameters": {"rope_theta": 5e5}}],
    ids=["beside the settings", "within them"],
)
def test_rope_theta_of_vllm_replaces_the_base_wherever_the_config_has_it(
    own: dict[str, Any],
) -> None:
    """transformers 5 has the base within `rope_parameters`, and older files have it beside the
    settings.
    """
    encoding = served("--rope-theta 20000", **own).one()

    assert encoding.parameters["base"] == 2e4
    assert encoding.sources["base"] == "--rope-theta"


@pytest.mark.parametrize(
    ("own", "flags", "is_replaced"),
    [
        ({"rope_type": "linear", "factor": 4.0}, overrides(rope_parameters=LINEAR_2_WITH_BASE), 1),
        (LINEAR_2, overrides(rope_parameters=LINEAR_2_WITH_BASE), 0),
        (LINEAR_2, "--rope-theta 20000", 0),
        (None, overrides(rope_parameters=LINEAR_2_WITH_BASE), 0),
    ],
    ids=["another factor", "the same one", "another base", "no scaling before"],
)
def test_an_override_of_the_models_own_scaling_is_warned_of_if_it_changes_frequencies(
    own: dict[str, Any] | None, flags: str, is_replaced: int
) -> None:
    """`own` is the scaling that the model was trained with, and `is_replaced` the number of warnings
    that it is replaced. The overrides are linear scaling by 2, or only another base.
    """
    problems = problems_of(served(flags, rope_scaling=own))
    assert problems.count(FlagProblem.REPLACED) == is_replaced


def test_flags_of_vllm_are_refused_for_a_gguf_file() -> None:
    """They replace keys of config.json, and a .gguf has metadata of other names. The advice is to name
    the folder with the config.
    """
    with pytest.raises(pecli.ParameterError, match=r"tiny\.gguf is a \.gguf; name the folder"):
        pecli.load_model(TINY_GGUF, "vllm serve m --rope-theta 20000")


DYNAMIC_4 = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e4}


def test_dynamic_scaling_is_warned_of_since_vllm_ignores_it() -> None:
    """vLLM's source has the base grow only with `max_trained_positions`, which config.json does not
    have, and makes rows for `max_position_embeddings`, here 4,096. They are 0 … 4,095.
    """
    model = served(f"{overrides(rope_parameters=DYNAMIC_4)} --max-model-len 16384")

    assert problems_of(model) == [FlagProblem.DEPARTS]
    (warning,) = model.warnings
    assert warning.startswith("vLLM (")
    assert "its dynamic NTK is not dynamic: the base stays" in warning
    assert warning.endswith("its table ends at position 4,095")


def test_dynamic_scaling_is_not_warned_of_up_to_the_trained_context() -> None:
    """Dynamic NTK changes nothing in prompts of up to 4,096 positions, which the model has; vLLM's
    table without scaling is the same.
    """
    model = served(f"{overrides(rope_parameters=DYNAMIC_4)} --max-model-len 4096")
    assert problems_of(model) == []


def test_flags_are_warned_of_with_the_causes_that_runtimes_states() -> None:
    """SGLang's source has one base for dynamic NTK, that of factor f² − f + 1: 13 for 4. Served with
    8,192 positions, the model's is 4 · 2 − 3 = 5. `pecli.runtimes` states the same cause.
    """
    config = {
        "model_type": "llama",
        "hidden_size": 256,
        "num_attention_heads": 4,
        "max_position_embeddings": 4096,
        "rope_parameters": DYNAMIC_4,
    }
    model = pecli.load_model(config, "sglang serve --context-length 8192")
    (result,) = pecli.runtimes(model, 8192, names=["sglang"]).layers[""]
    (cause,) = result.causes

    assert "factor 13" in cause
    assert problems_of(model) == [FlagProblem.DEPARTS]
    assert cause in model.warnings[-1]


@pytest.mark.parametrize(
    ("model", "length"),
    [
        pytest.param("phi-3.5-mini", 32768, id="longrope, 32 · 4096 = 131072 positions"),
        pytest.param("phi-3.5-mini", 262144, id="longrope, and more than 131072"),
        pytest.param("deepseek-v3", 65536, id="YaRN, 40 · 4096 = 163840 positions"),
    ],
)
def test_a_served_context_does_not_contradict_the_factor_of_the_model(
    model: str, length: int
) -> None:
    """The factors and original lengths of these models make the contexts that their config.json
    states. A server may serve less; more is warned of by the name of the flag, not as a number of
    the configuration.
    """
    warnings = pecli.load_model(model, f"vllm serve x --max-model-len {length}").warnings
    assert not [text for text in warnings if "check which of them is meant" in text]
