"""The directory of a ZIP archive, read with trust in nothing.

The standard library's reader builds an object for every member that a directory claims, and takes members that
overlap. Here the directory must lie right before the end of the file, and its members apart from each other before it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace

from pecli.engine.text import quoted
from pecli.files.source import Source
from pecli.files.zip_layout import (
    BIG,
    CENTRAL,
    CENTRAL_MARK,
    END,
    END64,
    END64_MARK,
    END_MARK,
    LOCAL,
    LOCAL_MARK,
    LOCATOR,
    LOCATOR_MARK,
    MANY,
    UTF8,
    ZIP64,
)

LONGEST_COMMENT = 0xFFFF
LARGEST_DIRECTORY = 16 << 20
MOST_MEMBERS = 100_000


@dataclass(frozen=True)
class Entry:
    """What a directory says of one member; `data` is where its bytes begin."""

    name: str
    flags: int
    method: int
    crc: int
    packed: int
    size: int
    offset: int
    data: int = 0


def read_directory(source: Source, size: int) -> list[Entry]:
    """All members of the archive, none of them overlapping another, in the order of the directory."""
    start, length, count = _find_directory(source, size)
    raw = source.read(start, length)
    if len(raw) < length:
        raise source.error("changed while it was read: bytes are missing now")
    entries, at, names = [], 0, set()
    while at < length:
        entry, at = _parse_entry(source, raw, at)
        if entry.name in names:
            raise source.error(f"has two members called {quoted(entry.name)}")
        names.add(entry.name)
        entries.append(entry)
    if len(entries) != count:
        raise source.error(f"is a broken archive: it claims {count} members and lists {len(entries)}")
    return _locate(source, entries, start)


def _find_directory(source: Source, size: int) -> tuple[int, int, int]:
    """Where the directory begins, its length, and how many members it claims."""
    tail_at = max(0, size - END.size - LONGEST_COMMENT)
    tail = source.read(tail_at, size - tail_at)
    place = tail.rfind(END_MARK)
    if place < 0 or len(tail) < place + END.size:
        raise source.error("is truncated: the directory at its end is missing")
    end_at = tail_at + place
    _, disk, first_disk, here, count, length, start, comment = END.unpack_from(tail, place)
    if place + END.size + comment != len(tail):
        raise source.error("is a broken archive: something follows its end")
    if BIG in (length, start) or MANY in (here, count):
        end_at, disk, first_disk, here, count, length, start = _find_zip64(source, end_at)
    if disk or first_disk or here != count:
        raise source.error("is one part of a split archive")
    if start + length != end_at or length < count * CENTRAL.size:
        raise source.error("is a broken archive: its directory is not where it should be")
    if length > LARGEST_DIRECTORY or count > MOST_MEMBERS:
        raise source.error(f"has a directory of {length} bytes for {count} members, more than any .npz needs")
    return start, length, count


def _find_zip64(source: Source, end_at: int) -> tuple[int, int, int, int, int, int, int]:
    """The same from the record for large archives: where it is, both disks, both counts, length and start."""
    locator = source.read(max(0, end_at - LOCATOR.size), LOCATOR.size)
    if len(locator) == LOCATOR.size and locator.startswith(LOCATOR_MARK):
        record_at = LOCATOR.unpack(locator)[2]
        record = source.read(record_at, END64.size) if record_at <= end_at else b""
        if len(record) == END64.size and record.startswith(END64_MARK):
            _, length, _, _, *rest = END64.unpack(record)
            if record_at + 12 + length + LOCATOR.size == end_at:
                return record_at, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]
    raise source.error("is a broken archive: its zip64 records are missing")


def _parse_entry(source: Source, raw: bytes, at: int) -> tuple[Entry, int]:
    if len(raw) < at + CENTRAL.size or raw[at : at + 4] != CENTRAL_MARK:
        raise source.error("is a broken archive: its directory is cut short or damaged")
    fields = CENTRAL.unpack_from(raw, at)
    flags, method, crc, packed, size = fields[3], fields[4], fields[7], fields[8], fields[9]
    name_length, extra_length, comment_length, disk, offset = *fields[10:14], fields[16]
    name_at = at + CENTRAL.size
    extra_at = name_at + name_length
    end = extra_at + extra_length + comment_length
    if end > len(raw) or disk not in (0, MANY):
        raise source.error("is a broken archive: its directory is cut short or damaged")
    name = _decode(source, raw[name_at:extra_at], flags)
    wide = _zip64_numbers(raw[extra_at : extra_at + extra_length])
    numbers = [size, packed, offset]
    for place, number in enumerate(numbers):
        if number == BIG:
            if not wide:
                raise source.error(f"is a broken archive: member {quoted(name)} has no zip64 size")
            numbers[place] = wide.pop(0)
    return Entry(name, flags, method, crc, packed=numbers[1], size=numbers[0], offset=numbers[2]), end


def _decode(source: Source, raw: bytes, flags: int) -> str:
    try:
        return raw.decode("utf-8" if flags & UTF8 else "cp437")
    except UnicodeDecodeError:
        raise source.error("is a broken archive: a member's name is not UTF-8") from None


def _zip64_numbers(extra: bytes) -> list[int]:
    """The numbers that did not fit into 32 bits, from a member's extra fields."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == ZIP64:
            field = extra[at + 4 : at + 4 + length]
            return list(struct.unpack_from(f"<{len(field) // 8}Q", field))
        at += 4 + length
    return []


def _locate(source: Source, entries: list[Entry], limit: int) -> list[Entry]:
    """The entries with the places of their data, which the members' own headers decide."""
    located = {}
    end = limit
    for entry in sorted(entries, key=lambda entry: entry.offset, reverse=True):
        data = _data_place(source, entry)
        if data + entry.packed > end:
            raise source.error(f"member {quoted(entry.name)} overlaps what follows it")
        end = entry.offset
        located[entry.name] = replace(entry, data=data)
    return [located[entry.name] for entry in entries]


def _data_place(source: Source, entry: Entry) -> int:
    header = source.read(entry.offset, LOCAL.size)
    if len(header) < LOCAL.size or not header.startswith(LOCAL_MARK):
        raise source.error(f"member {quoted(entry.name)} is not where the directory says")
    fields = LOCAL.unpack(header)
    name_length, extra_length = int(fields[9]), int(fields[10])
    name = source.read(entry.offset + LOCAL.size, name_length)
    if _decode(source, name, fields[2]) != entry.name or fields[3] != entry.method:
        raise source.error(f"member {quoted(entry.name)} says something else of itself than the directory")
    return entry.offset + LOCAL.size + name_length + extra_length
