"""Reading the formats that hold tables as text: .csv, and the .json and .h files that pecli writes.

Text is read whole, so its size is limited. It is matched against what the format needs and handed to NumPy's own
reader of numbers; nothing is evaluated, and nothing is built for every element but the element.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from pecli.engine.dtypes import KINDS, numpy_dtype
from pecli.engine.rounding import round_to, widened
from pecli.engine.table import Table, table_of
from pecli.files.source import Source
from pecli.files.stored import data_bytes
from pecli.files.trouble import quoted

if TYPE_CHECKING:
    from pecli.engine.arrays import Array

LARGEST = 256 << 20
"""Bytes of a text file that is read."""

Found = tuple[tuple[Table, ...], dict[str, str]]


def whole_text(source: Source) -> bytes:
    """All bytes of a text file, unless there are too many of them."""
    size = source.size if source.size is not None else source.available(LARGEST + 1)
    if size > LARGEST:
        raise source.error(f"has more than {LARGEST >> 20} MiB of text", "convert it to .npy with another tool")
    return source.read(0, size)


def read_csv(source: Source) -> Found:
    """A table of float64, a row a line; without fractions and exponents it holds integers."""
    text = whole_text(source).strip()
    if not text:
        raise source.error("is blank")
    if re.search(rb"[^-+0-9.,eEinfaNIty \t\r\n]", text):
        raise source.error("is not a .csv file of numbers: it holds other words")
    lines = text.splitlines()
    columns = lines[0].count(b",") + 1
    for number, line in enumerate(lines):
        if line.count(b",") + 1 != columns:
            raise source.error(f"line {number + 1} has {line.count(b',') + 1} numbers, and the first has {columns}")
    integers = not re.search(rb"[.eEnN]", text)
    flat = b",".join(lines)
    values = _numbers(source, flat, np.dtype(np.int64 if integers else np.float64), len(lines) * columns)
    return (table_of("array", values.reshape(len(lines), columns)),), {}


_NAME = re.compile(rb'\s*"((?:[^"\\]|\\.)*+)"\s*:\s*\{\s*"data"\s*:')
_DATA = re.compile(rb'[-+0-9.,eE"\[\]InfityNatrusl \t\r\n]*+')
_KIND = re.compile(rb'"dtype"\s*:\s*"(\w+)"\s*,\s*"shape"\s*:\s*\[([0-9, ]*+)\]\s*\}\s*([,}])')
_END = re.compile(rb"\s*\}")
_START = re.compile(rb'\s*\{\s*(?:"pecli"\s*:\s*(\{.*?\})\s*,\s*)?"tensors"\s*:\s*\{', re.DOTALL)


def read_json(source: Source) -> Found:
    """What pecli's own .json files hold: the spec and every tensor with its dtype and shape."""
    text = whole_text(source)
    start = _START.match(text)
    if start is None:
        raise source.error('is not a .json file of tables: it must begin with {"tensors":')
    empty = _END.match(text, start.end())
    tables, at, more = [], (empty or start).end(), empty is None
    while more:
        name = _NAME.match(text, at) or _broken(source, at)
        kind = _KIND.match(text, max(text.find(b'"dtype"', name.end()), 0)) or _broken(source, at)
        data = text[name.end() : kind.start()].rstrip(b" \t\r\n,")
        if not _DATA.fullmatch(data):
            _broken(source, name.end())
        shape = tuple(int(side) for side in kind[2].split(b",") if side.strip())
        tables.append(_table(source, _decoded(source, name[1], at), kind[1].decode(), shape, data, b"[]"))
        at, more = kind.end(), kind[3] == b","
    end = _END.match(text, at) or _broken(source, at)
    if text[end.end() :].strip():
        _broken(source, end.end())
    return tuple(tables), ({} if start[1] is None else {"pecli": start[1].decode("utf-8", "replace")})


def _decoded(source: Source, raw: bytes, at: int) -> str:
    import json

    try:
        name: str = json.loads(b'"' + raw + b'"')
        name.encode("utf-8")
    except ValueError:
        _broken(source, at)
    return name


_ARRAY = re.compile(
    rb"static\s+const\s+(\w+)\s+(\w+)((?:\[[0-9]{1,18}\])+)\s*=\s*(\{[^;/]*+);",
)
_C_TYPES = {b"double": "float64", b"float": "float32"}


_SPEC = re.compile(rb"/\* pecli: (\{.*\}) \*/\s")


