"""Find a model: by a configuration, a folder, a .gguf file, a preset, or a repository in the local
cache.
"""

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeGuard

from pecli.engine.arguments import text_of, within_limits
from pecli.engine.named_values import JsonObject
from pecli.errors import FileError, KindError, ParameterError, quoted
from pecli.files.contents import GGUF, STANDARD_INPUT
from pecli.files.gguf_file import GgufHeader, header_of
from pecli.files.named_pipe import open_to_read
from pecli.files.output import blamed_on
from pecli.models import config_files, presets
from pecli.models.config_files import CONFIGS, config_file, is_config, plain_config
from pecli.models.dialects import gguf, llama_cpp_log, read_object
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.flags import apply_flags
from pecli.models.hub_cache import cache_folder, cached_snapshot, is_repository

#: Endings of names that are meant as files.
FILE_SUFFIXES = (".json", ".gguf", ".log", ".toml", ".safetensors", ".bin", ".pt", ".npz", ".npy")


class ConfigObject(Protocol):
    """A configuration object of Hugging Face."""

    def to_dict(self) -> dict[str, object]: ...


Model = ModelEncodings | Encoding | Mapping[str, object] | ConfigObject | str | os.PathLike[str]
"""Anything that describes a model."""


@dataclass(frozen=True)
class Description:
    """The values that describe a model: by itself, those of a configuration.

    Attributes:
        label: The file, preset or repository, for tables and messages.
        values: The configuration, or GGUF metadata without the architecture's prefix.
    """

    label: str
    values: JsonObject

    def encodings(self, flags: str | None = None) -> ModelEncodings:
        """Return the encodings, as a server with these flags computes them."""
        return _with_flags(self._encodings_without_flags(), flags, self._config())

    def _encodings_without_flags(self) -> ModelEncodings:
        """Return the encodings that the description itself has."""
        return read_object(self.values, self.label)

    def _config(self) -> JsonObject | None:
        """Return the configuration whose keys flags may replace; None if the model has none."""
        return self.values


@dataclass(frozen=True)
class GgufDescription(Description):
    """The metadata of a .gguf file."""

    header: GgufHeader

    def _encodings_without_flags(self) -> ModelEncodings:
        return gguf.read(self.header, self.label)

    def _config(self) -> None:
        return None


@dataclass(frozen=True)
class LogDescription(Description):
    """The metadata that llama.cpp's log of loading a model shows."""

    log: llama_cpp_log.LoadLog

    def _encodings_without_flags(self) -> ModelEncodings:
        return llama_cpp_log.read(self.log, self.label)

    def _config(self) -> None:
        return None


def _with_flags(
    model: ModelEncodings, flags: str | None, config: JsonObject | None
) -> ModelEncodings:
    """Return a model with the flags of a server, if there are any."""
    return model if flags is None else apply_flags(model, config, flags)


def find_model(
    config: Model | None = None, model: Model | None = None, flags: str | None = None
) -> ModelEncodings:
    """Return the encodings of a model that is given as `--config` or as `--model`.

    Both accept the same things; errors name the option that was used. `flags` is a server's command
    line, which changes the encodings.
    """
    if config is not None:
        return _encodings_of(config, "config", flags)
    return _encodings_of(model, "model", flags)


def _encodings_of(model: Model | None, name: str, flags: str | None) -> ModelEncodings:
    """Return the encodings of anything that describes a model, with the flags of a server.

    Args:
        model: The model.
        name: The name of the parameter, for errors.
        flags: The command line, or None.
    """
    if flags is not None:
        flags = text_of("flags", flags)
    if isinstance(model, Encoding):
        model = ModelEncodings(file="model", model_type=None, encodings=(model,))
    if isinstance(model, ModelEncodings):
        return _with_flags(model, flags, config=None)
    return describe(model, name).encodings(flags)


