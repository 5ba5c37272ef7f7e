"""Members of ZIP archives, which .npz files and files of torch.save are.

`zipfile` parses the directory at the end of the archive. All claims of the directory are compared
with the file before any member is unpacked.
"""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pecli.errors import quoted
from pecli.files.contents import Contents

LOCAL_HEADER = b"PK\x03\x04"
END_RECORD = b"PK\x05\x06"
ZIP64_RECORD = b"PK\x06\x06"
ZIP64_LOCATOR = b"PK\x06\x07"
LOCAL_BYTES = 30  # of a member's local header, before its name
END_BYTES = 22  # of the record that ends an archive, before its comment
MAX_COMMENT = 0xFFFF  # bytes, since their number takes 16 bits
ZIP64_LOCATOR_BYTES = 20
ZIP64_RECORD_BYTES = 56
NO_ROOM_16 = 0xFFFF  # A count that does not fit: the ZIP64 record holds it.
NO_ROOM_32 = 0xFFFFFFFF
ENCRYPTED_FLAG = 0x1
UTF8_FLAG = 0x800
BOMB_BYTES = 64 << 20
BOMB_RATIO = 100
MAX_UNPACKED = 4 << 30  # bytes of all compressed members, which are unpacked into memory
MAX_DIRECTORY = 16 << 20  # bytes: `zipfile` needs twenty times as many in memory
DIRECTORY_ERRORS = (
    zipfile.BadZipFile,
    RuntimeError,
    OSError,
    ValueError,
    IndexError,
    OverflowError,
)
"""Errors of `zipfile` in reading a directory: a RuntimeError is a version that it does not know."""


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Attributes:
        contents: its bytes in the archive.
        compressed: whether they are deflated.
        size: the size that the directory declares for the unpacked bytes.
        crc: their CRC-32.
    """

    contents: Contents
    compressed: bool
    size: int
    crc: int

    def start(self, length: int, packed: int) -> Contents:
        """Unpack at most `length` bytes from the first `packed` bytes of a compressed member."""
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        return self._inflated(stream, self.contents.data[:packed], length)

    def _inflated(self, stream: "zlib._Decompress", data: memoryview, length: int) -> Contents:
        """Return at most `length` unpacked bytes of a stream."""
        try:
            unpacked = stream.decompress(data, length)
        except zlib.error:
            raise self.contents.error("is damaged: it cannot be unpacked") from None
        return replace(self.contents, data=memoryview(unpacked))

    def unpacked(self) -> Contents:
        """Return the member's bytes, unpacked in memory if need be; compare their checksum."""
        contents = self._whole() if self.compressed else self.contents
        is_damaged = zlib.crc32(contents.data) != self.crc
        contents.refuse_if(is_damaged, "is damaged: its checksum does not match")
        return contents

    def _whole(self) -> Contents:
        """Unpack all bytes of a compressed member, which must be as many as it declares."""
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        # One byte more than declared, so that a longer member is detected.
        contents = self._inflated(stream, self.contents.data, self.size + 1)
        is_complete = stream.eof and not stream.unused_data
        is_as_declared = is_complete and len(contents.data) == self.size
        contents.require(
            is_as_declared,
            f"is damaged: it does not unpack to the {self.size} bytes that it declares",
        )
        return contents


class EndRecord(NamedTuple):
    """The record that ends an archive."""

    entries_on_disk: int
    entries: int
    directory_size: int
    directory_start: int
    is_zip64: bool  #: a second record holds the numbers that do not fit into this one


class Directory(NamedTuple):
    """The central directory as `zipfile` parses it."""

    entries: list[zipfile.ZipInfo]
    start: int  #: its offset in the archive, where the last member ends


def members_of(contents: Contents) -> dict[str, Member]:
    """Return all members of an archive by name, in the order of its directory.

    Raises:
        FileError: members overlap, leave gaps, or contradict the directory; or the archive
            unpacks to far more bytes than it has.
    """
    end = _end_record(contents)
    is_too_large = end.directory_size > MAX_DIRECTORY
    problem = f"has a directory of {end.directory_size} bytes, more than any .npz needs"
    contents.refuse_if(is_too_large, problem)
    directory = _read_directory(contents, is_empty=end.entries == 0)
    _check_end_record(contents, end, directory)
    members = _members_by_name(contents, directory)
    _refuse_bombs(contents, members.values())
    return {entry.filename: members[entry.filename] for entry in directory.entries}


