"""OLMo-core's config.json: a block whose attention has an object `rope`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from pecli.models.dialects.translation import renamed, translated_ropes, with_defaults
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Settings, computed, value_of


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
    model = keys if "d_model" in keys else keys.inner("model") or keys
    block = model.inner("block") or model
    attention = block.inner("attention") or block.inner("sequence_mixer") or block
    rope = attention.inner("rope")
    if rope is None:
        warning = (
            "the block of the model has no rope, and OLMo-core has no other positional encoding"
        )
        return ParsedEncodings([], [warning])
    scaling = _scaling_settings(rope.inner("scaling"))
    rope = with_defaults(rope, "OLMo-core's RoPEConfig")
    warnings = [*_override_warning(model, "block_overrides")]
    warnings += _override_warning(rope, "no_global_rope")
    rope.mark_as_read("full_precision", "_CLASS_")
    settings = {
        **renamed(rope, rope_theta="theta", partial_rotary_factor="partial_rotary_factor"),
        **renamed(attention, n_heads="n_heads", head_dim="head_dim"),
        "hidden_size": model.whole("d_model"),
    }
    family = ModelFamily("OLMo-core", layout=_layout(rope))
    parsed = translated_ropes(model, family, scaling=scaling, settings=settings)
    return parsed.after(warnings)


def _layout(rope: Keys) -> str:
    """Return the layout: the implementation with complex numbers interleaves pairs."""
    name = value_of(rope.word("name"))
    return INTERLEAVED if name == "complex" else HALVES


def _override_warning(keys: Keys, name: str) -> list[str]:
    if not keys.data.get(name):
        return []
    keys.mark_as_read(name)
    full_name = keys.full_name(name)
    return [f"{full_name} is given: layers differ, and only those of `block` are described"]


def _scaling_settings(keys: Keys | None) -> Settings:
    """Return the scaling of an OLMo-core config, whose object names its Python class.

    `"_CLASS_": "….YaRNRoPEScalingConfig"` is YaRN, and its keys are renamed to Hugging Face's.
    """
    if keys is None:
        return {}
    kind = keys.word("_CLASS_", "type")
    if kind is None:
        return {}
    class_name = replace(kind, value=kind.value.rpartition(".")[2])
    name = keys.known_kind(class_name, *SCALINGS)
    rope_type, names = SCALINGS[name]
    keys = with_defaults(keys, name)
    scaling = {"rope_type": kind.with_value(rope_type), **renamed(keys, **names)}
    if keys.data.get("attention_rescale_factor") == 1:
        # Any other value is reported as a key that nothing reads.
        keys.mark_as_read("attention_rescale_factor")
    return {**scaling, **_stepwise_factors(keys)}


def _stepwise_factors(keys: Keys) -> Settings:
    """Return Llama 3.1's factors, which OLMo-core states as shares of the context.

    `low_freq_proportion` 0 and `high_freq_proportion` 0.25 are Llama's factors 1 and 4.
    """
    low = keys.number("low_freq_proportion")
    high = keys.number("high_freq_proportion")
    if low is None or high is None or low.value >= 1 or not high.value:
        return {}
    return {
        "low_freq_factor": computed(1 / (1 - low.value), "1 / (1 − {})", low),
        "high_freq_factor": computed(1 / high.value, "1 / {}", high),
    }
