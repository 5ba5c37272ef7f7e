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


def test_settings_without_a_base_get_the_default_of_the_server() -> None:
    """The model's own base, 500000, is lost, and vLLM takes 10000."""
    model = served(overrides(rope_parameters=LINEAR_2), rope_theta=5e5)
    encoding = model.one()

    assert encoding.parameters["base"] == 1e4
    assert encoding.sources["base"] == "default of vLLM"
    assert model.warnings == (
        "--hf-overrides.rope_parameters has no rope_theta: vLLM takes 10000, not 500000; "
        'add "rope_theta": 500000',
    )


def test_a_base_that_is_the_default_of_the_server_is_not_lost() -> None:
    """The model's own base is 10000, which vLLM takes as well."""
    model = served(overrides(rope_parameters=LINEAR_2))

    assert model.one().parameters["base"] == 1e4
    assert model.warnings == ()


@pytest.mark.parametrize(
    "flags",
    [
        overrides(rope_parameters={**LINEAR_2, "rope_theta": 2e5}),
        overrides(rope_parameters=LINEAR_2, rope_theta=2e5),
    ],
    ids=["in the settings", "beside them"],
)
def test_a_base_that_flags_state_is_not_lost(flags: str) -> None:
    """It is 200000; the model's own is 500000."""
    model = served(flags, rope_theta=5e5)

    assert model.one().parameters["base"] == 2e5
    assert problems_of(model) == []


def test_settings_of_each_layer_type_keep_their_own_bases() -> None:
    """Gemma 3 has the base 1e6 in full layers and 1e4 in sliding ones; the object around them has
    none, which is no loss.
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
def test_a_factor_stretches_the_original_context(settings: dict[str, Any], context: int) -> None:
    """The original context is stated in the settings, or else the model's 4,096."""
    assert served(overrides(rope_parameters=settings)).context == context


def test_settings_may_be_removed() -> None:
    """`null` removes the linear scaling, and the base stays beside the settings."""
    own = {"rope_parameters": {**LINEAR_2, "rope_theta": 5e5}, "rope_theta": 5e5}
    encoding = served(overrides(rope_scaling=None), **own).one()

    assert encoding.parameters["scaling"] == "none"
    assert encoding.parameters["base"] == 5e5


def test_an_object_that_the_model_does_not_have_is_added_as_a_whole() -> None:
    """vLLM adds it to the configuration, where nothing reads it."""
    model = served(overrides(other={"factor": 5.0}))

    assert model.one().parameters["base"] == 1e4
    assert problems_of(model) == []


def test_other_keys_beside_a_replaced_one_stay() -> None:
    """A model of text and images has the settings of its text in an object of their own."""
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
def test_a_flag_replaces_the_base_where_the_model_has_it(own: dict[str, Any]) -> None:
    """transformers 5 has it within `rope_parameters`, older files beside the settings."""
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
def test_a_scaling_is_replaced_if_its_settings_and_frequencies_change(
    own: dict[str, Any] | None, flags: str, is_replaced: int
) -> None:
    """The model was trained with its own scaling, so that another one needs a warning."""
    problems = problems_of(served(flags, rope_scaling=own))
    assert problems.count(FlagProblem.REPLACED) == is_replaced


def test_flags_for_keys_of_config_json_do_not_fit_a_gguf() -> None:
    """A .gguf has metadata of other names."""
    with pytest.raises(pecli.ParameterError, match=r"tiny\.gguf is a \.gguf; name the folder"):
        pecli.load_model(TINY_GGUF, "vllm serve m --rope-theta 20000")
