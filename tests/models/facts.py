"""What tests of models share: what a configuration is read as, in a few words, and files of GGUF."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pecli.models.encoding import Encoding
from pecli.models.find import Model, load_config

DATA = Path(__file__).parent / "data"


def stored(*names: str) -> Any:
    """What files of `data` hold: an object, or the lines of several files."""
    if names[0].endswith(".json"):
        return json.loads((DATA / names[0]).read_text(encoding="utf-8"))
    return [
        json.loads(line)
        for name in names
        for line in (DATA / name).read_text(encoding="utf-8").splitlines()
    ]


def one(config: Model) -> Encoding:
    """The only encoding of a configuration."""
    (encoding,) = load_config(config).encodings
    return encoding


def facts(encoding: Encoding) -> dict[str, Any]:
    """All that is known of an encoding by name; sources as `source of …`."""
    names = ("scheme", "layout", "head_dim", "rotary_dim", "axis_dim", "trailing")
    return {
        **{name: getattr(encoding, name) for name in names},
        **encoding.described(),
        **encoding.parameters,
        "order": None if encoding.order is None else list(encoding.order),
        **{f"source of {name}": source for name, source in encoding.sources.items()},
    }


def agrees(encoding: Encoding, expected: Mapping[str, Any]) -> bool:
    """Whether an encoding is as expected; None stands for what is not there."""
    known = facts(encoding)
    found = {name: known.get(name) for name in expected}
    assert found == expected
    return True


def check(config: Model, expected: Mapping[str, Any], said: str | None = None) -> None:
    """The only encoding of a configuration is as expected, and so are the warnings: what one of
    them has, none at all where that is empty, anything for None.
    """
    model = load_config(config)
    assert agrees(model.one(), expected)
    assert said is None or (
        any(said in warning for warning in model.warnings) if said else model.warnings == ()
    )


def by_layer(config: Model) -> dict[str, tuple[Any, ...]]:
    """Layer type → rotary dim, base, scaling, layout; or the sizes of what rotates nothing."""
    found: dict[str, tuple[Any, ...]] = {}
    for each in load_config(config):
        given = each.parameters
        sizes = [given[name] for name in ("heads", "max_len", "seq_len", "dim") if name in given]
        rotary = each.is_rotary and (each.rotary_dim, given["base"], given["scaling"], each.layout)
        found[each.layer_type] = rotary or (each.scheme, *sizes)
    return found


def text(word: str) -> bytes:
    return struct.pack("<Q", len(word)) + word.encode()


def value(item: Any) -> bytes:
    if isinstance(item, list):
        kind = 8 if isinstance(item[0], str) else 4
        return struct.pack("<IIQ", 9, kind, len(item)) + b"".join(value(each)[4:] for each in item)
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    return struct.pack("<If", 6, item) if isinstance(item, float) else struct.pack("<II", 4, item)


def gguf(
    path: Path,
    arch: str,
    values: Mapping[str, Any],
    tensors: Mapping[str, list[float]] | None = None,
    version: int = 3,
) -> Path:
    """A file with the keys of an architecture, and with tensors of floats."""
    tensors = tensors or {}
    every = {"general.architecture": arch, "tokenizer.ggml.tokens": ["a", "bc", ""]}
    every |= {f"{arch}.{name}": item for name, item in values.items()}
    data = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(every))
    data += b"".join(text(name) + value(item) for name, item in every.items())
    offset = 0
    for name, numbers in tensors.items():
        data += text(name) + struct.pack("<IQIQ", 1, len(numbers), 0, offset)
        offset += -(-4 * len(numbers) // 32) * 32
    data += b"\0" * (-len(data) % 32)
    for numbers in tensors.values():
        data += struct.pack(f"<{len(numbers)}f", *numbers)
        data += b"\0" * (-len(data) % 32)
    path.write_bytes(data)
    return path
