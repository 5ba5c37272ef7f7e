"""MLC's mlc-chat-config.json: a configuration of Hugging Face in `model_config`, with a base of its own name."""

from __future__ import annotations

from collections.abc import Mapping

from pecli.models.dialects import huggingface
from pecli.models.dialects.dialect import Dialect
from pecli.models.encoding import Encoding
from pecli.models.values import Keys

BASE = "position_embedding_base"


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    own = keys.section("model_config") or keys
    data, places = dict(own.data), {}
    if "model_type" in keys and "model_type" not in own:
        data["model_type"], places["model_type"] = keys.data["model_type"], "model_type"
    own.account.asked.add(BASE)
    if own.data.get(BASE):  # 0 stands for none
        data["rope_theta"], places["rope_theta"] = own.data[BASE], own.full_name(BASE)
    return huggingface.read(own.replaced(data, places), warnings)


def _recognises(keys: Keys) -> bool:
    inner = keys.data.get("model_config")
    own = inner if isinstance(inner, Mapping) else keys.data
    return isinstance(inner, Mapping) or BASE in own


DIALECT = Dialect(
    "a configuration of MLC",
    _recognises,
    _read,
    lengths=("context_window_size",),
    names_model=True,
)
