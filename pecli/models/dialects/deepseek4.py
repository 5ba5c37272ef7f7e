"""DeepSeek-V4's own inference configurations."""

from pecli.models.dialects.translation import hugging_face_settings, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting

COMMON_KEYS = ("head_dim", "rope_theta", "compress_rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a config of DeepSeek-V4's own code.

    Its plain layers have no scaling. Layers that compress their keys have YaRN and a base of their
    own. In both, the last channels of a head rotate.
    """
    scaling = hugging_face_settings(
        keys,
        factor="rope_factor",
        original_max_position_embeddings="original_seq_len",
        beta_fast="beta_fast",
        beta_slow="beta_slow",
    )
    scaling["rope_type"] = Setting("yarn", "as in DeepSeek-V4's code")
    family = ModelFamily("DeepSeek-V4's code", layout=INTERLEAVED, trailing=True)
    settings = hugging_face_settings(keys, qk_rope_head_dim="rope_head_dim")
    return translated_ropes(
        keys, family, common_keys=COMMON_KEYS, scaling=scaling, settings=settings
    )
