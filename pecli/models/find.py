"""A model by whatever says what it is: a configuration, a folder, a .gguf file, a preset, a repository in the cache."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from pecli.errors import FileError, KindError, ParameterError, failure, quoted
from pecli.files.contents import GGUF, INDEX, package
from pecli.files.gguf_file import Header, header_of
from pecli.files.strict_json import MAX_DEPTH, parsed_json
from pecli.models import presets
from pecli.models.dialects import gguf, read_object
from pecli.models.encoding import Encoding, ModelEncodings

MAX_START = 1 << 16  #: bytes of a .json file that tell whether it holds tables
CONFIGS = ("config.json", "params.json")
_FILES = (".json", ".gguf", ".toml", ".safetensors", ".bin", ".pt", ".npz", ".npy")
"""Endings of names that are meant as those of files."""

REPOSITORY = re.compile(
    r"[\w-][\w.-]{0,95}(?:/[\w-][\w.-]{0,95})?(?:@[\w-][\w./-]{0,95})?", re.ASCII
)
"""`name` or `org/name`, and a branch, tag or commit after an @."""
MAX_REF = 256
MAX_CONFIG_BYTES = 4 << 20  #: Bytes; a hostile file becomes forty times as many in memory


class ConfigObject(Protocol):
    """What Hugging Face's configurations have."""

    def to_dict(self) -> dict[str, Any]: ...


Model = ModelEncodings | Encoding | Mapping[str, Any] | ConfigObject | str | os.PathLike[str]
"""Whatever says what a model is."""


@dataclass(frozen=True)
class Description:
    """The values that describe a model: of a configuration, or of a GGUF file without its architecture's prefix."""

    label: str
    values: dict[str, Any]
    gguf: Header | None = None

    def encodings(self) -> ModelEncodings:
        return (
            read_object(self.values, self.label)
            if self.gguf is None
            else gguf.read(self.gguf, self.label)
        )


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


@dataclass(frozen=True)
class NamedModel:
    """A model by the name that it was asked for by."""

    name: str
    option: str  #: The option of commands that takes the name
    encodings: ModelEncodings

    @property
    def label(self) -> str:
        name = (self.option == "--model" and presets.stands_for(self.name)) or self.name
        folder, file = os.path.split(name.rstrip(os.sep))
        return os.path.basename(folder) if file in CONFIGS and folder else file


def named_model(given: Model) -> NamedModel | None:
    """The model of a name that may also be one of a file or a folder of tensors; None where it is. What is no name is
    the model itself, which commands take as the file config.json."""
    if isinstance(given, ModelEncodings):
        return NamedModel(given.file, "--config", given)
    if not isinstance(given, (str, os.PathLike)):
        return NamedModel("config.json", "--config", describe(given).encodings())
    name = os.fspath(given)
    is_model, option = is_config(name), "--config"
    if os.path.isdir(name):
        is_model = bool(config_file(name))
    elif not os.path.lexists(name) and (presets.find(name) or cached_snapshot(name)):
        is_model, option = True, "--model"
    return NamedModel(name, option, describe(name).encodings()) if is_model else None


def is_config(path: str) -> bool:
    """Whether a file describes a model: by its name, or as a .json that begins with no table, and no list of shards."""
    if path.endswith((*CONFIGS, ".gguf")):
        return True
    if not path.endswith(".json") or path.endswith(".index.json") or not os.path.isfile(path):
        return False
    with suppress(OSError), open(path, "rb") as file:
        start = file.read(MAX_START)
        return start.lstrip().startswith(b"{") and not any(
            key in start for key in (b'"tensors"', b'"pecli"')
        )
    return False


def describe(given: Any, name: str = "model") -> Description:
    """What a model says of itself; `name` is what errors call the parameter."""
    if not isinstance(given, (str, os.PathLike, Mapping)) and hasattr(given, "to_dict"):
        given = given.to_dict()
    if isinstance(given, Mapping):
        for key in given:
            if not isinstance(key, str):
                raise KindError(
                    name,
                    f"a mapping with the key {quoted(key)}",
                    "the keys of a config must be texts",
                )
        return Description("config", _as_in_a_file(given))
    if not isinstance(given, (str, os.PathLike)):
        rule = "it must be a path, a preset, a mapping, or a configuration object with to_dict()"
        raise KindError(name, quoted(given), rule)
    label = os.fspath(given)
    if path := config_file(label):
        return _read(path, label)
    preset = presets.find(label)
    snapshot = cached_snapshot(label) if preset is None or "/" in label else None
    if snapshot is not None and (path := config_file(snapshot)):
        return _read(path, label)
    if preset is not None:
        return Description(preset.name, preset.config)
    raise _not_found(label, name, snapshot)


