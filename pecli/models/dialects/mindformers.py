"""mindformers' YAML, whose keys stand in `model.model_config`."""

from pecli.models.dialects import huggingface
from pecli.models.dialects.translation import (
    hugging_face_settings,
    linear_scaling,
    translated_ropes,
)
from pecli.models.encoding import ParsedEncodings
from pecli.models.families import HALVES, INTERLEAVED, ModelFamily
from pecli.models.keys import Keys, Settings, value_of

COMMON_KEYS = ("hidden_size", "num_heads", "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")
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
    model = keys.at("model.model_config")
    class_name = value_of(model.word("type"))
    if class_name in GLM:
        family = ModelFamily("mindformers", layout=INTERLEAVED, partial=0.5)
        own_names = {"rope_ratio": "rope_ratio", "head_dim": "kv_channels"}
    elif class_name in ROTARY:
        family = ModelFamily("mindformers", layout=HALVES)
        own_names = {"rope_theta": "theta"}
    else:
        return huggingface.read(keys)
    # Keys that nothing reads are reported. This one is right, although no frequency depends on it.
    model.mark_as_read("max_position_embedding")
    return translated_ropes(
        model,
        family,
        common_keys=COMMON_KEYS,
        settings=hugging_face_settings(model, **own_names),
        scaling=_scaling_settings(model),
    )


def _scaling_settings(model: Keys) -> Settings:
    """Return the scaling that `extend_method` names.

    `scaling_factor` is a number for PI (linear scaling), and an object of settings for others.

    Raises:
        FileError: The method is another one, such as NTK, whose code is not known here.
    """
    method = model.word_or("None", "extend_method")
    kind = model.checked_word(method, "None", "PI", "LINEAR", "LLAMA3", "YARN")
    if kind == "None":
        model.mark_as_read("scaling_factor")
        return {}
    if kind == "PI":
        return linear_scaling(model.required(model.number("scaling_factor"), "scaling_factor"))
    settings = model.inner_or_empty("scaling_factor")
    same_names = {name: name for name in SCALING_NAMES}
    return {
        "rope_type": method.with_value(kind.lower()),
        **hugging_face_settings(settings, **same_names),
    }
