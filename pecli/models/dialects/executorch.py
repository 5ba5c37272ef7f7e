"""executorch's configurations of its Llama code: Meta's keys, and those that other models need
beside them.
"""

from pecli.models.dialects.translation import llama3_scaling, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting, Settings, value_of

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS: tuple[str, ...] = (
    "dim",
    "n_heads",
    "head_dim",
    "rope_theta",
    "rope_freq_base",
    "local_rope_theta",
    "no_rope_layer_interval",
)
#: Keys that are read only with Hugging Face's rotation (`use_hf_rope`).
HUGGING_FACE_KEYS = ("partial_rotary_factor", "max_position_embeddings", ORIGINAL)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of an executorch config.

    `use_hf_rope` selects Hugging Face's way: pairs are halves of a head, and longrope is possible.
    Otherwise pairs are neighbouring channels as in Meta's code, with Llama 3.1's scaling.
    """
    family = ModelFamily("executorch's code", layout=INTERLEAVED, scales_all_layers=True)
    uses_hugging_face = keys.flag("use_hf_rope")
    settings: dict[str, Setting[object] | None] = {
        "num_hidden_layers": keys.whole_number("n_layers")
    }
    if uses_hugging_face is not None:
        is_interleaved = not uses_hugging_face.value
        settings["rope_interleave"] = uses_hugging_face.with_value(is_interleaved)
    if value_of(uses_hugging_face):
        unrenamed_keys = (*UNRENAMED_KEYS, *HUGGING_FACE_KEYS)
        scaling = _longrope_settings(keys)
    else:
        unrenamed_keys = UNRENAMED_KEYS
        scaling = llama3_scaling(
            keys, factor="rope_scale_factor", high_freq_factor="high_freq_factor"
        )
    return translated_ropes(
        keys, family, unrenamed_keys=unrenamed_keys, scaling=scaling, settings=settings
    )


def _longrope_settings(keys: Keys) -> Settings:
    """Return longrope (Phi-4-mini) if one of its lists is given; a list that is absent equals the
    other one.
    """
    names = ("rope_scaling_short_factor", "rope_scaling_long_factor")
    short, long = map(keys.numbers, names)
    attention_factor = keys.number("rope_scaling_attention_factor")
    if short is None and long is None:
        return {}
    return {
        "rope_type": Setting("longrope", ", ".join(names), names),
        "short_factor": short or long,
        "long_factor": long or short,
        "attention_factor": attention_factor,
    }
