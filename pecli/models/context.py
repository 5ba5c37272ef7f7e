"""How long a context a model says it takes, and its sliding window: the tables do not depend on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pecli.models import gguf, jsonfile, presets
from pecli.models.gguf_header import read_header
from pecli.models.reader import file_in, read_bytes
from pecli.models.rope import LENGTHS

WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")


class Reach(NamedTuple):
    """How far a model reaches: the longest context that it says it takes, and the window of its sliding layers."""

    context: int | None = None
    window: int | None = None


def reach(config: str | None, model: str | None) -> Reach:
    """That of a configuration, or of a preset; None where it says nothing."""
    if model is not None:
        preset = presets.find(model)
        return _said(preset.config) if preset else Reach()
    assert config is not None
    config = file_in(config)
    data = read_bytes(config)
    if data[:4] != gguf.MAGIC:
        return _said(jsonfile.parse(config, data))
    values = read_header(config, frozenset()).values
    name = values.get("general.architecture")
    return Reach(_whole(values.get(f"{name}.context_length")), _whole(values.get(f"{name}.attention.sliding_window")))


def longest(config: str | None, model: str | None) -> int | None:
    """The context alone."""
    return reach(config, model).context


def _said(config: Mapping[str, Any]) -> Reach:
    """The language part of a model of several parts speaks for it."""
    inner = config.get("text_config")
    parts = [config, inner] if isinstance(inner, Mapping) else [config]
    windows = () if any(part.get("use_sliding_window") is False for part in parts) else WINDOWS
    context, window = (
        next((found for part in parts for name in names if (found := _whole(part.get(name)))), None)
        for names in (LENGTHS, windows)
    )
    return Reach(context, window)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
