"""TensorRT-LLM's config.json; that of an engine has the same in `pretrained_config`."""

from pecli.models.dialects.translation import hugging_face_settings, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys
from pecli.models.non_rotary import project_rules

#: Layouts by the rotary words of `position_embedding_type`.
LAYOUTS = {
    "rope_gptj": INTERLEAVED,
    "chatglm": INTERLEAVED,
    "rope_gpt_neox": HALVES,
    "yarn": HALVES,
    "long_rope": HALVES,
    "mrope": HALVES,
}
COMMON_KEYS = (
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "rotary_dim",
    ORIGINAL,
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a TensorRT-LLM checkpoint's config.

    Its `position_embedding_type` is one of the rotary kinds, such as `rope_gpt_neox`, which differ
    in the layout of pairs; or a learned table or ALiBi.
    """
    inner = keys.inner_or_self("pretrained_config")
    rules = project_rules("tensorrt-llm")
    word = inner.required(inner.word("position_embedding_type"), "position_embedding_type")
    kind = keys.checked_word(word, *LAYOUTS, *rules)
    if kind in rules:
        return ParsedEncodings(rules[kind].encodings(inner), [])
    settings = hugging_face_settings(
        inner,
        rope_theta="rotary_base",
        rope_scaling="rotary_scaling",
        partial_rotary_factor="rotary_pct",
        head_dim="head_size",
    )
    family = ModelFamily("TensorRT-LLM", layout=LAYOUTS[kind])
    return translated_ropes(inner, family, common_keys=COMMON_KEYS, settings=settings)
