"""GGUF files, versions 2 and 3: the model's settings and its tensors.

Every length is compared with the bytes that are left in the file. Long arrays, such as a
vocabulary, are skipped.
"""

import math
import struct
from dataclasses import replace
from typing import Any, NamedTuple

from pecli.engine.arrays import Array, widened
from pecli.engine.named_values import JsonObject
from pecli.errors import quoted
from pecli.files.contents import (
    GGUF,
    Contents,
    LoadedFile,
    Place,
    UnreadTensor,
    read_contents,
)

NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
"""Numeric types of values by number, as codes of `struct`."""
TEXT = 8
ARRAY = 9
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 17
MAX_TEXT = 1 << 20  # bytes; a longer text is skipped
MAX_ARRAY = 1 << 12  # elements; a longer array is skipped
MAX_AXES = 8
MAX_KEPT = 16 << 20  # bytes of all values that are kept, and of skipped texts' lengths
MAX_NUMBERS = 1 << 16  # elements of a tensor that is a setting of the model
NUMBER_COST = 32  # bytes that Python needs for a number in a list
DEFAULT_ALIGNMENT = 32  # bytes, unless the key `general.alignment` states another

DTYPES = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
"""Types of tensors that are read, by ggml's number."""


class BlockType(NamedTuple):
    """A ggml type: elements are stored in blocks."""

    name: str
    elements: int  #: per block
    size: int  #: bytes per block


QUANTISED = {
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    9: BlockType("Q8_1", 32, 40),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    15: BlockType("Q8_K", 256, 292),
    16: BlockType("IQ2_XXS", 256, 66),
    17: BlockType("IQ2_XS", 256, 74),
    18: BlockType("IQ3_XXS", 256, 98),
    19: BlockType("IQ1_S", 256, 50),
    20: BlockType("IQ4_NL", 32, 18),
    21: BlockType("IQ3_S", 256, 110),
    22: BlockType("IQ2_S", 256, 82),
    23: BlockType("IQ4_XS", 256, 136),
    29: BlockType("IQ1_M", 256, 56),
    34: BlockType("TQ1_0", 256, 54),
    35: BlockType("TQ2_0", 256, 66),
    39: BlockType("MXFP4", 32, 17),
    40: BlockType("NVFP4", 64, 36),
    41: BlockType("Q1_0", 128, 18),
}
"""Types of tensors that are listed and not read, by ggml's number."""

_ITEM_BYTES = {
    "float64": 8,
    "int64": 8,
    "float32": 4,
    "int32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int16": 2,
    "int8": 1,
}
PLAIN = {kind: BlockType(dtype, 1, _ITEM_BYTES[dtype]) for kind, dtype in DTYPES.items()}
BLOCKS = QUANTISED | PLAIN


def _block_type(kind: int) -> BlockType:
    """Return a type by ggml's number; one that is not known has blocks of no bytes."""
    return BLOCKS.get(kind, BlockType(f"ggml type {kind}", 1, 0))


class GgufTensor(NamedTuple):
    """The entry of a tensor; its shape is in NumPy's order, the last axis the fastest."""

    shape: tuple[int, ...]
    kind: int  #: ggml's number of its type
    offset: int  #: from the beginning of the file


class GgufHeader(NamedTuple):
    """The header of a file: settings by key, and the entries of its tensors."""

    contents: Contents
    values: JsonObject
    tensors: dict[str, GgufTensor]

    def numbers(self, name: str) -> list[float] | None:
        """Return a short tensor of floats that is a setting, such as `rope_freqs.weight`.

        Returns None if the file has no tensor of that name.
        """
        entry = self.tensors.get(name)
        if entry is None:
            return None
        dtype = DTYPES.get(entry.kind, "")
        has_floats = dtype.startswith(("float", "bfloat"))
        is_short = 0 < math.prod(entry.shape) <= MAX_NUMBERS
        is_setting = has_floats and is_short
        problem = f"holds {name} in another form than 1 to {MAX_NUMBERS:,} floats"
        self.contents.require(is_setting, problem)
        self.checked_bytes(name)  # Raises FileError for a tensor that is cut off.
        array = self.contents.array(dtype, entry.shape, entry.offset)
        return [float(value) for value in widened(array).reshape(-1)]

    def checked_bytes(self, name: str) -> int:
        """Return the size of a tensor in bytes; refuse one that is not wholly in the file.

        It is 0 for a type that is not known. Quantised types store blocks of elements: 64 elements
        of Q8_0 are two blocks of 32 elements, with 34 bytes each.
        """
        entry = self.tensors[name]
        block = _block_type(entry.kind)
        # An element may take less than a byte, but not more than a block.
        self.contents.tensor(name).refuse_impossible_shape(entry.shape, itemsize=block.size)
        element_count = math.prod(entry.shape)
        size = element_count * block.size // block.elements
        is_beyond_end = entry.offset + size > self.contents.size
        problem = f"is truncated: tensor {quoted(name)} goes on beyond its end"
        self.contents.refuse_if(is_beyond_end, problem)
        return size


