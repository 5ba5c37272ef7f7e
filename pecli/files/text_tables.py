"""Tables as text: .csv and .txt files, and what .json files and C headers have in common.

Text is read whole, so its size is limited. Nothing is evaluated, and nothing is built for every element but the
element: checks look at whole texts, and NumPy's own reader of numbers does the rest.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, numpy_dtype, round_to, widened
from pecli.engine.table import Table, results_in_order, table_of
from pecli.errors import ParameterError, quoted
from pecli.files.float_text import check_real, decimal_rows, text_blocks
from pecli.files.npy import ARRAY_NAME
from pecli.files.output import OnBlock, Output, Spec, Write
from pecli.files.source import CHUNK, Source, data_bytes

if TYPE_CHECKING:
    Dtype = np.dtype[np.generic]

MAX_BYTES = 256 << 20
"""Of a text file that is read."""
MAX_TENSORS = 10_000
"""Each takes about as long to read as a hundred numbers."""
MAX_COLUMNS = 1 << 16
"""Numbers of a line that NumPy is handed: it keeps four bytes for each of its letters."""
VECTOR_COLUMNS = 8
"""Elements of a vector on a line; a table has one row per line."""

Found = tuple[tuple[Table, ...], dict[str, str]]
RowTexts = Callable[[Array], list[bytes]]
"""Turns a block into text, row by row, with commas between the elements."""


def prepare(tables: Sequence[Table], spec: Spec | None) -> Write:
    """Writes the one table there is as .csv; the format has no place for a spec."""
    (table,) = tables
    check_real(table, ".csv")
    if not table.size:
        raise ParameterError("output", f".csv for {table.shape}", "a .csv file has at least one number", "write .npy")

    def write(output: Output, on_block: OnBlock | None) -> None:
        for block, rows in _texts(table, decimal_rows):
            output.write(b"\n".join([*rows, b""]))
            if on_block is not None:
                on_block(table, block)

    return write


def _texts(table: Table, rows: RowTexts) -> Iterator[tuple[Array, list[bytes]]]:
    """The blocks of a table, and their rows as text, which threads make."""
    return results_in_order(lambda block: (block, rows(block)), text_blocks(table))


def write_nested(output: Output, table: Table, texts: RowTexts, brackets: bytes, on_block: OnBlock | None) -> None:
    """Write a table with a pair of brackets around every axis, one row per line."""
    is_vector = len(table.shape) < 2
    opening, closing = brackets[:1], brackets[1:]
    leading = table.shape if is_vector else table.shape[:-1]
    spans = [math.prod(leading[axis:]) for axis in range(len(leading))]  # rows between the brackets of each axis
    row = 0
    for block, rows in _texts(table, texts):
        pieces = []
        for text in rows:
            if row:
                pieces.append(b"," if is_vector and row % VECTOR_COLUMNS else b",\n")
            pieces.append(opening * sum(row % span == 0 for span in spans))
            pieces.append(text if is_vector else opening + text + closing)
            row += 1
            pieces.append(closing * sum(row % span == 0 for span in spans))
        output.write(b"".join(pieces))
        if on_block is not None:
            on_block(table, block)


def whole_text(source: Source) -> bytes:
    """All bytes of a text file, unless there are too many of them."""
    size = source.size if source.size is not None else source.available(MAX_BYTES + 1)
    if size > MAX_BYTES:
        raise source.error(f"has more than {MAX_BYTES >> 20} MiB of text", "convert it to .npy with another tool")
    return source.read(0, size)


def check_names(source: Source, names: Sequence[str]) -> None:
    """Refuse too many tensors, and two of one name."""
    if len(names) > MAX_TENSORS:
        raise source.error(f"has more than {MAX_TENSORS} tensors")
    if len(set(names)) < len(names):
        raise source.error("has two tensors of the same name")


def read_csv(source: Source) -> Found:
    """A table of float64, one row per line; without fractions and exponents it holds integers. The first line may be a
    header; where its first cell is empty, the first column numbers the rows, as pandas writes it. A .txt or .tsv file
    may have spaces or tabs between its numbers, as np.savetxt writes it.
    """
    text = whole_text(source).strip()
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first = text[: text.find(b"\n") % (len(text) + 1)]  # up to the end where there is one line; no copy of the others
    if has_header := _is_header(first):
        text = text[len(first) + 1 :]
    if not text:
        raise source.error("is blank")
    if not source.path.lower().endswith(".csv") and b"," not in text:
        text = _with_commas(text)
    columns = text.count(b",", 0, text.find(b"\n") % (len(text) + 1)) + 1
    if columns > MAX_COLUMNS:
        _check_lines(source, text, columns)
    integers = not re.search(rb"[.eEnN]", text)
    rows = text.count(b"\n") + 1
    try:  # blank lines are passed over, and then there are too few numbers
        values = _parsed(text, rows, columns, np.dtype(np.int64 if integers else np.float64))
    except ValueError:
        if found := re.search(rb"[0-9][ ]*([;\t|])", text):
            sign = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}[found[1]]
            raise source.error(f"separates numbers by {sign}", "a .csv has commas: replace them") from None
        _check_lines(source, text, columns)
        if re.search(rb"[^-+0-9.,eEinfaFNIty \t\n]", text):
            raise source.error("is not a table of numbers: it holds other words") from None
        if re.search(rb"[^, \t\n][ \t]++[^, \t\n]", text):
            raise source.error(
                "is not a table of numbers: some have spaces in them, or no comma between them"
            ) from None
        raise source.error("holds something that is not a number, or an integer beyond int64") from None
    return (table_of(ARRAY_NAME, values[:, 1:] if has_header and first.startswith(b",") else values),), {}


def _with_commas(text: bytes) -> bytes:
    """A text with commas instead of the spaces and tabs between its numbers."""
    text = text.replace(b"\t", b" ")
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip().replace(b" ", b",")


_WORD = re.compile(rb'\s*(?:"[^"]*"|#.*|(?!(?:nan|inf|infinity)\s*$)[a-z_\x80-\xff].*)?', re.IGNORECASE | re.DOTALL)


def _is_header(line: bytes) -> bool:
    """Whether a line names columns: its first cell is a word or empty, the others are words or whole numbers. Anything
    else is a row, and an error where it holds a word.
    """
    first, *others = line.split(b",")
    return _WORD.fullmatch(first) is not None and all(
        cell.strip().isdigit() or _WORD.fullmatch(cell) for cell in others
    )


def _check_lines(source: Source, text: bytes, columns: int) -> None:
    """Refuse lines of different lengths."""
    start = number = 0
    while start <= len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        number, found = number + 1, text.count(b",", start, end) + 1
        if found != columns or start == end:
            raise source.error(
                f"line {number} has {found if end > start else 0} numbers, and the first has {columns}"
            ) from None
        start = end + 1


def _parsed(text: bytes, rows: int, columns: int, dtype: Dtype) -> Array:
    """Numbers between commas and line ends; ValueError where there is anything else, or another number of them."""
    if not text.isascii():
        raise ValueError("letters beyond ASCII")
    if columns > MAX_COLUMNS:
        text = text.replace(b",", b"\n")
    values = np.loadtxt(io.BytesIO(text), dtype, comments=None, delimiter=",", ndmin=2)
    return values.reshape(rows, columns)


def nested_table(source: Source, name: str, dtype: str, shape: tuple[int, ...], text: bytes) -> Table:
    """A tensor from decimal numbers in square brackets that are nested as its shape asks for."""
    label = check_kind(source, name, dtype, shape)
    lines = unnested(source, label, text, shape)
    if dtype == "bool":
        lines = lines.replace(b"true", b"1").replace(b"false", b"0")
    plain = "float64" if dtype in SIGNIFICAND_BITS else "uint8" if dtype == "bool" else dtype
    wanted = np.dtype(plain)
    columns = shape[-1] if len(shape) > 1 else 1
    size = math.prod(shape)
    try:
        values = _parsed(lines, size // columns, columns, wanted) if size else np.empty(0, wanted)
    except ValueError:
        kind = f"or an integer that {dtype} does not hold" if wanted.kind in "iu" else "or no number at all"
        raise source.error(f"{label} holds something that is not a number, {kind}") from None
    if dtype == "bool" and values.size and values.max() > 1:
        raise source.error(f"{label} holds something that is neither true nor false")
    return table_in(name, dtype, shape, values)


def table_in(name: str, dtype: str, shape: tuple[int, ...], values: Array) -> Table:
    """Values that were read, in the dtype that they were written from."""
    made: Array = round_to(widened(values), dtype) if dtype in SIGNIFICAND_BITS else values.astype(np.dtype(dtype))
    return table_of(name, made.reshape(shape))


def check_kind(source: Source, name: str, dtype: str, shape: tuple[int, ...]) -> str:
    """Refuse a dtype or a shape that is none; what messages call the tensor."""
    label = f"tensor {quoted(name)}"
    if dtype not in (*SIGNIFICAND_BITS, "bool") and not re.fullmatch(r"u?int(8|16|32|64)", dtype):
        raise source.error(f"{label} has dtype {quoted(dtype)}, which is not known")
    data_bytes(shape, numpy_dtype(dtype).itemsize, lambda problem: source.error(f"{label} {problem}"))
    return label


_NOT_STRUCTURE = bytes(set(range(256)) - set(b"[],"))


def unnested(source: Source, label: str, text: bytes, shape: tuple[int, ...]) -> bytes:
    """What stands in the brackets, one row per line and no longer line than NumPy is handed; of a vector, one element.
    The brackets must be nested as the shape says.
    """
    text = _without_spaces(text)
    structure = text.translate(None, _NOT_STRUCTURE)
    if 0 in shape:
        shape = shape[: shape.index(0) + 1]
    length = 0
    for side in reversed(shape):
        length = side * length + max(side - 1, 0) + 2
    if len(structure) != length or structure != _structure(shape) or _misplaced(text):
        raise source.error(f"{label} is not nested as its shape, {shape}, asks for")
    if 0 in shape and len(text) > length:
        raise source.error(f"{label} holds numbers, and its shape is {shape}")
    rows = text.replace(b"],", b"\n").translate(None, b"[]")
    return rows if len(shape) > 1 else rows.replace(b",", b"\n")


def _without_spaces(text: bytes) -> bytes:
    """Without those beside brackets and commas; one is left between words that nothing else keeps apart."""
    text = text.strip().replace(b",\n", b",")
    if not any(space in text for space in (b" ", b"\t", b"\r", b"\n")):
        return text
    text = b"".join(b" ".join(piece.split()) for piece in pieces_of(text))
    for mark in (b",", b"[", b"]"):
        text = text.replace(b" " + mark, mark).replace(mark + b" ", mark)
    return text


def pieces_of(text: bytes) -> Iterator[bytes]:
    """A text in pieces that begin with commas: for work that makes an object of each word."""
    start = 0
    while start < len(text):
        end = text.find(b",", start + CHUNK)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end


def _misplaced(text: bytes) -> bool:
    """Whether a bracket opens behind a number, or closes before one."""
    letters = np.frombuffer(text, np.uint8)
    before, after = letters[:-1], letters[1:]
    opening, closing, comma = b"[],"
    opens = (after == opening) & (before != opening) & (before != comma)
    closes = (before == closing) & (after != closing) & (after != comma)
    return bool(opens.any() or closes.any())


def _structure(shape: tuple[int, ...]) -> bytes:
    """The brackets and commas of a shape, such as [[,],[,]]."""
    text = b""
    for side in reversed(shape):
        text = b"[" + ((text + b",") * side)[:-1] + b"]"
    return text
