"""The .csv format: one table, one row per line, with commas between the numbers."""

import io
import re

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.table import Table
from pecli.errors import FileError, counted
from pecli.files.contents import Contents, LoadedFile, PrintedText
from pecli.files.decimals import REAL, decimal_rows, identifier, text_blocks, whole_text
from pecli.files.npy import ARRAY_NAME
from pecli.files.number_text import SAMPLE, NumberList
from pecli.files.output import open_output
from pecli.files.writing import WriteRequest, check_storable

_ROW_NUMBER_NAMES = {"index", "idx", "row", "pos", "position", "token", "unnamed: 0"}
"""Names of a first column that may number the rows, in lower case."""
_SEMICOLON_BETWEEN = re.compile(rb";[ \t]*[^\s;]")
"""A semicolon that does not end a line."""
UTF8_MARK = b"\xef\xbb\xbf"
_WORD = re.compile(
    rb'\s*(?:"[^"]*"|#.*|(?!(?:nan|inf|infinity)\s*$)[a-z_\x80-\xff].*)?',
    re.IGNORECASE | re.DOTALL,
)
"""A cell of a header: nothing, a quoted text, a comment, or a word that is not a number."""


def write(request: WriteRequest) -> None:
    """Write the only table: the names of its columns, then its rows.

    The spec, the parameters that made it, has no place in a .csv file.
    """
    (table,) = request.tables
    check_storable(request.tables, ".csv", REAL, empty=False)
    with open_output(request.path, request.tables) as output:
        if request.header:  # Without it, pandas would take the first row for the header.
            output.write(",".join(_column_names(table)).encode("ascii") + b"\n")
        for block, rows in text_blocks(table, decimal_rows):
            output.write(b"\n".join([*rows, b""]))
            request.on_block(block.nbytes)


def _column_names(table: Table) -> list[str]:
    """Return the names of the columns: pe_0, pe_1, …; the name alone for a vector."""
    name = identifier(table.name)
    if len(table.shape) < 2:
        return [name]
    return [f"{name}_{column}" for column in range(table.width)]


def read(contents: Contents) -> LoadedFile:
    """Return the table of a text file, one row per line.

    Numbers are separated by commas, semicolons or tabs. They become int64 if none has a fraction
    or an exponent, else float64. A first line of names, and a first column that numbers the rows,
    are left out.
    """
    text = _plain_lines(contents)
    notes: list[str] = []
    if _SEMICOLON_BETWEEN.search(text):  # as spreadsheets write them in much of Europe: 0,5;1,0
        notes.append("semicolons separate the columns, and a comma is a decimal point")
        text = text.replace(b",", b".").replace(b";", b",")
    elif b"," not in text:
        text = text.replace(b"\t", b",")
    first_line, _, lines_below = text.partition(b"\n")
    names: list[str] = []
    if is_header(first_line):
        names = _names_in(first_line)
        text = lines_below
    elif _numbers_columns(first_line, lines_below):
        notes.append("its first line numbers the columns, and is left out")
        names = _names_in(first_line)
        text = lines_below
    contents.require(text, "holds no numbers")
    lines = _without_commas_at_end(text.split(b"\n"))
    table = _parsed_table(contents, lines)
    if _lacks_name_of_row_numbers(names, table):
        names = ["", *names]
    allowed_widths = (len(names), _cell_count(first_line))  # The last name may be empty.
    if names and table.shape[1] not in allowed_widths:
        raise _other_count_of_names(contents, names, table)
    if _begins_with_row_numbers(names, table):
        column = names[0] or "which has no name"
        notes.append(f"its first column, {column}, numbers the rows, and is left out")
        table = table[:, 1:]
    printed = PrintedText(_rounded_decimals(lines))
    return LoadedFile(
        contents.path, "csv", {ARRAY_NAME: table}, printed=printed, notes=tuple(notes)
    )


def _plain_lines(contents: Contents) -> bytes:
    """Return the text of a file without a byte order mark, with a line feed after each line."""
    text = whole_text(contents).removeprefix(UTF8_MARK).strip(b" \r\n")
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _names_in(header: bytes) -> list[str]:
    """Return the names of columns in a header, in small letters; empty if it names none.

    Commas at its end do not count. A comment names no columns, and a title is a single name.

    >>> _names_in(b'"Cos",sin,'), _names_in(b"# cos, sin"), _names_in(b"Table of cosines")
    (['cos', 'sin'], [], [])
    """
    cells = header.rstrip(b", \t").split(b",")
    if header.startswith(b"#") or len(cells) == 1:
        return []
    return [cell.strip(b' "').lower().decode(errors="replace") for cell in cells]


