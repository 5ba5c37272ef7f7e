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

#: Keys that have the same name and meaning in Hugging Face's config.json.
UNRENAMED_KEYS = ("hidden_size", "num_heads", "head_dim", "qk_rope_head_dim", "qk_nope_head_dim")
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
    return translated_ropes(
        model_keys,
        family,
        unrenamed_keys=UNRENAMED_KEYS,
        settings=hugging_face_settings(model_keys, **own_names),
        scaling=_scaling_settings(model_keys),
    )


def _scaling_settings(model_keys: Keys) -> Settings:
    """Return the scaling that `extend_method` names, by the names of Hugging Face's `rope_scaling`.

    `scaling_factor` is a number for PI (linear scaling), and an object of settings for others.

    Args:
        model_keys: The keys of the object `model_config`.

    Raises:
        FileError: The method is another one, such as NTK, whose code is not known here.
    """
    method = model_keys.word_or("None", "extend_method")
    kind = model_keys.checked_word(method, "None", "PI", "LINEAR", "LLAMA3", "YARN")
    if kind == "None":
        # The factor has no effect. Nothing reads it, but it need not be reported.
        model_keys.mark_as_read("scaling_factor")
        return {}
    if kind == "PI":
        factor = model_keys.required(model_keys.number("scaling_factor"), "scaling_factor")
        return linear_scaling(factor)
    scaling_keys = model_keys.inner_or_empty("scaling_factor")
    scaling = {name: scaling_keys.value(name) for name in SCALING_NAMES}
    return {"rope_type": method.with_value(kind.lower()), **scaling}
