"""The .h format: a C99 header with every tensor as a constant array, exact to the last bit."""

from __future__ import annotations

import math
import re
from binascii import crc32
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import numpy as np

from pecli.engine.arrays import AnyArray, Array, numpy_dtype
from pecli.engine.table import Table, table_of
from pecli.errors import FileError, ParameterError
from pecli.files.float_text import check_real, hexadecimal_rows
from pecli.files.output import OnBlock, Output, Spec, Write
from pecli.files.provenance import KEY, carried_spec, compact
from pecli.files.source import Source
from pecli.files.text_tables import (
    MAX_TENSORS,
    Found,
    check_kind,
    check_names,
    pieces_of,
    table_in,
    unnested,
    whole_text,
    write_nested,
)

TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
    "bool": "uint8_t",
}
"""What the elements are in C; small floats are bit patterns, integers are called as in NumPy, with `_t`."""


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes all the tables as `static const` arrays, named after scheme and tensor, and the spec in a comment."""
    scheme = str((spec or {}).get("scheme", "table"))
    names = {table.name: identifier(f"{scheme}_{table.name}") for table in tables}
    _check(tables, names)
    guard = f"PECLI_{identifier(scheme).upper()}_{crc32(compact(spec or {}).encode()):08X}_H"  # one for each table
    beginning = f"{_comment(spec)}#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stdint.h>\n"
    ordered = sorted(tables, key=lambda table: table.name)

    def write(output: Output, on_block: OnBlock | None) -> None:
        output.write(beginning.encode("ascii"))
        for table in ordered:
            output.write(_declaration(table, names[table.name]).encode("ascii"))
            write_nested(output, table, _literals, b"{}", on_block)
            output.write(b";\n")
        output.write(f"\n#endif /* {guard} */\n".encode("ascii"))

    return write


def _check(tables: Sequence[Table], names: dict[str, str]) -> None:
    if len({name.upper() for name in names.values()}) < len(names):
        raise ParameterError("name", ", ".join(names), "two of them are the same name in C", "write .safetensors")
    for table in tables:
        check_real(table, ".h")
        if not table.size:
            raise ParameterError("output", f".h for {table.name!r}", "an array in C has at least one element")


def identifier(text: str) -> str:
    """A text as a name in C.

    >>> identifier("learned-init_weight"), identifier("3d")
    ('learned_init_weight', 'table_3d')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if name[:1].isalpha() else "table_" + name


def _comment(spec: Spec | None) -> str:
    """The spec as JSON; stars are escaped, as JSON allows, so that none of them ends or nests the comment."""
    if spec is None:
        return ""
    text = compact(dict(spec)).replace("*", "\\u002a")
    return f"/* pecli: {text} */\n"


def _declaration(table: Table, name: str) -> str:
    lengths = [f"#define {name.upper()}_DIM{axis} {length}\n" for axis, length in enumerate(table.shape)]
    extent = "".join(f"[{length}]" for length in table.shape)
    return f"\n{''.join(lengths)}static const {TYPES.get(table.dtype, table.dtype + '_t')} {name}{extent} =\n"


def _literals(block: Array) -> list[bytes]:
    if block.dtype in (np.float32, np.float64):
        return hexadecimal_rows(block)
    literal: Callable[[int], str] = _integer
    if block.dtype.kind not in "iu":
        block, literal = block.view(f"u{block.itemsize}"), f"0x{{:0{2 * block.itemsize}x}}".format
    return [",".join(map(literal, row)).encode("ascii") for row in block.tolist()]


def _integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"UINT64_C({value})"
    if value == -(2**63):  # C has no negative literals, and the positive one is too large
        return "(-INT64_C(9223372036854775807) - 1)"
    return f"INT64_C({value})" if abs(value) > 2**31 - 1 else str(value)


