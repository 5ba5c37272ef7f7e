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
    """What is read, and what is said about it; an error is an answer, too."""
    try:
        model = load_config(config)
        return repr((model.encodings, model.context)), " ".join(model.warnings)
    except pecli.PecliError as problem:
        return str(problem), str(problem)


def added_position_keys(
    config: dict[str, Any], encodings: str, step: int
) -> dict[str, dict[str, Any]]:
    """Return a change of the config for each key about positions that it does not have.

    A switch that turns rope off, or ALiBi on, is left out if it states what the model has anyway.
    """
    changes: dict[str, dict[str, Any]] = {}
    for name, value in [*ADDED.items(), *MORE[::step]]:
        is_idle = name in SWITCHES_OF_ROPE and "'rope'" not in encodings
        is_idle |= name == "use_alibi" and "'alibi'" in encodings
        if not is_idle and name not in config:
            changes[name] = {name: value}
    for section in ("rope_scaling", "rope_parameters"):
        settings = config.get(section)
        if not settings or "full_attention" in settings:
            continue
        for name in _WITHIN.split():
            if name not in settings:
                changes[f"{section}.{name}"] = {section: {**settings, name: 0.4375}}
    return changes


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.thorough)])
def test_a_key_named_like_positions_changes_what_is_read_or_is_named_in_a_warning(
    step: int,
) -> None:
    """A misspelled or unknown key, such as rope_base or rope_scaling.mscale, must not be ignored in
    silence: users would think that it has an effect.

    One such key at a time is added to public configurations (every 29th of them, or all), and the
    encodings with the key are compared with the encodings without it.
    """
    silent = []
    for config in CONFIGS[::step]:
        before, _ = encodings_and_warnings(config)
        for key, change in added_position_keys(config, before, step).items():
            after, warnings = encodings_and_warnings({**config, **change})
            has_effect = after != before
            is_named = key.rpartition(".")[2] in warnings
            if not has_effect and not is_named:
                silent.append((config.get("model_type"), key))

    assert silent == []
