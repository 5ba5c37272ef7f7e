"""The .safetensors format: a JSON header with dtypes, shapes and places, then the tensors."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError, quoted
from pecli.files.contents import Contents, LoadedFile, Place
from pecli.files.output import KEY, Output, is_text, open_output
from pecli.files.strict_json import parsed_json
from pecli.files.writing import (
    NO_DIGEST,
    OnBlock,
    WriteRequest,
    check_storable,
    compact,
    file_order,
    no_progress,
    provenance,
    write_blocks,
)

ALIGNMENT = 8
LENGTH_BYTES = 8  # the length of the header, little-endian, which begins the file
MAX_HEADER = 16 << 20  # bytes: Python needs about twenty times as many for the parsed header
MAX_TENSORS = 100_000
MAX_QUOTES = 12 * MAX_TENSORS
"""A tensor's entry has ten quotes. Every quoted text becomes a Python object."""
MAX_NUMBER = 2**63  # offsets and lengths of axes are below it
METADATA = "__metadata__"
CODES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint64": "U64",
    "uint32": "U32",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
    "complex64": "C64",
}
DTYPES = {code: name for name, code in CODES.items()}


def write(request: WriteRequest) -> None:
    """Write all tables; the metadata hold the given texts, and the spec with a sha256.

    The sha256 stands in the header before the tables that it is about. A file is patched when it is
    known; for a pipe, which cannot be patched, the tables are made twice.
    """
    check_storable(request.tables, ".safetensors", CODES)
    if any(table.name == METADATA for table in request.tables):
        raise ParameterError("name", METADATA, "in .safetensors that name is reserved")
    ordered = file_order(request.tables)
    # A spec that is not JSON is refused here, before the output is opened.
    header_bytes = _header_bytes(request, ordered, NO_DIGEST)
    with open_output(request.path, request.tables) as output:
        if request.spec is None:
            output.write(header_bytes)
            write_blocks(ordered, [output.write], request.on_block)
        elif output.seekable:
            output.write(header_bytes)
            _write_and_patch(request, ordered, output)
        else:
            _write_after_hashing(request, ordered, output)


def _write_and_patch(request: WriteRequest, ordered: Sequence[Table], output: Output) -> None:
    """Write tables after a header, and then the header again, with their sha256."""
    digest = hashlib.sha256()
    write_blocks(ordered, [output.write, digest.update], request.on_block)
    output.patch(0, _header_bytes(request, ordered, digest.hexdigest()))


def _write_after_hashing(request: WriteRequest, ordered: Sequence[Table], output: Output) -> None:
    """Write a header and tables to a pipe, in which nothing can be changed later.

    The header comes first, and has the sha256 of the tables. Therefore they are made twice.
    """
    digest = hashlib.sha256()
    write_blocks(ordered, [digest.update], no_progress)
    output.write(_header_bytes(request, ordered, digest.hexdigest()))
    write_blocks(ordered, [output.write], request.on_block)


def _header_bytes(request: WriteRequest, ordered: Sequence[Table], digest: str) -> bytes:
    """Return the length and the JSON header, padded with spaces so that the data are aligned.

    A table `a` of two float32 numbers has the entry
    `"a":{"data_offsets":[0,8],"dtype":"F32","shape":[2]}`; offsets count from the header's end.
    """
    entries = _metadata_entries(request, digest)
    begin = 0
    for table in ordered:
        end = begin + table.nbytes
        entry = {
            "dtype": CODES[table.dtype],
            "shape": table.shape,
            "data_offsets": (begin, end),
        }
        entries.append(f"{compact(table.name)}:{compact(entry)}")
        begin = end
    text = ("{" + ",".join(entries) + "}").encode("ascii")
    missing_bytes = -len(text) % ALIGNMENT  # A header of 61 bytes gets 3 spaces, and has 64.
    text += b" " * missing_bytes
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _metadata_entries(request: WriteRequest, digest: str) -> list[str]:
    """Return the header's entry of metadata; none if there are neither texts nor a spec."""
    metadata = dict(request.metadata or {})
    if request.spec is not None:
        metadata[KEY] = provenance(request.spec, digest)
    if not metadata:
        return []
    return [f'"{METADATA}":{compact(metadata)}']


def write_copy(
    path: str,
    contents: Contents,
    tensors: Mapping[str, Array],
    new_tensors: Mapping[str, Table],
    on_block: OnBlock,
) -> None:
    """Copy a .safetensors file byte for byte, except for the tensors that are replaced.

    Such a file is a header (its length in 8 bytes, and JSON) and the bytes of all tensors. New
    tensors have the dtypes and shapes of the old ones, so that the header stays right.

    Args:
        path: The file to write.
        contents: The bytes of the old file.
        tensors: All tensors of the old file, in its order.
        new_tensors: The tensors that replace old ones, by name.
        on_block: Called with the size of every block that was written.
    """
    header_end = LENGTH_BYTES + int.from_bytes(contents.data[:LENGTH_BYTES], "little")
    tables = [new_tensors.get(name) or table_of(name, array) for name, array in tensors.items()]
    size_by_header = header_end + sum(table.nbytes for table in tables)
    # The header is read again here. The tensors are of the old one, and must still fit to it.
    is_other_header = size_by_header != contents.size
    contents.refuse_if(
        is_other_header, "changed while it was read: its header has another length now"
    )
    with open_output(path, tables) as output:
        output.write(contents.data[:header_end])
        write_blocks(tables, [output.write], on_block)


