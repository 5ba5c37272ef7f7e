"""The .npz format: a ZIP archive of .npy files, and one more with the spec as a text. Written, members are stored as
they are, 64-byte aligned and dated 1980, so that the same tables give the same bytes. Read, `zipfile` lists the
members; what they claim is compared with the file before any is unpacked."""

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.contents import Contents, LazyTensors, LoadedFile
from pecli.files.npy import (
    CODES,
    MAX_HEADER,
    check_storable,
    file_order,
    header,
    read_array,
    read_header,
    read_place,
)
from pecli.files.output import KEY, OnBlock, Spec, Texts, open_output, provenance, write_blocks

ALIGNMENT = 64
PADDING = 0xD935  # the extra field that zipalign pads with
LOCAL_BYTES = 30  # of a member's own header, before its name
DATE = (1980, 1, 1, 0, 0, 0)
MAX_NAME_BYTES = 0xFFFF - len(".npy")  # bytes for which a ZIP archive has room
BOMB_BYTES = 64 << 20
BOMB_RATIO = 100
MAX_UNPACKED = 4 << 30  # bytes of all compressed members together, which are unpacked into memory
MAX_TEXT = 16 << 20
MAX_DIRECTORY = 16 << 20  # bytes: `zipfile` makes twenty times as much of them


