"""TensorRT-LLM's config.json; that of an engine has the same in `pretrained_config`."""

from pecli.models.dialects.translation import hugging_face_settings, translated_ropes
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.key_names import ORIGINAL
from pecli.models.keys import Keys
from pecli.models.non_rotary import project_rules

#: Layouts by the rotary words of `position_embedding_type`.
ROTARY_LAYOUTS = {
    "rope_gptj": INTERLEAVED,
    "chatglm": INTERLEAVED,
    "rope_gpt_neox": HALVES,
    "yarn": HALVES,
    "long_rope": HALVES,
    "mrope": HALVES,
}
#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = (
    "hidden_size",
    "num_attention_heads",
    "max_position_embeddings",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "rotary_dim",
    ORIGINAL,
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a TensorRT-LLM checkpoint's or engine's config.

    Its `position_embedding_type` names a learned table, ALiBi, or a kind of rope. The kinds of rope,
    such as `rope_gpt_neox`, differ in the layout of pairs.
    """
    checkpoint_keys = keys.inner_or_self("pretrained_config")  # An engine has this object.
    stated_kind = checkpoint_keys.required(
        checkpoint_keys.word("position_embedding_type"), "position_embedding_type"
    )
    non_rotary_rules = project_rules("tensorrt-llm")  # By their kinds, such as `alibi`.
    kind = keys.checked_word(stated_kind, *ROTARY_LAYOUTS, *non_rotary_rules)
    if kind in non_rotary_rules:
        rule = non_rotary_rules[kind]
        return ParsedEncodings(rule.encodings(checkpoint_keys), [])
    settings = hugging_face_settings(
        checkpoint_keys,
        rope_theta="rotary_base",
        rope_scaling="rotary_scaling",
        partial_rotary_factor="rotary_pct",
        head_dim="head_size",
    )
    family = ModelFamily("TensorRT-LLM", layout=ROTARY_LAYOUTS[kind])
    return translated_ropes(
        checkpoint_keys, family, unrenamed_keys=UNRENAMED_KEYS, settings=settings
    )
