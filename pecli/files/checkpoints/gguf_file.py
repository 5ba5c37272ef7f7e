"""GGUF files (versions 2 and 3), read with trust in nothing: what they say about the model, and their tensors.

Every length is compared with the bytes that are left in the file; long arrays, such as a vocabulary, are skipped.
"""

from __future__ import annotations

import io
import math
import struct
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pecli.engine.arrays import numpy_dtype, widened
from pecli.engine.table import Table
from pecli.errors import FileError, quoted
from pecli.files.source import Source, UnreadTensor, data_bytes, open_source, stored_table

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAGIC = b"GGUF"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
MAX_KEYS, MAX_TENSORS, MAX_TEXT, MAX_ARRAY, MAX_AXES = 1 << 16, 1 << 17, 1 << 20, 1 << 12, 8
MAX_TEXTS, MAX_KEPT = 1 << 21, 16 << 20
"""Texts in arrays, which are skipped one by one, and bytes of all values that are kept."""
MAX_NUMBERS = 1 << 16
"""Elements of a tensor that is a setting of the model."""

DTYPES = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64", 28: "float64", 30: "bfloat16"}
QUANTISED = {
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    29: ("IQ1_M", 256, 56),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Types that are named and not read: with elements and bytes of a block, as in ggml."""


@dataclass(frozen=True)
class Place:
    """Where a tensor's numbers are; the shape is as NumPy has it, the last axis the fastest."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass
class Header:
    """What the file says about the model: values by key, and the places of its tensors."""

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Place] = field(default_factory=dict)
    data: int = 0


class _SourceFile(io.RawIOBase):
    """A source as a file that can be buffered: headers are thousands of short texts."""

    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (self._at if whence == io.SEEK_CUR else 0)
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = self._source.read_into(self._at, memoryview(buffer).cast("B"))
        self._at += count
        return count


class Reader:
    """Numbers and texts, one after the other."""

    def __init__(self, source: Source) -> None:
        if source.size is None:
            raise source.error("a .gguf file cannot be read from a pipe", "save it to a file first")
        self._source, self._size = source, source.size
        self._file = io.BufferedReader(_SourceFile(source))
        self._texts, self._kept = MAX_TEXTS, MAX_KEPT

    def keep(self, count: int) -> None:
        """Refuse a value of so many bytes in memory where those before it left no room: a sparse file costs nothing."""
        self._kept -= count
        if self._kept < 0:
            raise self.wrong(f"has a header of more than {MAX_KEPT >> 20} MB")

    def wrong(self, problem: str) -> FileError:
        return self._source.error(problem)

    def take(self, count: int) -> bytes:
        if count > self.left():
            raise self.wrong("is truncated: its header goes on beyond its end")
        data = self._file.read(count)
        if len(data) < count:
            raise self.wrong("is truncated: its header goes on beyond its end")
        return data

    def left(self) -> int:
        return self._size - self._file.tell()

    def at(self) -> int:
        return self._file.tell()

    def skip(self, count: int) -> None:
        if count > self.left():
            raise self.wrong("is truncated: its header goes on beyond its end")
        self._file.seek(count, io.SEEK_CUR)

    def number(self, code: str) -> Any:
        try:
            return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]
        except struct.error:
            raise self.wrong("is truncated") from None

    def text(self) -> str:
        length = self.number("Q")
        if length > MAX_TEXT:
            self.skip(length)
            return ""
        self.keep(length)
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        if kind == ARRAY:
            return self._array()
        raise self.wrong(f"has a value of unknown type {kind} in its header")

    def _array(self) -> list[Any] | None:
        """The items, or None for an array that is too long to be of interest."""
        kind, length = self.number("I"), self.number("Q")
        if kind in NUMBERS:
            code = NUMBERS[kind]
            if length * struct.calcsize(code) > self.left():
                raise self.wrong("is truncated: an array in its header goes on beyond its end")
            if length > MAX_ARRAY:
                self.skip(length * struct.calcsize(code))
                return None
            self.keep(32 * length)
            return list(struct.unpack(f"<{length}{code}", self.take(length * struct.calcsize(code))))
        if kind != TEXT:
            raise self.wrong(f"has an array of unknown type {kind} in its header")
        if length * 8 > self.left():
            raise self.wrong("is truncated: an array in its header goes on beyond its end")
        self._texts -= length
        if self._texts < 0:
            raise self.wrong(f"has more than {MAX_TEXTS:,} texts in its header, more than any vocabulary")
        for _ in range(length):
            self.skip(self.number("Q"))
        return None


