"""The account of keys: a key of a configuration that is named like positions changes what is read,
or a warning names it.

Public configurations (tests/models/data, the presets) get one such key at a time. There are no
expected numbers: the configuration with the key is compared with the one without it.
"""

from typing import Any

import pytest

import pecli
from pecli.models.find import load_config
from pecli.models.presets import presets
from tests.models.facts import stored

CASES = [
    *stored("rope_families.jsonl")[::2],
    *stored("rope_random.jsonl")[::10],
    *stored("dialects.json"),
]
CONFIGS = [case["config"] for case in CASES] + [
    preset.config for preset in list(presets().values())[::5]
]
"""Configurations of public models and presets, such as that of Llama 3."""

_NUMBERS = """
    rope_theta rope_base rope_freq_base rotary_emb_base rotary_base global_rope_theta local_rope_theta swa_rope_theta
    rope_local_base_freq compress_rope_theta layer_theta my_theta position_embedding_base max_period attn_factor
    attention_factor yarn_factor yarn_beta_fast rope_factor rope_scaling_factor rope_scale rope_ratio mscale
    mscale_all_dim rope_ntk_alpha ntk_alpha alibi_bias_max freq_scale base_freq inv_freq_scale rope_mscale
    original_max_position_embeddings rotary_dim rotary_pct rope_pct partial_rotary_factor rotary_percent rope_dim
    rotary_scaling_factor llama_4_scaling_beta position_offset rope_start rope_attention_scaling
    relative_attention_num_buckets max_relative_positions max_position_embeddings n_positions position_interpolation
"""
_WORDS = "position_embedding_type positional_embedding pos_emb pos_emb_type rope_type rope_style rotary_type"
_FLAGS = """
    use_fope use_alibi rope_interleave rotary_interleaved mrope_interleaved no_rope use_mrope yarn dynamic_ntk
"""
SWITCHES_OF_ROPE = ("use_rope", "rope", "rotary", "use_rotary_embeddings", "apply_rotary")
OBJECTS: dict[str, Any] = {
    "rope_foo": {"a": 1.5},
    "yarn_config": {"factor": 3.0},
    "position_scaling": {"x": 2},
}
ADDED: dict[str, Any] = {
    **dict.fromkeys(_NUMBERS.split(), 0.3125),
    **dict.fromkeys(_WORDS.split(), "wibble"),
    **dict.fromkeys(_FLAGS.split(), True),
    **dict.fromkeys(SWITCHES_OF_ROPE, False),
    **OBJECTS,
}
MORE = [(name, value) for value, names in stored("position_keys.json") for name in names.split()]
_WITHIN = "alpha beta_fast attn_factor mscale factor_2 extrapolation_factor wibble low_freq_factor"


def encodings_and_warnings(config: dict[str, Any]) -> tuple[str, str]:
    """Return the encodings and the warnings of a configuration as texts.

    If the configuration is refused, both are the text of the error.
    """
    try:
        model = load_config(config)
        return repr((model.encodings, model.context)), " ".join(model.warnings)
    except pecli.PecliError as problem:
        return str(problem), str(problem)


def with_each_added_key(config: dict[str, Any], encodings: str, step: int) -> dict[str, Any]:
    """Return copies of a config that each have one key about positions more, by the key's name.

    The keys are ADDED (written by hand, such as rope_base: 0.3125 or use_rope: False), every
    step-th one of MORE (names from public repositories, position_keys.json), and keys inside
    rope_scaling or rope_parameters, such as rope_scaling.mscale. Keys that the config has are left
    out, and so is a switch of what the model has anyway: use_rope: False if nothing rotates.
    """
    copies: dict[str, Any] = {}
    for name, value in [*ADDED.items(), *MORE[::step]]:
        is_idle = name in SWITCHES_OF_ROPE and "'rope'" not in encodings
        is_idle |= name == "use_alibi" and "'alibi'" in encodings
        if not is_idle and name not in config:
            copies[name] = {**config, name: value}
    for section in ("rope_scaling", "rope_parameters"):
        settings = config.get(section)
        if not settings or "full_attention" in settings:
            continue
        for name in _WITHIN.split():
            if name not in settings:
                copies[f"{section}.{name}"] = {**config, section: {**settings, name: 0.4375}}
    return copies


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(29, id="every 29th configuration and key"),
        pytest.param(1, id="all configurations and keys", marks=pytest.mark.thorough),
    ],
)
def test_an_added_key_about_positions_changes_what_is_read_or_a_warning_names_it(
    step: int,
) -> None:
    """A misspelled or unknown key, such as rope_base or rope_scaling.mscale, must not be ignored in
    silence: users would think that it has an effect.

    One such key at a time is added to public configurations, and the encodings with the key are
    compared with those without it. If they are equal, a warning must have the key's name.
    """
    ignored_in_silence = []
    for config in CONFIGS[::step]:
        encodings, _ = encodings_and_warnings(config)
        for key, config_with_key in with_each_added_key(config, encodings, step).items():
            encodings_with_key, warnings = encodings_and_warnings(config_with_key)
            last_part = key.rpartition(".")[2]
            if encodings_with_key == encodings and last_part not in warnings:
                ignored_in_silence.append((config.get("model_type"), key))

    assert ignored_in_silence == []
