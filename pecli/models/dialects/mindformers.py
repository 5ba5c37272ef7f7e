"""mindformers' YAML, whose keys stand in `model.model_config`."""

from pecli.models.dialects import huggingface
from pecli.models.dialects.translation import (
    linear_scaling,
    ropes_by_hugging_face_rules,
    values_by_hugging_face_name,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Settings, value_of

#: Keys with the same name and meaning in Hugging Face's config.json.
NAMES_SHARED_WITH_HUGGING_FACE = (
    "hidden_size",
    "num_heads",
    "head_dim",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
)
#: Classes that rotate half of a head, in neighbouring pairs (ChatGLM's attention).
GLM = ("ChatGLM2Config", "GLM3Config", "ChatGLM4Config", "GLM4Config")
#: Classes that rotate by FreqsMgr of modules/layers.py.
ROTARY = ("LlamaConfig", "Qwen2Config", "InternLM2Config", "BaichuanConfig", "DeepseekV3Config")
#: Keys of `scaling_factor` that have the names and meanings of Hugging Face's `rope_scaling`.
SCALING_NAMES = (
    "factor",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "original_max_position_embeddings",
)


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of a mindformers YAML file, whose `model.model_config` names a class.

    Rotary classes are read here: GLM's rotate neighbouring channels of half a head, the others
    halves of the whole head. All other files are read by Hugging Face's rules.
    """
    model_keys = keys.at("model.model_config")
    class_name = value_of(model_keys.word("type"))
    if class_name in GLM:
        family = ModelFamily("mindformers", layout=INTERLEAVED, partial=0.5)
        own_names = {"rope_ratio": "rope_ratio", "head_dim": "kv_channels"}
    elif class_name in ROTARY:
        family = ModelFamily("mindformers", layout=HALVES)
        own_names = {"rope_theta": "theta"}
    else:
        return huggingface.read(keys)
    # Keys that nothing reads are reported. This one is right, although no frequency depends on it.
    model_keys.mark_as_read("max_position_embedding")
    return ropes_by_hugging_face_rules(
        model_keys,
        family,
        shared_names=NAMES_SHARED_WITH_HUGGING_FACE,
        settings=values_by_hugging_face_name(model_keys, **own_names),
        scaling=_scaling_settings(model_keys),
    )


def _scaling_settings(model_keys: Keys) -> Settings:
    """Return the scaling that `extend_method` names, by the names of Hugging Face's `rope_scaling`.

    The key `scaling_factor` is one number for the method PI (linear scaling). For the other methods
    it is an object of settings, such as `{"factor": 4.0, "beta_fast": 32}`.

    Args:
        model_keys: The keys of the object `model_config`.

    Raises:
        FileError: The method is another one, such as NTK, whose code is not known here.
    """
    method = model_keys.word_or("None", "extend_method")
    model_keys.require_one_of(method, "None", "PI", "LINEAR", "LLAMA3", "YARN")
    if method.value == "None":
        # The factor has no effect. Without this line, a warning would report an unread key.
        model_keys.mark_as_read("scaling_factor")
        return {}
    if method.value == "PI":
        factor = model_keys.required(model_keys.number("scaling_factor"), "scaling_factor")
        return linear_scaling(factor)
    # LINEAR, LLAMA3 and YARN are Hugging Face's types `linear`, `llama3` and `yarn`.
    rope_type = method.with_value(method.value.lower())
    scaling_keys = model_keys.inner("scaling_factor")
    scaling = {name: scaling_keys.value(name) for name in SCALING_NAMES}
    return {"rope_type": rope_type, **scaling}
