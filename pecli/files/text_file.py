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
from pecli.files.text_labels import (
    NO_LABEL,
    Label,
    first_word,
    heads_first,
    split_indexed_row,
    split_label,
)
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
_NESTED_TUPLES = re.compile(rb"\(\s*\([\s(]{0,99}+[-+.\d]")
"""The beginning of Python's tuples of tuples, `((0.5, 0.25), …`. A tuple alone, `(0.5, 0.25)`, is a
row, and `((tensor([…` are several tensors. Thousands of parentheses are not all searched from each."""
_PARENTHESISED_NUMBER = re.compile(rb"(?<![\w\]])\((\s*[-+]?(?:[.\d]|nan|inf)[^\s,()\[\]{}]*\s*)\)")
"""`(0.5)`, which has no comma and is no tuple, or a complex number of Python, `(0.5+1j)`. The index of
`cos(3)` follows a word."""
_COMMENT = re.compile(rb"/\*.*?\*/|//.*|#.*")
_PROMPT = re.compile(rb"\s*(?:>>>|In \[\d+\]:)\s")
"""What Python and IPython print before the line that a user types."""
_PRINTED = re.compile(rb"(?:print\()?\s*([A-Za-z_][\w.]*)\s*(?:\[[^\]=]*\])?\s*\)?\s*")
"""A line that prints a tensor: `print(cos[:8])`, `cos[:8]`, `cos`."""
_WRAPPER = re.compile(
    rb"\b(?:(?:np|jnp|mx|torch|numpy)\.)?"
    rb"(?:tensor|array|Array|Float(?:32|64|16)Array|vec!|vector)(?:\(\d+\)\s*(?=\[))?"
    rb"|\b(?:np|jnp|numpy)\.(?:b?float|u?int)\d{1,3}(?=\()"
    rb"|\bParameter containing:|\b(?:torch\.)?Size\(\[[\d, ]*\]\)|\.(?=\{)|\[_\](?=[\[\w])"
)
"""The words around a printed array: console.log of JavaScript prints a length as well, torch a size,
NumPy the type of every number in a list, and Zig has a dot before a brace and `[_]` before the type
of an array, as in `[_][2]f32`, for a length that the compiler counts."""
_ATTRIBUTE = re.compile(
    rb"(?:,\s*)?\b(?:dtype|device|grad_fn|requires_grad|size|shape|layout|weak_type|names)"
    rb"\s*=\s*(?:<[^>\n]*>|\([^)\n]*\)|'[^'\n]*'|[\w.:]+)"
)
"""What torch, NumPy and JAX print after the numbers: `, dtype=torch.bfloat16, device='cuda:0'`."""
_SMALL_DTYPE = re.compile(rb"\bdtype\s*=\s*'?(?:\w+\.)*(float16|bfloat16)\b")
"""The dtype after a printed array, if its elements have fewer digits than are printed."""
_FULL_PRINT = (
    "print all of it: torch.set_printoptions(profile='full', precision=8), "
    "numpy.set_printoptions(threshold=sys.maxsize), print(x.tolist()) "
    "or console.log(JSON.stringify(Array.from(x))); llama.cpp can write a tensor to a file"
)


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

        # The tensors so far, by name. In brackets are [[0.5, 0.25], [1.0, 0.75]]; a name comes
        # several times if a loop prints it. Others are rows, on a line each: `cos[3] = 0.5 0.25`.
        self.lists: dict[str, list[AnyArray]] = {}  # tensors in brackets
        self.small_dtypes: list[str] = []  # float16 or bfloat16, printed after some of those
        self.decimals_of_lists: list[int] = []  # the decimals of each of those
        self.rows: dict[str, TextRows] = {}  # tensors in rows

        # The labels of the next numbers. Below the title `q head 2:`, the line `[3] = 0.5 0.25` has
        # the label [3].
        self.title = NO_LABEL  # on a line of its own, for all lines below it
        self.rows_below_title = 0
        self.label = NO_LABEL  # before the numbers of the current line or list
        self.is_line_start = True

        # The brackets around the next numbers:
        self.unclosed_list: NestedNumbers | None = None  # the numbers since its opening bracket

        self.sentence_count = 0  # lines without numbers that name nothing, such as «loading ...»

    def add(self, piece: Piece) -> None:
        """Read the next piece of a text: a line, a part of a long line, or a column.

        A column is many lines of one number each. A line has a label («cos:»), numbers, or both. A
        line of a log, «loading ...», is left out.

        Raises:
            FileError: Dots stand among numbers, [0.5, ..., 0.7]: the print was cut short.
        """
        # Within brackets, a column is the middle of a list, and is read as any other line.
        is_column_of_rows = piece.is_column and not self._is_in_list
        if is_column_of_rows:
            self._add_column(piece)
            return
        dots = _DOTS.search(piece.text)
        if dots is None:
            self._add_line(piece)
            self._end_line_if_complete(piece)
            return
        if not self._are_dots_of_sentence(piece, dots):
            raise self._error_for_cut_print(piece, dots)
        # A sentence is a whole line, so that the next piece begins a line as this one did.
        self._leave_out_sentence()

    @property
    def _is_in_list(self) -> bool:
        """True between the opening and the closing bracket of a list, which may be lines apart."""
        return self.unclosed_list is not None

    def _add_line(self, piece: Piece) -> None:
        """Read the label and the numbers of a line, or of the next part of a long line."""
        label = self._label_of_row(piece) if self._may_have_label else None
        if label is None:
            self._add_numbers_among_words(piece)
            return
        self.label = label
        self._add_numbers(piece.text[label.end :], piece.offset + label.end)

    @property
    def _may_have_label(self) -> bool:
        """True at the beginning of a line that does not continue an open list."""
        return self.is_line_start and self.unclosed_list is None

    def _end_line_if_complete(self, piece: Piece) -> None:
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
        self.sentence_count += 1

    def _add_column(self, piece: Piece) -> None:
        """Read a column: many lines of one number each, as `printf` in a loop writes them.

        They are rows of one number, and usually read all at once, which is fast.
        """
        if self._must_read_line_by_line():
            for line in piece.lines():
                self.add(line)
            return
        self.label = NO_LABEL  # These lines have no label of their own.
        rows = self.rows.setdefault(self._tensor_name, TextRows())
        rows.add_column(self.contents, piece.text, piece.offset)
        self._check_count(piece.offset)

    def _must_read_line_by_line(self) -> bool:
        """Return True if a column cannot be read at once, as new rows of one number.

        Its first line may be the rest of a longer line. The rows above may have several numbers. Or
        its rows have indices: below `q head 2:` they are (2, 0), (2, 1), and so on.
        """
        continues_line = not self.is_line_start
        rows_above = self.rows.get(self.title.name or ARRAY_NAME, TextRows())
        continues_wider_rows = rows_above.width > 1
        need_indices = bool(self.title.indices)
        return continues_line or continues_wider_rows or need_indices

    def _label_of_row(self, piece: Piece) -> Label | None:
        """Return the label of a line of numbers, NO_LABEL if it has none; None for any other line."""
        if _PLAIN_ROW.fullmatch(piece.text):
            return NO_LABEL
        return split_indexed_row(piece.text)

    def _add_numbers_among_words(self, piece: Piece) -> None:
        """Read a line with words or brackets, such as `cos: tensor([0.5], dtype=torch.float16)`.

        Its label is `cos:`, and its list is [0.5].
        """
        text = _without_wrappers(piece.text)
        numbers_start = 0
        if self._may_have_label:
            text = _without_prompt(text)
            numbers_start = self._read_label(text, piece.offset)
        self._read_numbers(text[numbers_start:], piece.offset + numbers_start)
        if not self._is_in_list:
            self._note_small_dtype(piece.text)

    def _note_small_dtype(self, text: bytes) -> None:
        """Keep the dtype that is printed after a list, if it is float16 or bfloat16."""
        dtype = _SMALL_DTYPE.search(text)
        if dtype is not None:
            self.small_dtypes.append(dtype[1].decode())

    def _error_for_cut_print(self, piece: Piece, dots: re.Match[bytes]) -> FileError:
        """Return the error for dots among numbers, with the setting that prints all of them."""
        problem = f"the numbers are cut short by «{dots[0].decode()}»"
        return error_at(self.contents, piece.offset + dots.start(), problem, _FULL_PRINT)

    def _are_dots_of_sentence(self, piece: Piece, dots: re.Match[bytes]) -> bool:
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
        self._refuse_numbers_before_word(text[:end], offset, numbers_follow=not is_title)
        if is_title:  # It names the lines below it.
            self._set_title()
        return end

    def _set_title(self) -> None:
        """Name the lines below by a label without numbers; `head 1:` continues what `q:` began."""
        title = self.label
        if not title.name and title.indices:
            title = title._replace(name=self.title.name)
        elif not title.name:
            self.sentence_count += 1
        self.title = title
        self.rows_below_title = 0

    def _refuse_numbers_before_word(
        self, label_text: bytes, offset: int, *, numbers_follow: bool
    ) -> None:
        """Raise FileError if a line has numbers before its first word, as `0.5 0.25 oops` has.

        Such a line is a row with a wrong word in it, and the error is «oops is not a number».

        Args:
            label_text: The line up to the end of its label: `0.5 0.25 oops`, or `3 cos =`.
            offset: The place of the line in the file.
            numbers_follow: True if there are numbers after the label.
        """
        word_start = first_word(label_text)
        word = _WORD_OR_NUMBER.match(label_text, word_start)
        if word is None:
            return
        texts_before = _WORD_OR_NUMBER.findall(label_text[:word_start])
        numbers_before = [text for text in texts_before if number_of(text) is not None]
        if numbers_follow:
            # `3 cos = 0.5` is line 3 of a listing: its whole number is allowed.
            numbers_before = [number for number in numbers_before if b"." in number]
        if numbers_before:
            problem = f"{quoted(word[0].decode('utf-8', 'replace'))} is not a number"
            raise error_at(self.contents, offset + word_start, problem)

    def _read_numbers(self, text: bytes, offset: int) -> None:
        """Read numbers and the brackets between them: `[[1.0, 2.0], [3.0, 4.0]]`, or C's braces.

        Args:
            text: A line after its label, or a part of one.
            offset: The place of the text in the file.
        """
        numbers_start = 0  # the end of the bracket before, or the beginning of the text
        for bracket in _BRACKET.finditer(text):
            if not self._delimits_list(bracket):
                continue  # It is a blank between numbers, like the parentheses of `tensor([1.0])`.
            bracket_offset = offset + bracket.start()
            self._add_numbers(text[numbers_start : bracket.start()], offset + numbers_start)
            numbers_start = bracket.end()
            sign = bracket[0]
            if sign in b"[{(":
                self._open_list(bracket_offset)
            else:
                self._close_list(bracket_offset, is_brace=sign == b"}")
        self._add_numbers(text[numbers_start:], offset + numbers_start)

    def _delimits_list(self, bracket: re.Match[bytes]) -> bool:
        """Return True if a list begins or ends at a bracket, a brace or a parenthesis.

        Within a list, parentheses are those of tuples, as in `[(1.0, 2.0), (3.0, 4.0)]`. Outside,
        only a tuple of tuples is a list, `((1.0, 2.0), (3.0, 4.0))`: the parentheses of `(1.0, 2.0)`
        stand around a row, and those of `tensor([1.0])` around a list.
        """
        if self._is_in_list or bracket[0] not in (b"(", b")"):
            return True
        return _NESTED_TUPLES.match(bracket.string, bracket.start()) is not None

    @property
    def _tensor_name(self) -> str:
        """The name of the next numbers, which is `array` if nothing names them."""
        return self.label.name or self.title.name or ARRAY_NAME

    def _add_numbers(self, text: bytes, offset: int) -> None:
        """Add numbers to the open list, or else to the row that is being read."""
        if self.unclosed_list is not None:
            self.unclosed_list.add(self.contents, text, offset)
            return
        rows = self.rows.get(self._tensor_name) or TextRows()
        has_numbers = rows.numbers.scan(self.contents, text, offset) > 0
        if has_numbers:
            self.rows[self._tensor_name] = rows
            self._check_count(offset)

    def _check_count(self, offset: int) -> None:
        if len(self.rows) + len(self.lists) > MAX_TENSORS:
            raise error_at(self.contents, offset, f"more than {MAX_TENSORS:,} tensors begin")

    def _open_list(self, offset: int) -> None:
        """Open a list; the outermost one ends the row before it."""
        if self.unclosed_list is None:
            self._end_row(offset, is_list=False)
            self.unclosed_list = NestedNumbers()
        self.unclosed_list.open_list(self.contents, offset)

    def _close_list(self, offset: int, *, is_brace: bool) -> None:
        """Read a closing bracket or brace; the outermost one completes a list.

        Args:
            offset: The place of the bracket in the file.
            is_brace: True for a brace, as arrays of C have.
        """
        if self.unclosed_list is None:
            raise error_at(self.contents, offset, "a bracket closes that was not opened")
        self.unclosed_list.close_list(self.contents, offset)
        is_outermost = self.unclosed_list.depth == 0
        if is_outermost:
            values = self.unclosed_list.array(self.contents, offset)
            numbers = self.unclosed_list.numbers
            self.unclosed_list = None
            self._add_completed(values, numbers, offset, is_c_array=is_brace)

    def _add_completed(
        self, values: AnyArray, numbers: NumberList, offset: int, *, is_c_array: bool
    ) -> None:
        """Add a list that has ended: as a tensor, or as one or more rows of a tensor.

        Args:
            values: Its numbers, in the shape of its brackets: (2, 3) for [[1, 2, 3], [4, 5, 6]].
            numbers: The same numbers, with the decimals that they were printed with.
            offset: The place in the file at which it ends.
            is_c_array: True for the braces of C, whose label declares a shape: `float q[2][64] =`.
        """
        name = self._tensor_name
        declared_shape = self.label.numbers  # if this is an array of C
        has_declared_size = is_c_array and math.prod(declared_shape) == values.size
        if has_declared_size:
            # The inner braces may be missing: `float q[2][64] = {0.1f, …}` with 128 numbers.
            self._add_tensor(name, values.reshape(declared_shape), numbers, offset)
        elif values.ndim == 1:
            self._add_row(values, numbers, offset)
        elif values.ndim == 2 and self._is_of_head:  # below `q head 2:`
            self._add_rows_of_head(values, numbers, offset)
        else:
            if not is_c_array:  # In C, indices are a declared shape, here a wrong one.
                name = self._tensor_name_with_indices
            self._add_tensor(name, values, numbers, offset)

    def _add_row(self, values: AnyArray, numbers: NumberList, offset: int) -> None:
        """Add a flat list, [0.5, 0.25], as a row of a table: programs print one per line."""
        rows = self.rows.setdefault(self._tensor_name, TextRows())
        # Decimals are counted over all rows: one of 0.0 and 1.0 would seem to be rounded to one.
        rows.numbers.count_decimals_of(numbers)
        rows.numbers.extend(values)
        self._end_row(offset, is_list=True)

    @property
    def _tensor_name_with_indices(self) -> str:
        """The name of a tensor below the label `q[3] =`: `q.3`."""
        return ".".join([self._tensor_name, *map(str, self.label.numbers)])

    @property
    def _is_of_head(self) -> bool:
        """True below or after a label that states what it counts, such as `q head 2:`."""
        return self.title.has_counting_word or self.label.has_counting_word

    def _add_rows_of_head(self, values: AnyArray, numbers: NumberList, offset: int) -> None:
        """Add a list of rows that stands below or after a label such as `q head 2:`.

        Its rows are (2, 0), (2, 1), and so on, as lines below that label are, so that the lists of
        all heads become one tensor (heads, rows, numbers per row).
        """
        rows = self.rows.setdefault(self._tensor_name, TextRows())
        self.decimals_of_lists.append(numbers.decimals)
        head = self._indices_of_labels
        for number, row in enumerate(values):
            rows.numbers.extend(row)
            rows.end_row(self.contents, indices=(*head, number), offset=offset, is_list=False)
        self.rows_below_title += len(values)
        self._check_count(offset)

    def _add_tensor(self, name: str, values: AnyArray, numbers: NumberList, offset: int) -> None:
        """Add a tensor that was printed whole, in nested brackets."""
        self.decimals_of_lists.append(numbers.decimals)
        self.lists.setdefault(name, []).append(values)
        self._check_count(offset)

    def _end_row(self, offset: int, *, is_list: bool) -> None:
        """End the row that is being read, and count it below its title if it has numbers."""
        rows = self.rows.get(self._tensor_name)
        if rows is not None:
            rows_before = rows.count
            rows.end_row(self.contents, self._row_indices(), offset, is_list=is_list)
            self.rows_below_title += rows.count - rows_before

    def _row_indices(self) -> tuple[int, ...]:
        """Return the indices of a row, from its title and its label.

        Below `q head 2:`, rows without labels are counted: (2, 0), (2, 1), and so on.
        """
        is_counted = bool(self.title.indices) and not self.label.indices
        if is_counted:
            return (*self._indices_of_labels, self.rows_below_title)
        return self._indices_of_labels

    @property
    def _indices_of_labels(self) -> tuple[int, ...]:
        """The indices of the title and of the label: (2, 7) of `head 2:` below `q pos 7:`.

        The index of a head comes before all others, in whatever order they are printed.
        """
        return heads_first((*self.title.indices, *self.label.indices))

    def finish(self) -> LoadedFile:
        """Return the tensors of the whole text, and notes on how they were read.

        Raises:
            FileError: a list does not end, or there are no numbers.
        """
        contents = self.contents
        if self._is_in_list:
            advice = "the file seems to be cut short"
            raise error_at(contents, len(contents.data), "a list does not end", advice)
        contents.require(self.rows or self.lists, "holds no numbers")
        tensors, notes = self._tensors_and_notes()
        return LoadedFile(
            path=contents.path,
            format="text",
            tensors=tensors,
            printed=PrintedText(
                decimals=self._fewest_decimals(),
                are_rows=not self.lists,
                states_dtype=self._have_one_small_dtype(),
            ),
            notes=tuple(notes),
        )

    def _fewest_decimals(self) -> int:
        """Return the decimals of the tensor that was printed with the fewest; 0 if none was rounded.

        This tensor decides how closely all are compared.
        """
        decimals_of_rows = [rows.numbers.decimals for rows in self.rows.values()]
        rounded = filter(None, [*self.decimals_of_lists, *decimals_of_rows])
        return min(rounded, default=0)

    def _have_one_small_dtype(self) -> bool:
        """Return True if float16, or bfloat16, was printed after every tensor in brackets."""
        count = sum(map(len, self.lists.values()))
        return len(self.small_dtypes) == count and len({*self.small_dtypes}) == 1

    def _tensors_and_notes(self) -> tuple[dict[str, AnyArray], list[str]]:
        """Return all tensors of the text by their labels, and notes on how they were read.

        If `q` was printed several times, as by a loop over layers, they are `q.0`, `q.1`, and so on.

        Raises:
            FileError: One label has both a tensor in brackets and rows.
        """
        tensors: dict[str, AnyArray] = {}
        notes: list[str] = []
        for name, prints in self.lists.items():
            if self._have_one_small_dtype():
                # Print rounds: 0.3333 was 0.333251953125, which is the nearest float16.
                prints = [round_in_blocks(values, self.small_dtypes[0]) for values in prints]
            if len(prints) == 1:
                tensors[name] = prints[0]
                continue
            names = [f"{name}.{number}" for number in range(len(prints))]
            tensors |= zip(names, prints, strict=True)
            note = f"{name} is printed {len(prints)} times, and read as {names[0]} … {names[-1]}"
            notes.append(note)
        for name, rows in self.rows.items():
            problem = f"prints {quoted(name)} as rows and as lists"
            self.contents.refuse_if(name in tensors, problem)
            tensors[name] = rows.array(self.contents)
            notes += rows.notes_on_labels(name)
        if self.sentence_count:
            notes.append(f"{counted(self.sentence_count, 'line')} without numbers left out")
        return tensors, notes


def _without_wrappers(text: bytes) -> bytes:
    """Return a text with blanks in place of comments, dtypes and words around an array.

    `array([0.5], dtype=float32)  # cos` keeps `([0.5])`, and `np.float64(0.5)` only the number. Every
    number stays at its place, so that errors name the right column.
    """
    for pattern in (_COMMENT, _ATTRIBUTE, _WRAPPER):
        text = pattern.sub(lambda match: b" " * len(match[0]), text)
    return _PARENTHESISED_NUMBER.sub(rb" \1 ", text)


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
