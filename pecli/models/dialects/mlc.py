"""MLC's mlc-chat-config.json: a configuration of Hugging Face in `model_config`, with a base of its own name."""

from __future__ import annotations

from collections.abc import Mapping

from pecli.models.dialects import huggingface
from pecli.models.dialects.dialect import Dialect
from pecli.models.encoding import Encoding
from pecli.models.values import Keys


def _read(keys: Keys, warnings: list[str]) -> list[Encoding]:
    own = keys.section("model_config") or keys
    data, places = dict(own.data), {}
    if "model_type" in keys and "model_type" not in own:
        data["model_type"], places["model_type"] = keys.data["model_type"], "model_type"
    base = own.number("position_embedding_base")
    if base is not None and base.value:  # 0 stands for none
        data["rope_theta"], places["rope_theta"] = base.value, base.source
    return huggingface.read(own.replaced(data, places), warnings)


def _recognises(keys: Keys) -> bool:
    inner = keys.data.get("model_config")
    own = inner if isinstance(inner, Mapping) else keys.data
    return isinstance(inner, Mapping) or "position_embedding_base" in own


DIALECT = Dialect(
    "a configuration of MLC",
    _recognises,
    _read,
    lengths=("context_window_size",),
    names_model=True,
)