def read_header(source: Source) -> Header:
    """The values of a file, and the places of its tensors."""
    reader = Reader(source)
    if reader.take(4) != MAGIC:
        raise reader.wrong("is not a GGUF file")
    version = reader.number("I")
    if version not in (2, 3):
        raise reader.wrong(f"is GGUF version {version}; versions 2 and 3 can be read")
    tensors, keys = reader.number("Q"), reader.number("Q")
    if keys > MAX_KEYS or tensors > MAX_TENSORS:
        raise reader.wrong(f"claims {keys} keys and {tensors} tensors")
    header = Header()
    for _ in range(keys):
        name = reader.text()
        if name in header.values:
            raise reader.wrong(f"names {name[:60]!r} twice")
        header.values[name] = reader.value(reader.number("I"))
    for _ in range(tensors):
        name = reader.text()
        if name in header.tensors:
            raise reader.wrong(f"names {name[:60]!r} twice")
        axes = reader.number("I")
        if axes > MAX_AXES:
            raise reader.wrong(f"has a tensor of {axes} axes")
        shape = tuple(reader.number("Q") for _ in range(axes))[::-1]
        header.tensors[name] = Place(shape, reader.number("I"), reader.number("Q"))
    alignment = header.values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise reader.wrong(f"has the alignment {alignment!r}")
    header.data = -(-reader.at() // alignment) * alignment
    return header


def header_of(path: str) -> Header:
    """The header of the file of a name."""
    source = open_source(path)
    try:
        return read_header(source)
    finally:
        source.close()


def read_numbers(path: str, header: Header, name: str) -> list[float] | None:
    """A short tensor of floats that is a setting of the model; None where there is none."""
    place = header.tensors.get(name)
    if place is None:
        return None
    source = open_source(path)
    try:
        if not DTYPES.get(place.kind, "").startswith(("float", "bfloat")):
            raise source.error(f"holds {name} in another form than floats")
        if not 0 < math.prod(place.shape) <= MAX_NUMBERS:
            raise source.error(f"claims {math.prod(place.shape):,} elements of {name}; there are 1 to {MAX_NUMBERS:,}")
        numbers: list[float] = widened(_table(source, name, place, header.data).array()).reshape(-1).tolist()
        return numbers
    finally:
        source.close()


def read(source: Source) -> tuple[tuple[Table, ...], tuple[UnreadTensor, ...]]:
    """The tensors of a file, their elements still unread; and those in types that are not read."""
    header = read_header(source)
    tables, unread = [], []
    for name, place in header.tensors.items():
        if place.kind in DTYPES:
            tables.append(_table(source, name, place, header.data))
        elif place.kind in QUANTISED:
            kind, elements, size = QUANTISED[place.kind]
            count = data_bytes(place.shape, size, partial(_error, source, name)) // elements
            _check_end(source, name, header.data + place.offset + count)
            unread.append(UnreadTensor(name, kind, place.shape, count))
        else:
            unread.append(UnreadTensor(name, f"ggml type {place.kind}", place.shape, None))
    return tuple(tables), tuple(unread)


def _table(source: Source, name: str, place: Place, data: int) -> Table:
    dtype = DTYPES[place.kind]
    size = data_bytes(place.shape, numpy_dtype(dtype).itemsize, partial(_error, source, name))
    _check_end(source, name, data + place.offset + size)
    return stored_table(source, name, dtype, place.shape, data + place.offset)


def _check_end(source: Source, name: str, end: int) -> None:
    if end > (source.size or 0):
        raise source.error(f"is truncated: tensor {quoted(name)} goes on beyond its end")


def _error(source: Source, name: str, problem: str) -> FileError:
    return source.error(f"tensor {quoted(name)} {problem}")
