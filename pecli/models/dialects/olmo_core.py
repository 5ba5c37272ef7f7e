"""OLMo-core's config.json: a block whose attention has an object `rope`."""

from collections.abc import Mapping
from typing import NamedTuple

from pecli.models.dialects.translation import hugging_face_settings, translated_ropes, with_defaults
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
    """Return the encodings of an OLMo-core config: those of the block that all layers repeat.

    The rope of a block stands in its attention: `block.attention.rope`. Single layers may override
    the block (`block_overrides`), which is reported and not read.
    """
    model = keys if "d_model" in keys else keys.inner_or_self("model")
    attention = model.inner_or_self("block").inner_or_self("attention", "sequence_mixer")
    rope = attention.inner("rope")
    if rope is None:
        no_rope = "the block of the model has no rope"
        warning = f"{no_rope}, and OLMo-core has no other positional encoding"
        return ParsedEncodings(encodings=[], warnings=[warning])
    scaling = _scaling_settings(rope.inner_or_empty("scaling"))
    rope = with_defaults(rope, "OLMo-core's RoPEConfig")
    warnings = [
        *_warnings_of_override(model, "block_overrides"),
        *_warnings_of_override(rope, "no_global_rope"),
    ]
    # These keys do not change the encoding.
    rope.mark_as_read("full_precision", "_CLASS_")
    settings = {
        **hugging_face_settings(
            rope, rope_theta="theta", partial_rotary_factor="partial_rotary_factor"
        ),
        **hugging_face_settings(attention, n_heads="n_heads", head_dim="head_dim"),
        "hidden_size": model.whole_number("d_model"),
    }
    family = ModelFamily("OLMo-core", layout=_layout(rope))
    parsed = translated_ropes(model, family, scaling=scaling, settings=settings)
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

    The object of the scaling names its Python class: `"_CLASS_": "….YaRNRoPEScalingConfig"` is YaRN.

    Args:
        keys: The keys of this object; none if nothing is scaled.
    """
    class_path = keys.word("_CLASS_", "type")
    if class_path is None:
        return {}
    *_, class_name = class_path.value.split(".")
    class_name = keys.checked_word(class_path.with_value(class_name), *SCALINGS)
    scaling_class = SCALINGS[class_name]
    keys_and_defaults = with_defaults(keys, class_name)
    if keys.data.get("attention_rescale_factor") == 1:
        # A factor of 1 changes nothing. Any other is reported as a key that nothing reads.
        keys.mark_as_read("attention_rescale_factor")
    return {
        "rope_type": class_path.with_value(scaling_class.rope_type),
        **hugging_face_settings(keys_and_defaults, **scaling_class.names),
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