class Reader:
    """Reads numbers and texts one after the other."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self.at = 0
        self._room = MAX_KEPT

    def keep(self, count: int) -> None:
        """Count the bytes that a value takes in memory, and refuse too many.

        The file's size is no limit: a sparse file of gigabytes costs nothing to make.
        """
        self._room -= count
        self._contents.refuse_if(self._room < 0, f"has a header of more than {MAX_KEPT >> 20} MB")

    def take(self, count: int) -> memoryview:
        """Return the next bytes."""
        start = self.at
        self.at += count
        is_truncated = self.at > self._contents.size
        self._contents.refuse_if(is_truncated, "is truncated: its header goes on beyond its end")
        return self._contents.data[start : self.at]

    def number(self, code: str) -> Any:
        """Return the next number, which has a code of `struct`."""
        layout = "<" + code
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def text(self) -> str:
        """Return the next text; empty if it is too long to be a name or a setting."""
        length = self.number("Q")
        data = self.take(length)
        if length > MAX_TEXT:
            return ""
        self.keep(length)
        return str(data, "utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Return a value of a type; None for an array of texts, or one that is too long."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        self._contents.refuse_if(kind != ARRAY, f"has a value of unknown type {kind} in its header")
        return self._array()

    def _array(self) -> list[Any] | None:
        """Return an array of numbers; None for one of texts, which is skipped."""
        kind = self.number("I")
        length = self.number("Q")
        if kind in NUMBERS:
            return self._number_array(NUMBERS[kind], length)
        problem = f"has an array of unknown type {kind} in its header"
        self._contents.refuse_if(kind != TEXT, problem)
        self._skip_texts(length)
        return None

    def _number_array(self, code: str, length: int) -> list[Any] | None:
        """Return numbers that have a code of `struct`; None if they are too many to be a setting."""
        data = self.take(length * struct.calcsize(code))
        if length > MAX_ARRAY:
            return None
        self.keep(NUMBER_COST * length)
        return list(struct.unpack(f"<{length}{code}", data))

    def _skip_texts(self, count: int) -> None:
        """Step over texts, each of which is preceded by its length."""
        self.keep(8 * count)  # Stepping over a text takes time, so that their number is limited.
        for _ in range(count):
            self.take(self.number("Q"))


def read_header(contents: Contents) -> GgufHeader:
    """Parse the settings of a file and the entries of its tensors.

    The header is the magic, a version, two counts, the settings and the entries:

        GGUF | version (4 bytes) | tensors (8) | keys (8) | key, type, value … | entry …

    Raises:
        FileError: the file is no GGUF of version 2 or 3, is cut short, or claims too much.
    """
    reader = Reader(contents)
    contents.refuse_if(reader.take(4) != GGUF, "is not a GGUF file")
    version = reader.number("I")
    contents.refuse_if(
        version not in (2, 3), f"is GGUF version {version}; versions 2 and 3 can be read"
    )
    tensor_count = reader.number("Q")
    key_count = reader.number("Q")
    has_too_many = key_count > MAX_KEYS or tensor_count > MAX_TENSORS
    contents.refuse_if(has_too_many, f"claims {key_count} keys and {tensor_count} tensors")
    values = _read_values(contents, reader, key_count)
    entries = _read_entries(contents, reader, tensor_count)
    alignment = values.get("general.alignment", DEFAULT_ALIGNMENT)
    is_alignment = isinstance(alignment, int) and alignment >= 1
    contents.require(is_alignment, f"has the alignment {alignment!r}")
    # The data begin at the next multiple of the alignment; the header's offsets count from there.
    data_start = _next_multiple(reader.at, alignment)
    tensors = {
        name: entry._replace(offset=data_start + entry.offset) for name, entry in entries.items()
    }
    return GgufHeader(contents=contents, values=values, tensors=tensors)


def _next_multiple(offset: int, alignment: int) -> int:
    """Return the least multiple of an alignment that is not before an offset.

    >>> _next_multiple(70, 32), _next_multiple(64, 32)
    (96, 64)
    """
    return offset + -offset % alignment


def _read_values(contents: Contents, reader: Reader, count: int) -> JsonObject:
    """Read the settings of a file by their keys."""
    values: JsonObject = {}
    for _ in range(count):
        name = reader.text()
        contents.refuse_if(name in values, f"names {name[:60]!r} twice")
        values[name] = reader.value(reader.number("I"))
    return values


def _read_entries(contents: Contents, reader: Reader, count: int) -> dict[str, GgufTensor]:
    """Read the entries of tensors by their names; offsets count from the beginning of the data."""
    entries: dict[str, GgufTensor] = {}
    for _ in range(count):
        name = reader.text()
        contents.refuse_if(name in entries, f"names {name[:60]!r} twice")
        entries[name] = _read_entry(contents, reader)
        _check_rows(contents.tensor(name), entries[name])
    return entries


def _check_rows(contents: Contents, entry: GgufTensor) -> None:
    """Refuse rows that are no whole blocks, as llama.cpp does: 20 elements of Q4_0, which has 32."""
    block = _block_type(entry.kind)
    row_elements = (1, *entry.shape)[-1]
    contents.refuse_if(
        row_elements % block.elements,
        f"has rows of {row_elements} elements, and {block.name} stores blocks of {block.elements}",
        "the file is damaged, and llama.cpp refuses it too; make it again",
    )


def _read_entry(contents: Contents, reader: Reader) -> GgufTensor:
    """Read a tensor's entry; its offset counts from the beginning of the data."""
    axes = reader.number("I")
    contents.refuse_if(axes > MAX_AXES, f"has a tensor of {axes} axes")
    sides = [reader.number("Q") for _ in range(axes)]  # The fastest axis comes first.
    kind = reader.number("I")
    offset = reader.number("Q")
    return GgufTensor(shape=tuple(reversed(sides)), kind=kind, offset=offset)


