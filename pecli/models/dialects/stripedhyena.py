"""StripedHyena's and Evo's YAML: some of the layers attend, with rotary positions."""

from pecli.models.dialects.translation import linear_scaling, ropes_by_hugging_face_rules
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Settings

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("hidden_size", "num_attention_heads", "rotary_emb_base")


def read(keys: Keys) -> ParsedEncodings:
    """Return rope by StripedHyena's keys, with a factor that divides positions if a flag is true.

    Evo's model of 131k tokens divides them by 16.
    """
    scaling: Settings = {}
    if keys.is_true("use_interpolated_rotary_pos_emb"):
        factor = keys.number("rotary_emb_scaling_factor")
        if factor is not None:
            scaling = linear_scaling(factor)
    return ropes_by_hugging_face_rules(
        keys,
        ModelFamily("StripedHyena"),
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
    )
