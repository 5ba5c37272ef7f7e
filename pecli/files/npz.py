"""The .npz format: a ZIP archive of .npy files, one of which may be the spec as a text.

When written, members are stored uncompressed, 64-byte aligned and dated 1980, so that the same
tables give the same bytes.
"""

import hashlib
import struct
import zipfile
from collections.abc import Sequence
from typing import IO, cast

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.contents import Contents, LazyTensors, LoadedFile, leaves_folder, outline
from pecli.files.npy import CODES, MAX_HEADER, header, read_array, read_entry, read_header
from pecli.files.output import KEY, open_output
from pecli.files.writing import (
    OnBlock,
    Sink,
    WriteRequest,
    check_storable,
    file_order,
    provenance,
    write_blocks,
)
from pecli.files.zip_archive import LOCAL_BYTES, Member, members_of

ALIGNMENT = 64
PADDING_FIELD = 0xD935  # the extra field with which zipalign pads
PADDING_HEADER = 6  # bytes of such a field: its type, its length and the alignment
ZIP64_FIELD_BYTES = 20  # of an extra field that `zipfile` adds to a large member
DATE = (1980, 1, 1, 0, 0, 0)  # the first date that ZIP can represent
UNIX = 3
MAX_NAME_BYTES = 0xFFFF - len(".npy")
MAX_TEXT = 16 << 20  # bytes of the member that holds the spec


def write(request: WriteRequest) -> None:
    """Write all tables, and the spec with their sha256 as a last member.

    The spec is the parameters that made them. Their sha256 is known only when all tables are
    written: therefore it comes last.
    """
    check_storable(request.tables, ".npz", CODES)
    ordered = file_order(request.tables)
    _check_names(ordered)
    digest = hashlib.sha256()
    digest_sinks: list[Sink] = []  # empty if there is no spec to hold a sha256
    if request.spec is not None:
        provenance(request.spec)  # Refuse a spec that is not JSON before the output is opened.
        digest_sinks.append(digest.update)
    with open_output(request.path, request.tables) as output:
        # An Output has no tell(): `zipfile` takes it for a pipe and writes in one pass.
        file = cast("IO[bytes]", output)
        with zipfile.ZipFile(file, "w") as archive:
            for table in ordered:
                _write_member(archive, table, digest_sinks, request.on_block)
            if request.spec is not None:
                text = provenance(request.spec, digest.hexdigest())
                _write_text(archive, KEY, text)


def _write_member(
    archive: zipfile.ZipFile,
    table: Table,
    digest_sinks: Sequence[Sink],
    on_block: OnBlock,
) -> None:
    """Write a table as a .npy file in an archive; the sinks also get its bytes."""
    npy_header = header(CODES[table.dtype], table.shape)
    information = _aligned_member(archive, table.name, len(npy_header) + table.nbytes)
    with archive.open(information, "w") as member:
        member.write(npy_header)
        write_blocks([table], [member.write, *digest_sinks], on_block)


def _check_names(tables: Sequence[Table]) -> None:
    """Raise a ParameterError for a name that no member of a .npz can have."""
    for table in tables:
        if table.name == KEY or leaves_folder(table.name):
            rule = "a member of a .npz cannot be called that"
            raise ParameterError("name", quoted(table.name), rule)
        if len(table.name.encode()) > MAX_NAME_BYTES:
            rule = f"a member of a .npz has at most {MAX_NAME_BYTES:,} bytes"
            raise ParameterError("name", quoted(table.name), rule, "write .safetensors")


def _write_text(archive: zipfile.ZipFile, name: str, text: str) -> None:
    """Write a text as a .npy of one string, which NumPy reads without pickle."""
    data = header(f"<U{len(text)}", ()) + text.encode("utf-32-le")
    with archive.open(_aligned_member(archive, name, len(data)), "w") as member:
        member.write(data)


def _aligned_member(archive: zipfile.ZipFile, name: str, size: int) -> zipfile.ZipInfo:
    """Return the next entry of an archive, with padding that aligns the data of its member.

    A member begins with its local header (30 bytes) and its name. If it is large, `zipfile` adds a
    field with 64-bit sizes. The field of padding comes last, right before the data.

    Args:
        archive: The archive that is being written; the member begins where it stands.
        name: The name of the member, without `.npy`.
        size: The bytes of the member's data.
    """
    member = zipfile.ZipInfo(f"{name}.npy", DATE)
    member.create_system = UNIX  # on every machine, so that the bytes are the same
    member.external_attr = 0o600 << 16
    member.file_size = size
    member_start = archive.fp.tell()  # type: ignore[union-attr]
    padding_start = member_start + LOCAL_BYTES + len(member.filename.encode())
    is_zip64 = size * 1.05 > zipfile.ZIP64_LIMIT  # as `ZipFile.open` decides
    if is_zip64:
        padding_start += ZIP64_FIELD_BYTES
    member.extra = _padding_field(padding_start)
    return member


def _padding_field(start: int) -> bytes:
    """Return an extra field of ZIP that begins at `start` and ends at a multiple of ALIGNMENT.

    It consists of its type, its length without these two, and the alignment (2 bytes each), and of
    zeros. From 37, it takes 27 bytes to end at 64: 6 and 21 zeros.

    >>> len(_padding_field(37))
    27
    """
    end_without_zeros = start + PADDING_HEADER
    zeros = bytes(-end_without_zeros % ALIGNMENT)  # -43 % 64 is 21, the way from 43 to 64.
    content = struct.pack("<H", ALIGNMENT) + zeros
    return struct.pack("<HH", PADDING_FIELD, len(content)) + content


def read(contents: Contents) -> LoadedFile:
    """Return the tensors and the metadata of a .npz file; each tensor is unpacked on first access."""
    members: dict[str, Member] = {}
    for file, member in members_of(contents).items():
        name = file.removesuffix(".npy")
        is_array = name != file and not leaves_folder(name)
        contents.require(is_array, f"member {quoted(file)} has no place in a .npz file")
        members[name] = member
    metadata = {}
    if KEY in members:
        metadata[KEY] = _text_of_member(members.pop(KEY))
    outlines = {name: _outline(member) for name, member in members.items()}
    tensors = LazyTensors(outlines, lambda name: read_array(members[name].unpacked()))
    return LoadedFile(contents.path, "npz", tensors, metadata)


def _outline(member: Member) -> Array:
    """Return the array of a stored member, or an array of the form that a header declares."""
    if not member.compressed:
        return read_array(member.contents)
    start = member.start(2 * MAX_HEADER, packed=4 * MAX_HEADER)
    entry = read_entry(start, member.size)
    return outline(entry.dtype, entry.shape)


def _text_of_member(member: Member) -> str:
    """Return the text of a member that is a .npy of one string, as np.savez writes it."""
    member.contents.refuse_if(member.size > MAX_TEXT, "should hold one text")
    contents = member.unpacked()
    array = read_header(contents)
    is_text = array.dtype.kind == "U" and array.shape == ()
    contents.require(is_text, "should hold one text")
    contents.check_size(array.end + array.dtype.itemsize)
    is_big_endian = array.dtype.str.startswith(">")
    encoding = "utf-32-be" if is_big_endian else "utf-32-le"
    try:
        text = str(contents.data[array.end :], encoding)
    except UnicodeDecodeError:
        raise contents.error("should hold one text, but it is not Unicode") from None
    return text.rstrip("\0")  # NumPy pads a string with NULs.