def _end_record(contents: Contents) -> EndRecord:
    """Find the end record, which a comment of at most 65,535 bytes may follow.

    Before the end record of a large archive lie the ZIP64 record and its locator:

        … directory | ZIP64 record (56 bytes) | locator (20) | end record (22) | comment
    """
    tail = bytes(contents.data[-END_BYTES - MAX_COMMENT :])
    start = tail.rfind(END_RECORD)  # of the end record, in the tail
    is_missing = start < 0 or start + END_BYTES > len(tail)
    contents.refuse_if(is_missing, "is truncated: the directory at its end is missing")
    # After the magic and the disk numbers: two counts (2 bytes each), two sizes (4), one length (2).
    fields = struct.unpack_from("<HHIIH", tail, start + 8)
    entries_on_disk, entries, directory_size, directory_start, comment_length = fields
    is_followed = start + END_BYTES + comment_length != len(tail)
    contents.refuse_if(is_followed, "is a broken archive: something follows its end")
    is_zip64 = tail[max(start - ZIP64_LOCATOR_BYTES, 0) :].startswith(ZIP64_LOCATOR)
    if is_zip64:
        directory_size = _zip64_directory_size(contents, tail, start)
    return EndRecord(
        entries_on_disk=entries_on_disk,
        entries=entries,
        directory_size=directory_size,
        directory_start=directory_start,
        is_zip64=is_zip64,
    )


def _zip64_directory_size(contents: Contents, tail: bytes, end: int) -> int:
    """Return the size of the directory as the ZIP64 record states it.

    The record must lie before its locator, and at the offset that the locator states.

    Args:
        contents: The archive.
        tail: Its last bytes.
        end: The offset of the end record in the tail.
    """
    record_and_rest = tail[max(end - ZIP64_LOCATOR_BYTES - ZIP64_RECORD_BYTES, 0) :]
    # The locator has the offset of the record in its bytes 8 to 16 of 20, the record the size in 40 to 48.
    stated_offset = int.from_bytes(tail[end - 12 : end - 4], "little")
    is_in_place = stated_offset == len(contents.data) - len(record_and_rest)
    if not record_and_rest.startswith(ZIP64_RECORD) or not is_in_place:
        raise contents.error("is a broken archive: its end records contradict each other")
    return int.from_bytes(record_and_rest[40:48], "little")


def _read_directory(contents: Contents, *, is_empty: bool) -> Directory:
    """Return the members that the directory at the end of an archive lists, and where it begins."""
    # `data` is a view of a mapped file, or of a bytearray that was read from a pipe.
    mapped_file_or_bytes: Any = contents.data.obj
    is_mapped = not isinstance(mapped_file_or_bytes, bytearray)
    # A mapped file is itself a file that `zipfile` can read, without a copy in memory. In an empty
    # archive, however, `zipfile` seeks to a negative offset, which a mapped file refuses.
    needs_no_copy = is_mapped and not is_empty
    file = mapped_file_or_bytes if needs_no_copy else io.BytesIO(mapped_file_or_bytes)
    try:
        with zipfile.ZipFile(file) as archive:
            return Directory(archive.infolist(), archive.start_dir)
    except DIRECTORY_ERRORS as problem:
        raise contents.error(f"is a broken archive: {' '.join(str(problem).split())}") from None


def _check_end_record(contents: Contents, end: EndRecord, directory: Directory) -> None:
    """Refuse an end record that contradicts the directory which `zipfile` found.

    Other programs read the end record, and would unpack other members than those checked here. In a
    large archive (ZIP64), its fields may hold their largest number instead, 0xFFFF, and the real one
    is elsewhere.
    """
    valid_counts = {len(directory.entries)}
    valid_starts = {directory.start}
    if end.is_zip64:
        valid_counts.add(NO_ROOM_16)
        valid_starts.add(NO_ROOM_32)
    has_valid_counts = {end.entries_on_disk, end.entries} <= valid_counts
    if not has_valid_counts or end.directory_start not in valid_starts:
        raise contents.error("is a broken archive: its end records contradict each other")


