"""Rotary encodings in the spelling of Hugging Face's configurations."""

from pecli.engine.named_values import JsonObject
from pecli.models.encoding import Encoding
from pecli.models.key_names import PARTIAL

Settings = JsonObject
"""A part of a configuration."""
NOT_IN_SCALING = ("dim", "base", "scaling", PARTIAL, "max_position_embeddings")
"""Parameters of an encoding that stand elsewhere in the configuration, or have another name."""


def rope_scaling(encoding: Encoding) -> Settings:
    """Return the object `rope_scaling` that Hugging Face's config.json has for an encoding.

    {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768} is an example.
    Sections of M-RoPE (Qwen-VL) and Llama 4's query scale are part of it as well.
    """
    kind = encoding.parameters["scaling"]
    scaling = {
        name: value for name, value in encoding.parameters.items() if name not in NOT_IN_SCALING
    }
    settings: Settings = {"rope_type": "default" if kind == "none" else kind, **scaling}
    if encoding.sections.mrope_section:
        settings["mrope_section"] = list(encoding.sections.mrope_section)
    if encoding.sections.mrope_interleaved:
        settings["mrope_interleaved"] = True
    if encoding.llama_4_scaling_beta:
        settings["llama_4_scaling_beta"] = encoding.llama_4_scaling_beta
    return settings


def rope_parameters(encoding: Encoding) -> Settings:
    """Return `rope_parameters` of transformers 5, which holds the base and the rotary share too."""
    settings = {"rope_theta": float(encoding.parameters["base"]), **rope_scaling(encoding)}
    share = _rotary_share(encoding)
    if share:
        settings[PARTIAL] = share
    return settings


def _rotary_share(encoding: Encoding) -> float | None:
    """Return the share of a head that rotates, if it is not all of it.

    GPT-J states the 64 rotating channels of its 256 (`rotary_dim`), Phi-2 a fraction.
    """
    is_part_of_head = not encoding.trailing and encoding.grid.axes is None
    if encoding.head_dim and is_part_of_head and encoding.parameters["dim"] != encoding.head_dim:
        return float(encoding.parameters["dim"] / encoding.head_dim)
    share: float | None = encoding.parameters.get(PARTIAL)
    return share


def unscaled_parameters(encoding: Encoding) -> Settings:
    """Return the parameters that have nothing to do with a scaling."""
    names = ("dim", "base", PARTIAL, "mrope_section", "mrope_interleaved")
    return {name: value for name, value in encoding.parameters.items() if name in names}