@within_limits
def load_model(model: Model, flags: str | None = None) -> ModelEncodings:
    """Return the positional encodings of a model.

    Args:
        model: A config.json or params.json, a folder that contains one, a .gguf file or
            llama.cpp's log of loading it, a name of `pecli models`, a repository in the local
            Hugging Face cache, a mapping, or a configuration object.
        flags: A server's command line or a part of it, such as `--rope-scaling yarn --rope-scale
            4`; the encodings are then those that the server computes, and `flags` of the result
            reports the differences.

    Returns:
        The encodings, one per layer type, with the source of every value.

    Raises:
        FileError: The file cannot be read, or is not a configuration.
        ParameterError: No model has the name, or a flag is wrong.

    >>> load_model("llama-3.1-8b").one().rope(seq_len=4096).scaling
    'llama3'
    >>> load_model("llama-2-7b", "llama-server --rope-scale 2").one().parameters["factor"]
    2.0
    """
    return find_model(None, model, flags)


@within_limits
def load_config(config: Model, flags: str | None = None) -> ModelEncodings:
    """Return the positional encodings of a model's configuration.

    Args:
        config: Anything that `load_model` accepts.
        flags: A server's command line, as in `load_model`.

    Returns:
        The encodings, one per layer type, with the source of every value.

    Raises:
        FileError: The file cannot be read, or is not a configuration.
        ParameterError: No model has the name.

    >>> sizes = {"hidden_size": 4096, "num_attention_heads": 32}
    >>> config = {"model_type": "llama", "rope_theta": 5e5, **sizes}
    >>> load_config(config).encodings[0].parameters["base"]
    500000.0
    """
    return find_model(config, flags=flags)


@dataclass(frozen=True)
class NamedModel:
    """A model with the name that it was requested by."""

    name: str
    #: The option of commands that accepts the name.
    option: str
    encodings: ModelEncodings

    @property
    def label(self) -> str:
        """A short name: the preset's, the file's, or that of the folder of a config.json."""
        name = self.name
        if self.option == "--model":
            name = presets.stands_for(name) or name
        folder, file = os.path.split(name.rstrip(os.sep))
        name_of_folder = os.path.basename(folder) if file in CONFIGS else ""
        return name_of_folder or file


def named_model(model: Model) -> NamedModel | None:
    """Return the model that a user named; None if the name is a file or a folder of tensors.

    `pecli report llama-3.1-8b dump.npz` has one of each. A model that has no name, such as a
    mapping, is called config.json.
    """
    if isinstance(model, ModelEncodings):
        return NamedModel(name=model.file, option="--config", encodings=model)
    if not isinstance(model, (str, os.PathLike)):
        # A mapping or a configuration object has no name.
        encodings = describe(model).encodings()
        return NamedModel(name="config.json", option="--config", encodings=encodings)
    name = os.fspath(model)
    option = _option_of(name)
    if not option:
        _refuse_misspelt_preset(name)
        return None
    return NamedModel(name=name, option=option, encodings=describe(name).encodings())


def _refuse_misspelt_preset(name: str) -> None:
    """Raise a FileError for a name that is no file, and nearly that of a preset."""
    if os.path.lexists(name) or _is_path(name):
        return
    advice = presets.advice(name)
    if advice:
        raise FileError(name, "does not exist", advice)


def _option_of(name: str) -> str:
    """Return the option that a name of a model is for; empty if it does not name a model.

    A preset's name, or a repository's, is for `--model` unless a file is called so.
    """
    if os.path.isdir(name):
        return "--config" if config_file(name) else ""
    exists = os.path.lexists(name)
    if not exists and (presets.find(name) or cached_snapshot(name)):
        return "--model"
    return "--config" if is_config(name) else ""


def describe(model: object, name: str = "model") -> Description:
    """Return the values that describe a model.

    Args:
        model: Anything that `load_model` accepts.
        name: The parameter's name, for errors.
    """
    if isinstance(model, (str, os.PathLike)):
        return _describe_named(os.fspath(model), name)
    config = model.to_dict() if _is_config_object(model) else model
    if not isinstance(config, Mapping):
        rule = "it must be a path, a preset, a mapping, or a configuration object with to_dict()"
        raise KindError(name, quoted(config), rule)
    _check_keys(config, name)
    return Description(label="config", values=plain_config(config))


def _is_config_object(model: object) -> TypeGuard[ConfigObject]:
    """Return True for a configuration of Hugging Face; a mapping is one of its own."""
    return hasattr(model, "to_dict") and not isinstance(model, Mapping)


