"""A model by whatever says what it is: a configuration, a folder, a .gguf file, a preset, a repository in the cache."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pecli.engine.text import quoted
from pecli.errors import FileError, KindError, ParameterError, failure
from pecli.files.checkpoints.gguf_file import MAGIC, header_of
from pecli.models import gguf, hub_cache, presets
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.rope import LENGTHS
from pecli.models.submodels import read_object

CONFIGS = ("config.json", "params.json")
_FILES = (".json", ".gguf", ".toml", ".safetensors", ".bin", ".pt", ".npz", ".npy")
"""Endings of names that are meant as those of files."""

WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")


class ConfigObject(Protocol):
    """What Hugging Face's configurations have."""

    def to_dict(self) -> dict[str, Any]: ...


Model = ModelEncodings | Encoding | Mapping[str, Any] | ConfigObject | str | os.PathLike[str]
"""Whatever says what a model is."""


class Reach(NamedTuple):
    """How far a model reaches: the longest context that it says it takes, and the window of its sliding layers."""

    context: int | None = None
    window: int | None = None


@dataclass(frozen=True)
class Description:
    """The values that describe a model: of a configuration, or of a GGUF file without its architecture's prefix."""

    label: str
    values: dict[str, Any]
    gguf_path: str = ""

    def encodings(self) -> ModelEncodings:
        """What they ask for."""
        return gguf.read(self.gguf_path, self.label) if self.gguf_path else read_object(self.values, self.label)

    def reach(self) -> Reach:
        """How far the model reaches; None where they say nothing. The language part speaks for the whole."""
        inner = self.values.get("text_config")
        parts = [self.values, inner] if isinstance(inner, Mapping) else [self.values]
        windows = () if any(part.get("use_sliding_window") is False for part in parts) else WINDOWS
        names = (("context_length",), ("attention.sliding_window",)) if self.gguf_path else (LENGTHS, windows)
        return Reach(*(_first_positive(parts, each) for each in names))


def find_model(config: Model | None = None, model: Model | None = None) -> ModelEncodings:
    """The encodings of what `--config` or `--model` name, which is one notion; either has to be given."""
    given, name = (config, "config") if config is not None else (model, "model")
    if isinstance(given, ModelEncodings):
        return given
    if isinstance(given, Encoding):
        return ModelEncodings("model", None, (given,))
    return describe(given, name).encodings()


def load_model(model: Model) -> ModelEncodings:
    """The positional encodings of a model: a config.json or params.json, a folder that holds one, a .gguf file, a
    name of `pecli models`, a repository in the local Hugging Face cache, a mapping, or a configuration object.

    >>> load_model("llama-3.1-8b").one().rope(seq_len=4096).scaling
    'llama3'
    """
    return find_model(None, model)


def load_config(config: Model) -> ModelEncodings:
    """The positional encodings that a model's configuration asks for; it takes all that `load_model` takes.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 5e5}
    >>> load_config(config).encodings[0].parameters["base"]
    500000.0
    """
    return find_model(config)


def reach(config: str | None, model: str | None = None) -> Reach:
    """How far a model reaches, as its keys say."""
    return describe(config if config is not None else model).reach()


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
        return os.path.basename(folder) if file in CONFIGS and folder else file


def named_model(name: str) -> NamedModel | None:
    """The model of a name that may also be one of a file or a folder of tensors; None where it is."""
    base, option = os.path.basename(name), "--config"
    is_model = base in CONFIGS or base.endswith((".gguf", "config.json"))
    if os.path.isdir(name):
        is_model = bool(config_file(name))
    elif not os.path.lexists(name) and (presets.find(name) or hub_cache.snapshot(name)):
        is_model, option = True, "--model"
    if not is_model:
        return None
    found = describe(name)
    return NamedModel(name, option, found.encodings(), found.reach())


def describe(given: Any, name: str = "model") -> Description:
    """What a model says of itself; `name` is what errors call the parameter."""
    if not isinstance(given, (str, os.PathLike, Mapping)) and hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, Mapping):
        return Description("config", dict(given))
    if not isinstance(given, (str, os.PathLike)):
        rule = "it must be a path, a preset, a mapping, or a configuration object with to_dict()"
        raise KindError(name, quoted(given), rule)
    label = os.fspath(given)
    if path := config_file(label):
        return _read(path, label)
    preset = presets.find(label)
    snapshot = hub_cache.snapshot(label) if preset is None or "/" in label else None
    if snapshot is not None and (path := config_file(snapshot)):
        return _read(path, label)
    if preset is not None:
        return Description(preset.name, preset.config)
    raise _not_found(label, name, snapshot)