def header_of(path: str) -> GgufHeader:
    """Read the header of the file at `path`."""
    return read_header(read_contents(path))


def read(contents: Contents) -> LoadedFile:
    """Return the tensors of a file, and the list of those that are not read, such as quantised ones."""
    header = read_header(contents)
    places: dict[str, Place] = {}
    unread: list[UnreadTensor] = []
    for name, entry in header.tensors.items():
        size = header.checked_bytes(name)
        dtype = DTYPES.get(entry.kind)
        if dtype is not None:
            places[name] = Place(dtype, entry.shape, entry.offset)
        else:
            unread.append(_unread_tensor(contents, name, entry, size))
    return LoadedFile(contents.path, "gguf", contents.tensors(places), unread=tuple(unread))


def _unread_tensor(contents: Contents, name: str, entry: GgufTensor, size: int) -> UnreadTensor:
    """Return the type and shape of a tensor whose numbers are not decoded.

    Its type is unknown, or quantised: Q8_0 stores 32 elements as a block of 34 bytes. The bytes of a
    quantised tensor are read only when they are compared with those of another file.

    Args:
        contents: The file.
        name: The tensor's name.
        entry: Its entry in the header.
        size: Its size in bytes; 0 if the type is unknown.
    """
    block_type = _block_type(entry.kind)
    stated_size = size if block_type.size else None
    tensor = UnreadTensor(name, block_type.name, entry.shape, nbytes=stated_size)
    if size == 0:  # A tensor without known bytes has no rows to compare.
        return tensor
    place = _place_of_row_bytes(entry, size)

    def read_rows() -> Array:
        """Return the bytes of each row."""
        return contents.tensor(name).array_at(place)

    return replace(tensor, read_blocks=read_rows)


def _place_of_row_bytes(entry: GgufTensor, size: int) -> Place:
    """Return the place of a quantised tensor of `size` bytes, as rows of bytes.

    A tensor (10, 64) of Q8_0 has 680 bytes, since 64 elements are two blocks of 34 bytes: (10, 68).
    """
    *row_axes, _ = entry.shape
    row_bytes = size // math.prod(row_axes)
    return Place("uint8", shape=(*row_axes, row_bytes), offset=entry.offset)
