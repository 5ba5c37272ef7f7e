"""C headers: tables as constant arrays of C99, and the spec in a comment.

Headers that pecli wrote are read; the reader of text reads arrays in those of others.
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Array, numpy_dtype, round_in_blocks
from pecli.engine.table import Table
from pecli.errors import ParameterError, quoted
from pecli.files.contents import Contents, LoadedFile
from pecli.files.decimals import (
    REAL,
    decimal_rows,
    identifier,
    is_plain,
    spell_not_finite,
    write_nested,
)
from pecli.files.npy import CODES
from pecli.files.number_text import NestedNumbers, NumberList
from pecli.files.output import KEY, open_output
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
_DTYPES_OF_C_FLOATS = {"double": "float64", "float": "float32"}
MAX_TENSORS = 10_000

_SPEC = re.compile(rb"/\* pecli: (.*) \*/")
_GUARD = re.compile(rb"^#ifndef PECLI_(\w{1,999})_H\r?$", re.MULTILINE)
_ENDS_BEFORE_GUARD = re.compile(rb"/\* pecli: [^\n]*(?:\n(?:#[^\n]*)?)?")
"""A spec, or a part of it, and at most a part of the line after it, which is that of the guard."""
_END_OF_GUARD = re.compile(rb"^#endif", re.MULTILINE)
_DECLARATION = re.compile(
    rb"^(?:/\* bits of (?P<dtype>\w{1,99}) \*/\r?\n)?"
    rb"static const (?P<c_type>\w{1,99}) (?P<name>[A-Za-z_]\w{0,999})(?P<extent>(?:\[\d{1,19}\])*) =\s*",
    re.MULTILINE,
)
"""The beginning of a table, up to its first brace or its only number."""
_SCALAR = re.compile(rb"([^\s;{}]{1,99});")
_HEXADECIMAL = re.compile(rb"\{*0x")
_INTEGER = re.compile(rb"\d+")


def write(request: WriteRequest) -> None:
    """Write all tables as constants, and the spec, the parameters that made them, in a comment.

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
    """Return a macro for the length of every axis, and the array's type, name and extent.

    A comment states the dtype of bit patterns: a `uint16_t` may be a float16 or a bfloat16.
    """
    lines = []
    extent = ""
    for axis, length in enumerate(table.shape):
        lines.append(f"#define {name.upper()}_DIM{axis} {length}\n")
        extent += f"[{length}]"
    element = _c_type(table.dtype)
    if _is_written_as_bits(table.dtype):
        lines.append(f"/* bits of {table.dtype} */\n")
    return f"{''.join(lines)}static const {element} {name}{extent}"


def _c_type(dtype: str) -> str:
    return C_TYPES.get(dtype, f"{dtype}_t")


def _is_written_as_bits(dtype: str) -> bool:
    """Return True for dtypes that C lacks, such as float16: their bits are written as integers."""
    return dtype in C_TYPES and dtype not in _DTYPES_OF_C_FLOATS.values()


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


def read(contents: Contents) -> LoadedFile:
    """Return the tables of a header that pecli wrote, with their dtypes, and its spec.

    Their names are those before the header was written: `rope_cos` of the header rope.h is `cos`.

    Raises:
        FileError: the header is cut short, or a table is not as it is declared.
    """
    guard = _GUARD.search(contents.data)
    if guard is None:
        is_cut = _ENDS_BEFORE_GUARD.fullmatch(contents.data) is not None
        contents.refuse_if(is_cut, "is truncated: it ends before its include guard")
        raise contents.error("has no include guard of pecli")
    tensors: dict[str, AnyArray] = {}
    offset = guard.end()
    while (declaration := _DECLARATION.search(contents.data, offset)) is not None:
        name = _name_without_prefix(declaration["name"].decode(), guard[1].decode())
        contents.refuse_if(name in tensors, f"declares {quoted(name)} twice")
        contents.refuse_if(len(tensors) == MAX_TENSORS, f"has more than {MAX_TENSORS:,} tables")
        table, offset = _read_table(contents.tensor(name), declaration)
        tensors[name] = table
    end_of_guard = _END_OF_GUARD.search(contents.data, offset)
    contents.require(end_of_guard, "is truncated: the #endif of its include guard is missing")
    contents.require(tensors, "declares no tables")
    return LoadedFile(contents.path, "h", tensors, _metadata(contents, guard.start()))


def _name_without_prefix(c_name: str, guard_prefix: str) -> str:
    """Return the name of a table before a header gave it a prefix.

    The include guard has the prefix in upper case.

    >>> _name_without_prefix("rope_inv_freq", "ROPE"), _name_without_prefix("other", "ROPE")
    ('inv_freq', 'other')
    """
    has_prefix = c_name.upper().startswith(f"{guard_prefix}_")
    return c_name[len(guard_prefix) + 1 :] if has_prefix else c_name


