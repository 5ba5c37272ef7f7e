"""C headers: tables as constant arrays of C99. They are written, not read."""

import os
from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.decimals import (
    REAL,
    decimal_rows,
    identifier,
    is_plain,
    spell_not_finite,
    write_nested,
)
from pecli.files.output import open_output
from pecli.files.writing import Spec, WriteRequest, check_storable, compact

WORDS = {b"nan": b"NAN", b"-inf": b"-INFINITY", b"inf": b"INFINITY"}
C_TYPES = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float8_e4m3fn": "uint8_t",
    "float8_e5m2": "uint8_t",
    "bool": "uint8_t",
}
"""C element types. Small floats are bit patterns; integers have NumPy's names with `_t`."""


def write(request: WriteRequest) -> None:
    """Write all tables as constants, and the spec in a comment.

    Their names begin with the prefix, and so does the include guard: `rope.h` has the guard
    PECLI_ROPE_H and the tables rope_cos, rope_sin and rope_inv_freq.
    """
    prefix = _prefix(request)
    names = _c_names(prefix, request.tables)
    check_storable(request.tables, ".h", REAL, empty=False)
    guard = f"PECLI_{prefix.upper()}_H"
    comment = _comment(request.spec)
    with open_output(request.path, request.tables) as output:
        output.write(f"{comment}#ifndef {guard}\n#define {guard}\n".encode("ascii"))
        output.write(b"\n#include <math.h>\n#include <stdint.h>\n")
        for table in sorted(request.tables, key=lambda table: table.name):
            output.write(f"\n{_declaration(table, names[table.name])} =\n".encode("ascii"))
            write_nested(output, table, _literals, b"{}", request.on_block)
            output.write(b";\n")
        output.write(f"\n#endif /* {guard} */\n".encode("ascii"))


def _prefix(request: WriteRequest) -> str:
    """Return the given prefix, or the file's name as a name in C."""
    if request.prefix is None:
        stem, _ = os.path.splitext(os.path.basename(request.path))
        return identifier(stem)
    if identifier(request.prefix) != request.prefix:
        rule = "it must be a name in C: a letter, then letters, digits and underscores"
        raise ParameterError("prefix", quoted(request.prefix), rule)
    return request.prefix


def _c_names(prefix: str, tables: Sequence[Table]) -> dict[str, str]:
    """Return the tables' names in C; refuse two that are the same."""
    names = {table.name: identifier(f"{prefix}_{table.name}") for table in tables}
    if len({name.upper() for name in names.values()}) < len(names):
        rule = "two of them are the same name in C"
        raise ParameterError("name", ", ".join(names), rule, "write .safetensors")
    return names


def _comment(spec: Spec | None) -> str:
    if spec is None:
        return ""
    # JSON allows an escape for any letter: no star can end or nest the comment.
    escaped = compact(dict(spec)).replace("*", "\\u002a")
    return f"/* pecli: {escaped} */\n"


def _declaration(table: Table, name: str) -> str:
    """Return a macro for the length of every axis, and the array's type, name and extent."""
    lines = []
    extent = ""
    for axis, length in enumerate(table.shape):
        lines.append(f"#define {name.upper()}_DIM{axis} {length}\n")
        extent += f"[{length}]"
    element = C_TYPES.get(table.dtype, f"{table.dtype}_t")
    return f"{''.join(lines)}static const {element} {name}{extent}"


def _literals(block: Array) -> list[bytes]:
    """Return the rows of a block as C literals."""
    if not is_plain(block):
        return _bit_patterns(block)
    rows = decimal_rows(block)
    if block.dtype == np.float32:  # A suffix, so that the compiler rounds once, to float.
        rows = [row.replace(b",", b"f,") + b"f" for row in rows]
    return spell_not_finite(rows, WORDS)


def _bit_patterns(block: Array) -> list[bytes]:
    """Return the rows of small floats, which C lacks, as hexadecimal: 1.0 in float16 is 0x3c00."""
    digits = 2 * block.itemsize
    rows = []
    for row in block.view(f"u{block.itemsize}").tolist():
        literals = [f"0x{value:0{digits}x}" for value in row]
        rows.append(",".join(literals).encode("ascii"))
    return rows
