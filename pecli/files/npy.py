"""The .npy format: a short header that names dtype and shape, then the elements.

Reading, the header is matched against the three entries it must have: no evaluation, no pickle.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.output import OnBlock, Output, Spec, Write, write_blocks

if TYPE_CHECKING:  # writing a file needs no reader
    from pecli.files.source import Source

MAGIC = b"\x93NUMPY"
ALIGNMENT = 64
GROWTH_DIGITS = 21  # np.save leaves room for the first axis to grow in place
CODES = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "bool": "|b1",
    "complex64": "<c8",
    "complex128": "<c16",
}
"""What the format calls the dtypes it can hold, their bytes in little-endian order."""
MAX_HEADER = 1 << 16
ARRAY_NAME = "array"
"""What the one array of a .npy file is called, which has no name of its own."""

DTYPES = {code[1:]: dtype for dtype, code in CODES.items()} | {"V2": "bfloat16"}
"""The dtypes that are read: two bytes of no known kind are what np.save makes of ml_dtypes' and JAX's bfloat16."""
ENTRY = r"""(?xa) \s*+ (['"]) (?P<key>descr|fortran_order|shape) \1 \s*+ : \s*+
    (?: (?: (['"]) (?P<text>[^'"\\]*+) \3 | (?P<truth>True|False) | \( (?P<numbers>[0-9L,\s]*+) \) )
        \s*+ (?: , \s*+ | (?=\}) ) | (?P<other>\[) )"""
NUMBER = r"(?a)\s*+([0-9]{1,19})L?\s*+"  # Python 2 wrote 512L
CODE = r"(?a)([<>|=]?)([a-zA-Z?][0-9]{0,4})"
"""Patterns of a header's text, compiled when a file is read: writing one needs none."""


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes the one table there is; the format has no place for a spec."""
    (table,) = tables
    header = table_header(table, ".npy")

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write(header)
        write_blocks(table, [output.write], on_block)

    return write


def table_header(table: Table, suffix: str) -> bytes:
    """The bytes before a table's elements; refuses a dtype that the format has no name for."""
    if table.dtype not in CODES:
        raise ParameterError("dtype", table.dtype, f"{suffix} cannot hold it", "write .safetensors or .h")
    return header(CODES[table.dtype], table.shape)


def header(code: str, shape: tuple[int, ...]) -> bytes:
    """A version 1.0 header, byte for byte what np.save writes.

    >>> len(header("<f4", (512, 64)))
    128
    """
    room = GROWTH_DIGITS - len(str(shape[0])) if shape else 0
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}" + " " * room
    length = len(MAGIC) + 4 + len(text) + 1
    text += " " * (ALIGNMENT - length % ALIGNMENT) + "\n"  # one to 64 spaces, never none
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("ascii")


class Header(NamedTuple):
    """What the header of a .npy file says; `offset` is where the elements begin."""

    code: str
    fortran: bool
    shape: tuple[int, ...]
    offset: int


def read_table(source: Source, name: str) -> Table:
    """The array in a .npy file, its elements still unread."""
    from pecli.files.source import data_bytes, stored_table

    header = read_header(source)
    order, dtype, itemsize = _number_type(source, header.code)
    size = data_bytes(header.shape, itemsize, source.error)
    source.check_size(header.offset + size)
    return stored_table(source, name, dtype, header.shape, header.offset, order, header.fortran)


def read_header(source: Source) -> Header:
    """The header of a .npy file, of version 1, 2 or 3."""
    start = source.read(0, 12)
    if len(start) < 12 or not start.startswith(MAGIC):
        raise source.error("is not a whole .npy file")
    version, width = start[6], 2 if start[6] == 1 else 4
    if version not in (1, 2, 3) or start[7]:
        raise source.error(f"has .npy version {version}.{start[7]}, only 1.0, 2.0 and 3.0 exist")
    length = int.from_bytes(start[8 : 8 + width], "little")
    if length > MAX_HEADER:
        raise source.error(f"claims a header of {length} bytes, more than {MAX_HEADER}")
    raw = source.read(8 + width, length)
    if len(raw) < length:
        raise source.error("is truncated: its header is cut short")
    try:
        text = raw.decode("utf-8" if version == 3 else "latin-1")
    except UnicodeDecodeError:
        raise source.error("has a broken .npy header: it is not UTF-8") from None
    code, fortran, shape = _parse(source, text)
    return Header(code, fortran, shape, 8 + width + length)


def _parse(source: Source, text: str) -> tuple[str, bool, tuple[int, ...]]:
    found: dict[str, re.Match[str]] = {}
    at = 1
    entry = re.compile(ENTRY)
    while text.startswith("{") and (match := entry.match(text, at)):
        if match["other"]:
            raise source.error("holds a structured array, only plain numbers are read")
        if match["key"] in found:
            break
        found[match["key"]] = match
        at = match.end()
    if len(found) < 3 or text[at:].rstrip() != "}":
        raise source.error("has a broken .npy header: descr, fortran_order and shape are expected, once each")
    code, truth, numbers = found["descr"]["text"], found["fortran_order"]["truth"], found["shape"]["numbers"]
    if code is None or truth is None or numbers is None:
        raise source.error("has a broken .npy header: descr is a text, fortran_order True or False, shape a tuple")
    return code, truth == "True", _parse_shape(source, numbers)


def _parse_shape(source: Source, numbers: str) -> tuple[int, ...]:
    if not numbers.strip():
        return ()
    *parts, last = numbers.split(",")
    if last.strip():
        parts = [*parts, last] if parts else []  # (3,) is a shape, (3) only a number
    matches = [re.fullmatch(NUMBER, part) for part in parts]
    if not parts or not all(matches):
        raise source.error("has a broken .npy header: shape is not a tuple of lengths")
    return tuple(int(match[1]) for match in matches if match)


def _number_type(source: Source, code: str) -> tuple[str, str, int]:
    """Byte order, dtype name and bytes of an element, from a code such as `<f4`."""
    match = re.fullmatch(CODE, code)
    if match and match[2].startswith("O"):
        raise source.error("holds Python objects (a pickle), which are never loaded")
    if not match or match[2] not in DTYPES:
        raise source.error(f"holds elements of dtype {code[:40]!r}, only plain numbers are read")
    return (">" if match[1] == ">" else "<"), DTYPES[match[2]], int(match[2][1:])
