"""ZIP archives, as .npz files and those of torch.save are: members one after the other, then a directory of them, then
where that is.

Written, sizes and offsets of 4 GiB and more, and more than 65,534 members, go into zip64 fields, there only when
needed. Read, nothing is trusted. The standard library's reader builds an object for every member that a directory
claims, and takes members that overlap. Here the directory must lie right before the end of the file, and its members
apart from each other before it; the data of each is read like a file of its own.
"""

from __future__ import annotations

import struct
import threading
import zlib
from dataclasses import dataclass, replace

from pecli.errors import FileError, quoted
from pecli.files.source import CHUNK, Source

LOCAL = struct.Struct("<4s5H3I2H")
CENTRAL = struct.Struct("<4s6H3I5H2I")
END = struct.Struct("<4s4H2IH")
END64 = struct.Struct("<4sQ2H2I4Q")
LOCATOR = struct.Struct("<4sIQI")

LOCAL_MARK, CENTRAL_MARK, END_MARK = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64_MARK, LOCATOR_MARK = b"PK\x06\x06", b"PK\x06\x07"

MANY = 0xFFFF
BIG = 0xFFFFFFFF
ZIP64, PADDING = 0x0001, 0xD935  # extra fields; the second is what zipalign pads with
ENCRYPTED, UTF8 = 0x0001, 0x0800
STORED, DEFLATED = 0, 8
FIRST_DAY = (1 << 5) | 1  # 1980-01-01, the earliest date there is
ALIGNMENT = 64
CRC_AT = 14
"""Where the checksum is in a member's own header."""

MAX_COMMENT = 0xFFFF
MAX_DIRECTORY = 16 << 20
MAX_MEMBERS = 100_000


@dataclass(frozen=True)
class Member:
    """One stored file: its name, size and checksum, and where its own header begins."""

    name: str
    size: int
    crc: int
    offset: int

    def local_header(self) -> bytes:
        """What precedes the data, padded so that the data is aligned."""
        name = self.name.encode("utf-8")
        big = self.size >= BIG
        extra = struct.pack("<2H2Q", ZIP64, 16, self.size, self.size) if big else b""
        extra += _padding(self.offset + LOCAL.size + len(name) + len(extra))
        size = BIG if big else self.size
        lengths = (len(name), len(extra))
        fields = (_version(big), _flags(self.name), STORED, 0, FIRST_DAY, self.crc, size, size, *lengths)
        return LOCAL.pack(LOCAL_MARK, *fields) + name + extra

    def directory_entry(self) -> bytes:
        """What the directory says of it."""
        name = self.name.encode("utf-8")
        wide = [self.size, self.size] if self.size >= BIG else []
        wide += [self.offset] if self.offset >= BIG else []
        extra = struct.pack(f"<2H{len(wide)}Q", ZIP64, 8 * len(wide), *wide) if wide else b""
        size, version = min(self.size, BIG), _version(bool(wide))
        flags, lengths = _flags(self.name), (len(name), len(extra))
        fields = (version, version, flags, STORED, 0, FIRST_DAY, self.crc, size, size, *lengths)
        return CENTRAL.pack(CENTRAL_MARK, *fields, 0, 0, 0, 0, min(self.offset, BIG)) + name + extra


def directory(members: list[Member], offset: int) -> bytes:
    """The directory of all members, which begins at `offset`, and the end of the archive."""
    entries = b"".join(member.directory_entry() for member in members)
    end64 = b""
    if len(members) >= MANY or len(entries) >= BIG or offset >= BIG:
        count = len(members)
        end64 = END64.pack(END64_MARK, END64.size - 12, 45, 45, 0, 0, count, count, len(entries), offset)
        end64 += LOCATOR.pack(LOCATOR_MARK, 0, offset + len(entries), 1)
    count = min(len(members), MANY)
    return entries + end64 + END.pack(END_MARK, 0, 0, count, count, min(len(entries), BIG), min(offset, BIG), 0)


def _version(zip64: bool) -> int:
    return 45 if zip64 else 20


def _flags(name: str) -> int:
    return 0 if name.isascii() else UTF8


def _padding(end: int) -> bytes:
    """An extra field after which the next byte is aligned; it takes six bytes at least."""
    length = 6 + (-end - 6) % ALIGNMENT
    return struct.pack("<3H", PADDING, length - 4, ALIGNMENT) + bytes(length - 6)


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
    tail_at = max(0, size - END.size - MAX_COMMENT)
    tail = source.read(tail_at, size - tail_at)
    place = tail.rfind(END_MARK)
    if place < 0 or len(tail) < place + END.size:
        raise source.error("is truncated: the directory at its end is missing")
    end_at = tail_at + place
    _, disk, first_disk, here, count, length, start, comment = END.unpack_from(tail, place)
    if place + END.size + comment != len(tail):
        raise source.error("is a broken archive: something follows its end")
    said = (disk, first_disk, here, count, length, start)
    if BIG in (length, start) or MANY in (here, count) or _has_locator(source, end_at):  # torch always writes one
        end_at, *wide = _find_zip64(source, end_at)
        if any(short not in (long, most) for short, long, most in zip(said, wide, _MOST_SAID, strict=True)):
            raise source.error("is a broken archive: its zip64 records contradict the others")
        disk, first_disk, here, count, length, start = wide
    if disk or first_disk or here != count:
        raise source.error("is one part of a split archive")
    if start + length != end_at or length < count * CENTRAL.size:
        raise source.error("is a broken archive: its directory is not where it should be")
    if length > MAX_DIRECTORY or count > MAX_MEMBERS:
        raise source.error(f"has a directory of {length} bytes for {count} members, more than any .npz needs")
    return start, length, count