def write(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
    """Write all the tables, and the spec with their sha256 as a last member."""
    ordered = file_order(tables)
    check_storable(tables, ".npz", CODES)
    for table in ordered:
        if table.name == KEY or bad_name(table.name):
            raise ParameterError(
                "name", quoted(table.name), "a member of a .npz cannot be called that"
            )
        if len(table.name.encode()) > MAX_NAME_BYTES:
            rule = f"a member of a .npz has at most {MAX_NAME_BYTES:,} bytes"
            raise ParameterError("name", quoted(table.name), rule, "write .safetensors")
    if spec is not None:
        provenance(spec)  # a spec that is not JSON is refused before the output is opened
    digest = hashlib.sha256()
    hashes = [] if spec is None else [digest.update]
    with open_output(path, tables) as output:
        file: Any = output  # which cannot tell its place: for `zipfile` a pipe, written in one pass, checksums last
        with zipfile.ZipFile(file, "w") as archive:
            for table in ordered:
                start = header(CODES[table.dtype], table.shape)
                with archive.open(
                    _member(archive, table.name, len(start) + table.nbytes), "w"
                ) as member:
                    member.write(start)
                    write_blocks([table], [member.write, *hashes], on_block)
            if spec is not None:  # a text is a .npy of characters, which NumPy reads without pickle
                text = provenance(spec, digest.hexdigest())
                data = header(f"<U{len(text)}", ()) + text.encode("utf-32-le")
                with archive.open(_member(archive, KEY, len(data)), "w") as member:
                    member.write(data)


def _member(archive: zipfile.ZipFile, name: str, size: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(f"{name}.npy", DATE)
    member.create_system = 3  # as on Unix, wherever it is written
    member.external_attr = 0o600 << 16
    member.file_size = size
    zip64 = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0  # as `ZipFile.open` decides
    end = archive.fp.tell() + LOCAL_BYTES + len(member.filename.encode()) + zip64  # type: ignore[union-attr]
    length = 6 + (-end - 6) % ALIGNMENT
    member.extra = struct.pack("<HHH", PADDING, length - 4, ALIGNMENT) + bytes(length - 6)
    return member


def bad_name(name: str) -> bool:
    """Whether a member's name could lead out of a folder it is unpacked in."""
    return (
        not name or name.startswith("/") or ".." in name.split("/") or bool({"\0", "\\"} & {*name})
    )


@dataclass(frozen=True)
class Member:
    """A file in an archive: its bytes there, and what the directory says of them."""

    contents: Contents
    compressed: bool
    size: int
    crc: int

    def start(self, length: int, packed: int | None = None) -> tuple[Contents, Any]:
        """The first of a compressed member's own bytes, from so many packed ones, and what unpacks them."""
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            data = stream.decompress(self.contents.data[:packed], length)
        except zlib.error:
            raise self.contents.error("is damaged: it cannot be unpacked") from None
        return replace(self.contents, data=memoryview(data)), stream

    def unpacked(self) -> Contents:
        """The member's own bytes, their checksum compared; those of a compressed one in memory."""
        contents = self.contents
        if self.compressed:
            contents, stream = self.start(self.size + 1)
            other = len(contents.data) != self.size or not stream.eof or stream.unused_data
            contents.refuse_if(
                other, f"is damaged: it does not unpack to the {self.size} bytes that it declares"
            )
        contents.refuse_if(
            zlib.crc32(contents.data) != self.crc, "is damaged: its checksum does not match"
        )
        return contents


def members_of(contents: Contents) -> dict[str, Member]:
    """All members of an archive, none of them overlapping another, in the order of the directory."""
    tail = bytes(contents.data[-22 - 0xFFFF :])
    place = tail.rfind(b"PK\x05\x06")
    contents.refuse_if(
        place < 0 or place + 22 > len(tail), "is truncated: the directory at its end is missing"
    )
    here, count, size, start, comment = struct.unpack_from("<HHIIH", tail, place + 8)
    contents.refuse_if(
        place + 22 + comment != len(tail), "is a broken archive: something follows its end"
    )
    zip64 = tail[max(place - 20, 0) :].startswith(
        b"PK\x06\x07"
    )  # whose record holds what does not fit
    if zip64:
        record = tail[max(place - 76, 0) :]
        where = int.from_bytes(tail[place - 12 : place - 4], "little")
        if not record.startswith(b"PK\x06\x06") or where != len(contents.data) - len(record):
            raise contents.error("is a broken archive: its end records contradict each other")
        size = int.from_bytes(record[40:48], "little")
    contents.refuse_if(
        size > MAX_DIRECTORY, f"has a directory of {size} bytes, more than any .npz needs"
    )
    whole: Any = contents.data.obj
    try:
        is_mapped = (
            not isinstance(whole, bytearray) and count
        )  # in an empty mapping zipfile seeks too far back
        with zipfile.ZipFile(whole if is_mapped else io.BytesIO(whole)) as archive:
            listed, end = archive.infolist(), archive.start_dir
    except (
        zipfile.BadZipFile,
        NotImplementedError,
        OSError,
        ValueError,
        IndexError,
        OverflowError,
    ) as problem:
        raise contents.error(f"is a broken archive: {' '.join(str(problem).split())}") from None
    if {here, count} - {len(listed), 0xFFFF if zip64 else len(listed)} or start not in (
        end,
        zip64 and 0xFFFFFFFF,
    ):
        raise contents.error("is a broken archive: its end records contradict each other")
    members: dict[str, Member] = {}
    for entry in sorted(listed, key=lambda entry: entry.header_offset, reverse=True):
        name = entry.filename
        contents.refuse_if(name in members, f"has two members called {quoted(name)}")
        packed = replace(contents, part=f"member {quoted(name)}")
        start = _data_start(packed, entry)
        packed.refuse_if(start + entry.compress_size > end, "overlaps what follows it")
        packed = replace(packed, data=contents.data[start : start + entry.compress_size])
        members[name] = Member(
            packed, entry.compress_type == zipfile.ZIP_DEFLATED, entry.file_size, entry.CRC
        )
        end = entry.header_offset
    contents.refuse_if(end, "is a broken archive: it does not begin with its first member")
    _refuse_bombs(contents, members.values())
    return {entry.filename: members[entry.filename] for entry in listed}


def _data_start(contents: Contents, entry: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin, which its own header decides; the two must agree."""
    start = entry.header_offset + LOCAL_BYTES
    own = bytes(contents.data[max(entry.header_offset, 0) : start])
    contents.refuse_if(
        len(own) < LOCAL_BYTES or not own.startswith(b"PK\x03\x04"),
        "is not where the directory says",
    )
    method, name_length, extra_length = struct.unpack_from("<H16xHH", own, 8)
    name = entry.orig_filename.encode("utf-8" if entry.flag_bits & 0x800 else "cp437", "replace")
    other = (
        bytes(contents.data[start : start + name_length]) != name or method != entry.compress_type
    )
    contents.refuse_if(other, "has a local header that disagrees with the central directory")
    contents.refuse_if(entry.flag_bits & 1, "is encrypted")
    is_stored = method == zipfile.ZIP_STORED
    unknown = not is_stored and method != zipfile.ZIP_DEFLATED
    contents.refuse_if(unknown, f"is compressed in a way that is not read (method {method})")
    sizes = (entry.compress_size, entry.file_size)
    contents.refuse_if(
        is_stored and len({*sizes}) > 1, f"claims two sizes, {sizes[0]} and {sizes[1]} bytes"
    )
    return int(start + name_length + extra_length)


def _refuse_bombs(contents: Contents, members: Iterable[Member]) -> None:
    """Refuse a small file that unpacks to a huge one, through one member or through all of them."""
    compressed = [
        (member.size, len(member.contents.data)) for member in members if member.compressed
    ]
    total = sum(size for size, _ in compressed)
    for size, packed in [*compressed, (total, sum(packed for _, packed in compressed))]:
        is_bomb = size > max(BOMB_BYTES, BOMB_RATIO * packed)
        contents.refuse_if(is_bomb, f"looks like a zip bomb: {packed} bytes of it unpack to {size}")
    problem = f"unpacks to {total:,} bytes, at most {MAX_UNPACKED:,} are read"
    contents.refuse_if(total > MAX_UNPACKED, problem, "save it uncompressed")


def read(contents: Contents) -> LoadedFile:
    """The tensors and the metadata."""
    arrays: dict[str, Member] = {}
    for file, member in members_of(contents).items():
        name = file.removesuffix(".npy")
        contents.refuse_if(
            name == file or bad_name(name), f"member {quoted(file)} has no place in a .npz file"
        )
        arrays[name] = member
    metadata = {KEY: _text(arrays.pop(KEY))} if KEY in arrays else {}
    outlines = {name: _outline(member) for name, member in arrays.items()}
    tensors = LazyTensors(outlines, lambda name: read_array(arrays[name].unpacked()))
    return LoadedFile(contents.path, "npz", tensors, metadata)


def _outline(member: Member) -> Array:
    """The array of a stored member; of a compressed one what its header says."""
    if not member.compressed:
        return read_array(member.contents)
    name, shape, _, _ = read_place(member.start(2 * MAX_HEADER, 4 * MAX_HEADER)[0], member.size)
    return np.broadcast_to(np.zeros((), numpy_dtype(name)), shape)  # which takes no memory


def _text(member: Member) -> str:
    member.contents.refuse_if(member.size > MAX_TEXT, "should hold one text")
    contents = member.unpacked()
    dtype, shape, _, offset = read_header(contents)
    contents.refuse_if(dtype.kind != "U" or shape, "should hold one text")
    contents.check_size(offset + dtype.itemsize)
    try:
        return str(
            contents.data[offset:], "utf-32-be" if dtype.str[0] == ">" else "utf-32-le"
        ).rstrip("\0")
    except UnicodeDecodeError:
        raise contents.error("should hold one text, but it is not Unicode") from None
