"""GGUF files (versions 2 and 3): what they say about the model, and their tensors. Every length is compared with the
bytes that are left in the file; long arrays, such as a vocabulary, are skipped."""

import math
import re
import struct
from typing import Any, NamedTuple

from pecli.engine.arrays import Array, widened
from pecli.errors import quoted
from pecli.files.contents import GGUF, Contents, LoadedFile, UnreadTensor, read_contents

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
TEXT, ARRAY = 8, 9
MAX_KEYS, MAX_TENSORS, MAX_TEXT, MAX_ARRAY, MAX_AXES = 1 << 16, 1 << 17, 1 << 20, 1 << 12, 8
MAX_KEPT = (
    16 << 20
)  # bytes of all values that are kept, or of the lengths of texts that are skipped one by one
MAX_NUMBERS = 1 << 16  # elements of a tensor that is a setting of the model

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
_BLOCKS = """
2 Q4_0 32 18, 3 Q4_1 32 20, 6 Q5_0 32 22, 7 Q5_1 32 24, 8 Q8_0 32 34, 9 Q8_1 32 40, 10 Q2_K 256 84,
11 Q3_K 256 110, 12 Q4_K 256 144, 13 Q5_K 256 176, 14 Q6_K 256 210, 15 Q8_K 256 292, 16 IQ2_XXS 256 66,
17 IQ2_XS 256 74, 18 IQ3_XXS 256 98, 19 IQ1_S 256 50, 20 IQ4_NL 32 18, 21 IQ3_S 256 110, 22 IQ2_S 256 82,
23 IQ4_XS 256 136, 29 IQ1_M 256 56, 34 TQ1_0 256 54, 35 TQ2_0 256 66, 39 MXFP4 32 17, 40 NVFP4 64 36,
41 Q1_0 128 18
"""
QUANTISED = {
    int(number): (name, int(elements), int(size))
    for number, name, elements, size in (entry.split() for entry in _BLOCKS.split(","))
}  #: Types that are named and not read, by number: with elements and bytes of a block, as in ggml
BLOCKS = QUANTISED | {
    kind: (dtype, 1, int(re.sub(r"\D", "", dtype)) // 8) for kind, dtype in DTYPES.items()
}


class Place(NamedTuple):
    """Where a tensor's numbers are; the shape is as NumPy has it, the last axis the fastest."""

    shape: tuple[int, ...]
    kind: int
    offset: int  #: from the beginning of the file


class Header(NamedTuple):
    """What the file says about the model: values by key, and the places of its tensors."""

    contents: Contents
    values: dict[str, Any]
    tensors: dict[str, Place]

    def numbers(self, name: str) -> list[float] | None:
        """A short tensor of floats that is a setting of the model; None where there is none."""
        if (place := self.tensors.get(name)) is None:
            return None
        is_float = DTYPES.get(place.kind, "").startswith(("float", "bfloat"))
        other = not is_float or not 0 < math.prod(place.shape) <= MAX_NUMBERS
        self.contents.refuse_if(
            other, f"holds {name} in another form than 1 to {MAX_NUMBERS:,} floats"
        )
        self.checked_bytes(name)
        array = self.contents.array(DTYPES[place.kind], place.shape, place.offset)
        return list(map(float, widened(array).reshape(-1)))

    def checked_bytes(self, name: str) -> int | None:
        """The bytes that a tensor takes, all of which are there; None for a type whose size is not known."""
        place = self.tensors[name]
        if place.kind not in BLOCKS:
            return None
        _, elements, size = BLOCKS[place.kind]
        count = self.contents.tensor(name).data_bytes(place.shape, size) // elements
        beyond = place.offset + count > len(self.contents.data)
        self.contents.refuse_if(
            beyond, f"is truncated: tensor {quoted(name)} goes on beyond its end"
        )
        return count


class Reader:
    """Numbers and texts, one after the other."""

    def __init__(self, contents: Contents) -> None:
        self._contents, self._refuse_if = contents, contents.refuse_if
        self.at = 0
        self._kept = MAX_KEPT

    def keep(self, count: int) -> None:
        """Refuse a value of so many bytes in memory where those before it left no room: a sparse file costs nothing."""
        self._kept -= count
        self._refuse_if(self._kept < 0, f"has a header of more than {MAX_KEPT >> 20} MB")

    def take(self, count: int) -> memoryview:
        self._refuse_if(
            count > len(self._contents.data) - self.at,
            "is truncated: its header goes on beyond its end",
        )
        self.at += count
        return self._contents.data[self.at - count : self.at]

    def number(self, code: str) -> Any:
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def text(self) -> str:
        length = self.number("Q")
        data = self.take(length)
        if length > MAX_TEXT:
            return ""
        self.keep(length)
        return str(data, "utf-8", "replace")

    def value(self, kind: int) -> Any:
        """A value of a kind; None for an array that is too long to be of interest, or of texts."""
        if kind in NUMBERS:
            return self.number(NUMBERS[kind])
        if kind == TEXT:
            return self.text()
        self._refuse_if(kind != ARRAY, f"has a value of unknown type {kind} in its header")
        kind, length = self.number("I"), self.number("Q")
        if kind in NUMBERS:
            data = self.take(length * struct.calcsize(NUMBERS[kind]))
            if length > MAX_ARRAY:
                return None
            self.keep(32 * length)
            return list(struct.unpack(f"<{length}{NUMBERS[kind]}", data))
        self._refuse_if(kind != TEXT, f"has an array of unknown type {kind} in its header")
        self.keep(8 * length)
        for _ in range(length):
            self.take(self.number("Q"))
        return None


def read_header(contents: Contents) -> Header:
    """The values of a file, and the places of its tensors."""
    reader = Reader(contents)
    contents.refuse_if(reader.take(4) != GGUF, "is not a GGUF file")
    version = reader.number("I")
    contents.refuse_if(
        version not in (2, 3), f"is GGUF version {version}; versions 2 and 3 can be read"
    )
    tensors, keys = reader.number("Q"), reader.number("Q")
    contents.refuse_if(
        keys > MAX_KEYS or tensors > MAX_TENSORS, f"claims {keys} keys and {tensors} tensors"
    )
    values: dict[str, Any] = {}
    places: dict[str, Place] = {}
    for number in range(keys + tensors):
        name = reader.text()
        entries: dict[str, Any] = values if number < keys else places
        contents.refuse_if(name in entries, f"names {name[:60]!r} twice")
        if number < keys:
            entries[name] = reader.value(reader.number("I"))
            continue
        axes = reader.number("I")
        contents.refuse_if(axes > MAX_AXES, f"has a tensor of {axes} axes")
        shape = tuple(reader.number("Q") for _ in range(axes))[::-1]
        entries[name] = Place(shape, reader.number("I"), reader.number("Q"))
    alignment = values.get("general.alignment", 32)
    contents.refuse_if(
        not isinstance(alignment, int) or alignment < 1, f"has the alignment {alignment!r}"
    )
    data = -(-reader.at // alignment) * alignment
    moved = {name: place._replace(offset=data + place.offset) for name, place in places.items()}
    return Header(contents, values, moved)


def header_of(path: str) -> Header:
    """The header of the file of a name."""
    return read_header(read_contents(path))


def read(contents: Contents) -> LoadedFile:
    """The tensors of a file; and those in types that are not read."""
    header = read_header(contents)
    tensors: dict[str, Array] = {}
    unread = []
    for name, place in header.tensors.items():
        size = header.checked_bytes(name)
        if place.kind in DTYPES:
            tensors[name] = contents.array(DTYPES[place.kind], place.shape, place.offset)
            continue
        kind, elements, _ = QUANTISED.get(place.kind, (f"ggml type {place.kind}", 1, 0))
        rows = place.shape[:-1]
        whole = place.shape and not place.shape[-1] % elements  # rows are of whole blocks
        blocks = (*rows, size // math.prod(rows)) if size and whole else None
        array = contents.array("uint8", blocks, place.offset) if blocks else None
        unread.append(UnreadTensor(name, kind, place.shape, size, array))
    return LoadedFile(contents.path, "gguf", tensors, unread=tuple(unread))
