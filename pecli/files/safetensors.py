"""The .safetensors format: a JSON header that names dtypes, shapes and places, then the tensors, tightly packed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from pecli.engine.table import Table
from pecli.engine.text import quoted
from pecli.errors import ParameterError
from pecli.files.output import Output
from pecli.files.provenance import KEY, NO_DIGEST, compact, file_order, provenance
from pecli.files.raw_tensors import stored_table
from pecli.files.safetensors_header import CODES, METADATA, parse_header
from pecli.files.source import Source
from pecli.files.tee_blocks import OnBlock, Sink, Spec, Write, pour

ALIGNMENT = 8
LONGEST_HEADER = 16 << 20
COPIED = 1 << 26
"""Bytes that are copied between two steps of a progress bar."""


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
            _pour_all(ordered, [output.write], on_block)
        elif output.seekable:
            output.write(header(NO_DIGEST))
            output.patch(0, header(_digest(ordered, [output.write], on_block)))
        else:  # what went into a pipe cannot be changed: make the tables twice, once for the digest
            output.write(header(_digest(ordered, [], None)))
            _pour_all(ordered, [output.write], on_block)

    return write


def prepare_copy(source: Source, tables: Sequence[Table], changed: Mapping[str, Table]) -> Write:
    """Writes the file again, byte for byte, but for the tensors that changed, whose dtypes and shapes did not.

    `tables` are all that the file holds, in its own order.
    """
    length = int.from_bytes(source.read(0, 8), "little")
    if length > LONGEST_HEADER or source.size not in (None, 8 + length + sum(table.nbytes for table in tables)):
        raise source.error("changed while it was read: its header has another length now")
    header = source.read(0, 8 + length)

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write(header)
        begin = end = len(header)
        for table in tables:
            if table.name in changed:
                _copy(source, begin, end, output, on_block)
                pour(changed[table.name], [output.write], on_block)
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


def _pour_all(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock | None) -> None:
    for table in tables:
        pour(table, sinks, on_block)


def _digest(tables: Sequence[Table], sinks: Sequence[Sink], on_block: OnBlock | None) -> str:
    """The sha256 of all the tables' bytes, which go to the other sinks on the way."""
    import hashlib

    digest = hashlib.sha256()
    _pour_all(tables, [*sinks, digest.update], on_block)
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
    if length > LONGEST_HEADER:
        raise source.error(f"claims a header of {length} bytes, more than {LONGEST_HEADER}")
    text = source.read(8, length) if source.size is None or length <= source.size - 8 else b""
    if len(text) < length:
        raise source.error(f"is truncated: its header should have {length} bytes")
    places, metadata = parse_header(source, text)
    tables, end = [], 0
    for begin, stop, name, dtype, shape in sorted(places):
        if begin != end:
            kind = "overlaps the tensor before it" if begin < end else f"leaves a hole of {begin - end} bytes before it"
            raise source.error(f"tensor {quoted(name)} {kind}")
        tables.append(stored_table(source, name, dtype, shape, 8 + length + begin))
        end = stop
    source.check_size(8 + length + end)
    return tuple(tables), metadata
