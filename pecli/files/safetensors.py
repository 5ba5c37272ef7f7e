"""The .safetensors format: a JSON header that names dtypes, shapes and places, then the tensors, tightly packed."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pecli.engine.arrays import Array, numpy_dtype
from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError, quoted
from pecli.files.contents import Contents, LoadedFile, parsed_json
from pecli.files.npy import check_storable, file_order
from pecli.files.output import (
    KEY,
    OnBlock,
    Spec,
    Texts,
    compact,
    is_text,
    open_output,
    provenance,
    write_blocks,
)

ALIGNMENT = 8
MAX_HEADER = 16 << 20  # bytes, of which Python makes some twenty times as much
MAX_TENSORS = 100_000
MAX_QUOTES = (
    12 * MAX_TENSORS
)  # of which a tensor has ten: what they enclose becomes a Python object each
METADATA = "__metadata__"
CODES = {
    **{"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"},
    **{"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0"},
    **{"float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ"},
    **{
        f"{sign}int{bits}": f"{sign or 'i'}{bits}".upper()
        for sign in ("", "u")
        for bits in (64, 32, 16, 8)
    },
    **{"bool": "BOOL", "complex64": "C64"},
}
DTYPES = {code: name for name, code in CODES.items()}


def write(
    path: str, tables: Sequence[Table], spec: Spec | None, texts: Texts, on_block: OnBlock
) -> None:
    """Write all the tables; into the metadata the texts, and the spec with the tables' sha256."""
    ordered = file_order(tables)
    check_storable(tables, ".safetensors", CODES)
    if any(table.name == METADATA for table in tables):
        raise ParameterError("name", METADATA, "in .safetensors that name is reserved")

    def header(*digest: str) -> bytes:
        metadata = {**(texts or {}), **({} if spec is None else {KEY: provenance(spec, *digest)})}
        entries = [f'"{METADATA}":' + compact(metadata)] if metadata else []
        begin = 0
        for table in ordered:
            end = begin + table.nbytes
            place = {
                "dtype": CODES[table.dtype],
                "shape": table.shape,
                "data_offsets": (begin, end),
            }
            entries.append(f"{compact(table.name)}:{compact(place)}")
            begin = end
        text = ("{" + ",".join(entries) + "}").encode("ascii")
        text += b" " * (-len(text) % ALIGNMENT)
        return len(text).to_bytes(8, "little") + text

    start = header()  # a spec that is not JSON is refused before the output is opened
    digest = hashlib.sha256()
    with open_output(path, tables) as output:
        is_patched = spec is not None and output.seekable
        if (
            spec is not None and not is_patched
        ):  # what is in a pipe cannot be changed: it is hashed first
            write_blocks(ordered, [digest.update], lambda count: None)
            start = header(digest.hexdigest())
        output.write(start)
        write_blocks(ordered, [output.write, *([digest.update] if is_patched else [])], on_block)
        if is_patched:
            output.patch(0, header(digest.hexdigest()))


def write_copy(
    path: str,
    contents: Contents,
    tensors: Mapping[str, Array],
    changed: Mapping[str, Table],
    on_block: OnBlock,
) -> None:
    """Write the file again, byte for byte, but for the tensors that changed, whose dtypes and shapes did not. `tensors`
    are all that the file holds, in its own order."""
    end = 8 + int.from_bytes(contents.data[:8], "little")
    tables = [changed.get(name) or table_of(name, array) for name, array in tensors.items()]
    moved = end + sum(table.nbytes for table in tables) != len(contents.data)
    contents.refuse_if(moved, "changed while it was read: its header has another length now")
    with open_output(path, tables) as output:
        output.write(contents.data[:end])
        write_blocks(tables, [output.write], on_block)


def read(contents: Contents) -> LoadedFile:
    """The tensors of a .safetensors file, in the order of their data, and its metadata."""
    length = int.from_bytes(contents.data[:8], "little")
    contents.refuse_if(
        length > MAX_HEADER, f"claims a header of {length} bytes, more than {MAX_HEADER}"
    )
    text = bytes(contents.data[8 : 8 + length])
    contents.refuse_if(len(text) < length, f"is truncated: its header should have {length} bytes")
    contents.refuse_if(
        text.count(b'"') > MAX_QUOTES,
        f"has more than {MAX_TENSORS} tensors and texts in its header",
    )
    entries = parsed_json(text, lambda said: contents.error(f"has a broken header, which {said}"))
    metadata = entries.pop(METADATA, {}) if isinstance(entries, dict) else None
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        raise contents.error(
            "has a broken header: it is no JSON object, or its metadata are not texts by name"
        )
    start = 8 + length
    places = sorted(_place(contents, name, entry) for name, entry in entries.items())
    previous = 0
    for begin, end, name, _, _ in places:
        if begin != previous:
            hole = f"leaves a hole of {begin - previous} bytes before it"
            raise contents.tensor(name).error(
                "overlaps the tensor before it" if begin < previous else hole
            )
        previous = end
    contents.check_size(start + previous)
    tensors = {
        name: contents.array(dtype, shape, start + begin) for begin, _, name, dtype, shape in places
    }
    return LoadedFile(contents.path, "safetensors", tensors, metadata, contents=contents)


def _place(contents: Contents, name: str, entry: Any) -> tuple[int, int, str, str, tuple[int, ...]]:
    """Begin and end in the data, name, dtype and shape of a tensor."""
    tensor = contents.tensor(name)
    match entry:
        case {"dtype": str(code), "shape": [*shape], "data_offsets": [begin, end]} if (
            len(entry) == 3
        ):
            numbers = [*shape, begin, end]
        case _:
            raise tensor.error("has a broken header: dtype, shape and data_offsets are expected")
    are_whole = all(type(number) is int and 0 <= number < 2**63 for number in numbers) and is_text(
        name
    )
    tensor.refuse_if(
        not are_whole, "has a broken header: shape and data_offsets are lists of whole numbers"
    )
    tensor.refuse_if(code not in DTYPES, f"has dtype {quoted(code[:20])}, which is not known")
    size = tensor.data_bytes(tuple(shape), numpy_dtype(DTYPES[code]).itemsize)
    tensor.refuse_if(
        end - begin != size, f"needs {size} bytes, its data_offsets are {begin} and {end}"
    )
    return begin, end, name, DTYPES[code], tuple(shape)
