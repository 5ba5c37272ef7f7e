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


@pytest.mark.parametrize("step", [29, pytest.param(1, marks=pytest.mark.thorough)])
def test_no_key_about_positions_is_passed_over_in_silence(step: int) -> None:
    """A key named like positions changes what is read, or a warning names it.

    Every such key is added to many public configurations, at the top level and within rope_scaling.
    """
    silent = []
    for config in CONFIGS[::step]:
        before, _ = encodings_and_warnings(config)
        changes = {
            name: {name: value}
            for name, value in [*ADDED.items(), *MORE[::step]]
            if (name not in SWITCHES_OF_ROPE or "'rope'" in before)
            and (name != "use_alibi" or "'alibi'" not in before)
        }
        changes = {name: change for name, change in changes.items() if name not in config}
        for section in ("rope_scaling", "rope_parameters"):
            given = config.get(section)
            names = _WITHIN.split() if given and "full_attention" not in given else []
            changes |= {
                f"{section}.{name}": {section: {**given, name: 0.4375}}
                for name in names
                if name not in given
            }
        for name, change in changes.items():
            after, said = encodings_and_warnings({**config, **change})
            if after == before and name.rpartition(".")[2] not in said:
                silent.append((config.get("model_type"), name))

    assert silent == []
