"""Reading .npy files: the header is matched against the three entries it must have; no evaluation, no pickle."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pecli.engine.table import Table
from pecli.files.npy import CODES, MAGIC
from pecli.files.raw_tensors import data_bytes, stored_table
from pecli.files.source import Source

LONGEST_HEADER = 1 << 16
ARRAY_NAME = "array"
"""What the one array of a .npy file is called, which has no name of its own."""

DTYPES = {code[1:]: dtype for dtype, code in CODES.items()}
ENTRY = re.compile(
    r"""\s*+ (['"]) (?P<key>descr|fortran_order|shape) \1 \s*+ : \s*+
    (?: (?: (['"]) (?P<text>[^'"\\]*+) \3 | (?P<truth>True|False) | \( (?P<numbers>[0-9L,\s]*+) \) )
        \s*+ (?: , \s*+ | (?=\}) ) | (?P<other>\[) )""",
    re.VERBOSE | re.ASCII,
)
NUMBER = re.compile(r"\s*+([0-9]{1,19})L?\s*+", re.ASCII)  # Python 2 wrote 512L
CODE = re.compile(r"([<>|=]?)([a-zA-Z?][0-9]{0,4})", re.ASCII)


@dataclass(frozen=True)
class Header:
    """What the header of a .npy file says; `offset` is where the elements begin."""

    code: str
    fortran: bool
    shape: tuple[int, ...]
    offset: int


def read_table(source: Source, name: str) -> Table:
    """The array in a .npy file, its elements still unread."""
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
    if length > LONGEST_HEADER:
        raise source.error(f"claims a header of {length} bytes, more than {LONGEST_HEADER}")
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
    while text.startswith("{") and (match := ENTRY.match(text, at)):
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
    matches = [NUMBER.fullmatch(part) for part in parts]
    if not parts or not all(matches):
        raise source.error("has a broken .npy header: shape is not a tuple of lengths")
    return tuple(int(match[1]) for match in matches if match)


def _number_type(source: Source, code: str) -> tuple[str, str, int]:
    """Byte order, dtype name and bytes of an element, from a code such as `<f4`."""
    match = CODE.fullmatch(code)
    if match and match[2].startswith("O"):
        raise source.error("holds Python objects (a pickle), which are never loaded")
    if not match or match[2] not in DTYPES:
        raise source.error(f"holds elements of dtype {code[:40]!r}, only plain numbers are read")
    return (">" if match[1] == ">" else "<"), DTYPES[match[2]], int(match[2][1:])
