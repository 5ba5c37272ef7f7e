"""StripedHyena's and Evo's YAML: some of the layers attend, with rotary positions."""

from pecli.models.dialects.translation import linear_scaling, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Settings

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = ("hidden_size", "num_attention_heads", "rotary_emb_base")


def read(keys: Keys) -> ParsedEncodings:
    """Return rope by StripedHyena's keys, with a factor that divides positions if a flag is true.

    Evo's model of 131k tokens divides them by 16.
    """
    scaling: Settings = {}
    if keys.is_true("use_interpolated_rotary_pos_emb"):
        factor = keys.number("rotary_emb_scaling_factor")
        if factor is not None:
            scaling = linear_scaling(factor)
    return translated_ropes(
        keys, ModelFamily("StripedHyena"), unrenamed_keys=UNRENAMED_KEYS, scaling=scaling
    )
