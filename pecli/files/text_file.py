"""Text of any kind that holds numbers: what ports print.

Read are print(tensor) of torch, NumPy, MLX and JAX; C, Rust and JavaScript initialisers; rows with
blanks or commas; one number per line; and log lines with a label before the numbers. Numbers in
brackets have the shape of their brackets; numbers on lines are rows, collected by label. Logs of
llama.cpp's eval-callback have a reader of their own.
"""

import math
import re

from pecli.engine.arrays import AnyArray, round_in_blocks
from pecli.errors import FileError, counted, quoted
from pecli.files import eval_callback
from pecli.files.contents import Contents, LoadedFile, PrintedText
from pecli.files.npy import ARRAY_NAME
from pecli.files.number_text import (
    NestedNumbers,
    NumberList,
    Piece,
    error_at,
    number_of,
    pieces,
)
from pecli.files.text_labels import NO_LABEL, Label, first_word, split_indexed_row, split_label
from pecli.files.text_rows import TextRows

MAX_TENSORS = 10_000

_DOTS = re.compile(rb"\.\.\.|\xe2\x80\xa6|\bmore items\b")
_SENTENCE_END = re.compile(rb"[A-Za-z\])]$")
_LETTER = re.compile(rb"[A-Za-z]")
_DIGIT = re.compile(rb"[0-9]")
_WORD_OR_NUMBER = re.compile(rb"[^\s,;\[\]{}()]+")
"""All that stands between blanks, commas and brackets."""
_PLAIN_ROW = re.compile(rb"[-+0-9.eE,; \t\r\n]+")
"""A line of numbers only, which needs no search for labels: most lines are."""
_BRACKET = re.compile(rb"[\[\]{}()]")
_NESTED_TUPLES = re.compile(rb"\(\s*\([\s(]*[-+.\d]")
"""The beginning of Python's tuples of tuples, `((0.5, 0.25), …`. A tuple alone, `(0.5, 0.25)`, is a
row, and `((tensor([…` are several tensors."""
_PARENTHESISED_NUMBER = re.compile(rb"\([^,()\[\]{}]*\)")
"""`(0.5)`, which has no comma and is no tuple, or a type of C, `(float)`."""
_COMMENT = re.compile(rb"/\*.*?\*/|//.*|#.*")
_PROMPT = re.compile(rb"\s*(?:>>>|In \[\d+\]:)\s")
"""What Python and IPython print before the line that a user types."""
_PRINTED = re.compile(rb"(?:print\()?\s*([A-Za-z_][\w.]*)\s*(?:\[[^\]=]*\])?\s*\)?\s*")
"""A line that prints a tensor: `print(cos[:8])`, `cos[:8]`, `cos`."""
_WRAPPER = re.compile(
    rb"\b(?:(?:np|jnp|mx|torch|numpy)\.)?"
    rb"(?:tensor|array|Array|Float(?:32|64|16)Array|vec!|vector)(?:\(\d+\)\s*(?=\[))?"
    rb"|\b(?:np|jnp|numpy)\.(?:b?float|u?int)\d{1,3}(?=\()"
    rb"|\bParameter containing:|\b(?:torch\.)?Size\(\[[\d, ]*\]\)|\.(?=\{)"
)
"""The words around a printed array: console.log of JavaScript prints a length as well, torch a size,
NumPy the type of every number in a list, and Zig has a dot before a brace."""
_ATTRIBUTE = re.compile(
    rb",?\s*\b(?:dtype|device|grad_fn|requires_grad|size|shape|layout|weak_type|names)"
    rb"\s*=\s*(?:<[^>\n]*>|\([^)\n]*\)|'[^'\n]*'|[\w.:]+)"
)
"""What torch, NumPy and JAX print after the numbers: `, dtype=torch.bfloat16, device='cuda:0'`."""
_SMALL_DTYPE = re.compile(rb"\bdtype\s*=\s*'?(?:\w+\.)*(float16|bfloat16)\b")
"""The dtype after a printed array, if its elements have fewer digits than are printed."""
_FULL_PRINT = {
    b"ggml_debug": "llama.cpp has no setting for it; write the tensor to a file of raw numbers",
    b"more items": "console.log(JSON.stringify(Array.from(x)))",
    b"tensor": "torch.set_printoptions(profile='full', precision=8)",
    b"array": "numpy.set_printoptions(threshold=sys.maxsize), or print(x.tolist())",
}
"""Settings by a word that cut prints have."""


