"""The key-value header of a GGUF file (versions 2 and 3), read with trust in nothing.

Every length is held against the bytes that are left in the file; long arrays, such as a vocabulary, are stepped over.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from pecli.errors import FileError

MAGIC = b"GGUF"
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
TEXT, ARRAY = 8, 9
MOST_KEYS, MOST_TENSORS, LONGEST_TEXT, LONGEST_ARRAY = 1 << 16, 1 << 17, 1 << 20, 1 << 12
MOST_TEXTS, MOST_KEPT = 1 << 21, 16 << 20
"""Texts in arrays, which are stepped over one by one, and bytes of all values that are kept."""


@dataclass(frozen=True)
class Place:
    """Where a tensor's numbers are."""

    count: int
    kind: int
    offset: int


@dataclass
class Header:
    """What the file says about the model: values by key, and places of the few tensors that matter here."""

    values: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Place] = field(default_factory=dict)
    data: int = 0


class Reader:
    """Numbers and texts, one after the other."""

    def __init__(self, path: str, file: BinaryIO) -> None:
        self.path, self._file = path, file
        self._size = os.fstat(file.fileno()).st_size
        self._texts, self._kept = MOST_TEXTS, MOST_KEPT

    def keep(self, count: int) -> None:
        """Refuse a value of so many bytes in memory where those before it left no room: a sparse file costs nothing."""
        self._kept -= count
        if self._kept < 0:
            raise self.wrong(f"has a header of more than {MOST_KEPT >> 20} MB")

    def wrong(self, problem: str) -> FileError:
        return FileError(self.path, problem)

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

    def go(self, offset: int) -> None:
        if not 0 <= offset <= self._size:
            raise self.wrong("points beyond its end")
        self._file.seek(offset)

    def skip(self, count: int) -> None:
        if count > self.left():
            raise self.wrong("is truncated: its header goes on beyond its end")
        self._file.seek(count, os.SEEK_CUR)

    def number(self, code: str) -> Any:
        try:
            return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]
        except struct.error:
            raise self.wrong("is truncated") from None

    def text(self) -> str:
        length = self.number("Q")
        if length > LONGEST_TEXT:
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
            if length > LONGEST_ARRAY:
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
            raise self.wrong(f"has more than {MOST_TEXTS:,} texts in its header, more than any vocabulary")
        for _ in range(length):
            self.skip(self.number("Q"))
        return None


def read_header(path: str, wanted: frozenset[str]) -> Header:
    """The values of a file, and the places of the wanted tensors."""
    with open(path, "rb") as file:
        reader = Reader(path, file)
        if reader.take(4) != MAGIC:
            raise reader.wrong("is not a GGUF file")
        version = reader.number("I")
        if version not in (2, 3):
            raise reader.wrong(f"is GGUF version {version}; versions 2 and 3 can be read")
        tensors, keys = reader.number("Q"), reader.number("Q")
        if keys > MOST_KEYS or tensors > MOST_TENSORS:
            raise reader.wrong(f"claims {keys} keys and {tensors} tensors")
        header = Header()
        for _ in range(keys):
            name = reader.text()
            if name in header.values:
                raise reader.wrong(f"names {name[:60]!r} twice")
            header.values[name] = reader.value(reader.number("I"))
        _read_places(reader, header, tensors, wanted)
        return header


def _read_places(reader: Reader, header: Header, tensors: int, wanted: frozenset[str]) -> None:
    for _ in range(tensors):
        name, count = reader.text(), 1
        axes = reader.number("I")
        if axes > 8:
            raise reader.wrong(f"has a tensor of {axes} axes")
        for _ in range(axes):
            count *= reader.number("Q")
        kind, offset = reader.number("I"), reader.number("Q")
        if name in wanted:
            header.tensors[name] = Place(count, kind, offset)
    alignment = header.values.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise reader.wrong(f"has the alignment {alignment!r}")
    header.data = -(-reader.at() // alignment) * alignment


def read_tensor(path: str, header: Header, name: str) -> list[float] | None:
    """A small tensor of float32; None where there is none."""
    place = header.tensors.get(name)
    if place is None:
        return None
    with open(path, "rb") as file:
        reader = Reader(path, file)
        if place.kind != 0 or not 0 < place.count <= 65536:
            raise reader.wrong(f"holds {name} in another form than float32")
        reader.go(header.data + place.offset)
        return list(struct.unpack(f"<{place.count}f", reader.take(4 * place.count)))