def read_header(source: Source) -> Found:
    """The arrays of a C header as pecli writes it, under the names that they had before they had to be C's own; small
    floats, which C has not, come as their bit patterns unless the spec says what they are.
    """
    text = whole_text(source)
    said = _SPEC.match(text)
    metadata = {} if said is None else {"pecli": said[1].decode("utf-8", "replace")}
    scheme, small = _said(metadata)
    tables = []
    for found in _ARRAY.finditer(text):
        dtype = _C_TYPES.get(found[1]) or found[1].decode().removesuffix("_t")
        shape = tuple(int(side) for side in re.findall(rb"[0-9]+", found[3]))
        table = _table(source, found[2].decode().removeprefix(scheme), dtype, shape, found[4], b"{}", _from_c)
        if dtype == "uint16" and small in ("float16", "bfloat16"):
            table = table_of(table.name, table.array().view(numpy_dtype(small)))
        tables.append(table)
    if not tables:
        raise source.error("has no constant array of numbers")
    return tuple(tables), metadata


def _said(metadata: dict[str, str]) -> tuple[str, str]:
    """How the names of arrays begin, and the dtype of their elements, as the spec has it."""
    from pecli.errors import FileError
    from pecli.files.provenance import carried_spec

    try:
        spec = carried_spec("", metadata) or {}
    except FileError:
        spec = {}
    parameters = spec.get("parameters")
    name = re.sub(r"[^A-Za-z0-9_]", "_", str(spec["scheme"])) + "_" if "scheme" in spec else ""
    return name, str(parameters.get("dtype", "")) if isinstance(parameters, dict) else ""


def _from_c(text: bytes) -> bytes:
    """C's numbers as decimal ones: hexadecimal floats and integers, macros, endings."""
    text = re.sub(rb"U?INT64_C\(([0-9]+)\)", rb"\1", text).replace(b"(-9223372036854775807-1)", b"-9223372036854775808")
    text = text.replace(b"INFINITY", b"inf").replace(b"NAN", b"nan")
    text = re.sub(rb"-?0x[0-9a-f.]+p[-+]?[0-9]+", lambda match: repr(float.fromhex(match[0].decode())).encode(), text)
    text = re.sub(rb"0x([0-9a-f]+)", lambda match: str(int(match[1], 16)).encode(), text)
    return re.sub(rb"(?<=[0-9])f", b"", text)


def _table(
    source: Source,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    data: bytes,
    brackets: bytes,
    plain: Callable[[bytes], bytes] = lambda text: text.replace(b'"', b""),
) -> Table:
    """A tensor from its elements in nested brackets."""
    label = f"tensor {quoted(name)}"
    if dtype not in (*KINDS, "bool") and not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        raise source.error(f"{label} has dtype {quoted(dtype)}, which is not known")
    data_bytes(shape, numpy_dtype(dtype).itemsize, lambda problem: source.error(f"{label} {problem}"))
    opened = sum(math.prod(shape[:axis]) for axis in range(len(shape)))
    if data.count(brackets[:1]) != opened or data.count(brackets[1:]) != opened:
        raise source.error(f"{label} is not nested as its shape, {shape}, asks for")
    try:
        flat = plain(data.translate(None, brackets + b" \t\r\n"))
    except (ValueError, OverflowError):
        raise source.error(f"{label} holds something that is not a number") from None
    if dtype == "bool":
        flat = flat.replace(b"true", b"1").replace(b"false", b"0")
    wanted = np.dtype(np.float64) if dtype in KINDS else np.dtype(np.uint8) if dtype == "bool" else np.dtype(dtype)
    values = _numbers(source, flat, wanted, math.prod(shape))
    made: Array = round_to(widened(values), dtype) if dtype in KINDS else values.astype(np.dtype(dtype))
    return table_of(name, made.reshape(shape))


def _numbers(source: Source, text: bytes, dtype: np.dtype[np.generic], count: int) -> Array:
    """Numbers between commas; exactly as many as there should be."""
    if text.count(b",") + 1 != count and (count or text):
        raise source.error(f"holds {text.count(b',') + 1} numbers where {count} are announced")
    if not count:
        return np.empty(0, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy only warns of text that is no number
        try:
            values: Array = np.fromstring(text, dtype, sep=",")
            if dtype.kind in "iu" and re.search(rb"[0-9]{3,}", text) and not _fit(text, values):
                raise source.error(f"holds an integer that {dtype} has no room for")
        except (DeprecationWarning, ValueError, OverflowError):
            raise source.error("holds something that is not a number") from None
    if len(values) != count:
        raise source.error("holds something that is not a number")
    return values


def _fit(text: bytes, values: Array) -> bool:
    """Whether integers are what their text says: NumPy wraps or clips those that are too large."""
    return all(int(token) == value for token, value in zip(text.split(b","), values.tolist(), strict=True))


def _broken(source: Source, at: int) -> NoReturn:
    raise source.error(f"is broken: byte {at} is not what such a file has there")


READERS = {"csv": read_csv, "json": read_json, "h": read_header}
