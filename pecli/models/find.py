"""A model by the name of its file or of its preset: its encodings, and how far it reaches."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pecli.errors import FileError
from pecli.models import gguf, jsonfile, presets
from pecli.models.encoding import ModelEncodings
from pecli.models.gguf_header import read_header
from pecli.models.reader import NAMES, file_in, load_config, read_bytes
from pecli.models.rope import LENGTHS

WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")


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


class Reach(NamedTuple):
    """How far a model reaches: the longest context that it says it takes, and the window of its sliding layers."""

    context: int | None = None
    window: int | None = None


def reach(config: str | None, model: str | None) -> Reach:
    """That of a configuration, or of a preset, as its keys say; None where they say nothing."""
    if model is not None:
        preset = presets.find(model)
        return _stated(preset.config) if preset else Reach()
    assert config is not None
    config = file_in(config)
    data = read_bytes(config)
    if data[:4] != gguf.MAGIC:
        return _stated(jsonfile.parse(config, data))
    values = read_header(config, frozenset()).values
    name = values.get("general.architecture")
    keys = (f"{name}.context_length", f"{name}.attention.sliding_window")
    return Reach(*(_positive(values.get(key)) for key in keys))


@dataclass(frozen=True)
class NamedModel:
    """A model by the name that it was asked for by."""

    name: str
    option: str
    """The option of commands that takes the name."""
    encodings: ModelEncodings
    reach: Reach

    @property
    def label(self) -> str:
        """A short name."""
        path = self.name.rstrip(os.sep)
        folder, file = os.path.split(path)
        return os.path.basename(folder) if file in NAMES and folder else file


def named_model(name: str) -> NamedModel | None:
    """A preset, a configuration, a folder with one or a .gguf; None where the name is that of another file."""
    if not os.path.lexists(name) and presets.find(name) is not None:
        return NamedModel(name, "--model", presets.load_model(name), reach(None, name))
    base = os.path.basename(name)
    if os.path.isdir(name) or base in NAMES or base.endswith((".gguf", "config.json")):
        return NamedModel(name, "--config", load_config(name), reach(name, None))
    return None


def _stated(config: Mapping[str, Any]) -> Reach:
    """The language part of a model of several parts speaks for it."""
    inner = config.get("text_config")
    parts = [config, inner] if isinstance(inner, Mapping) else [config]
    windows = () if any(part.get("use_sliding_window") is False for part in parts) else WINDOWS
    return Reach(
        *(
            next((found for part in parts for name in names if (found := _positive(part.get(name)))), None)
            for names in (LENGTHS, windows)
        )
    )


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None
