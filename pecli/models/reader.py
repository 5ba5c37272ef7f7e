"""Any description of a model → its positional encodings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from pecli.engine.text import quoted
from pecli.errors import FileError, KindError
from pecli.models import gguf, jsonfile
from pecli.models.encoding import ModelEncodings
from pecli.models.submodels import read_object

NAMES = ("config.json", "params.json")


class ConfigObject(Protocol):
    """What Hugging Face's configurations have."""

    def to_dict(self) -> dict[str, Any]: ...


def load_config(path_or_dict: str | os.PathLike[str] | Mapping[str, Any] | ConfigObject) -> ModelEncodings:
    """The positional encodings that a model's configuration asks for.

    Takes a config.json, a params.json, a .gguf file, a folder with one of the first two, a mapping, or a configuration
    object of Hugging Face.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
    >>> load_config(config).encodings[0].parameters["base"]
    500000.0
    """
    if not isinstance(path_or_dict, (str, os.PathLike, Mapping)):
        if not hasattr(path_or_dict, "to_dict"):
            rule = "it must be a path, a mapping, or a configuration object with to_dict()"
            raise KindError("config", quoted(path_or_dict), rule)
        path_or_dict = path_or_dict.to_dict()
    if isinstance(path_or_dict, Mapping):
        return read_object(dict(path_or_dict), "config")
    label = os.fspath(path_or_dict)
    path = file_in(label)
    data = read_bytes(path)
    if data[:4] == gguf.MAGIC:
        return gguf.read(path, label)
    return read_object(jsonfile.parse(path, data), label)


def file_in(path: str) -> str:
    """The configuration in a folder; a file is its own."""
    if not os.path.isdir(path):
        return path
    found = [each for each in (os.path.join(path, name) for name in NAMES) if os.path.exists(each)]
    if not found:
        raise FileError(path, "is a folder without a config.json", "name a file")
    return found[0]


def read_bytes(path: str) -> bytes:
    """The start of a file, enough for any configuration that is not too large."""
    try:
        with open(path, "rb") as file:
            start = file.read(4)
            return start if start == gguf.MAGIC else start + file.read(jsonfile.LARGEST)
    except (OSError, ValueError) as problem:
        from pecli.files.os_errors import failure

        raise failure(path, problem) from None
