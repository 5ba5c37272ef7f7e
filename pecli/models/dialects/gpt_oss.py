"""OpenAI's own config.json of gpt-oss."""

from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
    with_defaults,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import ModelFamily
from pecli.models.keys import Keys, Setting, Settings

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("hidden_size", "num_attention_heads", "head_dim", "rope_theta")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a config of OpenAI's own code for gpt-oss."""
    keys = with_defaults(keys, "gpt-oss's ModelConfig")
    family = ModelFamily("gpt-oss's code", theta=150000.0)
    return ropes_by_hugging_face_rules(
        keys, family, shared_names=NAMES_SHARED_WITH_HUGGING_FACE, scaling=_yarn_settings(keys)
    )


def _yarn_settings(keys: Keys) -> Settings:
    """Return YaRN if `rope_scaling_factor` exceeds 1.

    Its limits are not rounded to whole pairs, and its original context is `initial_context_length`.
    """
    # All keys are read in any case, so that none is reported as a key that nothing reads.
    yarn = values_by_hugging_face_name(
        keys,
        factor="rope_scaling_factor",
        original_max_position_embeddings="initial_context_length",
        beta_fast="rope_ntk_beta",
        beta_slow="rope_ntk_alpha",
    )
    factor = keys.number("rope_scaling_factor")
    if factor is None or factor.value <= 1:
        return {}
    return {
        **yarn,
        "rope_type": Setting("yarn", "as in gpt-oss's code"),
        "truncate": Setting(False, "truncate of gpt-oss's code"),
    }
