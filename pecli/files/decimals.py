"""Numbers as text: the shortest decimals that read back as the same values."""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import COMPLEX, FLOATS, Array
from pecli.engine.table import Table, results_in_order
from pecli.files.contents import MAX_TEXT, Contents
from pecli.files.npy import CODES
from pecli.files.output import Output
from pecli.files.writing import OnBlock

ELEMENTS = 1 << 16  # elements that are turned into text at once
VECTOR_COLUMNS = 8  # elements of a vector per line; a table has one row per line
MAX_FLOAT64_DIGITS = 17  # digits that distinguish all float64 numbers
NOT_FINITE = re.compile(rb"(-?inf|nan)f?")
REAL = {*FLOATS, *CODES} - {*COMPLEX}  # dtypes whose values decimals can represent

RowTexts = Callable[[Array], list[bytes]]
"""Turns a block into text: one item per row, with commas between the elements."""


def numerals(block: Array) -> list[str]:
    """Return every element of a block as text, in C order.

    >>> numerals(np.float32([[0.1, -np.inf], [1e-7, 3]]))
    ['0.1', '-inf', '1e-7', '3.0']
    """
    if not block.size:
        return []
    (row,) = decimal_rows(block.reshape(1, -1))
    return row.decode("ascii").split(",")


def decimal_rows(block: Array) -> list[bytes]:
    """Return the rows of a two-dimensional block as text, with commas between the numbers.

    >>> decimal_rows(np.float32([[0.1, -1 / 3], [2.0**-24, 1e30]]))
    [b'0.1,-0.33333334', b'5.9604645e-8,1e30']
    """
    if block.dtype == np.bool_:
        block = block.view(np.uint8)
    if is_plain(block):
        return _plain_rows(block)
    return _rows_of_few_values(block)


def _rows_of_few_values(block: Array) -> list[bytes]:
    """Return the rows of a block of a dtype of at most 16 bits, which has at most 65,536 values.

    The text of each value is made once.
    """
    bits = block.reshape(-1).view(f"u{block.itemsize}")
    distinct_bits, index_of_element = np.unique(bits, return_inverse=True)
    distinct_values = distinct_bits.view(block.dtype)
    texts = np.array([_shortest_text(value) for value in distinct_values], object)
    return [b",".join(row) for row in texts[index_of_element].reshape(block.shape)]


def is_plain(block: Array) -> bool:
    """Return True for dtypes that orjson formats: integers, float32 and float64."""
    return block.dtype.kind in "iu" or block.dtype in (np.float32, np.float64)


def _plain_rows(block: Array) -> list[bytes]:
    """Return the rows of a block as text, of the nested lists [[…],[…]] that orjson writes."""
    import orjson

    text = orjson.dumps(np.ascontiguousarray(block), option=orjson.OPT_SERIALIZE_NUMPY)
    # Some versions write 1e30, others 1e+30; files must have the same bytes with all of them.
    text = text.replace(b"e+", b"e")
    if b"null" in text:
        text = _without_nulls(text, block)
    without_outer_brackets = text[2:-2]
    return without_outer_brackets.split(b"],[")


def _without_nulls(text: bytes, block: Array) -> bytes:
    """Return the text of a block with nan, inf and -inf for orjson's `null`, which stands for all three."""
    not_finite = block[~np.isfinite(block)].tolist()  # in C order, as the text has them
    words = iter([repr(number).encode() for number in not_finite])
    return re.sub(b"null", lambda _: next(words), text)


def _shortest_text(value: np.generic) -> bytes:
    """Return the shortest text of a value of few bits, whose dtype orjson lacks.

    Digits are added until the text reads back as the same number: the float16 number next to 1/3 is
    0.333251953125; 0.3, 0.33 and 0.333 round to other float16 numbers, and 0.3333 is the text.
    """
    number = float(value)
    if not np.isfinite(number):
        return repr(number).encode()
    to_dtype = value.dtype.type
    with np.errstate(over="ignore"):  # Too few digits may round up beyond the largest number.
        for decimals in range(MAX_FLOAT64_DIGITS):
            rounded = float(f"{number:.{decimals}e}")
            if to_dtype(rounded) == value:
                return repr(rounded).encode()
    return repr(number).encode()


