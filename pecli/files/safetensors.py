"""The .safetensors format: a JSON header that names dtypes, shapes and places, then the tensors, tightly packed.

Reading, the header is matched, entry by entry, against the little grammar that the format needs. A JSON parser would
take any nesting, duplicate keys and NaN, and a hostile header could make it build millions of objects.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NoReturn

import numpy as np

from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.output import OnBlock, Output, Sink, Spec, Write, write_blocks
from pecli.files.provenance import KEY, NO_DIGEST, compact, file_order, provenance
from pecli.files.source import Source, data_bytes, stored_table

ALIGNMENT = 8
MAX_HEADER = 16 << 20
COPIED = 1 << 26
"""Bytes that are copied between two steps of a progress bar."""

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

MAX_TENSORS = 100_000
MAX_TEXTS = 10_000

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


def prepare(tables: Sequence[Table], spec: Spec | None, texts: Mapping[str, str] | None = None) -> Write:
    """Writes all the tables; into the metadata the texts, and the spec with the tables' sha256."""
    ordered = file_order(tables)
    _check(ordered)

    def header(digest: str) -> bytes:
        own = {} if spec is None else {KEY: provenance(spec, digest)}
        return _header(ordered, {**(texts or {}), **own})

    header(NO_DIGEST)  # a spec that is not JSON is refused before the output is opened

    def write(output: Output, on_block: OnBlock | None) -> None:
        if spec is None:
            output.write(header(""))
            _write_all(ordered, [output.write], on_block)
        elif output.seekable:
            output.write(header(NO_DIGEST))
            output.patch(0, header(_digest(ordered, [output.write], on_block)))
        else:  # what went into a pipe cannot be changed: make the tables twice, once for the digest
            output.write(header(_digest(ordered, [], None)))
            _write_all(ordered, [output.write], on_block)

    return write


def prepare_copy(source: Source, tables: Sequence[Table], changed: Mapping[str, Table]) -> Write:
    """Writes the file again, byte for byte, but for the tensors that changed, whose dtypes and shapes did not.

    `tables` are all that the file holds, in its own order.
    """
    length = int.from_bytes(source.read(0, 8), "little")
    if length > MAX_HEADER or source.size not in (None, 8 + length + sum(table.nbytes for table in tables)):
        raise source.error("changed while it was read: its header has another length now")
    header = source.read(0, 8 + length)

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write(header)
        begin = end = len(header)
        for table in tables:
            if table.name in changed:
                _copy(source, begin, end, output, on_block)
                write_blocks(changed[table.name], [output.write], on_block)
                begin = end + table.nbytes
            end += table.nbytes
        _copy(source, begin, end, output, on_block)

    return write


def _copy(source: Source, begin: int, end: int, output: Output, on_block: OnBlock | None) -> None:
    """Bytes of the source as they are; progress is told of them as of a block."""
    for start in range(begin, end, COPIED):
        count = min(COPIED, end - start)
        source.copy_to(output, start, count)
        if on_block is not None:
            whole = Table("", "uint8", (count,), lambda start, out: None)
            on_block(whole, np.broadcast_to(np.uint8(0), (count, 1)))  # as large as the bytes, and takes no memory


def _check(tables: Sequence[Table]) -> None:
    for table in tables:
        if table.dtype not in CODES:
            raise ParameterError("dtype", table.dtype, ".safetensors cannot hold it", "write .npy or .npz")
        if table.name == METADATA:
            raise ParameterError("name", table.name, "in .safetensors that name is reserved")


def _write_all(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock | None) -> None:
    for table in tables:
        write_blocks(table, sinks, on_block)


def _digest(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock | None) -> str:
    """The sha256 of all the tables' bytes, which go to the other sinks on the way."""
    import hashlib

    digest = hashlib.sha256()
    _write_all(tables, [*sinks, digest.update], on_block)
    return digest.hexdigest()


def _header(tables: Sequence[Table], texts: Mapping[str, str]) -> bytes:
    entries = [f'"{METADATA}":' + compact(texts)] if texts else []
    begin = 0
    for table in tables:
        end = begin + table.nbytes
        place = {"dtype": CODES[table.dtype][0], "shape": table.shape, "data_offsets": (begin, end)}
        entries.append(f"{compact(table.name)}:{compact(place)}")
        begin = end
    text = ("{" + ",".join(entries) + "}").encode("ascii")
    text += b" " * (-len(text) % ALIGNMENT)
    return len(text).to_bytes(8, "little") + text


def read(source: Source) -> tuple[tuple[Table, ...], dict[str, str]]:
    """The tables of a .safetensors file, in the order of their data, and its metadata."""
    start = source.read(0, 8)
    length = int.from_bytes(start, "little")
    if length > MAX_HEADER:
        raise source.error(f"claims a header of {length} bytes, more than {MAX_HEADER}")
    text = source.read(8, length) if source.size is None or length <= source.size - 8 else b""
    if len(text) < length:
        raise source.error(f"is truncated: its header should have {length} bytes")
    places, metadata = _parse_header(source, text)
    tables, end = [], 0
    for begin, stop, name, dtype, shape in sorted(places):
        if begin != end:
            kind = "overlaps the tensor before it" if begin < end else f"leaves a hole of {begin - end} bytes before it"
            raise source.error(f"tensor {quoted(name)} {kind}")
        tables.append(stored_table(source, name, dtype, shape, 8 + length + begin))
        end = stop
    source.check_size(8 + length + end)
    return tuple(tables), metadata


def _parse_header(source: Source, header: bytes) -> tuple[list[Place], dict[str, str]]:
    """The tensors and the metadata that a header names; places are checked one by one, not against each other."""
    if header.count(b'"data_offsets"') > MAX_TENSORS:
        raise source.error(f"has more than {MAX_TENSORS} tensors")
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
        if len(texts) > MAX_TEXTS:
            raise source.error(f"has more than {MAX_TEXTS} metadata entries")
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
