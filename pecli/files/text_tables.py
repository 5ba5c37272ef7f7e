"""Tables as text: .csv and .txt files, and numbers in brackets as .json files and C headers have them.

Text is read whole, so its size is limited. Nothing is evaluated.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pecli.engine.arrays import AnyArray, Array
from pecli.engine.table import Table, results_in_order
from pecli.errors import ParameterError
from pecli.files.contents import CHUNK, Contents, LoadedFile
from pecli.files.npy import ARRAY_NAME
from pecli.files.number_text import check_real, decimal_rows, text_blocks
from pecli.files.output import OnBlock, Output, Spec, Write

MAX_BYTES = 256 << 20
"""Of a text file that is read."""
MAX_COLUMNS = 1 << 16
"""Numbers of a line that NumPy is handed: it keeps four bytes for each of its letters."""
VECTOR_COLUMNS = 8
"""Elements of a vector on a line; a table has one row per line."""

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


def whole_text(contents: Contents) -> bytes:
    """All bytes of a text file, unless there are too many of them."""
    if len(contents.data) > MAX_BYTES:
        raise contents.error(f"has more than {MAX_BYTES >> 20} MiB of text", "convert it to .npy with another tool")
    return bytes(contents.data)


def read(contents: Contents) -> LoadedFile:
    """A table of float64, one row per line; without fractions and exponents it holds integers. The first line may be a
    header; where its first cell is empty, the first column numbers the rows, as pandas writes it. A .txt or .tsv file
    may have spaces or tabs between its numbers, as np.savetxt writes it.
    """
    text = whole_text(contents).removeprefix(b"\xef\xbb\xbf").strip()
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first = text[: text.find(b"\n") % (len(text) + 1)]  # up to the end where there is one line; no copy of the others
    if has_header := _is_header(first):
        text = text[len(first) + 1 :]
    if not text:
        raise contents.error("is blank")
    if not contents.path.lower().endswith(".csv") and b"," not in text:
        text = _with_commas(text)
    columns = text.count(b",", 0, text.find(b"\n") % (len(text) + 1)) + 1
    values = _parsed(contents, text, columns)
    values = values[:, 1:] if has_header and first.startswith(b",") else values
    return LoadedFile(contents.path, "csv", {ARRAY_NAME: values})


def _parsed(contents: Contents, text: bytes, columns: int) -> AnyArray:
    problem = _uneven_line(text, columns)
    integers = not re.search(rb"[.eEnN]", text)
    try:
        if problem:
            raise ValueError(problem)
        return _numbers(text, np.dtype(np.int64 if integers else np.float64)).reshape(-1, columns)
    except (ValueError, OverflowError):
        if found := re.search(rb"[0-9][ ]*([;\t|])", text):
            sign = {b";": "semicolons", b"\t": "tabs", b"|": "bars"}[found[1]]
            raise contents.error(f"separates numbers by {sign}", "a .csv has commas: replace them") from None
        if problem:
            raise contents.error(problem) from None
        if re.search(rb"[^-+0-9.,eEinfaFNIty \t\n]", text):
            raise contents.error("is not a table of numbers: it holds other words") from None
        if re.search(rb"[^, \t\n][ \t]++[^, \t\n]", text):
            raise contents.error(
                "is not a table of numbers: some have spaces in them, or no comma between them"
            ) from None
        raise contents.error("holds something that is not a number, or an integer beyond int64") from None


def _numbers(text: bytes, dtype: np.dtype[np.generic]) -> AnyArray:
    """All numbers of a text, piece by piece: most are JSON's own, NumPy reads what is not, such as nan and +.5."""
    import orjson

    pieces = []
    start = 0
    while start < len(text):
        end = text.find(b"\n", start + CHUNK)
        end = len(text) if end < 0 else end
        piece = text[start:end].replace(b"\n", b",")
        try:
            values = np.array(orjson.loads(b"[%b]" % piece))
            if values.ndim != 1 or values.dtype.kind not in "iuf":
                raise ValueError(text)
            pieces.append(values.astype(dtype, casting="same_kind" if dtype.kind == "i" else "unsafe"))
        except (ValueError, TypeError):
            if not piece.isascii():
                raise ValueError("letters beyond ASCII") from None
            lines = io.BytesIO(piece.replace(b",", b"\n"))
            pieces.append(np.loadtxt(lines, dtype, comments=None, delimiter=",", ndmin=1))
            if len(pieces[-1]) != piece.count(b",") + 1:  # blank lines are passed over
                raise ValueError("a blank cell") from None
        start = end + 1
    return np.concatenate(pieces)


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


def _uneven_line(text: bytes, columns: int) -> str:
    """The first line that has another number of cells, if there is one."""
    start = number = 0
    while start <= len(text):
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        number += 1
        count = text.count(b",", start, end) + 1 if end > start else 0
        if count != columns:
            return f"line {number} has {count} numbers, and the first has {columns}"
        start = end + 1
    return ""