def _lacks_name_of_row_numbers(names: list[str], table: AnyArray) -> bool:
    """Return True if the first column counts the rows, and the header names only the others.

    R's write.table writes this, and so does pandas with `index_label=False`: `cos,sin` stands above
    `1,0.5,0.25` and `2,0.75,0.5`.
    """
    has_names_of_others = len(names) + 1 == table.shape[1] and names[:1] != [""]
    return has_names_of_others and _counts_rows(table)


def _begins_with_row_numbers(names: list[str], table: AnyArray) -> bool:
    """Return True if the first column numbers the rows.

    pandas leaves the cell above them empty. Otherwise the column has a name that people give to such
    numbers, such as index, and counts up by one.
    """
    if names[:1] == [""]:
        return True
    return not _ROW_NUMBER_NAMES.isdisjoint(names[:1]) and _counts_rows(table)


def _other_count_of_names(contents: Contents, names: list[str], table: AnyArray) -> FileError:
    """Return the error for more or fewer names than the rows below have numbers."""
    row = counted(table.shape[1], "number")
    problem = f"its first line has {len(names)} names, and the rows below it have {row}"
    return contents.error(problem, "write one name per column, or # before a comment")


def _numbers_columns(first_line: bytes, lines_below: bytes) -> bool:
    """Return True if the first line is 0,1,2,… above numbers with decimals, as pandas writes it.

    It could be a row of a table of whole numbers. The two columns 0,1 could be a sine and a cosine.
    """
    cells = first_line.replace(b" ", b"").split(b",")
    are_numbered = cells == [b"%d" % column for column in range(len(cells))]
    second_line = lines_below.partition(b"\n")[0]
    return len(cells) > 2 and are_numbered and b"." in second_line


def _counts_rows(table: AnyArray) -> bool:
    """Return True if the first of several columns is n, n + 1, n + 2, … in two rows or more."""
    numbers = table[:, 0]
    return min(table.shape) > 1 and bool((np.diff(numbers) == 1).all())


def _rounded_decimals(lines: list[bytes]) -> int:
    """Return the decimals to which the numbers of lines were rounded; 0 if they have all digits."""
    sampled_lines = lines[: 1 + SAMPLE // _cell_count(lines[0])]
    numbers = NumberList()
    numbers.count_decimals(b",".join(sampled_lines).split(b","))
    return numbers.rounded_decimals


def _parsed_table(contents: Contents, lines: list[bytes]) -> AnyArray:
    """Return the numbers of lines with commas between them, (rows, columns).

    Raises:
        FileError: lines have different numbers of cells, or a cell is no number.
    """
    width = _cell_count(lines[0])
    for number, line in enumerate(lines, start=1):
        count = _cell_count(line)
        if count != width:
            cells = counted(count, "number")
            raise contents.error(f"line {number} has {cells}, and the first has {width}")
    text = b"\n".join(lines)
    has_reals = re.search(rb"[.eEnN]", text) is not None
    dtype = np.float64 if has_reals else np.int64
    try:
        return np.loadtxt(
            io.BytesIO(text), dtype, comments=None, delimiter=",", ndmin=2, encoding="ascii"
        )
    except ValueError:
        problem = "is not a table of numbers with commas between them"
        raise contents.error(problem, "write a row per line: 1.0,0.5") from None


def _without_commas_at_end(lines: list[bytes]) -> list[bytes]:
    """Return the lines without a comma at their ends, if all of them have one.

    A loop over printf("%g,", x) prints a comma after the last number as well.
    """
    stripped = [line.rstrip() for line in lines]
    if all(line.endswith(b",") for line in stripped):
        return [line[:-1] for line in stripped]
    return lines


def _cell_count(line: bytes) -> int:
    """Return the number of cells of a line; an empty line has none."""
    return line.count(b",") + 1 if line else 0


def is_header(line: bytes) -> bool:
    """Return True if a line names columns.

    Its first cell is a word or empty, the others are words or whole numbers. Any other line is a
    row of numbers.

    >>> is_header(b"cos_0,cos_1"), is_header(b",0,1"), is_header(b"0.5,1.5"), is_header(b"a,1.5")
    (True, True, False, False)
    """
    first, *others = line.split(b",")
    if not _WORD.fullmatch(first):
        return False
    return all(cell.strip().isdigit() or _WORD.fullmatch(cell) for cell in others)
