"""Tables as text: .csv, .json and C headers; every number is the shortest decimal that reads back as the same value.

.json has the spec, and every tensor as nested lists; infinities and NaN, which JSON lacks, are strings:

{"pecli": {"scheme": "rope", …},
 "tensors": {"cos": {"data": [[1.0, 0.5]], "dtype": "float32", "shape": [1, 2]}}}
"""

from __future__ import annotations

import math
import re
from binascii import crc32
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table, results_in_order
from pecli.errors import ParameterError
from pecli.files.output import KEY, OnBlock, Output, Spec, Texts, Write, compact

ELEMENTS = 1 << 16  # how many elements are turned into text at once
VECTOR_COLUMNS = 8  # elements of a vector on a line; a table has one row per line
MAX_EMPTY = 1 << 20  # how long the axes of a table without elements may be in .json
CSV_WORDS: Mapping[bytes, bytes] = {b"nan": b"nan", b"-inf": b"-inf", b"inf": b"inf"}
JSON_WORDS = {b"nan": b'"NaN"', b"-inf": b'"-Infinity"', b"inf": b'"Infinity"'}
C_WORDS = {b"nan": b"NAN", b"-inf": b"-INFINITY", b"inf": b"INFINITY"}  #: What stands for numbers that are not finite
C_TYPES = {
    **{"float64": "double", "float32": "float"},
    **dict.fromkeys(("float16", "bfloat16"), "uint16_t"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "bool"), "uint8_t"),
}
"""What the elements are in C; small floats are bit patterns, integers are called as in NumPy, with `_t`."""

RowTexts = Callable[[Array], list[bytes]]  #: Turns a block into text, row by row, with commas between the elements


def prepare_csv(tables: Sequence[Table], spec: Spec | None, texts: Texts, *, header: bool = True) -> Write:
    """Writes the one table there is, names of its columns and then one row per line; a spec has no place."""
    (table,) = tables
    _check_real(table, ".csv")
    if not table.size:
        raise ParameterError("output", f".csv for {table.shape}", "a .csv file has at least one number", "write .npy")

    def write(output: Output, on_block: OnBlock) -> None:
        if header:  # without it, pandas would take the first row for one
            name = identifier(table.name)
            names = [name] if len(table.shape) < 2 else [f"{name}_{column}" for column in range(table.width)]
            output.write(",".join(names).encode("ascii") + b"\n")
        for block, rows in _text_blocks(table, decimal_rows):
            output.write(b"\n".join([*rows, b""]))
            on_block(table, block)

    return write


def prepare_json(tables: Sequence[Table], spec: Spec | None, texts: Texts) -> Write:
    """Writes all the tables, one row per line, and the spec that made them."""
    ordered = sorted(tables, key=lambda table: table.name)
    for table in ordered:
        _check_real(table, ".json")
        if not table.size and math.prod(filter(None, table.shape)) > MAX_EMPTY:
            raise ParameterError("output", f".json for {table.shape}", "so many lists would all be empty", "write .npy")
    beginning = "{" if spec is None else f'{{"{KEY}":{compact(dict(spec))},\n'

    def literals(block: Array) -> list[bytes]:
        if block.dtype == np.bool_:
            return [compact(row).encode("ascii")[1:-1] for row in block.tolist()]
        return decimal_rows(block, JSON_WORDS)

    def write(output: Output, on_block: OnBlock) -> None:
        output.write((beginning + '"tensors":{').encode("ascii"))
        for place, table in enumerate(ordered):
            output.write(f'{"," if place else ""}\n{compact(table.name)}:{{"data":'.encode("ascii"))
            if table.size:
                _write_nested(output, table, literals, b"[]", on_block)
            else:
                output.write(compact(np.empty(table.shape).tolist()).encode("ascii"))
            output.write(f',"dtype":"{table.dtype}","shape":{compact(table.shape)}}}'.encode("ascii"))
        output.write(b"}}\n")

    return write


def prepare_header(tables: Sequence[Table], spec: Spec | None, texts: Texts) -> Write:
    """Writes all the tables as constant arrays of C99, named after scheme and tensor, and the spec in a comment."""
    scheme = str((spec or {}).get("scheme", "table"))
    names = {table.name: identifier(f"{scheme}_{table.name}") for table in tables}
    if len({name.upper() for name in names.values()}) < len(names):
        raise ParameterError("name", ", ".join(names), "two of them are the same name in C", "write .safetensors")
    for table in tables:
        _check_real(table, ".h")
        if not table.size:
            raise ParameterError("output", f".h for {table.name!r}", "an array in C has at least one element")
    text = compact(dict(spec or {}))
    guard = f"PECLI_{identifier(scheme).upper()}_{crc32(text.encode()):08X}_H"  # one for each table
    escaped = text.replace("*", "\\u002a")  # as JSON allows, so that no star ends or nests the comment
    comment = "" if spec is None else f"/* pecli: {escaped} */\n"

    def write(output: Output, on_block: OnBlock) -> None:
        beginning = f"{comment}#ifndef {guard}\n#define {guard}\n\n#include <math.h>\n#include <stdint.h>\n"
        output.write(beginning.encode("ascii"))
        for table in sorted(tables, key=lambda table: table.name):
            name, element = names[table.name], C_TYPES.get(table.dtype, table.dtype + "_t")
            lengths = [f"#define {name.upper()}_DIM{axis} {length}\n" for axis, length in enumerate(table.shape)]
            extent = "".join(f"[{length}]" for length in table.shape)
            output.write(f"\n{''.join(lengths)}static const {element} {name}{extent} =\n".encode("ascii"))
            _write_nested(output, table, _c_literals, b"{}", on_block)
            output.write(b";\n")
        output.write(f"\n#endif /* {guard} */\n".encode("ascii"))

    return write


