"""executorch's configurations of its Llama code: Meta's keys, and those that other models need
beside them.
"""

from pecli.models.dialects.translation import llama3_scaling, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys, Setting, Settings, value_of

READS: tuple[str, ...] = (
    "dim",
    "n_heads",
    "head_dim",
    "rope_theta",
    "rope_freq_base",
    "local_rope_theta",
    "no_rope_layer_interval",
)
#: Keys that are read only with Hugging Face's rotation (`use_hf_rope`).
HF_READS = ("partial_rotary_factor", "max_position_embeddings", ORIGINAL)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of an executorch config.

    `use_hf_rope` selects Hugging Face's way: pairs are halves of a head, and longrope is possible.
    Otherwise pairs are neighbouring channels as in Meta's code, with Llama 3.1's scaling.
    """
    halves = keys.flag("use_hf_rope")
    settings: dict[str, Setting[object] | None] = {
        "num_hidden_layers": keys.whole_number("n_layers")
    }
    if halves is not None:
        settings["rope_interleave"] = halves.with_value(not halves.value)
    family = ModelFamily("executorch's code", layout=INTERLEAVED, scales_all_layers=True)
    if value_of(halves):
        reads = (*READS, *HF_READS)
        scaling = _longrope_settings(keys)
    else:
        reads = READS
        scaling = llama3_scaling(
            keys, factor="rope_scale_factor", high_freq_factor="high_freq_factor"
        )
    return translated_ropes(keys, family, reads=reads, scaling=scaling, settings=settings)


def _longrope_settings(keys: Keys) -> Settings:
    """Return longrope (Phi-4-mini) if one of its lists is given; a list that is absent equals the
    other one.
    """
    short = keys.numbers("rope_scaling_short_factor")
    long = keys.numbers("rope_scaling_long_factor")
    attention = keys.number("rope_scaling_attention_factor")
    if short is None and long is None:
        return {}
    lists = ("rope_scaling_short_factor", "rope_scaling_long_factor")
    return {
        "rope_type": Setting("longrope", ", ".join(lists), lists),
        "short_factor": short or long,
        "long_factor": long or short,
        "attention_factor": attention,
    }