def read(contents: Contents) -> LoadedFile:
    """Return the tensors of a text by their labels; the only one without a label is "array".

    Raises:
        FileError: the print was cut, a word is not a number, or rows have different lengths.
    """
    if eval_callback.is_dump(contents):
        return eval_callback.read(contents)
    reader = _TextReader(contents)
    for piece in pieces(contents):
        reader.add(piece)
    return reader.finish()


class _TextReader:
    """The tensors of a text, as far as it has been read.

    A label names the numbers on its own line, `cos[3] = 0.5 0.25`; a title those on the lines below
    it, `q head 2:`. Numbers on lines are rows of a tensor, and numbers in brackets are lists.
    """

    def __init__(self, contents: Contents) -> None:
        """Start at the beginning of a text, with no label and no open bracket."""
        self.contents = contents
        self.title = NO_LABEL  # the label on a line of its own, for the numbers below it
        self.title_rows = 0  # rows since the title
        self.label = NO_LABEL  # of the line or list that is being read
        self.is_line_start = True
        self.rows: dict[str, TextRows] = {}
        self.lists: dict[str, list[AnyArray]] = {}
        self.nested: NestedNumbers | None = None  # the list that is open
        self.open_parentheses: list[bool] = []  # in it; whether each began a tuple
        self.decimals: list[int] = []  # of every tensor
        self.last_list = ""  # the name of the list that was completed last
        self.small_dtypes: dict[str, list[str]] = {}  # by name, those that were printed after lists
        self.sentences = 0  # lines without numbers that name nothing

    def add(self, piece: Piece) -> None:
        """Read the next piece of a text: a column, a line, or a part of a long line.

        A column is many lines of one number each. A line has a label («cos:»), numbers, or both. A
        line of a log, «loading ...», is left out.

        Raises:
            FileError: Dots stand among numbers, [0.5, ..., 0.7]: the print was cut short.
        """
        if piece.is_column and not self._is_in_list:
            self._add_column(piece)
            return
        dots = _DOTS.search(piece.text)
        if dots is None:
            self._add_line(piece)
            self._end_piece(piece)
        elif self._is_in_sentence(piece, dots):
            self._leave_out_sentence()
        else:
            raise self._cut_print(piece, dots)

    @property
    def _is_in_list(self) -> bool:
        """True between the opening and the closing bracket of a list, which may be lines apart."""
        return self.nested is not None

    def _add_line(self, piece: Piece) -> None:
        """Read the label and the numbers of a line, or of the next part of a long line."""
        label = self._label_of_row(piece) if self._may_have_label else None
        if label is None:
            self._add_mixed(piece)
            return
        self.label = label
        self._add_numbers(piece.text[label.end :], piece.offset + label.end)

    @property
    def _may_have_label(self) -> bool:
        """True at the beginning of a line that does not continue an open list."""
        return self.is_line_start and self.nested is None

    def _end_piece(self, piece: Piece) -> None:
        """Record whether the next piece begins a line; if it does, the numbers so far are a row.

        Inside a list they are not: «[1, 2,» and «3, 4]» on the next line are one list.
        """
        self.is_line_start = piece.ends_line
        ends_row = piece.ends_line and not self._is_in_list
        if ends_row:
            self._end_row(piece.offset, is_list=False)

    def _leave_out_sentence(self) -> None:
        """Count a line of a log, which names no numbers; a title above it names none below it."""
        self.title = NO_LABEL
        self.sentences += 1

    def _add_column(self, piece: Piece) -> None:
        """Read a column: many lines of one number each, as `printf` in a loop writes them.

        They are read at once, which is fast, unless they continue a line or rows of several
        numbers, or are numbered below a title such as «head 2:».
        """
        rows = self.rows.get(self.title.name, TextRows())
        continues_line = not self.is_line_start
        continues_wider_rows = rows.width > 1
        are_numbered = bool(self.title.indices)
        if continues_line or continues_wider_rows or are_numbered:
            for line in piece.lines():
                self.add(line)
            return
        self.label = NO_LABEL  # These lines have no label of their own.
        self.rows[self.title.name] = rows
        rows.add_column(self.contents, piece.text, piece.offset)
        self._check_count(piece.offset)

    def _label_of_row(self, piece: Piece) -> Label | None:
        """Return the label of a line of numbers, NO_LABEL if it has none; None for any other line."""
        if _PLAIN_ROW.fullmatch(piece.text):
            return NO_LABEL
        return split_indexed_row(piece.text)

    def _add_mixed(self, piece: Piece) -> None:
        """Read a piece that has words or brackets among its numbers."""
        text = piece.text
        for pattern in (_COMMENT, _ATTRIBUTE, _WRAPPER):
            # Blanks of the same length keep the columns that errors name.
            text = pattern.sub(lambda match: b" " * len(match[0]), text)
        start = 0
        if self._may_have_label:
            text = _without_prompt(text)
            start = self._read_label(text, piece.offset)
        self._read_numbers(text[start:], piece.offset + start)
        dtype = _SMALL_DTYPE.search(piece.text)
        if dtype is not None and self.nested is None:
            self.small_dtypes.setdefault(self.last_list, []).append(dtype[1].decode())

    def _cut_print(self, piece: Piece, dots: re.Match[bytes]) -> FileError:
        """Return the error for dots among numbers, with the setting that prints all of them."""
        text_before = bytes(self.contents.data[: piece.offset]) + piece.text
        settings = [setting for word, setting in _FULL_PRINT.items() if word in text_before]
        setting = next(iter(settings), _FULL_PRINT[b"array"])
        problem = f"the numbers are cut short by «{dots[0].decode()}»"
        offset = piece.offset + dots.start()
        return error_at(self.contents, offset, problem, f"print all of it: {setting}")

    def _is_in_sentence(self, piece: Piece, dots: re.Match[bytes]) -> bool:
        """Return True for dots of a log: «Loading model...», «reading the file ... done»."""
        is_whole_line = self._may_have_label and piece.ends_line
        follows_word = _SENTENCE_END.search(piece.text[: dots.start()]) is not None
        has_words_only = bool(_LETTER.search(piece.text)) and not _DIGIT.search(piece.text)
        return is_whole_line and (follows_word or has_words_only)

    def _read_label(self, text: bytes, offset: int) -> int:
        """Take the label of a line, and return where the numbers begin."""
        self.label = split_label(text)
        end = self.label.end
        is_title = end > 0 and not text[end:].translate(None, b" \t\r\n(),;")
        self._refuse_numbers_before(text[:end], offset, is_title=is_title)
        if is_title:  # It names the lines below it.
            self._set_title()
        return end

    def _set_title(self) -> None:
        """Name the lines below by a label without numbers; `head 1:` continues what `q:` began."""
        title = self.label
        if not title.name and title.indices:
            title = title._replace(name=self.title.name)
        elif not title.name:
            self.sentences += 1
        self.title = title
        self.title_rows = 0

    def _refuse_numbers_before(self, beginning: bytes, offset: int, *, is_title: bool) -> None:
        """Raise FileError if numbers stand before the first word of a line, as in `0.5 0.25 oops`.

        The line is then a row with a wrong word in it, which the error names: «oops is not a
        number». Only a whole number may stand before a label and its numbers, since it may count
        lines: `3 cos = 0.5`.

        Args:
            beginning: The line up to the end of its label, which is its last word.
            offset: The place of the line in the file.
            is_title: True if no numbers follow the label.
        """
        word_start = first_word(beginning)
        word = _WORD_OR_NUMBER.match(beginning, word_start)
        if word is None:
            return
        texts_before = _WORD_OR_NUMBER.findall(beginning[:word_start])
        numbers_before = [text for text in texts_before if number_of(text) is not None]
        if not is_title:
            numbers_before = [number for number in numbers_before if b"." in number]
        if numbers_before:
            problem = f"{quoted(word[0].decode('utf-8', 'replace'))} is not a number"
            raise error_at(self.contents, offset + word_start, problem)

    def _read_numbers(self, text: bytes, offset: int) -> None:
        """Read numbers and the brackets between them: `[[1.0, 2.0], [3.0, 4.0]]`, or C's braces."""
        end_of_read = 0  # numbers stand from here to the next bracket
        for bracket in _BRACKET.finditer(text):
            sign = bracket[0]
            if sign in b"()" and not self._is_of_tuple(sign, text, bracket.start()):
                continue
            place = offset + bracket.start()
            self._add_numbers(text[end_of_read : bracket.start()], offset + end_of_read)
            end_of_read = bracket.end()
            if sign in b"[{(":
                self._open_list(place)
            else:
                self._close_list(place, is_brace=sign == b"}")
        self._add_numbers(text[end_of_read:], offset + end_of_read)

    def _is_of_tuple(self, sign: bytes, text: bytes, start: int) -> bool:
        """Return True for a parenthesis of a Python tuple that is read as a list is.

        Such are tuples of tuples, `((1.0, 2.0), (3.0, 4.0))`, and tuples in a list. Others stand
        around a row, a printed array or a single number, as in `(1.0, 2.0)` and `tensor([1.0])`.

        Args:
            sign: The parenthesis, opening or closing.
            text: The text that it stands in.
            start: Its place in the text.
        """
        if sign == b")":
            return bool(self.open_parentheses) and self.open_parentheses.pop()
        if self.nested is None:
            begins_tuple = _NESTED_TUPLES.match(text, start) is not None
        else:
            begins_tuple = _PARENTHESISED_NUMBER.match(text, start) is None
        if begins_tuple or self.nested is not None:
            self.open_parentheses.append(begins_tuple)
        return begins_tuple

    @property
    def _name(self) -> str:
        return self.label.name or self.title.name

    def _add_numbers(self, text: bytes, offset: int) -> None:
        """Add numbers to the open list, or else to the row that is being read."""
        if self.nested is not None:
            self.nested.add(self.contents, text, offset)
            return
        rows = self.rows.get(self._name) or TextRows()
        has_numbers = rows.numbers.scan(self.contents, text, offset) > 0
        if has_numbers:
            self.rows[self._name] = rows
            self._check_count(offset)

    def _check_count(self, offset: int) -> None:
        if len(self.rows) + len(self.lists) > MAX_TENSORS:
            raise error_at(self.contents, offset, f"more than {MAX_TENSORS:,} tensors begin")

    def _open_list(self, offset: int) -> None:
        """Open a list; the outermost one ends the row before it."""
        if self.nested is None:
            self._end_row(offset, is_list=False)
            self.nested = NestedNumbers()
        self.nested.open_list(self.contents, offset)

    def _close_list(self, offset: int, *, is_brace: bool) -> None:
        """Read a closing bracket or brace; the outermost one completes a list.

        Args:
            offset: The place of the bracket in the file.
            is_brace: True for a brace, as arrays of C have.
        """
        if self.nested is None:
            raise error_at(self.contents, offset, "a bracket closes that was not opened")
        self.nested.close_list(self.contents, offset)
        is_outermost = self.nested.depth == 0
        if is_outermost:
            values = self.nested.array(self.contents, offset)
            numbers = self.nested.numbers
            self.nested = None
            self.open_parentheses.clear()
            self._add_completed(values, numbers, offset, is_c_array=is_brace)

    def _add_completed(
        self, values: AnyArray, numbers: NumberList, offset: int, *, is_c_array: bool
    ) -> None:
        """Add a list that has ended, as a tensor or as rows of one.

        Args:
            values: Its numbers, in the shape of its brackets: (2, 3) for [[1, 2, 3], [4, 5, 6]].
            numbers: The same numbers, with the decimals that they were printed with.
            offset: The place in the file at which it ends.
            is_c_array: True for the braces of C, whose label declares a shape: `float q[2][64] =`.
        """
        self.last_list = self._name
        declared_shape = self.label.indices
        has_declared_shape = is_c_array and math.prod(declared_shape) == values.size
        is_row = values.ndim == 1 and not has_declared_shape
        if is_row:
            self._add_row(values, numbers, offset)
            return
        self.decimals.append(numbers.decimals)
        if has_declared_shape:
            # The inner braces may be missing: `float q[2][64] = {0.1f, …}` with 128 numbers.
            self._add_list(self._name, values.reshape(declared_shape), offset)
        elif values.ndim == 2 and self._is_of_head:
            self._add_rows_of_head(values, offset)
        elif is_c_array:
            # The braces have another shape than the label declares, and are taken as they are.
            self._add_list(self._name, values, offset)
        else:
            self.last_list = self._name_with_indices
            self._add_list(self._name_with_indices, values, offset)

    def _add_row(self, values: AnyArray, numbers: NumberList, offset: int) -> None:
        """Add a flat list, [0.5, 0.25], as a row of a table: programs print one per line."""
        rows = self.rows.setdefault(self._name, TextRows())
        # Decimals are counted over all rows: one of 0.0 and 1.0 would seem to be rounded to one.
        rows.numbers.count_decimals_of(numbers)
        rows.numbers.extend(values)
        self._end_row(offset, is_list=True)

    @property
    def _name_with_indices(self) -> str:
        """The name of a tensor below the label `q[3] =`: `q.3`."""
        return ".".join([self._name, *map(str, self.label.indices)])

    @property
    def _is_of_head(self) -> bool:
        """True below or after a label that states what it counts, such as `q head 2:`."""
        return self.title.has_counting_word or self.label.has_counting_word

    def _add_rows_of_head(self, values: AnyArray, offset: int) -> None:
        """Add a list of rows that stands below or after a label such as `q head 2:`.

        Its rows are (2, 0), (2, 1), and so on, as lines below that label are, so that the lists of
        all heads become one tensor (heads, rows, numbers per row).
        """
        rows = self.rows.setdefault(self._name, TextRows())
        head = (*self.title.indices, *self.label.indices)
        for number, row in enumerate(values):
            rows.numbers.extend(row)
            rows.end_row(self.contents, indices=(*head, number), offset=offset, is_list=False)
        self.title_rows += len(values)
        self._check_count(offset)

    def _add_list(self, name: str, values: AnyArray, offset: int) -> None:
        self.lists.setdefault(name, []).append(values)
        self._check_count(offset)

    def _end_row(self, offset: int, *, is_list: bool) -> None:
        """End the row that is being read, and count it below its title if it has numbers."""
        rows = self.rows.get(self._name)
        if rows is not None:
            rows_before = rows.count
            rows.end_row(self.contents, self._row_indices(), offset, is_list=is_list)
            self.title_rows += rows.count - rows_before

    def _row_indices(self) -> tuple[int, ...]:
        """Return the indices of a row, from its title and then from its label.

        Below `q head 2:`, rows without labels are counted: (2, 0), (2, 1), and so on.
        """
        if not self.title.indices:
            return self.label.indices
        return (*self.title.indices, *(self.label.indices or (self.title_rows,)))

    def finish(self) -> LoadedFile:
        """Return the tensors, and notes on how they were read.

        Raises:
            FileError: a list does not end, or there are no numbers.
        """
        contents = self.contents
        if self.nested is not None:
            advice = "the file seems to be cut short"
            raise error_at(contents, len(contents.data), "a list does not end", advice)
        contents.require(self.rows or self.lists, "holds no numbers")
        tensors = self._tensors_by_label()
        decimals_of_rows = [rows.numbers.decimals for rows in self.rows.values()]
        # The tensor with the fewest decimals decides how closely all are compared.
        decimals = min(filter(None, [*self.decimals, *decimals_of_rows]), default=0)
        return LoadedFile(
            path=contents.path,
            format="text",
            tensors=tensors,
            printed=PrintedText(
                decimals=decimals,
                are_rows=not self.lists,
                states_dtype=any(map(self._small_dtype, self.small_dtypes)),
            ),
            notes=tuple(self._notes()),
        )

    def _tensors_by_label(self) -> dict[str, AnyArray]:
        """Return all tensors of the text by their labels.

        A tensor in nested brackets, [[1, 2], [3, 4]], was printed whole; if a loop printed several
        under one label, each is a tensor with a number. Other tensors were printed row by row, and
        all rows under one label are one tensor.

        Raises:
            FileError: One label has both.
        """
        tensors: dict[str, AnyArray] = {}
        for name, printed_tensors in self.lists.items():
            dtype = self._small_dtype(name)
            if dtype is not None:
                printed_tensors = [round_in_blocks(values, dtype) for values in printed_tensors]
            tensors |= _with_numbers(name or ARRAY_NAME, printed_tensors)
        for name, rows in self.rows.items():
            label = name or ARRAY_NAME
            problem = f"prints {quoted(label)} as rows and as lists"
            self.contents.refuse_if(label in tensors, problem)
            tensors[label] = rows.array(self.contents)
        return tensors

    def _small_dtype(self, name: str) -> str | None:
        """Return the dtype that was printed after every list of a name; None if there is none."""
        dtypes = self.small_dtypes.get(name, [])
        is_stated_by_all = len(dtypes) == len(self.lists.get(name, []))
        return dtypes[0] if dtypes and is_stated_by_all and len({*dtypes}) == 1 else None

    def _notes(self) -> list[str]:
        """Return notes on repeated lists, on labels of rows, and on lines that were left out."""
        notes: list[str] = []
        for name, prints in self.lists.items():
            notes += _notes_on_prints(name or ARRAY_NAME, prints)
        for name, rows in self.rows.items():
            notes += rows.notes_on_labels(name or ARRAY_NAME)
        if self.sentences:
            notes.append(f"{counted(self.sentences, 'line')} without numbers left out")
        return notes


