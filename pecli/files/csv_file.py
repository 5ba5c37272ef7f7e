"""The .csv format: one table, one row per line, with commas between the numbers."""

import io
import re

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.table import Table
from pecli.errors import counted
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

    Numbers are separated by commas, semicolons or blanks. They become int64 if none has a fraction
    or an exponent, else float64. A first line of names, and a first column that numbers the rows,
    are left out.
    """
    text = _plain_lines(contents)
    notes: list[str] = []
    if _SEMICOLON_BETWEEN.search(text):  # as spreadsheets write them in much of Europe: 0,5;1,0
        notes.append(_note_on_semicolons(text))
        text = text.replace(b",", b".").replace(b";", b",")
    has_blanks_between = _has_blanks_between(contents.path, text)
    header = _header_line(text, has_blanks_between=has_blanks_between)
    if header is not None:
        _, _, text = text.partition(b"\n")  # the lines below the header
    contents.require(text, "holds no numbers")
    lines = _lines_with_commas(text, has_blanks_between=has_blanks_between)
    _refuse_unequal_lines(contents, lines)
    table = _parsed_table(contents, b"\n".join(lines))
    if header is not None:
        _refuse_other_count_of_names(contents, header, table)
        notes += _notes_on_header(header, table)
        if _begins_with_row_numbers(header, table):
            table = table[:, 1:]
    printed = PrintedText(_rounded_decimals(lines))
    return LoadedFile(
        contents.path, "csv", {ARRAY_NAME: table}, printed=printed, notes=tuple(notes)
    )


def _plain_lines(contents: Contents) -> bytes:
    """Return the text of a file without a byte order mark, with a line feed after each line."""
    text = whole_text(contents).removeprefix(UTF8_MARK).strip(b" \r\n")
    return text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _note_on_semicolons(text: bytes) -> str:
    """Return the note on a table whose columns are separated by semicolons: 0,5;1,0 or 0.5;1.0."""
    if b"," in text:
        return "semicolons separate the columns, and a comma is a decimal point"
    return "semicolons separate the columns"


def _notes_on_header(header: bytes, table: AnyArray) -> list[str]:
    """Return notes on a first line or column that is left out although it holds numbers.

    They might be meant as numbers of the table, and not to number its columns or rows.
    """
    notes = []
    if not is_header(header):
        notes.append("its first line numbers the columns, and is left out")
    has_name = not header.startswith(b",")
    if _has_unnamed_row_numbers(header, table):
        notes.append("its first column, which has no name, numbers the rows, and is left out")
    elif has_name and _begins_with_row_numbers(header, table):
        notes.append(f"its first column, {_first_name(header)}, numbers the rows, and is left out")
    return notes


def _begins_with_row_numbers(header: bytes, table: AnyArray) -> bool:
    """Return True if the first column numbers the rows.

    pandas leaves the cell above them empty, or leaves it out. Otherwise the column has a name that
    people give to such numbers, such as index, and counts up by one.
    """
    if header.startswith(b",") or _has_unnamed_row_numbers(header, table):
        return True
    return _first_name(header) in _ROW_NUMBER_NAMES and _counts_rows(table)


def _has_unnamed_row_numbers(header: bytes, table: AnyArray) -> bool:
    """Return True if the first column counts the rows, and the header names only the others.

    R's write.table writes this, and so does pandas with `index_label=False`: `cos,sin` stands above
    `1,0.5,0.25` and `2,0.75,0.5`.
    """
    named_columns = _named_columns(header)
    if named_columns is None or header.startswith(b","):
        return False
    return named_columns + 1 == table.shape[1] and _counts_rows(table)


def _named_columns(header: bytes) -> int | None:
    """Return how many columns a header names; None for a comment or a title, which names none.

    Commas at its end do not count. A title is a single name.

    >>> _named_columns(b"cos,sin,"), _named_columns(b"# cos, sin"), _named_columns(b"Table of cosines")
    (2, None, None)
    """
    is_comment = header.startswith(b"#")
    count = _cell_count(header.rstrip(b", \t"))
    return None if is_comment or count < 2 else count


def _refuse_other_count_of_names(contents: Contents, header: bytes, table: AnyArray) -> None:
    """Refuse a header that has more or fewer names than the rows below it have numbers.

    Only a first column that counts the rows needs no name. A comma at the end of the header may
    leave the name of the last column empty.
    """
    named_columns = _named_columns(header)
    width = table.shape[1]
    fits = named_columns is None or width in (named_columns, _cell_count(header))
    if fits or _has_unnamed_row_numbers(header, table):
        return
    row = counted(width, "number")
    problem = f"its first line has {named_columns} names, and the rows below it have {row}"
    raise contents.error(problem, "write one name per column, or # before a comment")


def _header_line(text: bytes, *, has_blanks_between: bool) -> bytes | None:
    """Return the first line, with commas between its cells, if it is no row of numbers; else None.

    It names the columns, or numbers them.
    """
    first_line, _, other_lines = text.partition(b"\n")
    header = first_line.replace(b"\t", b",") if has_blanks_between else first_line
    if is_header(header) or _numbers_columns(header, other_lines):
        return header
    return None


def _numbers_columns(first_line: bytes, other_lines: bytes) -> bool:
    """Return True if the first line is 0,1,2,… above numbers with decimals, as pandas writes it.

    It could be a row of a table of whole numbers. The two columns 0,1 could be a sine and a cosine.
    """
    cells = [cell.strip() for cell in first_line.split(b",")]
    are_numbered = cells == [b"%d" % column for column in range(len(cells))]
    second_line = other_lines.partition(b"\n")[0]
    return len(cells) > 2 and are_numbered and b"." in second_line


def _first_name(header: bytes) -> str:
    """Return the name of the first column, in small letters and without quotation marks."""
    return header.split(b",")[0].strip(b' "').lower().decode(errors="replace")


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


def _parsed_table(contents: Contents, text: bytes) -> AnyArray:
    """Return the numbers of lines with commas between them, (rows, columns)."""
    has_reals = re.search(rb"[.eEnN]", text) is not None
    dtype = np.float64 if has_reals else np.int64
    try:
        return np.loadtxt(
            io.BytesIO(text), dtype, comments=None, delimiter=",", ndmin=2, encoding="ascii"
        )
    except ValueError:
        problem = "is not a table of numbers with commas between them"
        raise contents.error(problem, "write a row per line: 1.0,0.5") from None


def _has_blanks_between(path: str, text: bytes) -> bool:
    """Return True if blanks separate numbers; in a .csv file, only tabs may do so."""
    may_have_blanks = b"\t" in text or not path.lower().endswith(".csv")
    return may_have_blanks and b"," not in text


def _lines_with_commas(text: bytes, *, has_blanks_between: bool) -> list[bytes]:
    """Return the lines, with one comma between two numbers and none after the last.

    A loop over printf("%g,", x) prints a comma after the last number as well.
    """
    lines = text.split(b"\n")
    if has_blanks_between:
        lines = [b",".join(line.split()) for line in lines]
    stripped = [line.rstrip() for line in lines]
    if all(line.endswith(b",") for line in stripped):
        return [line[:-1] for line in stripped]
    return lines


def _refuse_unequal_lines(contents: Contents, lines: list[bytes]) -> None:
    """Refuse a file whose lines have different numbers of cells."""
    expected = _cell_count(lines[0])
    for number, line in enumerate(lines, start=1):
        count = _cell_count(line)
        if count != expected:
            cells = "1 number" if count == 1 else f"{count} numbers"
            raise contents.error(f"line {number} has {cells}, and the first has {expected}")


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
