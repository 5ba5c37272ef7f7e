"""How long a context a model says it takes; encodings leave it out where the tables do not depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pecli.models import gguf, jsonfile, presets
from pecli.models.gguf_header import read_header
from pecli.models.reader import file_in, read_bytes
from pecli.models.rope import LENGTHS


def longest(config: str | None, model: str | None) -> int | None:
    """The context of a configuration, or of a preset; None where it says nothing."""
    if model is not None:
        preset = presets.find(model)
        return _said(preset.config) if preset else None
    assert config is not None
    config = file_in(config)
    data = read_bytes(config)
    if data[:4] != gguf.MAGIC:
        return _said(jsonfile.parse(config, data))
    values = read_header(config, frozenset()).values
    return _whole(values.get(f"{values.get('general.architecture')}.context_length"))


def _said(config: Mapping[str, Any]) -> int | None:
    """The language part of a model of several parts speaks for it."""
    inner = config.get("text_config")
    parts = [config, inner] if isinstance(inner, Mapping) else [config]
    return next((found for part in parts for name in LENGTHS if (found := _whole(part.get(name)))), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
