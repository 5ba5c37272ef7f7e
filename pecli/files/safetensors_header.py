"""The header of a .safetensors file, read with trust in nothing.

It is matched, entry by entry, against the little grammar that the format needs. A JSON parser would take any nesting,
duplicate keys and NaN, and a hostile header could make it build millions of objects.
"""

from __future__ import annotations

import re
from typing import NoReturn

from pecli.engine.text import quoted
from pecli.files.raw_tensors import data_bytes
from pecli.files.source import Source

METADATA = "__metadata__"
CODES = {
    "float64": ("F64", 8),
    "float32": ("F32", 4),
    "float16": ("F16", 2),
    "bfloat16": ("BF16", 2),
    "float8_e4m3fn": ("F8_E4M3", 1),
    "float8_e5m2": ("F8_E5M2", 1),
    "float8_e8m0fnu": ("F8_E8M0", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1),
    "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1),
    "int64": ("I64", 8),
    "int32": ("I32", 4),
    "int16": ("I16", 2),
    "int8": ("I8", 1),
    "uint64": ("U64", 8),
    "uint32": ("U32", 4),
    "uint16": ("U16", 2),
    "uint8": ("U8", 1),
    "bool": ("BOOL", 1),
    "complex64": ("C64", 8),
}
DTYPES = {code.encode(): (name, itemsize) for name, (code, itemsize) in CODES.items()}

MOST_TENSORS = 100_000
MOST_TEXTS = 10_000

PARTS = {
    b"_": rb"[ \t\r\n]*+",  # any space that JSON allows
    b"string": rb'"([^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+)"',
    b"number": rb"(?:0|[1-9][0-9]{0,18})",
}
PARTS[b"numbers"] = rb"\[((?:%(_)b%(number)b%(_)b(?:,%(_)b%(number)b%(_)b){0,63}+)?+)%(_)b\]" % PARTS
NAME = re.compile(rb"%(_)b%(string)b%(_)b:%(_)b\{" % PARTS)
FIELDS = re.compile(
    rb"(?:%(_)b"
    rb'(?:"dtype"%(_)b:%(_)b"([A-Z0-9_]*+)"|"shape"%(_)b:%(_)b%(numbers)b|"data_offsets"%(_)b:%(_)b%(numbers)b)'
    rb"%(_)b(?:,(?!%(_)b\})|(?=\}))){3}\}" % PARTS
)
TEXT = re.compile(rb"%(_)b%(string)b%(_)b:%(_)b%(string)b" % PARTS)
NEXT = re.compile(rb"%(_)b([,}])" % PARTS)
EMPTY = re.compile(rb"%(_)b\}" % PARTS)

Place = tuple[int, int, str, str, tuple[int, ...]]
"""Begin and end in the data, name, dtype and shape of a tensor."""


def parse_header(source: Source, header: bytes) -> tuple[list[Place], dict[str, str]]:
    """The tensors and the metadata that a header names; places are checked one by one, not against each other."""
    if header.count(b'"data_offsets"') > MOST_TENSORS:
        raise source.error(f"has more than {MOST_TENSORS} tensors")
    places: dict[str, Place] = {}
    metadata: dict[str, str] | None = None
    closing = EMPTY.match(header, 1)
    at, more = (closing.end(), False) if closing else (1, True)
    while more:
        match = NAME.match(header, at) or _broken(source, at)
        name = _decode(source, match[1], at)
        if name in places or (name == METADATA and metadata is not None):
            raise source.error(f"names {quoted(name)} twice in its header")
        if name == METADATA:
            metadata, at = _parse_texts(source, header, match.end())
        else:
            fields = FIELDS.match(header, match.end()) or _broken(source, match.end())
            places[name] = _place(source, name, fields)
            at = fields.end()
        following = NEXT.match(header, at) or _broken(source, at)
        at, more = following.end(), following[1] == b","
    if header[at:].strip(b" \t\r\n"):
        _broken(source, at)
    return list(places.values()), metadata or {}


def _parse_texts(source: Source, header: bytes, at: int) -> tuple[dict[str, str], int]:
    """The metadata, texts by name, and where it ends."""
    texts: dict[str, str] = {}
    if closing := EMPTY.match(header, at):
        return texts, closing.end()
    more = True
    while more:
        match = TEXT.match(header, at) or _broken(source, at)
        key = _decode(source, match[1], at)
        if key in texts:
            raise source.error(f"names {quoted(key)} twice in its metadata")
        texts[key] = _decode(source, match[2], at)
        if len(texts) > MOST_TEXTS:
            raise source.error(f"has more than {MOST_TEXTS} metadata entries")
        following = NEXT.match(header, match.end()) or _broken(source, match.end())
        at, more = following.end(), following[1] == b","
    return texts, at


def _place(source: Source, name: str, fields: re.Match[bytes]) -> Place:
    code, shape_text, offsets_text = fields.groups()
    if code is None or shape_text is None or offsets_text is None:
        _broken(source, fields.start())
    if code not in DTYPES:
        raise source.error(f"tensor {quoted(name)} has dtype {code.decode()[:20]!r}, which is not known")
    dtype, itemsize = DTYPES[code]
    shape, offsets = _numbers(shape_text), _numbers(offsets_text)
    if len(offsets) != 2:
        _broken(source, fields.start())
    size = data_bytes(shape, itemsize, lambda problem: source.error(f"tensor {quoted(name)} {problem}"))
    if offsets[1] - offsets[0] != size:
        raise source.error(
            f"tensor {quoted(name)} needs {size} bytes, its data_offsets are {offsets[0]} and {offsets[1]}"
        )
    return offsets[0], offsets[1], name, dtype, shape


def _numbers(text: bytes) -> tuple[int, ...]:
    return tuple(map(int, text.split(b","))) if text else ()


def _decode(source: Source, raw: bytes, at: int) -> str:
    """The text of a JSON string between its quotes."""
    try:
        if b"\\" not in raw:
            return raw.decode("utf-8")
        import json

        text: str = json.loads(b'"' + raw + b'"')
        text.encode("utf-8")  # half a surrogate pair is no text
    except UnicodeError:
        _broken(source, at)
    return text


def _broken(source: Source, at: int) -> NoReturn:
    raise source.error(f"has a broken header: byte {8 + at} is not what a .safetensors header has there")