_ARRAY = re.compile(rb"static\s+const\s+(\w+)\s+(\w+)((?:\[[0-9]{1,18}\]){0,64})\s*=\s*")
_C_TYPES = {b"double": "float64", b"float": "float32"}
_SPEC = re.compile(rb"/\* pecli: (\{.*\}) \*/\s")


def read_header(source: Source) -> Found:
    """The arrays of a C header as pecli writes it, under the names that they had before they had to be C's own; small
    floats, which C does not have, come as their bit patterns unless the spec says what they are.
    """
    text = whole_text(source)
    said = _SPEC.match(text)
    metadata = {} if said is None else {KEY: said[1].decode("utf-8", "replace")}
    scheme, small = _said(metadata)
    if text.count(b"static") > MAX_TENSORS:
        raise source.error(f"has more than {MAX_TENSORS} tensors")
    tables = []
    at = 0
    while found := _ARRAY.search(text, at):
        at = text.find(b";", found.end())
        if at < 0:
            raise source.error("is broken: an array has no end")
        dtype = _C_TYPES.get(found[1]) or found[1].decode().removesuffix("_t")
        shape = tuple(int(side) for side in re.findall(rb"[0-9]+", found[3]))
        name = found[2].decode().removeprefix(scheme)
        table = _table(source, name, dtype, shape, text[found.end() : at])
        if dtype == "uint16" and small in ("float16", "bfloat16"):
            table = table_of(table.name, table.array().view(numpy_dtype(small)))
        tables.append(table)
    if not tables:
        raise source.error("has no constant array of numbers")
    check_names(source, [table.name for table in tables])
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


def _table(source: Source, name: str, dtype: str, shape: tuple[int, ...], text: bytes) -> Table:
    label = check_kind(source, name, dtype, shape)
    elements = unnested(source, label, text.translate(bytes.maketrans(b"{}", b"[]")), shape).replace(b"\n", b",")
    is_float = dtype in _C_TYPES.values()
    wide = np.float64 if is_float else np.uint64 if dtype == "uint64" else np.int64
    pieces = pieces_of(elements) if 0 not in shape else ()
    try:
        values = np.fromiter(chain.from_iterable(map(_floats if is_float else _integers, pieces)), wide)
        if len(values) != math.prod(shape) or not (is_float or _fit(values, dtype)):
            raise OverflowError(dtype)
    except (ValueError, OverflowError):
        raise source.error(f"{label} holds something that is not a number, or that {dtype} does not hold") from None
    return table_in(name, dtype, shape, values)


def _fit(values: AnyArray, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return not values.size or bool(values.min() >= limits.min and values.max() <= limits.max)


def _floats(piece: bytes) -> Iterable[float]:
    """Hexadecimal numbers, as pecli writes them, or decimal ones."""
    text = piece.decode("ascii").removeprefix(",")
    words = text.replace("f,", ",").removesuffix("f").split(",")  # an `f` behind an exponent is no digit
    if text.count("p") + text.count("INFINITY") + text.count("NAN") == len(words):
        return map(float.fromhex, words)
    return map(_float, text.split(","))


def _float(word: str) -> float:
    if "p" in word or word.lstrip("-") in ("INFINITY", "NAN"):
        return float.fromhex(word.removesuffix("f"))
    if not re.fullmatch(r"[-+0-9.eE]+f?", word):
        raise ValueError(word)
    return float(word.removesuffix("f"))


def _integers(piece: bytes) -> Iterable[int]:
    """Decimal numbers, those of many bits in macros, or hexadecimal ones."""
    if b"(" in piece:
        piece = re.sub(rb"U?INT64_C\((-?[0-9]+)\)", rb"\1", piece)
        piece = piece.replace(b"(-9223372036854775807 - 1)", b"-9223372036854775808")
    if b"_" in piece:
        raise ValueError("Python's own digits")
    words = piece.removeprefix(b",").split(b",")
    return (int(word, 16 if word.startswith(b"0x") else 10) for word in words)
