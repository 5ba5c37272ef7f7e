"""Helpers of the tests of models: the facts that are read from a configuration, and GGUF files."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pecli.models.encoding import Encoding
from pecli.models.find import Model, load_config

DATA = Path(__file__).parent / "data"


def stored(*names: str) -> Any:
    """Return the contents of a JSON file of `data`, or all lines of several JSON-lines files."""
    if names[0].endswith(".json"):
        return json.loads((DATA / names[0]).read_text(encoding="utf-8"))
    return [
        json.loads(line)
        for name in names
        for line in (DATA / name).read_text(encoding="utf-8").splitlines()
    ]


def only_encoding(config: Model) -> Encoding:
    """Return the only encoding of a configuration."""
    (encoding,) = load_config(config).encodings
    return encoding


def facts(encoding: Encoding) -> dict[str, Any]:
    """Return the facts of an encoding by name; the key of a fact is at `source of NAME`."""
    names = ("scheme", "layout", "head_dim", "rotary_dim", "axis_dim", "trailing")
    return {
        **{name: getattr(encoding, name) for name in names},
        **encoding.described(),
        **encoding.parameters,
        "order": None if encoding.order is None else list(encoding.order),
        **{f"source of {name}": source for name, source in encoding.sources.items()},
    }


def has_facts(encoding: Encoding, expected: Mapping[str, Any]) -> bool:
    """Return True if an encoding has the expected facts; None stands for an absent one.

    Otherwise the assertion fails here, so that pytest shows the facts that differ.
    """
    all_facts = facts(encoding)
    found = {name: all_facts.get(name) for name in expected}
    assert found == expected
    return True


def check_encoding(config: Model, expected: Mapping[str, Any], warning: str | None = None) -> None:
    """Check the only encoding of a configuration, and its warnings.

    Args:
        config: The configuration.
        expected: Some facts of its encoding.
        warning: A part of one of the warnings. Empty: there are none. None: any are fine.
    """
    model = load_config(config)
    assert has_facts(model.one(), expected)
    if warning == "":
        assert model.warnings == ()
    elif warning is not None:
        assert any(warning in sentence for sentence in model.warnings)


def facts_by_layer_type(config: Model) -> dict[str, tuple[Any, ...]]:
    """Return the main facts of each layer type of a configuration.

    Rotary layers have (rotary dim, base, scaling, layout), such as (128, 5e5, "llama3", "halves");
    others their scheme and its sizes, such as ("learned", 1024, 768).
    """
    rows: dict[str, tuple[Any, ...]] = {}
    for encoding in load_config(config):
        parameters = encoding.parameters
        if encoding.is_rotary:
            rotation = (parameters["base"], parameters["scaling"], encoding.layout)
            rows[encoding.layer_type] = (encoding.rotary_dim, *rotation)
        else:
            names = ("heads", "max_len", "seq_len", "dim")
            sizes = [parameters[name] for name in names if name in parameters]
            rows[encoding.layer_type] = (encoding.scheme, *sizes)
    return rows


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def value(item: Any) -> bytes:
    if isinstance(item, list):
        kind = 8 if isinstance(item[0], str) else 4
        return struct.pack("<IIQ", 9, kind, len(item)) + b"".join(value(each)[4:] for each in item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    return struct.pack("<If", 6, item) if isinstance(item, float) else struct.pack("<II", 4, item)


class GgmlType(NamedTuple):
    """A type of numbers: its number in GGML, and its letter in Python's `struct`."""

    number: int
    letter: str


GGML_TYPES = {
    "float32": GgmlType(0, "f"),
    "float16": GgmlType(1, "e"),
    "float64": GgmlType(28, "d"),
}


def write_gguf(
    path: Path,
    arch: str,
    values: Mapping[str, Any],
    tensors: Mapping[str, list[float]] | None = None,
    version: int = 3,
    dtype: str = "float32",
) -> Path:
    """Write a file with the keys of an architecture, and with tensors of a dtype.

    The data of each tensor begins at a multiple of 32 bytes.
    """
    tensors = tensors or {}
    ggml_type = GGML_TYPES[dtype]
    data_of_tensors = [
        struct.pack(f"<{len(numbers)}{ggml_type.letter}", *numbers) for numbers in tensors.values()
    ]
    every = {"general.architecture": arch, "tokenizer.ggml.tokens": ["a", "bc", ""]}
    every |= {f"{arch}.{name}": item for name, item in values.items()}
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(every))
    data += b"".join(text(name) + value(item) for name, item in every.items())
    offset = 0
    for (name, numbers), data_of_tensor in zip(tensors.items(), data_of_tensors, strict=True):
        data += text(name) + struct.pack("<IQIQ", 1, len(numbers), ggml_type.number, offset)
        offset += len(data_of_tensor) + -len(data_of_tensor) % 32
    data += b"\0" * (-len(data) % 32)
    for data_of_tensor in data_of_tensors:
        data += data_of_tensor
        data += b"\0" * (-len(data) % 32)
    path.write_bytes(data)
    return path
