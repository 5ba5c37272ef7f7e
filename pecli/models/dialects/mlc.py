"""MLC's mlc-chat-config.json, and nanotron's config.yaml: both hold a configuration of Hugging Face
in `model_config`.
"""

import re

from pecli.models.dialects import huggingface
from pecli.models.encoding import ParsedEncodings
from pecli.models.keys import Keys, Setting, setting_from_key

#: nanotron marks the kind of model by a flag: `is_llama_config: true`.
NANOTRON = re.compile(r"is_(\w+)_config")


def read(keys: Keys) -> ParsedEncodings:
    """Return the encodings of MLC's or nanotron's config, by the rules for a config.json.

    Both hold the keys of a config.json in the object `model_config`, but for two: the model type
    stands elsewhere, and MLC has another name for the base.

        {"model_type": "llama", "model_config": {"position_embedding_base": 1e4, …}}      (MLC)
        {"model": {"model_config": {"is_llama_config": true, "rope_theta": 1e4, …}}}      (nanotron)
    """
    config = _inner_config(keys)
    model_type = _mlc_model_type(keys, config)
    base = _mlc_base(config)
    nanotron_flag = _nanotron_flag(config)
    if nanotron_flag:  # `is_llama_config`, for example; empty in MLC's files.
        model_type = _model_type_of_flag(config, nanotron_flag)
        base = base or _nanotron_base(config)
    # Most families call the base `rope_theta`, GPT-NeoX calls it `rotary_emb_base`.
    settings = {"rope_theta": base, "rotary_emb_base": base, "model_type": model_type}
    return huggingface.read(config.with_settings(settings))


def _inner_config(keys: Keys) -> Keys:
    """Return the object `model_config`, which nanotron has within `model`; else the whole file."""
    outer = keys.inner_or_self("model")
    return outer.inner("model_config") or keys


def _mlc_model_type(keys: Keys, config: Keys) -> Setting[str] | None:
    """Return the model type that stands outside of the config.json.

    None if there is none, or if the config.json has a model type of its own, which then counts.

    Args:
        keys: The keys of the file.
        config: The config.json within it.
    """
    return None if "model_type" in config else keys.word("model_type")


def _model_type_of_flag(config: Keys, nanotron_flag: str) -> Setting[str]:
    """Return the model type that nanotron's flag stands for: `llama` for `is_llama_config`."""
    name = NANOTRON.sub(r"\1", nanotron_flag)
    return setting_from_key(name, config.full_name(nanotron_flag))


def _nanotron_base(config: Keys) -> Setting[float]:
    """Return nanotron's `rope_theta`, or the default of its code.

    All of its models rotate. The default is stated as a setting, so that a file without any key of
    rope is read as rotary as well.
    """
    return config.number("rope_theta") or Setting(10000.0, "default of nanotron")


def _mlc_base(keys: Keys) -> Setting[float] | None:
    """Return MLC's `position_embedding_base`; 0 stands for none.

    That it is a number is checked when Hugging Face's rules read it.
    """
    base = keys.data.get("position_embedding_base")
    if not base:
        return None
    return setting_from_key(base, keys.full_name("position_embedding_base"))


def _nanotron_flag(keys: Keys) -> str:
    """Return the name of the flag that states the kind of model; empty if there is none."""
    for name, value in keys.data.items():
        if NANOTRON.fullmatch(name) and value is True:
            return name
    return ""