def _as_in_a_file(values: Mapping[Any, Any], depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Keys as texts, which those of `id2label` become only when a configuration is written; and arrays as lists."""
    plain = {}
    for key, value in values.items():
        inner = _as_in_a_file(value, depth - 1) if isinstance(value, Mapping) and depth else value
        plain[str(key)] = inner.tolist() if hasattr(inner, "tolist") else inner
    return plain


def config_file(path: str) -> str:
    """The file that describes a model: the path itself, or what a folder holds, or that of an index; empty where there
    is none. Of a folder only files count: opening a pipe would wait for ever."""
    if path.endswith(INDEX):
        path = os.path.dirname(path) or os.curdir
    if not os.path.isdir(path):
        return path if os.path.exists(path) else ""
    names = list(CONFIGS)
    with suppress(OSError):
        headers = [name for name in os.listdir(path) if name.endswith(".gguf")]
        names += headers if len(headers) == 1 else []
    return next(filter(os.path.isfile, (os.path.join(path, name) for name in names)), "")


def _read(path: str, label: str) -> Description:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_CONFIG_BYTES + 1)  # of a pipe, no more
    except (OSError, ValueError) as problem:
        raise failure(path, problem) from None
    if not data.startswith(GGUF):
        if path.lower().endswith(".gguf"):
            raise FileError(path, "is not a GGUF file")
        return Description(label, parse_config(path, data))
    header = header_of(path)
    prefix = f"{header.values.get('general.architecture')}."
    return Description(
        label, {key.removeprefix(prefix): value for key, value in header.values.items()}, header
    )


def parse_config(path: str, data: bytes) -> dict[str, Any]:
    """The object in a file's bytes, which are not trusted: bounded. OLMo and GPT-NeoX write YAML."""
    if len(data) > MAX_CONFIG_BYTES:
        raise FileError(
            path, f"is larger than {MAX_CONFIG_BYTES >> 20} MB, too large for a configuration"
        )
    kind = "YAML" if path.lower().endswith((".yaml", ".yml")) else "JSON"

    def error(said: str) -> FileError:
        return FileError(
            path, said, "a config.json is wanted" if said.startswith("is not ") else ""
        )

    # infinities are read, which hybrid models have in time_step_limit, and refused where such a key matters here
    found = (
        _parse_yaml(path, data)
        if kind == "YAML"
        else parsed_json(data, error, finite=False, max_depth=MAX_DEPTH)
    )
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise FileError(path, f"is {kind}, but not an object", "a config.json is wanted")
    return _as_in_a_file(found)


def _parse_yaml(path: str, data: bytes) -> Any:
    """No tag of its makes an object."""
    yaml = package(
        "yaml", FileError(path, "is YAML, and no reader of it is installed", "pip install pyyaml")
    )
    try:
        return yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        first = str(problem).splitlines()[0] if str(problem) else "nested too deeply"
        raise FileError(path, f"is not YAML that can be read: {first[:80]}") from None


def _not_found(label: str, name: str, snapshot: str | None) -> FileError | ParameterError:
    if os.path.isdir(label):
        return FileError(label, "is a folder without a config.json", "name a file")
    if snapshot is not None:
        return FileError(
            snapshot, "holds no config.json", f"get it with hf download {label} config.json"
        )
    is_path = (
        label.lower().endswith(_FILES)
        or label[:1] in ("", ".", "/", "~")
        or not is_repository(label)
    )
    if is_path or os.path.lexists(label):
        return FileError(label, "does not exist", presets.advice(label))
    rule, advice = "no file and no preset has that name", "pecli models lists presets"
    if "/" in label:
        rule = f"it is no file, no preset, and not in the Hugging Face cache, {cache_folder()}"
        advice = f"nothing is fetched here: hf download {label} config.json"
    return ParameterError(name, quoted(label), rule, presets.advice(label) or advice)


def cache_folder() -> str:
    """Where the local cache of Hugging Face is: `HF_HUB_CACHE`, or `hub` in `HF_HOME`, or in ~/.cache/huggingface."""
    given = os.environ.get
    home = given("HF_HOME") or os.path.join(given("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return os.path.expanduser(
        given("HF_HUB_CACHE") or given("HUGGINGFACE_HUB_CACHE") or os.path.join(home, "hub")
    )


def is_repository(name: str) -> bool:
    """Whether a word can name a repository.

    >>> is_repository("meta-llama/Llama-3.1-8B"), is_repository("../config.json")
    (True, False)
    """
    return REPOSITORY.fullmatch(name) is not None and ".." not in name


def cached_snapshot(name: str) -> str | None:
    """The folder with the files of a repository; None where it is not in the cache. A repository `org/name` is the
    folder `models--org--name`: `refs/main` holds the name of a commit, `snapshots/<commit>` its files, as links."""
    if not is_repository(name):
        return None
    name, _, revision = name.partition("@")
    folder = os.path.join(cache_folder(), f"models--{name.replace('/', '--')}")
    snapshots = os.path.join(folder, "snapshots")
    ref, commits = os.path.join(folder, "refs", revision or "main"), [revision]
    with suppress(OSError, ValueError):
        if os.path.isfile(ref):  # opening a pipe would wait for ever
            with open(ref, encoding="ascii") as file:
                commits = [file.read(MAX_REF).strip(), revision]
    with suppress(OSError):  # a download by commit leaves no ref: the newest counts
        found = os.scandir(snapshots) if not revision else ()
        commits += [entry.name for entry in sorted(found, key=lambda entry: -entry.stat().st_mtime)]
    paths = (os.path.join(snapshots, commit) for commit in commits if commit and "/" not in commit)
    return next(filter(os.path.isdir, paths), None)
