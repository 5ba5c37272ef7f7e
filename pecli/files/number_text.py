"""Numbers in text, as people and programs print them.

One scanner reads all text: printed tensors, C initialisers, rows, log lines and lists in JSON. It
takes text in pieces of bounded size, so that memory is about that of the numbers.
"""

import math
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.errors import FileError, quoted
from pecli.files.contents import MAX_AXES, MAX_TEXT, Contents

PIECE = 1 << 16  # bytes of a line that are scanned at once
MAX_NUMERAL = 2048  # bytes of a number; the longest exact float64 has 1,100
MAX_REST = 2 * MAX_NUMERAL  # bytes of a line after PIECE in which the number there must end
MAX_EXACT_INTEGER = 2**53  # up to here, float64 holds every whole number
SAMPLE = 4096  # numerals of a tensor whose decimals are counted
MANY_DECIMALS = 6  # so many decimals are never all digits that a number happens to have
ALL_DIGITS = 8  # decimals of most float32 numbers near 1, if all of their digits are written
FEW_DECIMALS = 2  # Up to so many may be all digits that numbers have, such as 0.5 and 0.25.
STREAM_DIGITS = 6  # significant digits that C++ prints by default, and MLX
MIN_SHARE = 0.5  # share of the numerals that have the most decimals, if printing rounded them
MIN_NUMERALS = 64  # So many numerals with the same few decimals were rounded: printf's %.2f.