def _metadata(contents: Contents, end: int) -> dict[str, str]:
    """Return the spec, which is in a comment before the include guard, if there is one."""
    spec = _SPEC.search(contents.data, 0, end)
    return {} if spec is None else {KEY: spec[1].decode("utf-8", "replace")}


class _Numbers(NamedTuple):
    """The numbers of a table, and the offset after them."""

    values: AnyArray
    end: int


def _read_table(contents: Contents, declaration: re.Match[bytes]) -> _Numbers:
    """Return a table in its dtype, and the offset after it."""
    dtype = _declared_dtype(contents, declaration)
    shape = tuple(int(length) for length in _INTEGER.findall(declaration["extent"]))
    read_numbers = _read_array if shape else _read_scalar
    values, end = read_numbers(contents, declaration.end())
    problem = f"has numbers of the shape {values.shape}, and is declared as {shape}"
    contents.require(values.shape == shape, problem)
    return _Numbers(_in_dtype(contents, values, dtype), end)


def _read_array(contents: Contents, start: int) -> _Numbers:
    """Return the numbers between braces that begin at an offset."""
    has_brace = bytes(contents.data[start : start + 1]) == b"{"
    contents.require(has_brace, "has no braces around its numbers")
    nested = NestedNumbers()
    nested.open_list(contents, start)
    closing_brace = nested.read_rest(contents, start + 1, b"{}")
    return _Numbers(nested.array(contents, closing_brace), closing_brace + 1)


def _read_scalar(contents: Contents, start: int) -> _Numbers:
    """Return the number without braces that begins at an offset."""
    scalar = _SCALAR.match(contents.data, start)
    if scalar is None:
        raise contents.error("has no number")
    numbers = NumberList()
    numbers.scan(contents, scalar[1], start)
    return _Numbers(numbers.array(contents, ()), scalar.end())


def _declared_dtype(contents: Contents, declaration: re.Match[bytes]) -> str:
    """Return the dtype of a table's elements, such as float32 for the C type `float`.

    A `uint16_t` may be the bits of a float16 or of a bfloat16. A comment before the table states
    which: «bits of float16».

    Raises:
        FileError: pecli writes no tables with this type and this comment.
    """
    c_type = declaration["c_type"].decode()
    if declaration["dtype"] is not None:  # in the comment
        dtype = declaration["dtype"].decode()
        is_written_so = _is_written_as_bits(dtype)
    else:
        _refuse_bits_without_dtype(contents, declaration.end())
        dtype = _DTYPES_OF_C_FLOATS.get(c_type, c_type.removesuffix("_t"))  # int64_t is int64
        is_written_so = dtype in CODES
    has_type_of_dtype = is_written_so and _c_type(dtype) == c_type
    problem = f"is declared as {quoted(c_type)}, which pecli does not write"
    contents.require(has_type_of_dtype, problem)
    return dtype


def _refuse_bits_without_dtype(contents: Contents, start: int) -> None:
    """Raise FileError if a table without a comment has hexadecimal numbers: {0x3c00, 0x3800}.

    These are the bits of small floats, and only the comment could state of which dtype.
    """
    has_bits = _HEXADECIMAL.match(contents.data, start) is not None
    advice = "write it again with this version"
    contents.refuse_if(has_bits, "has bits of a dtype that is not stated", advice)


def _in_dtype(contents: Contents, values: AnyArray, dtype: str) -> AnyArray:
    """Return the numbers of a table in its dtype.

    A dtype that C lacks is written as integers, its bits: 0x3c00 stands for 1.0 in float16.

    Raises:
        FileError: The dtype does not hold a number.
    """
    is_float_of_c = dtype in _DTYPES_OF_C_FLOATS.values()
    if is_float_of_c:
        return round_in_blocks(np.atleast_1d(values), dtype).reshape(values.shape)
    target = numpy_dtype(dtype)
    is_integer = target.kind in "iu"
    if is_integer:
        return _as_integers(contents, values, dtype, table_dtype=dtype)
    dtype_of_bits = f"uint{8 * target.itemsize}"
    bits = _as_integers(contents, values, dtype_of_bits, table_dtype=dtype)
    return bits.view(target)  # the floats that have these bits


def _as_integers(
    contents: Contents, values: AnyArray, integer_dtype: str, table_dtype: str
) -> AnyArray:
    """Return numbers as integers of a dtype; raise FileError if it does not hold one of them.

    Args:
        contents: The table in its file, for the error.
        values: The numbers.
        integer_dtype: The dtype of the result, such as uint16.
        table_dtype: The dtype that the error names, such as float16.
    """
    are_held = _are_integers_of(values, integer_dtype)
    contents.require(are_held, f"holds a number that {table_dtype} does not hold")
    return values.astype(integer_dtype)


def _are_integers_of(values: AnyArray, integer_dtype: str) -> bool:
    """Return True if all numbers are whole, and within the limits of a dtype such as uint16."""
    limits = np.iinfo(integer_dtype)
    are_whole = bool((values == np.trunc(values)).all())  # False for NaN
    return are_whole and bool(limits.min <= values.min() <= values.max() <= limits.max)