def spell_not_finite(rows: list[bytes], words: Mapping[bytes, bytes]) -> list[bytes]:
    """Replace inf, -inf and nan in rows of numbers by other words.

    An `f` after the word, the suffix of float literals in C, is removed with it.
    """
    replaced = []
    for row in rows:
        has_words = b"n" in row  # as inf and nan have, and no number
        if has_words:
            row = NOT_FINITE.sub(lambda match: words[match[1]], row)
        replaced.append(row)
    return replaced


def text_blocks(table: Table, row_texts: RowTexts) -> Iterator[tuple[Array, list[bytes]]]:
    """Yield a table in small blocks, each with the text of its rows, which threads make."""
    rows = max(1, ELEMENTS // max(1, table.width))
    return results_in_order(lambda block: (block, row_texts(block)), table.blocks(rows))


def write_nested(
    output: Output, table: Table, row_texts: RowTexts, brackets: bytes, on_block: OnBlock
) -> None:
    """Write a table as text with brackets around every axis, one row per line: JSON, or a C array.

    The rows of a (2, 2, 3) table are written as `[[[…],`, `[…]],`, `[[…],` and `[…]]]`. Elements of
    a vector are rows that share lines.

    Args:
        output: The file.
        table: The table.
        row_texts: Returns the texts of the rows of a block.
        brackets: The opening and the closing bracket.
        on_block: Called with the size of each block.
    """
    frame = _BracketFrame.of(table.shape, brackets)
    row = 0
    for block, texts in text_blocks(table, row_texts):
        framed = [frame.around(index, text) for index, text in enumerate(texts, start=row)]
        row += len(texts)
        output.write(b"".join(framed))
        on_block(block.nbytes)


class _BracketFrame(NamedTuple):
    """The brackets and commas around the rows of a table."""

    opening: bytes
    closing: bytes
    rows_in_axis: list[int]  #: rows between the brackets of each axis: 2 and 4 in a (2, 2, 3) table
    is_vector: bool

    @classmethod
    def of(cls, shape: tuple[int, ...], brackets: bytes) -> "_BracketFrame":
        """Return the frame of a shape; the rows of a vector are its elements."""
        is_vector = len(shape) < 2
        row_axes = shape if is_vector else shape[:-1]
        rows_in_axis = list(accumulate(reversed(row_axes), operator.mul))
        return cls(brackets[:1], brackets[1:], rows_in_axis, is_vector)

    def around(self, row: int, text: bytes) -> bytes:
        """Return the text of a row with the comma before it, and its brackets.

        Before it stands one opening bracket for every axis that begins with this row, and after it
        one closing bracket for every axis that ends: row 2 of a (2, 2, 3) table is `,⏎[[…]`.
        """
        begins = _axes_beginning_at(row, self.rows_in_axis)
        ends = _axes_beginning_at(row + 1, self.rows_in_axis)
        if not self.is_vector:  # A row is an axis as well; an element of a vector is none.
            begins += 1
            ends += 1
        comma = _separator(row, is_vector=self.is_vector)
        return comma + self.opening * begins + text + self.closing * ends


def _separator(row: int, *, is_vector: bool) -> bytes:
    """Return what stands before a row: nothing, or a comma, after which a line usually ends.

    Some elements of a vector share a line.
    """
    if row == 0:
        return b""
    if is_vector and row % VECTOR_COLUMNS:
        return b","
    return b",\n"


def _axes_beginning_at(row: int, rows_in_axis: list[int]) -> int:
    """Return how many axes begin with a row, which is how many have ended before it.

    >>> [_axes_beginning_at(row, [2, 4]) for row in range(5)]
    [2, 0, 1, 0, 2]
    """
    return sum(row % span == 0 for span in rows_in_axis)


def identifier(text: str) -> str:
    """Return a text as a name in C, or of a column.

    >>> identifier("learned-init_weight"), identifier("3d"), identifier("nan")
    ('learned_init_weight', 'table_3d', 'table_nan')
    """
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    is_number = name.lower() in ("nan", "inf", "infinity")
    if is_number or not name[:1].isalpha():
        return "table_" + name
    return name


def whole_text(contents: Contents) -> bytes:
    """Return the bytes of a text file; refuse one that is too large."""
    contents.refuse_if(
        len(contents.data) > MAX_TEXT,
        f"has more than {MAX_TEXT >> 20} MiB of text",
        "convert it to .npy with another tool",
    )
    return bytes(contents.data)
