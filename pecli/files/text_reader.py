"""Reading the formats that hold tables as text: .csv, and the .json and .h files that pecli writes.

Text is read whole, so its size is limited. It is matched against what the format needs and handed to NumPy's own
reader of numbers; nothing is evaluated, and nothing is built for every element but the element.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, numpy_dtype
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.table import Table, table_of
from pecli.engine.text import quoted
from pecli.errors import FileError
from pecli.files.cheader import identifier
from pecli.files.npy import ARRAY_NAME
from pecli.files.os_errors import JSON_FORM
from pecli.files.provenance import KEY, carried_spec
from pecli.files.raw_tensors import data_bytes
from pecli.files.source import CHUNK, Source
from pecli.files.text_numbers import numbers, unnested

LARGEST = 256 << 20
"""Bytes of a text file that is read."""

MOST_TENSORS = 10_000
"""Each takes about as long to read as a hundred numbers."""

Found = tuple[tuple[Table, ...], dict[str, str]]


def whole_text(source: Source) -> bytes:
    """All bytes of a text file, unless there are too many of them."""
    size = source.size if source.size is not None else source.available(LARGEST + 1)
    if size > LARGEST:
        raise source.error(f"has more than {LARGEST >> 20} MiB of text", "convert it to .npy with another tool")
    return source.read(0, size)


def _check_count(source: Source, tensors: int) -> None:
    if tensors > MOST_TENSORS:
        raise source.error(f"has more than {MOST_TENSORS} tensors")


_SPACED = re.compile(rb"[^,\n \t][ \t]++[^,\n \t]")


def read_csv(source: Source) -> Found:
    """A table of float64, a row a line; without fractions and exponents it holds integers."""
    text = whole_text(source).strip()
    if not text:
        raise source.error("is blank")
    if re.search(rb"[^-+0-9.,eEinfaFNIty \t\r\n]", text):
        raise source.error("is not a .csv file of numbers: it holds other words")
    text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if _SPACED.search(text):
        raise source.error("is not a .csv file of numbers: some have spaces in them, or no comma between them")
    text = text.translate(None, b" \t")  # NumPy would take a blank for −1
    rows, columns = text.count(b"\n") + 1, text.partition(b"\n")[0].count(b",") + 1
    _check_rows(source, text.translate(None, b"-+0123456789.eEinfaFNIty") + b"\n", rows, columns)
    integers = not re.search(rb"[.eEnN]", text)
    flat = text.replace(b"\n", b",")
    values = numbers(source, flat, np.dtype(np.int64 if integers else np.float64), rows * columns)
    return (table_of(ARRAY_NAME, values.reshape(rows, columns)),), {}


def _check_rows(source: Source, marks: bytes, rows: int, columns: int) -> None:
    """Refuse lines of different lengths; `marks` are the commas and line ends alone."""
    line = b"," * (columns - 1) + b"\n"
    if len(marks) == rows * columns and marks == line * rows:
        return
    number, start = 0, 0
    while marks.startswith(line, start):
        number, start = number + 1, start + columns
    found = marks.index(b"\n", start) - start + 1
    raise source.error(f"line {number + 1} has {found} numbers, and the first has {columns}")


_NAME = re.compile(rb'\s*"((?:[^"\\]|\\.)*+)"\s*:\s*\{\s*"data"\s*:')
_DATA = re.compile(rb'[-+0-9.,eE"\[\]InfityNatrusl \t\r\n]*+')
_KIND = re.compile(
    rb'"dtype"\s*:\s*"(\w+)"\s*,\s*"shape"\s*:\s*'
    rb"\[\s*((?:[0-9]{1,19}\s*(?:,\s*[0-9]{1,19}\s*){0,63})?)\]\s*\}\s*([,}])"
)
_END = re.compile(rb"\s*\}")
_START = re.compile(rb'\s*\{\s*(?:"pecli"\s*:\s*(\{.*?\})\s*,\s*)?"tensors"\s*:\s*\{', re.DOTALL)


def read_json(source: Source) -> Found:
    """What pecli's own .json files hold: the spec and every tensor with its dtype and shape."""
    text = whole_text(source)
    _check_count(source, text.count(b'"dtype"'))
    start = _START.match(text)
    if start is None:
        raise source.error("is not a .json file of tables", JSON_FORM)
    empty = _END.match(text, start.end())
    tables, at, more = [], (empty or start).end(), empty is None
    while more:
        name = _NAME.match(text, at) or _broken(source, at)
        kind = _KIND.match(text, max(text.find(b'"dtype"', name.end()), 0)) or _broken(source, at)
        data = text[name.end() : kind.start()].rstrip(b" \t\r\n,")
        if not _DATA.fullmatch(data):
            _broken(source, name.end())
        shape = tuple(map(int, kind[2].split(b","))) if kind[2] else ()
        tables.append(_table(source, _decoded(source, name[1], at), kind[1].decode(), shape, data, _from_json))
        at, more = kind.end(), kind[3] == b","
    end = _END.match(text, at) or _broken(source, at)
    if text[end.end() :].strip():
        _broken(source, end.end())
    _check_names(source, tables)
    return tuple(tables), ({} if start[1] is None else {KEY: start[1].decode("utf-8", "replace")})


def _check_names(source: Source, tables: list[Table]) -> None:
    if len({table.name for table in tables}) < len(tables):
        raise source.error("has two tensors of the same name")


