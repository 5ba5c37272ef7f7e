"""The .npz format: an uncompressed ZIP archive of .npy files, and one more with the spec as a text.

Compressed ones are read, too.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.npy import header, read_header, read_table, table_header
from pecli.files.output import OnBlock, Output, Sink, Spec, Write, write_blocks
from pecli.files.provenance import KEY, NO_DIGEST, file_order, provenance
from pecli.files.source import Source
from pecli.files.zip_archive import (
    CRC_AT,
    DEFLATED,
    ENCRYPTED,
    MANY,
    STORED,
    Checksum,
    DeflatedMember,
    Entry,
    Member,
    MemberSource,
    StoredMember,
    directory,
    read_directory,
)

MAX_NAME_BYTES = MANY - len(".npy")
"""Bytes for which a ZIP archive has room."""
BOMB_BYTES = 64 << 20
BOMB_RATIO = 100
MAX_TEXT = 16 << 20


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes all the tables, and the spec with their sha256 as a last member."""
    ordered = file_order(tables)
    headers = [table_header(table, ".npz") for table in ordered]
    for table in ordered:
        if table.name == KEY or bad_name(table.name):
            raise ParameterError("name", quoted(table.name), "a member of a .npz cannot be called that")
        if len(table.name.encode()) > MAX_NAME_BYTES:
            rule = f"a member of a .npz has at most {MAX_NAME_BYTES:,} bytes"
            raise ParameterError("name", quoted(table.name), rule, "write .safetensors")
    if spec is not None:
        provenance(spec, NO_DIGEST)  # a spec that is not JSON is refused before the output is opened

    def write(output: Output, on_block: OnBlock | None) -> None:
        _Archive(output, on_block).write(list(zip(ordered, headers, strict=True)), spec)

    return write


def bad_name(name: str) -> bool:
    """Whether a member's name could lead out of a folder it is unpacked in."""
    return not name or name.startswith("/") or ".." in name.split("/") or bool({"\0", "\\"} & {*name})


def text_member(text: str) -> bytes:
    """A .npy file with one text, which NumPy reads without pickle."""
    return header(f"<U{len(text)}", ()) + text.encode("utf-32-le")


class _Archive:
    """A .npz on its way out."""

    def __init__(self, output: Output, on_block: OnBlock | None) -> None:
        import hashlib

        self.output, self.on_block = output, on_block
        self.digest = hashlib.sha256()
        self.members: list[Member] = []
        self.end = 0

    def write(self, tables: Sequence[tuple[Table, bytes]], spec: Spec | None) -> None:
        hashes: list[Sink] = [] if spec is None else [self.digest.update]
        for table, start in tables:
            if self.output.seekable:
                self._add_then_patch(table, start, hashes)
            else:
                self._add_in_two_passes(table, start, hashes)
        if spec is not None:
            data = text_member(provenance(spec, self.digest.hexdigest()))
            self._begin(Member(f"{KEY}.npy", len(data), zlib.crc32(data), self.end), data)
        self.output.write(directory(self.members, self.end))

    def _add_then_patch(self, table: Table, start: bytes, hashes: list[Sink]) -> None:
        checksum = Checksum()
        checksum.update(start)
        member = Member(f"{table.name}.npy", len(start) + table.nbytes, 0, self.end)
        self._begin(member, start)
        write_blocks(table, [self.output.write, checksum.update, *hashes], self.on_block)
        self.members[-1] = replace(member, crc=checksum.value)
        self.output.patch(member.offset + CRC_AT, checksum.value.to_bytes(4, "little"))

    def _add_in_two_passes(self, table: Table, start: bytes, hashes: list[Sink]) -> None:
        """What went into a pipe cannot be changed: make the table twice, once for its checksum."""
        checksum = Checksum()
        checksum.update(start)
        write_blocks(table, [checksum.update, *hashes])
        self._begin(Member(f"{table.name}.npy", len(start) + table.nbytes, checksum.value, self.end), start)
        write_blocks(table, [self.output.write], self.on_block)

    def _begin(self, member: Member, data: bytes) -> None:
        """Write a member's own header and the first of its data, and count on the rest."""
        own = member.local_header()
        self.output.write(own)
        self.output.write(data)
        self.members.append(member)
        self.end += len(own) + member.size


def read(source: Source) -> tuple[tuple[Table, ...], dict[str, str], dict[str, Callable[[], None]]]:
    """The tables, the metadata, and for every table what compares it with its checksum."""
    if source.size is None:
        raise source.error("an .npz file cannot be read from a pipe", "save it to a file first")
    entries = read_directory(source, source.size)
    _refuse_bombs(source, entries)
    tables, metadata, checksums = [], {}, {}
    for entry in entries:
        member = _member(source, entry)
        name = entry.name.removesuffix(".npy")
        if name == KEY:
            metadata[KEY] = _text(member)
        else:
            tables.append(read_table(member, name))
            checksums[name] = member.check
    return tuple(tables), metadata, checksums


def _member(source: Source, entry: Entry) -> MemberSource:
    name = entry.name
    if not name.endswith(".npy") or bad_name(name.removesuffix(".npy")):
        raise source.error(f"member {quoted(name)} has no place in a .npz file")
    if entry.flags & ENCRYPTED:
        raise source.error(f"member {quoted(name)} is encrypted")
    if entry.method == STORED:
        if entry.packed != entry.size:
            raise source.error(f"member {quoted(name)} claims two sizes, {entry.packed} and {entry.size} bytes")
        return StoredMember(source, name, entry.data, entry.packed, entry.size, entry.crc)
    if entry.method == DEFLATED:
        return DeflatedMember(source, name, entry.data, entry.packed, entry.size, entry.crc)
    raise source.error(f"member {quoted(name)} is compressed in a way that is not read (method {entry.method})")


def _refuse_bombs(source: Source, entries: Iterable[Entry]) -> None:
    """Refuse a small file that unpacks to a huge one, through one member or through all of them."""
    total = packed_total = 0
    for entry in entries:
        if entry.method != STORED:
            total, packed_total = total + entry.size, packed_total + entry.packed
            for size, packed in ((entry.size, entry.packed), (total, packed_total)):
                if size > BOMB_BYTES and size > BOMB_RATIO * packed:
                    raise source.error(f"looks like a zip bomb: {packed} bytes of it unpack to {size}")


def _text(member: MemberSource) -> str:
    """The one text in a .npy file of characters."""
    header = read_header(member)
    match = re.fullmatch(r"([<>])U([0-9]{1,9})", header.code)
    if not match or header.shape or int(match[2]) * 4 > MAX_TEXT:
        raise member.error("should hold one text")
    member.check_size(header.offset + 4 * int(match[2]))
    member.check()
    raw = member.read(header.offset, 4 * int(match[2]))
    try:
        return raw.decode("utf-32-le" if match[1] == "<" else "utf-32-be").rstrip("\0")
    except UnicodeDecodeError:
        raise member.error("should hold one text, but it is not Unicode") from None
