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
    """Return the encodings of MLC's or nanotron's config, which hold a config.json in `model_config`.

    It is read by Hugging Face's rules. MLC has the model type outside of it. nanotron has
    `model_config` within `model`, and a flag as model type: `is_llama_config: true`.
    """
    config = keys.inner_or_self("model").inner("model_config") or keys
    nanotron_flag = _nanotron_flag(config)
    model_type = _outer_model_type(keys, config, nanotron_flag)
    base = _mlc_base(config)
    if nanotron_flag and base is None:
        # nanotron's code has no other positional encoding than rope, so that a base is certain.
        base = config.number("rope_theta") or Setting(10000.0, "default of nanotron")
    # Most families call the base `rope_theta`, GPT-NeoX calls it `rotary_emb_base`.
    settings = {"rope_theta": base, "rotary_emb_base": base, "model_type": model_type}
    return huggingface.read(config.translated(settings))


def _outer_model_type(keys: Keys, config: Keys, nanotron_flag: str) -> Setting[str] | None:
    """Return the model type that stands outside of the config.json, or that a flag states.

    `is_llama_config` of nanotron stands for `llama`. None if the config.json has a model type of
    its own, which then counts.

    Args:
        keys: The keys of the file.
        config: The config.json within it.
        nanotron_flag: The name of the flag; empty if there is none.
    """
    # The key is read in any case, so that it is checked beside a flag as well.
    outer_type = None if "model_type" in config else keys.word("model_type")
    if not nanotron_flag:
        return outer_type
    name = NANOTRON.sub(r"\1", nanotron_flag)
    return setting_from_key(name, config.full_name(nanotron_flag))


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