def config_file(path: str) -> str:
    """The file that describes a model: the path itself, or what a folder holds; empty where there is none."""
    if not os.path.isdir(path):
        return path if os.path.exists(path) else ""
    found = [each for each in (os.path.join(path, name) for name in CONFIGS) if os.path.exists(each)]
    if found:
        return found[0]
    try:
        headers = [each for each in sorted(os.listdir(path)) if each.endswith(".gguf")]
    except OSError:
        return ""
    return os.path.join(path, headers[0]) if len(headers) == 1 else ""


def _read(path: str, label: str) -> Description:
    """A configuration, or the header of a .gguf file."""
    try:
        with open(path, "rb") as file:
            start = file.read(len(MAGIC))
            data = b"" if start == MAGIC else start + file.read(MAX_CONFIG_BYTES)
    except (OSError, ValueError) as problem:
        raise failure(path, problem) from None
    if start != MAGIC:
        return Description(label, parse_config(path, data))
    values = header_of(path).values
    prefix = f"{values.get('general.architecture')}."
    return Description(label, {key.removeprefix(prefix): value for key, value in values.items()}, path)


def _not_found(label: str, name: str, snapshot: str | None) -> FileError | ParameterError:
    if os.path.isdir(label):
        return FileError(label, "is a folder without a config.json", "name a file")
    if snapshot is not None:
        advice = f"get it with hf download {label} config.json"
        return FileError(snapshot, "holds no config.json", advice)
    is_path = label.lower().endswith(_FILES) or label[:1] in ("", ".", "/", "~") or not hub_cache.is_repository(label)
    if is_path or os.path.lexists(label):
        return FileError(label, "does not exist", presets.advice(label))
    if "/" in label:
        rule = f"it is no file, no preset, and not in the Hugging Face cache, {hub_cache.cache_folder()}"
        advice = presets.advice(label) or f"nothing is fetched here: hf download {label} config.json"
        return ParameterError(name, quoted(label), rule, advice)
    advice = presets.advice(label) or "pecli models lists presets; the config.json of any other model can be read"
    return ParameterError(name, quoted(label), "no file and no preset has that name", advice)


def _first_positive(parts: Sequence[Mapping[str, Any]], names: Iterable[str]) -> int | None:
    values = (part.get(name) for part in parts for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


MAX_CONFIG_BYTES = 4 << 20
"""Bytes; a hostile file becomes forty times as many in memory."""
MAX_JSON_DEPTH = 32
MAX_DIGITS = 400


class _RefusedError(ValueError):
    """What is wrong with the text; `parse_config` adds the file."""


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise _RefusedError(f"holds a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _RefusedError(f"holds {text[:40]}, which is larger than any float64")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _RefusedError(f"names {key[:60]!r} twice")
            seen.add(key)
    return found


def _depth(text: str) -> int:
    """How deeply brackets nest; those in strings count, too, which rejects nothing sensible."""
    depth = deepest = 0
    for character in text:
        if character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def parse_config(path: str, data: bytes) -> dict[str, Any]:
    """The object in a file's bytes, which are not trusted: bounded, and no key twice.

    Python writes infinities and NaN as words that JSON does not know, and hybrid models have `"time_step_limit": [0.0,
    Infinity]`: such numbers are read, and rejected where they are the value of a key that matters here.
    """
    if len(data) > MAX_CONFIG_BYTES:
        raise FileError(path, f"is larger than {MAX_CONFIG_BYTES >> 20} MB, too large for a configuration")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileError(path, "is not UTF-8 text", "a config.json is wanted") from None
    if text.count("{") + text.count("[") > MAX_JSON_DEPTH and _depth(text) > MAX_JSON_DEPTH:
        raise FileError(path, f"nests more than {MAX_JSON_DEPTH} levels deep")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_float=_real, parse_int=_whole)
    except _RefusedError as problem:
        raise FileError(path, str(problem)) from None
    except json.JSONDecodeError as problem:
        raise FileError(path, f"is not JSON: {problem.msg} in line {problem.lineno}") from None
    except (ValueError, RecursionError):
        raise FileError(path, "is not JSON that can be read") from None
    if not isinstance(found, dict):
        raise FileError(path, "is JSON, but not an object", "a config.json is wanted")
    return found
