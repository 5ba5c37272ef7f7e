"""DeepSeek-V4's own inference configurations."""

from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("head_dim", "rope_theta", "compress_rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of a config of DeepSeek-V4's own code.

    Its keys get the names of Hugging Face's config.json, whose rules then read them. These rules
    give YaRN and the base `compress_rope_theta` to layers that compress their attention keys. Other
    layers have the base `rope_theta` and no scaling.
    """
    # Hugging Face's names are on the left, DeepSeek's on the right.
    scaling = values_by_hugging_face_name(
        keys,
        factor="rope_factor",
        original_max_position_embeddings="original_seq_len",
        beta_fast="beta_fast",
        beta_slow="beta_slow",
    )
    scaling["rope_type"] = Setting("yarn", "as in DeepSeek-V4's code")
    # In all layers, the last channels of a head rotate.
    family = ModelFamily("DeepSeek-V4's code", layout=INTERLEAVED, trailing=True)
    settings = values_by_hugging_face_name(keys, qk_rope_head_dim="rope_head_dim")
    return ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
        settings=settings,
    )
