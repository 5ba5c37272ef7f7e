"""DeepSeek's own inference configurations, up to V3.2."""

from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    softmax_warnings,
    values_by_hugging_face_name,
    with_defaults,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Setting, Settings

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = ("qk_rope_head_dim", "qk_nope_head_dim", "rope_theta")
INDEX_HEAD_DIM = Setting(128, "class default of DeepSeek's ModelArgs.index_head_dim")


def read(keys: Keys) -> ParsedEncodings:
    """Return the rotary encodings of a config of DeepSeek's own inference code.

    Without YaRN it is plain rope. The code uses YaRN if `max_seq_len` exceeds `original_seq_len`. A
    warning then states that the attention factor multiplies the softmax scale, not cos and sin.
    """
    keys = with_defaults(keys, "DeepSeek's ModelArgs")
    length = keys.required(keys.whole_number("max_seq_len"), "max_seq_len")
    original = keys.required(keys.whole_number("original_seq_len"), "original_seq_len")
    # Both are read even without YaRN, so that they are not reported as keys that nothing reads.
    factor = keys.number("rope_factor")
    mscale = keys.number("mscale")
    scaling: Settings = {}
    warnings = []
    if length.value > original.value:
        scaling = _yarn_settings(keys, length, original)
        warnings = softmax_warnings(factor, mscale)
    family = ModelFamily("DeepSeek's inference code", layout=INTERLEAVED, has_indexer=True)
    settings = _indexer_settings(keys)
    parsed = ropes_by_hugging_face_rules(
        keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        scaling=scaling,
        settings=settings,
    )
    return parsed.with_earlier_warnings(warnings)


def _indexer_settings(keys: Keys) -> Settings:
    """Return the channels per head of V3.2's indexer, by which its sparse attention selects tokens.

    Empty for models before V3.2, which have no indexer.
    """
    if not keys.has_any("index_n_heads", "index_head_dim"):
        return {}
    return {"index_head_dim": keys.whole_number("index_head_dim") or INDEX_HEAD_DIM}


def _yarn_settings(keys: Keys, length: Setting[int], original: Setting[int]) -> Settings:
    """Return YaRN by the names of Hugging Face's `rope_scaling`, as DeepSeek's code computes it.

    No key of the file names YaRN: the code uses it because the length exceeds the original one.

    Args:
        keys: The keys of the file.
        length: Its `max_seq_len`, such as 16384.
        original: Its `original_seq_len`, such as 4096.
    """
    parameters = values_by_hugging_face_name(
        keys,
        factor="rope_factor",
        original_max_position_embeddings="original_seq_len",
        beta_fast="beta_fast",
        beta_slow="beta_slow",
    )
    reason = f"{length.source}: {length.value} exceeds {original.value} ({original.source})"
    parameters["rope_type"] = length.implying("yarn", reason)
    # Without this 1, YaRN would multiply cos and sin. The code scales the softmax instead.
    unscaled = Setting(1.0, "DeepSeek's code leaves cos and sin as they are")
    parameters["attention_factor"] = unscaled
    return parameters