_MOST_SAID = (MANY, MANY, MANY, MANY, BIG, BIG)
"""What stands in the short end record where the long one has to be asked."""


def _has_locator(source: Source, end_at: int) -> bool:
    return end_at >= LOCATOR.size and source.read(end_at - LOCATOR.size, 4) == LOCATOR_MARK


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
        raise source.error(f"member {quoted(entry.name)} has a local header that disagrees with the central directory")
    return entry.offset + LOCAL.size + name_length + extra_length


class Checksum:
    """A running CRC-32."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: bytes | memoryview) -> None:
        """Take in the next bytes."""
        self.value = zlib.crc32(data, self.value)


class MemberSource(Source):
    """`size` bytes with the checksum `crc`, kept in the `packed` bytes of an archive from `offset` on."""

    size: int

    def __init__(self, archive: Source, name: str, offset: int, packed: int, size: int, crc: int) -> None:
        self.path, self._archive, self._name = archive.path, archive, name
        self._offset, self._packed, self.size, self._crc = offset, packed, size, crc

    def error(self, problem: str, advice: str = "") -> FileError:
        return super().error(f"member {quoted(self._name)} {problem}", advice)

    def check(self) -> None:
        """Read it all and compare it with its checksum."""
        checksum = Checksum()
        buffer = memoryview(bytearray(min(CHUNK, self.size)))
        for offset in range(0, self.size, CHUNK):
            piece = buffer[: min(CHUNK, self.size - offset)]
            self.fill(offset, piece)
            checksum.update(piece)
        self._compare(checksum)

    def _compare(self, checksum: Checksum) -> None:
        if checksum.value != self._crc:
            raise self.error("is damaged: its checksum does not match")


class StoredMember(MemberSource):
    """A member that is not compressed."""

    def read_into(self, offset: int, out: memoryview) -> int:
        there = max(0, min(len(out), self.size - offset))
        return self._archive.read_into(self._offset + offset, out[:there])


class DeflatedMember(MemberSource):
    """A compressed member, unpacked on the way past and never kept: memory stays flat, going back starts over."""

    in_order = True

    def __init__(self, archive: Source, name: str, offset: int, packed: int, size: int, crc: int) -> None:
        super().__init__(archive, name, offset, packed, size, crc)
        self._lock = threading.Lock()
        self._rewind()

    def read_into(self, offset: int, out: memoryview) -> int:
        with self._lock:
            if offset < self._at:
                self._rewind()
            while self._at < offset and self._unpack(min(CHUNK, offset - self._at)):
                pass
            done = 0
            while done < len(out) and (piece := self._unpack(min(CHUNK, len(out) - done))):
                out[done : done + len(piece)] = piece
                done += len(piece)
            return done

    def _rewind(self) -> None:
        self._at = 0  # in the member
        self._taken = 0  # of the packed bytes
        self._tail = b""
        self._stream = zlib.decompressobj(-zlib.MAX_WBITS)
        self._checksum = Checksum()

    def _unpack(self, count: int) -> bytes:
        """Some of the next `count` bytes, at least one unless the member ends here."""
        piece = b""
        while not piece and self._at < self.size:
            if not self._tail and not self._stream.eof:
                self._tail = self._archive.read(self._offset + self._taken, min(CHUNK, self._packed - self._taken))
                self._taken += len(self._tail)
            piece = self._step(min(count, self.size - self._at))
        self._checksum.update(piece)
        self._at += len(piece)
        if piece and self._at == self.size:
            self._check_end()
        return piece

    def _step(self, count: int) -> bytes:
        tail = self._tail
        try:
            piece = self._stream.decompress(tail, count)
        except zlib.error:
            raise self.error("is damaged: it cannot be unpacked") from None
        self._tail = self._stream.unconsumed_tail
        if not piece and (self._stream.eof or not tail):
            raise self.error(f"is truncated: {self.size} bytes are expected, {self._at} are there")
        return piece

    def _check_end(self) -> None:
        """All bytes are here: the stream must say so too, and the checksum must match."""
        rest = self._tail + self._archive.read(self._offset + self._taken, min(CHUNK, self._packed - self._taken))
        try:
            more = b"" if self._stream.eof else self._stream.decompress(rest, 1)
        except zlib.error:
            more = b"?"
        if more or not self._stream.eof or self._stream.unused_data:
            raise self.error(f"is damaged: it does not end after the {self.size} bytes it should have")
        self._compare(self._checksum)
