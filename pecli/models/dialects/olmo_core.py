"""OLMo-core's config.json: a block whose attention has an object `rope`."""

from collections.abc import Mapping
from typing import NamedTuple

from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
    with_defaults,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Settings, computed, nonzero, only_if, value_of


class ScalingClass(NamedTuple):
    """A class of scalings: Hugging Face's rope type, and OLMo-core's names by Hugging Face's."""

    rope_type: str
    names: Mapping[str, str]


SCALINGS = {
    "PIRoPEScalingConfig": ScalingClass("linear", {"factor": "factor"}),
    "YaRNRoPEScalingConfig": ScalingClass(
        "yarn",
        {
            "factor": "factor",
            "beta_fast": "beta_fast",
            "beta_slow": "beta_slow",
            "original_max_position_embeddings": "old_context_len",
        },
    ),
    "StepwiseRoPEScalingConfig": ScalingClass(
        "llama3",
        {"factor": "factor", "original_max_position_embeddings": "old_context_len"},
    ),
    "ABFRoPEScalingConfig": ScalingClass("default", {"rope_theta": "new_theta"}),
}


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of an OLMo-core config, whose layers all repeat one block.

    The settings of rope stand in the block's attention: `{"block": {"attention": {"rope": …}}}`.
    """
    model_keys = keys if "d_model" in keys else keys.inner_or_self("model")
    # Any of these objects may be left out; its keys then stand one level higher.
    block_keys = model_keys.inner_or_self("block")
    attention_keys = block_keys.inner_or_self("attention", "sequence_mixer")
    rope_keys = attention_keys.inner("rope")
    if not rope_keys:
        no_rope = "the block of the model has no rope"
        warning = f"{no_rope}, and OLMo-core has no other positional encoding"
        return ParsedEncodings(encodings=[], warnings=[warning])
    scaling = _scaling_settings(rope_keys.inner("scaling"))
    rope_keys = with_defaults(rope_keys, "OLMo-core's RoPEConfig")
    # Layers that differ from the block are reported, not read.
    warnings = [
        *_warnings_of_override(model_keys, "block_overrides"),
        *_warnings_of_override(rope_keys, "no_global_rope"),
    ]
    # These keys do not change the encoding: no warning needs to report them as unread.
    rope_keys.mark_as_read("full_precision", "_CLASS_")
    # Hugging Face's names are on the left, OLMo-core's on the right.
    settings = {
        **values_by_hugging_face_name(
            rope_keys, rope_theta="theta", partial_rotary_factor="partial_rotary_factor"
        ),
        **values_by_hugging_face_name(attention_keys, n_heads="n_heads", head_dim="head_dim"),
        "hidden_size": model_keys.whole_number("d_model"),
    }
    family = ModelFamily("OLMo-core", layout=_layout(rope_keys))
    parsed = ropes_by_hugging_face_rules(model_keys, family, scaling=scaling, settings=settings)
    return parsed.with_earlier_warnings(warnings)


def _layout(rope: Keys) -> str:
    """Return the layout: the implementation with complex numbers interleaves pairs."""
    name = value_of(rope.word("name"))
    return INTERLEAVED if name == "complex" else HALVES


def _warnings_of_override(keys: Keys, name: str) -> list[str]:
    """Return a warning if a key replaces the rope of some layers."""
    if not keys.data.get(name):
        return []
    keys.mark_as_read(name)
    full_name = keys.full_name(name)
    return [f"{full_name} is given: layers differ, and only those of `block` are described"]


def _scaling_settings(keys: Keys) -> Settings:
    """Return the scaling of an OLMo-core config by the names of Hugging Face's `rope_scaling`.

    The file names a Python class: `"_CLASS_": "….YaRNRoPEScalingConfig"` is YaRN.

    Args:
        keys: The keys of the object `scaling`; none if nothing is scaled.

    Raises:
        FileError: The class is none of SCALINGS.
    """
    class_path = keys.word("_CLASS_", "type")
    if class_path is None:
        return {}
    *_, class_name = class_path.value.split(".")
    keys.require_one_of(class_path.with_value(class_name), *SCALINGS)
    scaling_class = SCALINGS[class_name]
    if keys.data.get("attention_rescale_factor") == 1:
        # Keys that are not marked as read are reported to the user. A factor of 1 changes nothing,
        # so it need not be reported. The effect of other factors is not described here.
        keys.mark_as_read("attention_rescale_factor")
    keys_and_defaults = with_defaults(keys, class_name)
    return {
        "rope_type": class_path.with_value(scaling_class.rope_type),
        **values_by_hugging_face_name(keys_and_defaults, **scaling_class.names),
        **_factors_of_llama3(keys_and_defaults),
    }


def _factors_of_llama3(keys: Keys) -> Settings:
    """Return the two factors of Llama 3.1's scaling; none for other scalings.

    OLMo-core states them as shares of the context: `low_freq_proportion` 0 and `high_freq_proportion`
    0.25 are Llama's factors 1 and 4.
    """
    low = only_if(keys.number("low_freq_proportion"), lambda share: share < 1)
    high = nonzero(keys.number("high_freq_proportion"))
    if low is None or high is None:
        return {}
    return {
        "low_freq_factor": computed(1 / (1 - low.value), "1 / (1 − {})", low),
        "high_freq_factor": computed(1 / high.value, "1 / {}", high),
    }