def _from_json(text: bytes) -> bytes:
    """What JSON has no numbers for stands there as strings, or as words."""
    for word, number in ((b'"NaN"', b"nan"), (b'"Infinity"', b"inf"), (b'"-Infinity"', b"-inf")):
        text = text.replace(word, number)
    return text


def _decoded(source: Source, raw: bytes, at: int) -> str:
    import json

    try:
        name: str = json.loads(b'"' + raw + b'"')
        name.encode("utf-8")
    except ValueError:
        _broken(source, at)
    return name


_ARRAY = re.compile(rb"static\s+const\s+(\w+)\s+(\w+)((?:\[[0-9]{1,18}\]){0,64})\s*=\s*")
_C_TYPES = {b"double": "float64", b"float": "float32"}


_SPEC = re.compile(rb"/\* pecli: (\{.*\}) \*/\s")


def read_header(source: Source) -> Found:
    """The arrays of a C header as pecli writes it, under the names that they had before they had to be C's own; small
    floats, which C has not, come as their bit patterns unless the spec says what they are.
    """
    text = whole_text(source)
    said = _SPEC.match(text)
    metadata = {} if said is None else {KEY: said[1].decode("utf-8", "replace")}
    scheme, small = _said(metadata)
    _check_count(source, text.count(b"static"))
    tables = []
    at = 0
    while found := _ARRAY.search(text, at):
        at = text.find(b";", found.end())
        if at < 0:
            _broken(source, len(text))
        dtype = _C_TYPES.get(found[1]) or found[1].decode().removesuffix("_t")
        shape = tuple(int(side) for side in re.findall(rb"[0-9]+", found[3]))
        table = _table(source, found[2].decode().removeprefix(scheme), dtype, shape, text[found.end() : at], _from_c)
        if dtype == "uint16" and small in ("float16", "bfloat16"):
            table = table_of(table.name, table.array().view(numpy_dtype(small)))
        tables.append(table)
    if not tables:
        raise source.error("has no constant array of numbers")
    _check_names(source, tables)
    return tuple(tables), metadata


def _said(metadata: dict[str, str]) -> tuple[str, str]:
    """How the names of arrays begin, and the dtype of their elements, as the spec has it."""
    try:
        spec = carried_spec("", metadata) or {}
    except FileError:
        spec = {}
    parameters = spec.get("parameters")
    name = identifier(str(spec.get("scheme", "table"))) + "_"
    return name, str(parameters.get("dtype", "")) if isinstance(parameters, dict) else ""


def _from_c(text: bytes) -> bytes:
    """C's numbers as decimal ones, some at a time: there is an object for each on the way."""
    pieces, start = [], 0
    while start < len(text):
        end = text.find(b",", start + CHUNK)
        end = len(text) if end < 0 else end
        pieces.append(_decimal(text[start:end]))
        start = end
    return b"".join(pieces)


def _decimal(text: bytes) -> bytes:
    """Hexadecimal floats and integers, macros and endings as plain numbers; braces as brackets."""
    text = re.sub(rb"U?INT64_C\((-?[0-9]+)\)", rb"\1", text.translate(bytes.maketrans(b"{}", b"[]")))
    text = text.replace(b"(-9223372036854775807 - 1)", b"-9223372036854775808")
    text = text.replace(b"INFINITY", b"inf").replace(b"NAN", b"nan")
    text = re.sub(rb"-?0x[0-9a-f.]+p[-+]?[0-9]+", lambda match: repr(float.fromhex(match[0].decode())).encode(), text)
    text = re.sub(rb"0x([0-9a-f]{1,16})(?![0-9a-f])", lambda match: str(int(match[1], 16)).encode(), text)
    return re.sub(rb"(?<=[0-9])f", b"", text)


def _table(
    source: Source, name: str, dtype: str, shape: tuple[int, ...], text: bytes, plain: Callable[[bytes], bytes]
) -> Table:
    """A tensor from its elements in nested brackets; `plain` makes decimal numbers of them."""
    label = f"tensor {quoted(name)}"
    if dtype not in (*SIGNIFICAND_BITS, "bool") and not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        raise source.error(f"{label} has dtype {quoted(dtype)}, which is not known")
    data_bytes(shape, numpy_dtype(dtype).itemsize, lambda problem: source.error(f"{label} {problem}"))
    try:
        flat = unnested(source, label, plain(text), shape)
    except (ValueError, OverflowError):
        raise source.error(f"{label} holds something that is not a number") from None
    if dtype == "bool":
        flat = flat.replace(b"true", b"1").replace(b"false", b"0")
    wanted = (
        np.dtype(np.float64)
        if dtype in SIGNIFICAND_BITS
        else np.dtype(np.uint8)
        if dtype == "bool"
        else np.dtype(dtype)
    )
    values = numbers(source, flat, wanted, math.prod(shape))
    if dtype == "bool" and values.size and values.max() > 1:
        raise source.error(f"{label} holds something that is neither true nor false")
    made: Array = round_to(widened(values), dtype) if dtype in SIGNIFICAND_BITS else values.astype(np.dtype(dtype))
    return table_of(name, made.reshape(shape))


def _broken(source: Source, at: int) -> NoReturn:
    raise source.error(f"is broken: byte {at} is not what such a file has there")


READERS = {"csv": read_csv, "json": read_json, "h": read_header}