def identifier(text: str) -> str:
    """A text as a name in C, or of a column.

    >>> identifier("learned-init_weight"), identifier("3d"), identifier("nan")
    ('learned_init_weight', 'table_3d', 'table_nan')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    return name if name[:1].isalpha() and name.lower() not in ("nan", "inf", "infinity") else "table_" + name


def _c_literals(block: Array) -> list[bytes]:
    if block.dtype == np.float64:
        return decimal_rows(block, C_WORDS)
    if block.dtype == np.float32:  # with an `f`, so that C rounds them once
        singles = (row.replace(b",", b"f,") + b"f" for row in decimal_rows(block, C_WORDS))
        return [row.replace(b"NANf", b"NAN").replace(b"INFINITYf", b"INFINITY") for row in singles]
    literal: Callable[[int], str] = _c_integer
    if block.dtype.kind not in "iu":
        block, literal = block.view(f"u{block.itemsize}"), f"0x{{:0{2 * block.itemsize}x}}".format
    return [",".join(map(literal, row)).encode("ascii") for row in block.tolist()]


def _c_integer(value: int) -> str:
    if value > 2**63 - 1:
        return f"UINT64_C({value})"
    if value == -(2**63):  # C has no negative literals, and the positive one is too large
        return "(-INT64_C(9223372036854775807) - 1)"
    return f"INT64_C({value})" if abs(value) > 2**31 - 1 else str(value)


def _check_real(table: Table, suffix: str) -> None:
    if not re.fullmatch(r"(bfloat|u?int)\d+|bool|float(16|32|64|8_e4m3fn|8_e5m2)", table.dtype):
        other = ".npy or .npz" if table.dtype.startswith("complex") else ".safetensors"
        raise ParameterError("dtype", table.dtype, f"{suffix} cannot hold it", f"write {other}")


def _text_blocks(table: Table, rows: RowTexts) -> Iterator[tuple[Array, list[bytes]]]:
    """The table in small blocks, with their rows as text, which threads make."""
    return results_in_order(lambda block: (block, rows(block)), table.blocks(max(1, ELEMENTS // max(1, table.width))))


def _write_nested(output: Output, table: Table, texts: RowTexts, brackets: bytes, on_block: OnBlock) -> None:
    """Write a table with a pair of brackets around every axis, one row per line."""
    is_vector = len(table.shape) < 2
    opening, closing = brackets[:1], brackets[1:]
    leading = table.shape if is_vector else table.shape[:-1]
    spans = [math.prod(leading[axis:]) for axis in range(len(leading))]  # rows between the brackets of each axis
    row = 0
    for block, rows in _text_blocks(table, texts):
        pieces = []
        for text in rows:
            if row:
                pieces.append(b"," if is_vector and row % VECTOR_COLUMNS else b",\n")
            pieces.append(opening * sum(row % span == 0 for span in spans))
            pieces.append(text if is_vector else opening + text + closing)
            row += 1
            pieces.append(closing * sum(row % span == 0 for span in spans))
        output.write(b"".join(pieces))
        on_block(table, block)


def numerals(block: Array) -> list[str]:
    """Every element of a block as text, in C order.

    >>> numerals(np.float32([[0.1, -np.inf], [1e-7, 3]]))
    ['0.1', '-inf', '1e-7', '3.0']
    """
    return b",".join(decimal_rows(block.reshape(1, -1))).decode("ascii").split(",") if block.size else []


def decimal_rows(block: Array, special: Mapping[bytes, bytes] = CSV_WORDS) -> list[bytes]:
    """The rows of a two-dimensional block, commas between the numbers.

    >>> decimal_rows(np.float32([[0.1, -1 / 3], [2.0**-24, 1e30]]))
    [b'0.1,-0.33333334', b'5.9604645e-8,1e30']
    """
    if block.dtype == np.bool_:
        block = block.view(np.uint8)
    if block.dtype.kind in "iu" or (block.dtype in (np.float32, np.float64) and np.isfinite(block).all()):
        return _json(np.ascontiguousarray(block))[2:-2].split(b"],[")
    words = _words(block.reshape(-1), special)
    width = block.shape[1]
    return [b",".join(words[start : start + width]) for start in range(0, len(words), width)]


def _json(array: Array) -> bytes:
    """An array as orjson writes it; some versions write 1e30, others 1e+30, and files are the same everywhere."""
    import orjson

    return orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY).replace(b"e+", b"e")


def _words(flat: Array, special: Mapping[bytes, bytes]) -> list[bytes]:
    """Numbers one by one, of which some are not finite; of those of few bits, each value is worked out once."""
    if flat.dtype not in (np.float32, np.float64):
        values, places = np.unique(flat.view(f"u{flat.itemsize}"), return_inverse=True)
        texts = [_shortest(value, special) for value in values.view(flat.dtype)]
        return [texts[place] for place in places.tolist()]
    finite = np.isfinite(flat)
    words = _json(np.where(finite, flat, flat.dtype.type(0)))[1:-1].split(b",")
    for place in np.flatnonzero(~finite).tolist():
        words[place] = special[str(float(flat[place])).encode()]
    return words


def _shortest(value: np.generic, special: Mapping[bytes, bytes]) -> bytes:
    """The text of a value whose dtype orjson does not know."""
    number = float(value)
    if not np.isfinite(number):
        return special[str(number).encode()]
    texts = (f"{number:.{digits}e}" for digits in range(17))
    with np.errstate(over="ignore"):  # too few digits may round up beyond the largest number
        return repr(float(next(text for text in texts if value.dtype.type(float(text)) == value))).encode()
