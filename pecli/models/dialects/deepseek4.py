"""DeepSeek-V4's own inference configurations."""

from pecli.models.dialects.translation import hugging_face_settings, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = ("head_dim", "rope_theta", "compress_rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of a config of DeepSeek-V4's own code.

    The keys are renamed to those of a config.json, and read by its rules.
    """
    # Layers that compress their keys have YaRN, and the base `compress_rope_theta`. Others have the
    # base `rope_theta`, and no scaling.
    scaling = hugging_face_settings(
        keys,
        factor="rope_factor",
        original_max_position_embeddings="original_seq_len",
        beta_fast="beta_fast",
        beta_slow="beta_slow",
    )
    scaling["rope_type"] = Setting("yarn", "as in DeepSeek-V4's code")
    # In all layers, the last channels of a head rotate.
    family = ModelFamily("DeepSeek-V4's code", layout=INTERLEAVED, trailing=True)
    settings = hugging_face_settings(keys, qk_rope_head_dim="rope_head_dim")
    return translated_ropes(
        keys, family, unrenamed_keys=UNRENAMED_KEYS, scaling=scaling, settings=settings
    )