def _check_keys(config: Iterable[object], name: str) -> None:
    """Raise KindError for a mapping with a key that is no text."""
    for key in config:
        if not isinstance(key, str):
            given = f"a mapping with the key {quoted(key)}"
            raise KindError(name, given, "the keys of a config must be texts")


def _describe_named(label: str, name: str) -> Description:
    """Return the description of a file, a folder, a preset or a repository.

    `llama-3.1-8b` is a preset. `meta-llama/Llama-3.1-8B` is first of all a repository, if the cache
    has it.

    Args:
        label: The name of the model.
        name: The parameter that it was given as, for errors.
    """
    path = config_file(label)
    if path:
        return _read_description(path, label)
    preset = presets.find(label)
    may_be_repository = preset is None or "/" in label
    snapshot = cached_snapshot(label) if may_be_repository else ""
    path_in_snapshot = config_file(snapshot)
    if path_in_snapshot:
        return _read_description(path_in_snapshot, label)
    if preset is not None:
        return Description(label=preset.name, values=preset.config)
    raise _not_found(label, name, snapshot)


def _read_description(path: str, label: str) -> Description:
    """Read a file, which is a GGUF by its first bytes, not by its name; errors name the path."""
    with blamed_on(path), open_to_read(path) as file:
        # A pipe may have no end.
        data = file.read(config_files.MAX_CONFIG_BYTES + 1)
    if data.startswith(GGUF):
        return _read_gguf(path, label)
    return _parse(path, label, data)


def describe_standard_input() -> Description:
    """Return the values that describe a model, from standard input, which can be read only once."""
    data = sys.stdin.buffer.read(config_files.MAX_CONFIG_BYTES + 1)
    if data.startswith(GGUF):
        problem = "is a GGUF file, whose parts are not read in order"
        raise FileError(STANDARD_INPUT, problem, "save it to a file first")
    return _parse(STANDARD_INPUT, STANDARD_INPUT, data)


def _parse(path: str, label: str, data: bytes) -> Description:
    """Return the values of a configuration, or of a log that llama.cpp writes."""
    if path.lower().endswith(".gguf"):
        raise FileError(path, "is not a GGUF file")
    if llama_cpp_log.is_log(data):
        log = llama_cpp_log.parse_log(data)
        return LogDescription(label=label, values=log.values, log=log)
    return Description(label=label, values=config_files.parse_config(path, data))


def _read_gguf(path: str, label: str) -> Description:
    """Return the metadata of a .gguf file, without the architecture before their names."""
    header = header_of(path)
    prefix = f"{header.values.get('general.architecture')}."
    values = {key.removeprefix(prefix): value for key, value in header.values.items()}
    return GgufDescription(label=label, values=values, header=header)


def _not_found(label: str, name: str, snapshot: str) -> FileError | ParameterError:
    """Return the error for a name that is neither a file, nor a preset, nor a repository.

    `models/x.json` is a file that is missing, `org/model` a repository that the cache lacks, and
    `lama-3.1-8b` a misspelt preset.

    Args:
        label: The name.
        name: The parameter that it was given as.
        snapshot: The folder of the repository in the cache, if it is there without a config.json;
            else empty.
    """
    if os.path.isdir(label):
        return FileError(label, "is a folder without a config.json", "name a file")
    if snapshot:
        advice = f"get it with hf download {label} config.json"
        return FileError(snapshot, "holds no config.json", advice)
    nearest_preset = presets.advice(label)
    if _is_path(label) or os.path.lexists(label):
        return FileError(label, "does not exist", nearest_preset)
    rule = "no file and no preset has that name"
    advice = "pecli models lists presets"
    looks_like_repository = "/" in label
    if looks_like_repository:
        rule = f"it is no file, no preset, and not in the Hugging Face cache, {cache_folder()}"
        advice = f"nothing is fetched here: hf download {label} config.json"
    return ParameterError(name, quoted(label), rule, nearest_preset or advice)


def _is_path(label: str) -> bool:
    """Return True if a name is meant as a path: by its ending or its first letter, or because no
    repository has it.
    """
    return label.lower().endswith(FILE_SUFFIXES) or not is_repository(label)
