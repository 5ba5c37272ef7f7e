"""Notes about values that stand only where some programs look for them.

transformers 5 writes rope_parameters, version 4 rope_theta and rope_scaling. A program that knows
one spelling silently takes its default where the other is used; a note names the key and that
default.
"""

from typing import Any

import pytest

import pecli

SIZES: dict[str, Any] = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8}
YARN_SCALING = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}


@pytest.mark.parametrize(
    ("config", "beginnings"),
    [
        ({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, ["theta is only in rope_parameters"]),
        ({"rope_theta": 5e5}, ["theta is only in rope_theta"]),
        (
            {"rope_scaling": {**YARN_SCALING, "rope_theta": 5e5}},
            ["theta is only in rope_scaling", "scaling is only in rope_scaling"],
        ),
        ({"rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, []),
        # Settings without a base do not state it.
        ({"rope_theta": 5e5, "rope_parameters": {"rope_type": "default"}}, ["theta is only in rope_theta"]),
        ({"rope_theta": 5e5, "rope_parameters": {"rope_type": "default", "rope_theta": None}}, ["theta is only in rope_theta"]),
        ({"rope_theta": 5e5, "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5e5}}}, []),
        # Every program falls back to this base.
        ({"rope_theta": 10000.0}, []),
        ({}, []),
        ({"rope_parameters": {**YARN_SCALING, "rope_theta": 10000.0}}, ["scaling is only in rope_parameters"]),
        ({"rope_scaling": YARN_SCALING}, ["scaling is only in rope_scaling"]),
        (
            {"model_type": "phi", "rope_parameters": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
            ["partial_rotary_factor is only in rope_parameters"],
        ),
    ],
)  # fmt: skip
def test_a_value_under_a_key_that_only_some_programs_read_is_noted(
    config: dict[str, Any], beginnings: list[str]
) -> None:
    """transformers 5 writes rope_parameters, version 4 rope_theta and rope_scaling; a program that
    reads one spelling silently takes its default where the other is used. There is no note if both
    are there, or the value is the default anyway.
    """
    notes = pecli.load_config({**SIZES, **config}).notes
    assert [note.partition(":")[0] for note in notes] == beginnings


def test_a_note_names_the_base_that_older_code_falls_back_to() -> None:
    """10000 is the default of Llama's class in transformers 4."""
    config = {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    (note,) = pecli.load_config(config).notes

    assert note.endswith("code written for transformers 4 falls back to 10000")


def test_the_note_on_a_key_of_a_part_has_the_full_path_of_the_key() -> None:
    """Users search for it; the text model of LLaVA is in text_config."""
    inner = {**SIZES, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}
    (note,) = pecli.load_config({"model_type": "llava", "text_config": inner}).notes

    assert note.startswith("theta is only in text_config.rope_parameters")


def test_the_base_of_a_class_is_no_key_of_the_file() -> None:
    """Mixtral's class has the base 1000000; the file states none, so that no key is missed."""
    model = pecli.load_config({**SIZES, "model_type": "mixtral"})
    assert model.one().parameters["base"] == 1e6
    assert model.notes == ()


def test_a_base_that_flags_state_in_the_other_place_is_not_noted() -> None:
    """The config has its base in rope_theta only, which is noted. --hf-overrides of vLLM states it
    within rope_parameters as well, so that no program misses it.
    """
    overrides = '{"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}'
    config = {**SIZES, "rope_theta": 5e5}

    assert pecli.load_model(config).notes != ()
    assert pecli.load_model(config, f"vllm serve m --hf-overrides '{overrides}'").notes == ()


def test_a_note_stays_beside_flags_that_do_not_state_its_value() -> None:
    """The config has its base in rope_theta only. --max-model-len of vLLM limits the served context,
    and states no base.
    """
    config = {**SIZES, "max_position_embeddings": 4096, "rope_theta": 5e5}
    (note,) = pecli.load_model(config, "vllm serve m --max-model-len 1024").notes

    assert note.startswith("theta is only in rope_theta")
