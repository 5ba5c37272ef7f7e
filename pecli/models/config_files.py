"""Files that describe a model: where they are in a folder, and how their text is parsed."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, TypeGuard

from pecli.errors import FileError
from pecli.files.contents import INDEX, package
from pecli.files.strict_json import MAX_DEPTH, parsed_json

CONFIGS = ("config.json", "params.json")
#: Bytes of a .json file that show whether it holds tables.
MAX_START = 1 << 16
#: Bytes; a hostile file becomes forty times as many in memory.
MAX_CONFIG_BYTES = 4 << 20
EXPECTED = "a config.json is expected"
#: A number that YAML 1.1 takes for a text, since it lacks a dot or the sign of the exponent: 5e5.
EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(\.[0-9_]*)?[eE][-+]?[0-9]+$")
#: A value of OmegaConf that stands elsewhere in the file: `${model.seq_length}`, or from the object
#: itself `${.seq_length}`; each further dot leads out of an object.
REFERENCE = re.compile(r"\$\{(\.*)(\w+(?:\.\w+)*)\}")
#: References that lead to references.
MAX_REFERENCES = 8
#: An object whose first value is a list of lists of numbers.
_TABLE_FIRST = re.compile(rb'\s*\{\s*"[^"]*"\s*:\s*\[\s*\[[\[\s]*[-0-9]')
#: A list of lists of numbers, after a key or in a list.
_TABLE = re.compile(rb"[:\[]\s*\[\s*\[[\[\s]*[-0-9]")
#: Keys of a file of tables that pecli wrote.
_WRITTEN_BY_PECLI = re.compile(rb'"(?:tensors|pecli)"')
#: Keys by which Hugging Face, timm and diffusers name a model.
_MODEL_TYPE = re.compile(rb'"(?:model_type|architectures?|_class_name)"\s*:')


def is_config(path: str) -> bool:
    """Return True if a file describes a model, as a config.json and a .gguf do by their names.

    A .json with another name is looked into: it may hold tables, which describe no model.
    """
    if path.endswith((*CONFIGS, ".gguf")):
        return True
    if not path.endswith(".json") or path.endswith(".index.json") or not os.path.isfile(path):
        return False
    with suppress(OSError), open(path, "rb") as file:
        return _begins_like_config(file.read(MAX_START))
    return False


def _begins_like_config(start: bytes) -> bool:
    """Return True for an object of JSON that is not a file of tables.

    Tables are below `tensors` if pecli wrote them, or begin at once: {"cos": [[1.0, 0.5], …
    They may also be nested: {"layers": {"0": {"cos": [[1.0, 0.5], … Configurations that have such
    lists, as LLaVA's of image sizes, name the type of the model as well.
    """
    begins_with_table = _TABLE_FIRST.match(start) is not None
    holds_nested_table = _TABLE.search(start) is not None and _MODEL_TYPE.search(start) is None
    is_of_pecli = _WRITTEN_BY_PECLI.search(start) is not None
    holds_tables = begins_with_table or holds_nested_table or is_of_pecli
    return start.lstrip().startswith(b"{") and not holds_tables


def config_file(path: str) -> str:
    """Return the file that describes a model; empty if there is none.

    It is the path itself, or a file in the folder that it names, or beside the index that it names.
    In a folder only regular files count: opening a pipe would wait for ever.
    """
    if path.endswith(INDEX):
        path = os.path.dirname(path) or os.curdir
    if not os.path.isdir(path):
        return path if os.path.exists(path) else ""
    candidates = [os.path.join(path, name) for name in (*CONFIGS, *_only_gguf(path))]
    return next(filter(os.path.isfile, candidates), "")


def _only_gguf(folder: str) -> list[str]:
    """Return the .gguf file of a folder, unless there are several."""
    with suppress(OSError):
        names = [name for name in os.listdir(folder) if name.endswith(".gguf")]
        if len(names) == 1:
            return names
    return []


def parse_config(path: str, data: bytes) -> dict[str, object]:
    """Return the object in a file's bytes, which are not trusted. OLMo and GPT-NeoX write YAML.

    Raises:
        FileError: The file is too large, is not an object, or cannot be parsed.
    """
    if len(data) > MAX_CONFIG_BYTES:
        megabytes = MAX_CONFIG_BYTES >> 20  # A megabyte is 2^20 bytes.
        raise FileError(path, f"is larger than {megabytes} MB, too large for a configuration")
    is_yaml = path.lower().endswith((".yaml", ".yml"))
    if is_yaml:
        config = _with_references(_parse_yaml(path, data))
    else:
        config = _parse_json(path, data)
    if not _is_object_with_texts_as_keys(config):
        language = "YAML" if is_yaml else "JSON"
        raise FileError(path, f"is {language}, but not an object", EXPECTED)
    return plain_config(config)


def _is_object_with_texts_as_keys(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _parse_json(path: str, data: bytes) -> object:
    """Return the content of a JSON file.

    Hybrid models have infinities in time_step_limit. They are refused only in keys that are read.
    """
    return parsed_json(
        data,
        lambda problem: FileError(path, problem, EXPECTED),
        finite=False,
        max_depth=MAX_DEPTH,
    )


def plain_config(config: Mapping[object, object], depth: int = MAX_DEPTH) -> dict[str, object]:
    """Return a configuration as a file has it.

    Keys are texts, also the numbers of `id2label`, and arrays are lists.

    Args:
        config: The configuration, which may come from a program instead of a file.
        depth: How many levels of objects within it are converted.
    """
    plain = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and depth:
            value = plain_config(value, depth - 1)
        if hasattr(value, "tolist"):  # An array of NumPy or torch.
            value = value.tolist()
        plain[str(key)] = value
    return plain


def _parse_yaml(path: str, data: bytes) -> object:
    """Return the content of a YAML file; tags that would make objects are refused."""
    missing = FileError(path, "is YAML, and no reader of it is installed", "pip install pyyaml")
    yaml = package("yaml", missing)
    try:
        parsed: object = yaml.load(data, _number_loader(yaml.SafeLoader))
        return parsed
    except (yaml.YAMLError, ValueError, RecursionError) as problem:
        lines = str(problem).splitlines() or ["nested too deeply"]
        raise FileError(path, f"is not YAML that can be read: {lines[0][:80]}") from None


class YamlLoader(Protocol):
    """A loader of PyYAML, which is imported only if a file is YAML."""

    @classmethod
    def add_implicit_resolver(cls, tag: str, regexp: re.Pattern[str], first: list[str]) -> None: ...


def _number_loader(loader: type[YamlLoader]) -> type[YamlLoader]:
    """Return a safe loader of YAML that also reads 5e5 as a number, as YAML 1.2 does."""
    numbers: type[YamlLoader] = type("NumberLoader", (loader,), {})
    numbers.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+0123456789"))
    return numbers


YamlObject = dict[object, object]
"""An object of YAML, whose keys may be numbers and dates as well."""


def _with_references(config: object) -> object:
    """Return a configuration with the values that its references stand for.

    References to objects, to keys that are absent, and calls such as `${multiply:2,3}` stay texts.
    """
    if not isinstance(config, dict):
        return config
    return _resolved_object(config, (config,))


def _resolved_object(section: YamlObject, parents: tuple[YamlObject, ...]) -> YamlObject:
    """Return an object of a YAML file with values in place of references, `${model.hidden_size}`.

    Args:
        section: The object.
        parents: The objects on the way to it: the file first, and the object itself last.
    """
    resolved: YamlObject = {}
    for name, value in section.items():
        if isinstance(value, dict) and len(parents) <= MAX_DEPTH:
            resolved[name] = _resolved_object(value, (*parents, value))
        else:
            resolved[name] = _resolved_reference(value, parents)
    return resolved


def _resolved_reference(value: object, parents: tuple[YamlObject, ...]) -> object:
    """Return the value that a reference in a YAML file leads to: `${model.hidden_size}` is 4096.

    It may lead to a further reference, which is then followed as well. A value that is no reference
    is returned unchanged. So is a reference that leads to no number or text.

    Args:
        value: A value of the file.
        parents: The objects around it, the outermost first.
    """
    target = value
    for _ in range(MAX_REFERENCES):
        match = REFERENCE.fullmatch(target) if isinstance(target, str) else None
        if match is None:
            return target
        dots, path = match.groups()
        *names, key = path.split(".")
        parents = _objects_on_way(_objects_at(parents, len(dots)), names)
        target = parents[-1].get(key)
        if target is None or isinstance(target, (dict, list)):
            return value
    return value  # So many references probably lead to one another.


def _objects_at(parents: tuple[YamlObject, ...], dots: int) -> tuple[YamlObject, ...]:
    """Return the objects from the file to the one in which a reference starts.

    Without a dot that is the file; one dot is the object of the reference itself, two its parent.
    It is an empty object if there are more dots than objects.
    """
    if dots == 0:
        file, *_ = parents
        return (file,)
    left_out = dots - 1
    remaining = max(0, len(parents) - left_out)
    return parents[:remaining] or ({},)


def _objects_on_way(parents: tuple[YamlObject, ...], names: list[str]) -> tuple[YamlObject, ...]:
    """Return the objects on a way, from the file to the last one, which is empty if it is absent.

    Args:
        parents: The objects from the file to the one in which the way begins.
        names: The keys of the objects on the way.
    """
    for name in names:
        inner = parents[-1].get(name)
        parents = (*parents, inner if isinstance(inner, dict) else {})
    return parents