def _members_by_name(contents: Contents, directory: Directory) -> dict[str, Member]:
    """Return the members by name; refuse members that overlap.

    Archives with overlapping members can unpack to far more bytes than they have. Members are
    visited from the last to the first. Each must end before the next one begins, and the last before
    the directory.
    """
    members: dict[str, Member] = {}
    start_of_next = directory.start
    for entry in sorted(directory.entries, key=lambda entry: entry.header_offset, reverse=True):
        name = entry.filename
        contents.refuse_if(name in members, f"has two members called {quoted(name)}")
        member_contents = replace(contents, part=f"member {quoted(name)}")  # Errors name it.
        start = _data_start(member_contents, entry)
        end = start + entry.compress_size
        member_contents.refuse_if(end > start_of_next, "overlaps what follows it")
        members[name] = Member(
            contents=replace(member_contents, data=contents.data[start:end]),
            compressed=entry.compress_type == zipfile.ZIP_DEFLATED,
            size=entry.file_size,
            crc=entry.CRC,
        )
        start_of_next = entry.header_offset
    begins_later = start_of_next != 0
    contents.refuse_if(begins_later, "is a broken archive: it does not begin with its first member")
    return members


def _data_start(contents: Contents, entry: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes.

    They follow the member's local header, which must agree with the directory.
    """
    header_end = entry.header_offset + LOCAL_BYTES
    header = bytes(contents.data[max(entry.header_offset, 0) : header_end])
    is_header = len(header) == LOCAL_BYTES and header.startswith(LOCAL_HEADER)
    contents.require(is_header, "is not where the directory says")
    # The method is at offset 8, the lengths at 26 and 28; checksum and sizes lie between them.
    method, name_length, extra_length = struct.unpack_from("<H16xHH", header, 8)
    local_name = bytes(contents.data[header_end : header_end + name_length])
    agrees = local_name == _encoded_name(entry) and method == entry.compress_type
    contents.require(agrees, "has a local header that disagrees with the central directory")
    _check_readable(contents, entry)
    return int(header_end + name_length + extra_length)


def _encoded_name(entry: zipfile.ZipInfo) -> bytes:
    """Return the name of a member as the archive has it: code page 437, unless a flag says UTF-8."""
    encoding = "utf-8" if entry.flag_bits & UTF8_FLAG else "cp437"
    return entry.orig_filename.encode(encoding, "replace")


def _check_readable(contents: Contents, entry: zipfile.ZipInfo) -> None:
    """Refuse a member that is encrypted, packed by an unusual method, or of two sizes."""
    method = entry.compress_type
    contents.refuse_if(entry.flag_bits & ENCRYPTED_FLAG, "is encrypted")
    is_known = method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    contents.require(is_known, f"is compressed in a way that is not read (method {method})")
    is_unpacked = method == zipfile.ZIP_STORED
    claims_two_sizes = is_unpacked and entry.compress_size != entry.file_size
    contents.refuse_if(
        claims_two_sizes,
        f"claims two sizes, {entry.compress_size} and {entry.file_size} bytes",
    )


def _refuse_bombs(contents: Contents, members: Iterable[Member]) -> None:
    """Refuse a small file that unpacks to a huge one, by one member or by all together."""
    compressed = [member for member in members if member.compressed]
    for member in compressed:
        _refuse_bomb(contents, [member])
    _refuse_bomb(contents, compressed)
    total = sum(member.size for member in compressed)
    problem = f"unpacks to {total:,} bytes, at most {MAX_UNPACKED:,} are read"
    contents.refuse_if(total > MAX_UNPACKED, problem, "save it uncompressed")


def _refuse_bomb(contents: Contents, members: Sequence[Member]) -> None:
    """Refuse members that unpack to more than 64 MiB, and to 100 times their size."""
    size = sum(member.size for member in members)
    packed = sum(len(member.contents.data) for member in members)
    is_bomb = size > max(BOMB_BYTES, BOMB_RATIO * packed)
    contents.refuse_if(is_bomb, f"looks like a zip bomb: {packed} bytes of it unpack to {size}")
