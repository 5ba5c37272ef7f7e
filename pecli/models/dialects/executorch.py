"""executorch's configurations of its Llama code: Meta's keys, and those that other models need
beside them.
"""

from pecli.models.dialects.translation import llama3_scaling, ropes_by_hugging_face_rules
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting, Settings

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE: tuple[str, ...] = (
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
    """Return the rotary encodings of an executorch config.

    `use_hf_rope: true` rotates pairs (i, i + d/2) of a head, as Hugging Face does, with longrope if
    its factors are given. Otherwise neighbouring channels are pairs, as in Meta's code, and Llama
    3.1's scaling is possible.
    """
    family = ModelFamily("executorch's code", layout=INTERLEAVED, scales_all_layers=True)
    settings: dict[str, Setting[object] | None] = {
        "rope_interleave": _interleaving(keys),
        "num_hidden_layers": keys.whole_number("n_layers"),
    }
    if keys.is_true("use_hf_rope"):
        shared_names = (*NAMES_SHARED_WITH_HUGGING_FACE, *HUGGING_FACE_KEYS)
        scaling = _longrope_settings(keys)
    else:
        shared_names = NAMES_SHARED_WITH_HUGGING_FACE
        scaling = llama3_scaling(
            keys, factor="rope_scale_factor", high_freq_factor="high_freq_factor"
        )
    return ropes_by_hugging_face_rules(
        keys, family, shared_names=shared_names, scaling=scaling, settings=settings
    )


def _interleaving(keys: Keys) -> Setting[bool] | None:
    """Return whether neighbouring channels are pairs, if `use_hf_rope` states it; else None."""
    uses_hugging_face = keys.flag("use_hf_rope")
    if uses_hugging_face is None:
        return None
    return uses_hugging_face.with_value(not uses_hugging_face.value)


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
