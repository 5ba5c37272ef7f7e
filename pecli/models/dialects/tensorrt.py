"""TensorRT-LLM's config.json; that of an engine has the same in `pretrained_config`."""

from pecli.models.dialects.translation import (
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
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
#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = (
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

    Its `position_embedding_type` is the kind of encoding: `learned_absolute`, `alibi`, or a kind of
    rope. The kinds of rope, such as `rope_gpt_neox`, differ in which channels are a pair.
    """
    # An engine's file has the checkpoint's keys in the object `pretrained_config`.
    checkpoint_keys = keys.inner_or_self("pretrained_config")
    stated_kind = checkpoint_keys.word("position_embedding_type")
    kind = checkpoint_keys.required(stated_kind, "position_embedding_type")
    # The rules for kinds without rotation are data: `alibi`, for example, has a rule for ALiBi.
    rules_by_kind = project_rules("tensorrt-llm")
    keys.require_one_of(kind, *ROTARY_LAYOUTS, *rules_by_kind)
    if kind.value in rules_by_kind:
        rule = rules_by_kind[kind.value]
        return ParsedEncodings(rule.encodings(checkpoint_keys), warnings=[])
    # Hugging Face's names are on the left, TensorRT-LLM's on the right.
    settings = values_by_hugging_face_name(
        checkpoint_keys,
        rope_theta="rotary_base",
        rope_scaling="rotary_scaling",
        partial_rotary_factor="rotary_pct",
        head_dim="head_size",
    )
    family = ModelFamily("TensorRT-LLM", layout=ROTARY_LAYOUTS[kind.value])
    return ropes_by_hugging_face_rules(
        checkpoint_keys, family, shared_names=NAMES_SHARED_WITH_HUGGING_FACE, settings=settings
    )
