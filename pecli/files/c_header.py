"""The .h format: a C99 header with every tensor as a constant array, exact to the last bit."""

from __future__ import annotations

import re
from binascii import crc32
from collections.abc import Callable, Sequence

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.files.number_text import check_real, decimal_rows
from pecli.files.output import OnBlock, Output, Spec, Write, compact
from pecli.files.text_tables import write_nested

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


WORDS = {b"nan": b"NAN", b"inf": b"INFINITY", b"-inf": b"-INFINITY"}


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
        rows = decimal_rows(block, WORDS)
        return [_single(row) for row in rows] if block.dtype == np.float32 else rows
    literal: Callable[[int], str] = _integer
    if block.dtype.kind not in "iu":
        block, literal = block.view(f"u{block.itemsize}"), f"0x{{:0{2 * block.itemsize}x}}".format
    return [",".join(map(literal, row)).encode("ascii") for row in block.tolist()]


def _single(row: bytes) -> bytes:
    """The numbers of a row with the `f` that makes them float, so that C rounds them once."""
    text = row.replace(b",", b"f,") + b"f"
    return text.replace(b"NANf", b"NAN").replace(b"INFINITYf", b"INFINITY")


def _integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"UINT64_C({value})"
    if value == -(2**63):  # C has no negative literals, and the positive one is too large
        return "(-INT64_C(9223372036854775807) - 1)"
    return f"INT64_C({value})" if abs(value) > 2**31 - 1 else str(value)
