"""litgpt's model_config.yaml."""

from pecli.errors import FileError
from pecli.models.dialects.translation import (
    linear_scaling,
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
    with_defaults,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Settings, setting_from_key

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = (
    "n_embd",
    "n_head",
    "head_size",
    "rope_base",
    "rope_local_base_freq",
    "rope_interleave",
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of a litgpt model, whose keys are renamed to a config.json's.

    Raises:
        FileError: `rope_adjustments` are YaRN's, which litgpt computes differently.
    """
    keys = with_defaults(keys, "litgpt's Config")
    scaling = _scaling(keys)
    # Keys that nothing reads are reported. These two only repeat others: the number of channels that
    # rotate follows from `rotary_percentage`, and the table of each layer from the layer's type.
    keys.mark_as_read("rope_n_elem", "rope_indices")
    settings = values_by_hugging_face_name(keys, partial_rotary_factor="rotary_percentage")
    family = ModelFamily("litgpt")
    return ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
        settings=settings,
    )


def _scaling(keys: Keys) -> Settings:
    """Return the scaling of positions: Llama 3.1's, or a factor by which all of them are divided.

    Raises:
        FileError: It is YaRN.
    """
    adjustments = keys.section("rope_adjustments")
    ratio = keys.number_or(1.0, "rope_condense_ratio")
    if adjustments:
        return _scaling_of_adjustments(adjustments)
    if ratio.value != 1:
        return linear_scaling(ratio)
    return {}


def _scaling_of_adjustments(adjustments: Keys) -> Settings:
    """Return the scaling that litgpt's object `rope_adjustments` states, by Hugging Face's names.

    The object has no type. With a `low_freq_factor`, it is Llama 3.1's scaling. With a `factor`
    only, as Gemma 3 has it, all positions are divided by it.

    Raises:
        FileError: The object has YaRN's keys.
    """
    if adjustments.has_any("beta_fast", "beta_slow"):
        problem = (
            "rope_adjustments is YaRN's, which litgpt's code blends the other way round:"
            " it divides high frequencies and keeps low ones"
        )
        raise FileError(adjustments.path, problem, "read the model's own config.json")
    kind = "llama3" if "low_freq_factor" in adjustments else "linear"
    # Hugging Face's names are on the left, litgpt's on the right. Absent keys are left out.
    return {
        "rope_type": setting_from_key(kind, "rope_adjustments"),
        **values_by_hugging_face_name(
            adjustments,
            factor="factor",
            low_freq_factor="low_freq_factor",
            high_freq_factor="high_freq_factor",
            original_max_position_embeddings="original_max_seq_len",
        ),
    }