def _without_prompt(line: bytes) -> bytes:
    """Return a line that was typed at a prompt of Python as the name of the tensor that it prints.

    Everything else becomes blanks, so that columns stay as they are: `In [3]: print(cos[:8])` becomes
    `cos` at the same place. A line that prints nothing, such as an assignment, is left blank.
    """
    prompt = _PROMPT.match(line)
    if prompt is None:
        return line
    blank = b" " * len(line)
    printed = _PRINTED.fullmatch(line, prompt.end())
    if printed is None:
        return blank
    start, end = printed.span(1)
    return blank[:start] + printed[1] + blank[end:]


def _with_numbers(label: str, tensors: list[AnyArray]) -> dict[str, AnyArray]:
    """Return the tensors that were printed under one label by names; several are numbered.

    A loop over layers prints `q` once per layer; `q.0` and `q.1` are then read as layers.
    """
    if len(tensors) == 1:
        return {label: tensors[0]}
    return {f"{label}.{number}": values for number, values in enumerate(tensors)}


def _notes_on_prints(label: str, prints: list[AnyArray]) -> list[str]:
    """Return a note on the names of several lists: «q is printed 2 times, and read as q.0 … q.1»."""
    count = len(prints)
    if count == 1:
        return []
    return [f"{label} is printed {count} times, and read as {label}.0 … {label}.{count - 1}"]
