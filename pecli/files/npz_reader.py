"""Reading .npz files: every member a table, but for the text that says what made them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from pecli.engine.table import Table
from pecli.engine.text import quoted
from pecli.files.npy_reader import read_header, read_table
from pecli.files.npz import bad_name
from pecli.files.provenance import KEY
from pecli.files.source import Source
from pecli.files.zip_directory import Entry, read_directory
from pecli.files.zip_layout import DEFLATED, ENCRYPTED, STORED
from pecli.files.zip_members import DeflatedMember, MemberSource, StoredMember

BOMB_BYTES = 64 << 20
BOMB_RATIO = 100
LONGEST_TEXT = 16 << 20


def read(source: Source) -> tuple[tuple[Table, ...], dict[str, str], dict[str, Callable[[], None]]]:
    """The tables, the metadata, and for every table what holds it against its checksum."""
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
    if not match or header.shape or int(match[2]) * 4 > LONGEST_TEXT:
        raise member.error("should hold one text")
    member.check_size(header.offset + 4 * int(match[2]))
    member.check()
    raw = member.read(header.offset, 4 * int(match[2]))
    try:
        return raw.decode("utf-32-le" if match[1] == "<" else "utf-32-be").rstrip("\0")
    except UnicodeDecodeError:
        raise member.error("should hold one text, but it is not Unicode") from None
