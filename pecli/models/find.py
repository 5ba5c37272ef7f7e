"""A model by the name of its file or of its preset: its encodings, and the context that it claims."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pecli.errors import FileError
from pecli.models import gguf, jsonfile, presets
from pecli.models.encoding import ModelEncodings
from pecli.models.gguf_header import read_header
from pecli.models.reader import file_in, load_config, read_bytes
from pecli.models.rope import LENGTHS


def find_model(config: str | os.PathLike[str] | None, model: str | None) -> ModelEncodings:
    """The encodings of a configuration, or of a preset; one of them has to be named."""
    if model is not None:
        return presets.load_model(model)
    assert config is not None
    path = os.fspath(config)
    if not os.path.lexists(path) and (preset := presets.find(path)) is not None:
        hint = f"that is a preset, which --model and load_model take: {preset.name}"
        raise FileError(path, "does not exist", hint)
    return load_config(config)


def context_length(config: str | None, model: str | None) -> int | None:
    """The context of a configuration, or of a preset, as its keys say; None where they say nothing."""
    if model is not None:
        preset = presets.find(model)
        return _stated(preset.config) if preset else None
    assert config is not None
    config = file_in(config)
    data = read_bytes(config)
    if data[:4] != gguf.MAGIC:
        return _stated(jsonfile.parse(config, data))
    values = read_header(config, frozenset()).values
    return _positive(values.get(f"{values.get('general.architecture')}.context_length"))


def _stated(config: Mapping[str, Any]) -> int | None:
    """The language part of a model of several parts speaks for it."""
    inner = config.get("text_config")
    parts = [config, inner] if isinstance(inner, Mapping) else [config]
    return next((found for part in parts for name in LENGTHS if (found := _positive(part.get(name)))), None)


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
