"""Helpers of dialects that translate a project's keys into Hugging Face's.

A project's `rotary_base`, for example, becomes `rope_theta` with the source "rotary_base", and the
rules for Hugging Face's configurations do the rest.
"""

import math
from dataclasses import replace

from pecli.models.data import stored
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import (
    NO_CLASS,
    NO_SETTINGS,
    ClassDefaults,
    Keys,
    Setting,
    Settings,
    setting_from_key,
)
from pecli.models.rope import rope_encodings

#: The scaling that `use_scaled_rope` stands for in Meta's code.
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}


def ropes_by_hugging_face_rules(
    keys: Keys,
    family: ModelFamily,
    *,
    shared_names: tuple[str, ...] = (),
    scaling: Settings = NO_SETTINGS,
    settings: Settings = NO_SETTINGS,
) -> ParsedEncodings:
    """Return the rotary encodings of a project's file, read as a config.json of Hugging Face.

    The config.json is made in memory, of shared keys and of settings that the caller has renamed.
    Megatron's `rotary_base`, for example, is its `rope_theta`. Messages still name `rotary_base`.

    Args:
        keys: The keys of the project's file, with the defaults of its code.
        family: What the project's code implies, such as the layout of pairs.
        shared_names: Keys that have the same name and meaning in a config.json, such as `head_dim`.
        scaling: Settings of the object `rope_scaling` in the config.json, such as `factor`.
        settings: Settings at the top of the config.json, such as `rope_theta`.
    """
    # Messages about misspelled keys may suggest these names.
    keys.mark_as_known(*shared_names)
    # A key that the file leaves out has the default of the project's code, if there is one.
    defaults_of_code = {name: keys.value(name) for name in shared_names if name not in keys}
    keys_in_file = _with_only(keys, shared_names)
    config_json = keys_in_file.as_config_json({**defaults_of_code, **settings}, scaling)
    return rope_encodings(config_json, family)


def _with_only(keys: Keys, names: tuple[str, ...]) -> Keys:
    """Return some of the keys of a file, without all others and without defaults."""
    data = {name: keys.data[name] for name in names if name in keys.data}
    return replace(keys, data=data, defaults=NO_CLASS)


def values_by_hugging_face_name(keys: Keys, **names: str) -> dict[str, Setting[object] | None]:
    """Return settings by Hugging Face's names, read from the names that a project has for them.

    `values_by_hugging_face_name(keys, rope_theta="rotary_base")` is `{"rope_theta": …}` with the
    value of the key `rotary_base`; None if it is absent. Of several names, which blanks separate,
    the first that is present counts.
    """
    return {name: keys.value(*words.split()) for name, words in names.items()}


def with_defaults(keys: Keys, name: str) -> Keys:
    """Return the keys with the defaults that defaults.json has for a project's class."""
    return replace(keys, defaults=ClassDefaults(name, stored("dialects/defaults.json")[name]))


def llama3_scaling(keys: Keys, flag: str = "use_scaled_rope", **names: str) -> Settings:
    """Return Llama 3.1's scaling if a flag such as `use_scaled_rope` requests it; else nothing.

    Its numbers are constants of Meta's code, such as a factor of 8. In some projects, keys replace
    them.

    Args:
        keys: The keys of the project.
        flag: The key that switches the scaling on.
        names: The keys that replace constants, by Hugging Face's names of these: with
            `factor="rope_scaling_factor"`, the key `rope_scaling_factor` replaces the factor of 8.
    """
    if not keys.is_true(flag):
        return {}
    name_of_flag = keys.full_name(flag)
    numbers_in_file = values_by_hugging_face_name(keys, **names)
    scaling: dict[str, Setting[object]] = {"rope_type": setting_from_key("llama3", name_of_flag)}
    for name, constant in LLAMA3.items():
        scaling[name] = numbers_in_file.get(name) or setting_from_key(constant, name_of_flag)
    return scaling


def linear_scaling(factor: Setting[float]) -> Settings:
    """Return a scaling that divides positions by a factor."""
    return {"rope_type": factor.with_value("linear"), "factor": factor}


def yarn_magnitude(factor: Setting[float] | None, mscale: Setting[float] | None) -> float:
    """Return YaRN's 0.1 · mscale · ln(factor) + 1; 1 if one of them is missing, or if nothing is
    stretched.

    A factor of 40 and an mscale of 1 make 1.3689.
    """
    if factor is None or mscale is None or factor.value <= 1:
        return 1.0
    return 0.1 * mscale.value * math.log(factor.value) + 1


def softmax_warnings(factor: Setting[float] | None, mscale: Setting[float] | None) -> list[str]:
    """Return a warning if the attention scores are multiplied, which no table shows."""
    scale = yarn_magnitude(factor, mscale)
    if scale == 1:
        return []
    squared = f"{scale * scale:.7g} (= {scale:.7g}²)"
    return [f"the softmax scale is multiplied by {squared} outside the table, for mscale"]