class HeaderEntry(NamedTuple):
    """A tensor's entry in the header; offsets count from the end of the header."""

    begin: int
    end: int
    name: str
    dtype: str
    shape: tuple[int, ...]

    def place(self, data_start: int) -> Place:
        """Return the tensor's place in a file whose data begin at an offset."""
        return Place(self.dtype, self.shape, offset=data_start + self.begin)


def read(contents: Contents) -> LoadedFile:
    """Return the tensors of a .safetensors file, in the order of their data, and its metadata."""
    length = int.from_bytes(contents.data[:LENGTH_BYTES], "little")
    header = _read_header(contents, length)
    metadata = _pop_metadata(contents, header)
    entries = sorted(_checked_entry(contents, name, value) for name, value in header.items())
    data_start = LENGTH_BYTES + length
    _check_offsets(contents, entries, data_start)
    places = {entry.name: entry.place(data_start) for entry in entries}
    tensors = contents.tensors(places)
    return LoadedFile(contents.path, "safetensors", tensors, metadata, contents=contents)


def _read_header(contents: Contents, length: int) -> dict[str, object]:
    """Return the entries of a header of `length` bytes by the names of tensors.

    Raises:
        FileError: the header is too large, cut short, or no JSON.
    """
    contents.refuse_if(
        length > MAX_HEADER, f"claims a header of {length} bytes, more than {MAX_HEADER}"
    )
    text = bytes(contents.data[LENGTH_BYTES : LENGTH_BYTES + length])
    contents.refuse_if(len(text) < length, f"is truncated: its header should have {length} bytes")
    contents.refuse_if(
        text.count(b'"') > MAX_QUOTES,
        f"has more than {MAX_TENSORS} tensors and texts in its header",
    )

    def error(problem: str) -> FileError:
        return contents.error(f"has a broken header, which {problem}")

    entries = parsed_json(text, error)
    assert isinstance(entries, dict)  # A file whose header begins with no brace is another format.
    return entries


def _pop_metadata(contents: Contents, entries: dict[str, object]) -> dict[str, str]:
    """Remove the metadata from the entries of a header and return them; refuse other than texts."""
    metadata = entries.pop(METADATA, {})
    if not isinstance(metadata, dict):
        raise _broken_header(contents)
    if not all(isinstance(value, str) for value in metadata.values()):
        raise _broken_header(contents)
    return metadata


def _broken_header(contents: Contents) -> FileError:
    return contents.error(
        "has a broken header: it is no JSON object, or its metadata are not texts by name"
    )


def _check_offsets(contents: Contents, entries: Sequence[HeaderEntry], start: int) -> None:
    """Refuse tensors that overlap, holes between them, and bytes after the last one.

    Tensors in the bytes 0–8 and 12–16 of the data have a hole of 4 bytes between them.
    """
    previous = 0
    for entry in entries:
        tensor = contents.tensor(entry.name)
        tensor.refuse_if(entry.begin < previous, "overlaps the tensor before it")
        hole = entry.begin - previous
        tensor.refuse_if(hole > 0, f"leaves a hole of {hole} bytes before it")
        previous = entry.end
    contents.check_size(start + previous)


def _checked_entry(contents: Contents, name: str, entry: object) -> HeaderEntry:
    """Return a tensor's entry in the header, with its form, its dtype and its size checked.

    `{"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}` has 6 numbers of 4 bytes.

    Raises:
        FileError: the entry has other keys, an unknown dtype, or offsets of another size.
    """
    tensor = contents.tensor(name)
    match entry:
        case {
            "dtype": str(code),
            "shape": [*sides],
            "data_offsets": [begin, end],
            **other_keys,
        } if not other_keys:
            numbers = [*sides, begin, end]
        case _:
            raise tensor.error("has a broken header: dtype, shape and data_offsets are expected")
    has_whole_numbers = all(map(_is_whole_number, numbers))
    tensor.require(
        has_whole_numbers and is_text(name),
        "has a broken header: shape and data_offsets are lists of whole numbers",
    )
    tensor.refuse_if(code not in DTYPES, f"has dtype {quoted(code[:20])}, which is not known")
    dtype = DTYPES[code]
    shape = tuple(sides)
    size = tensor.data_bytes(shape, numpy_dtype(dtype).itemsize)
    has_other_size = end - begin != size
    tensor.refuse_if(has_other_size, f"needs {size} bytes, its data_offsets are {begin} and {end}")
    return HeaderEntry(begin=begin, end=end, name=name, dtype=dtype, shape=shape)


def _is_whole_number(value: object) -> bool:
    """Return True for a length or an offset of JSON: neither a fraction, nor true, nor negative."""
    return type(value) is int and 0 <= value < MAX_NUMBER