_LINE_OR_BEGINNING = re.compile(rb"[^\n]{0,%d}[^\s,;\[\]{}]{0,%d}\n?" % (PIECE, MAX_REST))
"""A line; or the first PIECE bytes of a longer one, and the rest of the word that they would cut."""
_LINES_OF_ONE_NUMBER = re.compile(
    rb"(?:[ \t]{0,99}+[-+]?[0-9]{1,99}+(?:\.[0-9]{0,99}+)?(?:[eE][-+]?[0-9]{1,9}+)?[,;]?"
    rb"[ \t]{0,99}+\r?\n){16,4096}+"
)
"""Lines of one number each. They are taken many at a time, which is ten times as fast."""
_SEPARATORS = bytes.maketrans(b',;|()"\t', b"       ")
_REAL = re.compile(rb"[.eEdDnNxX]")
_LITERAL_SUFFIX = re.compile(rb"(?<=[0-9.])(?:_?[fiu](?:8|16|32|64)|[fFlLuUhHdD]{1,3})$")
"""The type of a literal: 0.5f in C, 1.0_f32 in Rust, 0.5h in Metal."""
_NUMERAL = re.compile(rb"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_FORTRAN_REAL = re.compile(rb"([-+]?[0-9]*\.[0-9]*)[dD]([-+]?[0-9]+)")
"""A number of double precision in Fortran, whose exponent follows the letter D: 0.54D+00."""
_DECIMAL_COMMAS = re.compile(rb"\s*(?:[-+]?[0-9]{1,9},[0-9]+(?:[eE][-+]?[0-9]+)?(?:[\s;]+|$))+")
"""Numbers with blanks or semicolons between them, each of which has one comma in it: 1,25 0,05."""
_ZERO_AFTER_COMMA = re.compile(rb",0[0-9]")
"""The beginning of decimals such as those of 0,05: no whole number begins with a zero."""
_PART = rb"[-+]?(?:[0-9]++\.?[0-9]*+(?:[eE][-+]?[0-9]++)?|nan|inf)"
_COMPLEX = re.compile(rb"(?<![\w.])(%b)(\s*+)(?=[-+])(%b)j" % (_PART, _PART))
"""A complex number of Python, `0.54+0.84j`. NumPy pads its real part with blanks: `1.  +0.j`."""
_BRACKETS = {b"[]": re.compile(rb"[\[\]]"), b"{}": re.compile(rb"[{}]")}
_MANTISSA = re.compile(rb"[-+]?([0-9]+)\.?([0-9]*)(?:[eEdD]([-+]?[0-9]{1,4}))?")
_DECIMALS = re.compile(rb"\.([0-9]*)(?:[eEdD]([-+]?[0-9]{1,4}))?")
_WORDS = {
    b"nan": math.nan,
    b"+nan": math.nan,
    b"-nan": math.nan,
    b"null": math.nan,  # as JSON.stringify writes NaN and the infinities
    b"inf": math.inf,
    b"+inf": math.inf,
    b"-inf": -math.inf,
    b"infinity": math.inf,
    b"+infinity": math.inf,
    b"-infinity": -math.inf,
    b"true": 1.0,
    b"false": 0.0,
}


class Piece(NamedTuple):
    """A line, a part of a long one that ends between two numbers, or many lines of one number each."""

    text: bytes
    offset: int  #: of its first byte in the file
    ends_line: bool
    is_column: bool = False  #: whether there are many lines

    def lines(self) -> Iterator["Piece"]:
        """Yield the lines of a column one by one."""
        offset = self.offset
        for line in self.text.splitlines(keepends=True):
            yield Piece(line, offset, ends_line=True)
            offset += len(line)


def pieces(contents: Contents, start: int = 0, stop: int = MAX_TEXT) -> Iterator[Piece]:
    """Yield the text of a file in pieces that end between two numbers.

    A piece is a line, a part of a very long line, or a column: many lines of one number each.

    Raises:
        FileError: the file is too large, or has a word of thousands of letters.
    """
    is_too_large = len(contents.data) > MAX_TEXT
    problem = f"has more than {MAX_TEXT >> 20} MiB of text"
    contents.refuse_if(is_too_large, problem, "write .npy, or raw numbers and --shape")
    end = min(len(contents.data), stop)
    offset = start
    while offset < end:
        piece = _piece_at(contents, offset, end)
        yield piece
        offset += len(piece.text)


def _piece_at(contents: Contents, start: int, stop: int) -> Piece:
    """Return the text from an offset on that is read at once, which never ends within a number.

    It is one line, or the beginning of a line that is longer than PIECE bytes. Lines of one number
    each are read many at a time: they are one piece, a column.

    Raises:
        FileError: A word of more than MAX_REST bytes follows where a long line would be divided.
    """
    column = _LINES_OF_ONE_NUMBER.match(contents.data, start, stop)
    if column is not None:
        return Piece(column[0], start, ends_line=True, is_column=True)
    # The pattern takes PIECE bytes of a long line, and up to MAX_REST more to the end of a number.
    line_or_beginning = _LINE_OR_BEGINNING.match(contents.data, start, stop)
    assert line_or_beginning is not None  # It matches the empty text as well.
    text = line_or_beginning[0]
    has_no_end_of_number = len(text) >= PIECE + MAX_REST
    if has_no_end_of_number:
        raise error_at(contents, start + PIECE, "a word of thousands of letters")
    is_last = line_or_beginning.end() == stop
    return Piece(text, start, ends_line=is_last or text.endswith(b"\n"))


def line_of(contents: Contents, offset: int) -> int:
    """Return the number of the line that an offset is in; the first is 1."""
    return bytes(contents.data[:offset]).count(b"\n") + 1


def error_at(contents: Contents, offset: int, problem: str, advice: str = "") -> FileError:
    """Return the error for a place in a text, with its line and column."""
    before = bytes(contents.data[:offset])
    line_start = before.rfind(b"\n") + 1
    place = f"line {line_of(contents, offset)}, column {offset - line_start + 1}"
    return contents.error(f"{place}: {problem}", advice)


class NumberList:
    """Numbers that were scanned, in 8 bytes each, and how they were spelled.

    Attributes:
        values: the numbers; of complex numbers, both parts.
        is_real: whether any of them has a fraction or an exponent, or is not finite.
        complex_count: how many of the numbers are complex.
    """

    def __init__(self) -> None:
        self.values = array("d")
        self.is_real = False
        self.complex_count = 0
        # Those of the sample.
        self._numerals_by_decimals: Counter[int] = Counter()
        self._numerals_by_digits: Counter[Digits] = Counter()

    @property
    def decimals(self) -> int:
        """The decimals to which printing rounded the numbers; 0 if it seems to have kept all digits.

        Torch prints four decimals of every number: 0.8415, 0.5000. Numbers with all their digits,
        such as 0.5, 0.25 and 0.125, have different numbers of decimals.
        """
        if self._has_few_digits:
            return self._decimals_of_most_digits
        most_decimals = max(self._numerals_by_decimals, default=0)
        if most_decimals >= MANY_DECIMALS:  # 0.841471 has no further digits only by rounding.
            return most_decimals
        return most_decimals if self._most_have(most_decimals) else 0

    @property
    def rounded_decimals(self) -> int:
        """The decimals to which numbers were rounded before all their digits were written; 0 if not.

        JSON and CSV hold all digits, which are eight decimals or more of most numbers. If most of
        them have six, as 0.841471, they were rounded to these.
        """
        if self._has_few_digits:
            return self._decimals_of_most_digits
        most_decimals = max(self._numerals_by_decimals, default=0)
        may_be_rounded = most_decimals < ALL_DIGITS and self._most_have(most_decimals)
        return most_decimals if may_be_rounded else 0

    @property
    def _has_few_digits(self) -> bool:
        """True if many numbers were rounded to six digits, as C++ and MLX print them: 0.0998334.

        float32 numbers with all their digits have seven or more, such as 0.0998334166.
        """
        most_digits = max(self._numerals_by_digits, default=NO_DIGITS).significant
        total = self._numerals_by_digits.total()
        return most_digits == STREAM_DIGITS and total >= MIN_NUMERALS

    @property
    def _decimals_of_most_digits(self) -> int:
        """The decimals of the largest numbers with most digits: 6 of 0.540302, 0.0998334, 1.5e-05.

        The last digit of smaller numbers stands for a smaller decimal, so that this one bounds the
        rounding of all.
        """
        most_digits = max(self._numerals_by_digits).significant
        last_decimals = [
            digits.last_decimal
            for digits in self._numerals_by_digits
            if digits.significant == most_digits
        ]
        return max(0, min(last_decimals))

    def _most_have(self, most_decimals: int) -> bool:
        """Return True if so many numbers have as many decimals that all seem to be rounded to these.

        Args:
            most_decimals: The decimals of the numbers that have most of them.
        """
        total = self._numerals_by_decimals.total()
        with_most = self._numerals_by_decimals[most_decimals]
        if most_decimals <= FEW_DECIMALS:
            # 0.5 or 0.25 may be all digits of a number. If all of many numbers have one decimal,
            # though, it is due to rounding.
            return with_most == total and total >= MIN_NUMERALS
        # NumPy leaves out zeros at the end, so that not all rounded numbers have as many decimals.
        return with_most >= MIN_SHARE * total

    def scan(self, contents: Contents, text: bytes, offset: int) -> int:
        """Add the numbers of a text and return their count; a complex number counts as two.

        Args:
            contents: the file, for errors.
            text: numbers with blanks, commas or similar signs between them.
            offset: the offset of the text in the file.

        Raises:
            FileError: a word is not a number, or commas stand for decimal points.
        """
        if _has_decimal_commas(text):
            advice = "write points: 0.05, not 0,05"
            raise error_at(contents, offset, "commas stand for decimal points", advice)
        if b"j" in text:
            text = self._split_complex(text)
        numerals = text.translate(_SEPARATORS).split()
        if not self.is_real:
            self.is_real = _REAL.search(text) is not None
        if len(self.values) < SAMPLE:  # Enough numbers show how many decimals are printed.
            self.count_decimals(numerals)
        self.values.extend(_values_of(contents, text, numerals, offset))
        return len(numerals)

    def _split_complex(self, text: bytes) -> bytes:
        """Return a text with a blank between the parts of its complex numbers, which are counted.

        `0.54+0.84j` becomes `0.54 +0.84`, which is as long, so that errors name the right column.
        """
        split_text, count = _COMPLEX.subn(rb"\1\2 \3", text)
        self.complex_count += count
        return split_text

    def count_decimals(self, numerals: Iterable[bytes]) -> None:
        """Count numbers by how many decimals and digits they were printed with."""
        counted = list(numerals)
        self._numerals_by_decimals.update(map(decimals_of, counted))
        self._numerals_by_digits.update(map(digits_of, counted))

    def count_decimals_of(self, scanned: "NumberList") -> None:
        """Count the decimals of another list, whose numbers are those of a row, for example."""
        if len(self.values) < SAMPLE:
            self._numerals_by_decimals += scanned._numerals_by_decimals
            self._numerals_by_digits += scanned._numerals_by_digits

    def extend(self, values: AnyArray) -> None:
        """Add numbers that were scanned already."""
        if np.iscomplexobj(values):
            self.complex_count += values.size
            values = np.ascontiguousarray(values).view(np.float64)
        self.values.extend(values.reshape(-1).tolist())
        self.is_real = self.is_real or values.dtype.kind == "f"

    def array(self, contents: Contents, shape: tuple[int, ...]) -> AnyArray:
        """Return the numbers in a shape: int64 if all are whole, else float64 or complex128.

        Args:
            contents: the file, for errors.
            shape: the shape, in which a complex number takes two places of the last axis.

        Raises:
            FileError: Whole numbers are too large, or only some numbers are complex.
        """
        flat = np.frombuffer(self.values, np.float64)
        if self.complex_count > 0:
            are_all_complex = 2 * self.complex_count == flat.size
            contents.require(are_all_complex, "holds real and complex numbers in one tensor")
            return flat.reshape(shape).view(np.complex128)
        if self.is_real:
            return flat.reshape(shape)
        too_large = max(-flat.min(), flat.max()) > MAX_EXACT_INTEGER
        contents.refuse_if(too_large, "holds whole numbers beyond 2^53", "write .npy")
        return _in_place_as_integers(flat).reshape(shape)


def _has_decimal_commas(text: bytes) -> bool:
    """Return True for numbers such as `1,25 0,05`, in which a comma separates the decimals.

    >>> _has_decimal_commas(b"1,25 0,05"), _has_decimal_commas(b"1,25 0,5"), _has_decimal_commas(b"1, 5")
    (True, False, False)
    """
    return bool(_ZERO_AFTER_COMMA.search(text)) and bool(_DECIMAL_COMMAS.fullmatch(text))


def _in_place_as_integers(numbers: AnyArray) -> AnyArray:
    """Return whole float64 numbers as int64 in the same memory; `numbers` is not valid afterwards.

    A number of one digit takes 2 bytes of text, and its float64 and int64 would take 16 together.
    """
    integers = numbers.view(np.int64)
    for start in range(0, len(numbers), PIECE):
        part = slice(start, start + PIECE)
        integers[part] = numbers[part].astype(np.int64)
    return integers


def _values_of(contents: Contents, text: bytes, numerals: list[bytes], offset: int) -> list[float]:
    """Return the values of numbers, some of which C or another language spells: `0.5f`, `0x1.8p+1`.

    Python's float is fast and reads most numbers, but it also accepts 1_000, which is none here.

    Args:
        contents: the file, for errors.
        text: the text.
        numerals: the words in it, in their order.
        offset: the offset of the text in the file.

    Raises:
        FileError: a word is not a number.
    """
    with suppress(ValueError):
        if b"_" not in text:
            return [*map(float, numerals)]
    numbers = []
    end_of_last = 0
    for numeral in numerals:
        start = text.find(numeral, end_of_last)
        end_of_last = start + len(numeral)
        number = number_of(numeral)
        if number is None:
            word = quoted(numeral.decode("utf-8", "replace"))
            raise error_at(contents, offset + start, f"{word} is not a number")
        numbers.append(number)
    return numbers


def number_of(numeral: bytes) -> float | None:
    """Return the value of a number, which may have the spelling of other languages; None if it is none.

    >>> number_of(b"0.5f"), number_of(b"0x1.8p+1"), number_of(b"0x10"), number_of(b"NaN")
    (0.5, 3.0, 16.0, nan)
    >>> number_of(b"0.54D+01")
    5.4
    >>> number_of(b"1_000")
    """
    word = numeral.lower()
    if word in _WORDS:
        return _WORDS[word]
    is_hexadecimal = word.lstrip(b"+-").startswith(b"0x")
    if is_hexadecimal:
        return _hexadecimal(word.decode("ascii", "replace"))
    without_type = _LITERAL_SUFFIX.sub(b"", numeral)
    fortran_real = _FORTRAN_REAL.fullmatch(numeral)
    if fortran_real is not None:
        without_type = b"e".join(fortran_real.groups())
    if not _NUMERAL.fullmatch(without_type):
        return None
    return float(without_type)


def _hexadecimal(word: str) -> float | None:
    """Return the value of `0x1.8p+1`, as printf's %a writes it, or of a whole number in base 16."""
    try:
        return float.fromhex(word) if "p" in word else float(int(word, 16))
    except (ValueError, OverflowError):
        return None


class Digits(NamedTuple):
    """The digits that a number was printed with.

    Attributes:
        significant: the digits from the first that is not zero: 3 in 0.0998.
        last_decimal: the decimal that the last digit stands for: 4 in 0.0998, and 7 in 1.55e-5.
    """

    significant: int
    last_decimal: int


NO_DIGITS = Digits(0, 0)


def digits_of(numeral: bytes) -> Digits:
    """Return the digits that a number was printed with; a word such as nan has none.

    >>> digits_of(b"-0.0998334"), digits_of(b"1.55e-05")
    (Digits(significant=6, last_decimal=7), Digits(significant=3, last_decimal=7))
    """
    match = _MANTISSA.match(numeral)
    if match is None:
        return NO_DIGITS
    whole, fraction, exponent = match.groups(default=b"")
    significant = len((whole + fraction).lstrip(b"0"))
    return Digits(significant, len(fraction) - int(exponent or 0))


def decimals_of(numeral: bytes) -> int:
    """Return how many decimals of a number were printed.

    A negative exponent does not count, so that the decimals bound the error of all numbers that are
    printed alike: 1.5e-3 stands beside 1.5e+0.

    >>> decimals_of(b"0.1250"), decimals_of(b"1.5e-3"), decimals_of(b"1.55e+1"), decimals_of(b"12")
    (4, 1, 1, 0)
    """
    match = _DECIMALS.search(numeral)
    if match is None:
        return 0
    digits, exponent = match.groups()
    shifted = max(0, int(exponent or 0))
    return max(0, len(digits) - shifted)


class NestedNumbers:
    """Numbers between nested brackets, from which their shape follows.

    All lists at one depth must have the same length: [[1, 2], [3, 4]] is (2, 2).
    """

    def __init__(self) -> None:
        self.numbers = NumberList()
        self._counts: list[int] = []  # members of the open lists so far, the outermost first
        self._lengths: dict[int, int] = {}  # by depth, the length of its lists
        self._holds_lists: dict[int, bool] = {}  # by depth, whether members are lists or numbers

    @property
    def depth(self) -> int:
        """The number of lists that are open."""
        return len(self._counts)

    def add(self, contents: Contents, text: bytes, offset: int) -> None:
        """Add a text without brackets."""
        count = self.numbers.scan(contents, text, offset)
        if count:
            self._check_members(contents, offset, are_lists=False)
            self._counts[-1] += count

    def _check_members(self, contents: Contents, offset: int, *, are_lists: bool) -> None:
        """Raise FileError if the innermost open list, or another of its depth, has other members."""
        if self._holds_lists.setdefault(self.depth, are_lists) != are_lists:
            raise error_at(contents, offset, "numbers and lists are mixed")

    def open_list(self, contents: Contents, offset: int) -> None:
        """Open a list, which is a member of the list around it."""
        if self._counts:
            self._check_members(contents, offset, are_lists=True)
            self._counts[-1] += 1
        self._counts.append(0)
        if self.depth > MAX_AXES:
            raise error_at(contents, offset, f"lists are nested more than {MAX_AXES} deep")

    def close_list(self, contents: Contents, offset: int) -> None:
        """Close the innermost list, which must be as long as the others of its depth."""
        length = self._counts.pop()
        expected = self._lengths.setdefault(self.depth, length)
        if length != expected:
            problem = f"a list of {length} ends here, and the first one has {expected}"
            raise error_at(contents, offset, problem, "all must have the same length")

    def read_rest(self, contents: Contents, start: int, brackets: bytes = b"[]") -> int:
        """Read the rest of a list that is open, and return the offset of its closing bracket.

        Lists of millions of numbers are read piece by piece, without a Python object per number.

        Args:
            contents: The file.
            start: The offset after the opening bracket.
            brackets: The opening and the closing bracket, `[]` or `{}`.

        Raises:
            FileError: A word is not a number, lists have different lengths, or the file ends first.
        """
        for piece in pieces(contents, start):
            closing_bracket = self._add_piece(contents, piece, brackets)
            if closing_bracket is not None:
                return closing_bracket
        advice = "the file seems to be cut short"
        raise error_at(contents, len(contents.data), "a list does not end", advice)

    def _add_piece(self, contents: Contents, piece: Piece, brackets: bytes) -> int | None:
        """Add the numbers and brackets of a piece of text, such as the line `[1, 2], [3, 4],`.

        Returns the offset in the file of the bracket that closes the outermost list; None if that
        list goes on in the next piece.
        """
        opening_bracket = brackets[:1]
        numbers_start = 0  # in the piece: the end of the bracket before, or the beginning
        for bracket in _BRACKETS[brackets].finditer(piece.text):
            numbers = piece.text[numbers_start : bracket.start()]
            self.add(contents, numbers, piece.offset + numbers_start)
            numbers_start = bracket.end()
            bracket_offset = piece.offset + bracket.start()
            if bracket[0] == opening_bracket:
                self.open_list(contents, bracket_offset)
                continue
            self.close_list(contents, bracket_offset)
            is_outermost = self.depth == 0
            if is_outermost:
                return bracket_offset
        self.add(contents, piece.text[numbers_start:], piece.offset + numbers_start)
        return None

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the lists by depth, the outermost first."""
        return tuple(self._lengths[depth] for depth in sorted(self._lengths))

    def array(self, contents: Contents, offset: int) -> AnyArray:
        """Return the numbers of the list that ended at an offset."""
        if not self.numbers.values:
            raise error_at(contents, offset, "the list that ends here is empty")
        return self.numbers.array(contents, self.shape)
