"""JSON as programs write it: an object of nested lists, `{"cos": [[1, 0.5]], "sin": [[0, 0.8]]}`.

Lists of numbers are scanned as text, since Python's parser would take 32 bytes per number. Objects
may be nested; a tensor's name is its path, as in `layers.0.q`. Other values are left out.
"""

import json
import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.grouping import grouped
from pecli.errors import FileError, counted, quoted
from pecli.files.contents import Contents, LoadedFile, PrintedText
from pecli.files.npy import ARRAY_NAME
from pecli.files.number_text import (
    NestedNumbers,
    NumberList,
    error_at,
)
from pecli.files.output import is_text
from pecli.files.strict_json import MAX_DEPTH

MAX_TENSORS = 10_000
MAX_LISTS = 2 * MAX_TENSORS  # A tensor of JavaScript has a list of its shape as well.
MAX_ROWS = 1 << 20  # lists in a list, of which each takes some 200 bytes of memory
_TOKEN = re.compile(rb'\s*([{}\[\],:]|"(?:[^"\\\n]|\\.)*+"|[^\s{}\[\],:"]+|$)')
_BLANKS = re.compile(rb"\s*")
_NO_VALUES = (b"", b"}", b"]", b",", b":")
"""Tokens with which no value begins; the empty one is the end of the file."""
_NUMBERS_IN_QUOTES = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
"""Texts for the numbers that JSON lacks."""
_BRACE_BRACKET_OR_TEXT = re.compile(rb'"(?:NaN|-?Infinity)"|[\[\]{}"]')
"""Of a text, only the first quote, unless it is a number in quotes."""
_TYPED_ARRAY = re.compile(rb'\s*"0"\s*:\s*[-0-9n]')
"""The beginning of a JavaScript typed array; Infinity and NaN are null."""
_MEMBER = re.compile(rb'\s*"([0-9]{1,9})"\s*:\s*([^\s,"{}\[\]]{1,99})\s*([,}])')
"""A member of it: its index, its number, and the comma or brace after it."""


class _FoundList(NamedTuple):
    """A list of numbers, and its path in the file: `layers.0.q`."""

    path: str
    values: AnyArray


def read_plain(contents: Contents) -> LoadedFile:
    """Return the lists of numbers of a JSON object as tensors, by their paths: `layers.0.q`.

    An object with flat `data` and its `shape`, as JavaScript's tensors have, is one tensor.

    Raises:
        FileError: it is not JSON, holds no list of numbers, or lists have different lengths.
    """
    parser = _Parser(contents)
    lists = _lists_by_name(contents, parser)
    contents.require(lists, "holds no list of numbers", "write nested lists: [[1.0, 0.5], …]")
    tensors = _with_shapes(lists)
    contents.refuse_if(len(tensors) > MAX_TENSORS, f"has more than {MAX_TENSORS:,} tensors")
    printed = PrintedText(parser.decimals, are_rows=False)
    return LoadedFile(contents.path, "json", tensors, printed=printed, notes=_notes(parser))


def _lists_by_name(contents: Contents, parser: "_Parser") -> dict[str, AnyArray]:
    """Return all lists of numbers by their paths; a file that is one list has the name `array`."""
    lists: dict[str, AnyArray] = {}
    for path, values in parser.lists():
        name = path or ARRAY_NAME
        contents.refuse_if(name in lists, f"names {quoted(name)} twice")
        lists[name] = values
        contents.refuse_if(len(lists) > MAX_LISTS, f"has more than {MAX_LISTS:,} lists")
    return lists


def _notes(parser: "_Parser") -> tuple[str, ...]:
    """Return notes on values that were left out, and on lists that may be meant as rows."""
    notes = []
    if parser.left_out_count:
        notes.append(f"{counted(parser.left_out_count, 'value')} beside the lists left out")
    if parser.numbered_vectors:
        first_to_last = " … ".join(parser.numbered_vectors)
        advice = "nested lists are rows of one"
        notes.append(f"{first_to_last} are read as tensors of their own; {advice}")
    return tuple(notes)


_SHAPE_KEYS = ("shape", "dims")
_DATA_KEYS = ("data", "cpuData", "values")
"""Keys of the numbers in tensors of JavaScript libraries; onnxruntime-web has `cpuData` and `dims`."""


def _with_shapes(tensors: dict[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the tensors in the shapes that stand beside them.

    `q.data` beside `q.shape` becomes `q`. Other lists keep their names: one `shape` may be that of
    both `q_before` and `q_after`.
    """
    shaped = dict(tensors)
    for flat in _flat_lists(tensors):
        shaped.pop(flat.shape_name, None)
        shaped.pop(flat.name, None)
        shaped[_name_without_data(flat.name)] = tensors[flat.name].reshape(flat.shape)
    return shaped


class _FlatList(NamedTuple):
    """A flat list of numbers, and the shape that stands beside it."""

    name: str
    shape_name: str
    shape: tuple[int, ...]


def _flat_lists(tensors: dict[str, AnyArray]) -> Iterator[_FlatList]:
    """Yield the flat lists that have as many numbers as a shape beside them in the same object.

    In {"x": {"data": [1, 2, 3, 4, 5, 6], "shape": [2, 3]}}, x.data has the shape of x.shape.
    """
    lists_by_object = grouped(tensors, _path_of_object)
    for shape_name, numbers in tensors.items():
        if not _is_shape(shape_name, numbers):
            continue
        shape = tuple(numbers.tolist())
        for name in _lists_beside(lists_by_object, shape_name):
            values = tensors[name]
            if values.ndim == 1 and values.size == math.prod(shape):
                yield _FlatList(name, shape_name, shape)


def _path_of_object(name: str) -> str:
    """Return the path of the object that a list is in: `layers.0` for `layers.0.q`."""
    return name.rpartition(".")[0]


def _is_shape(name: str, sides: AnyArray) -> bool:
    """Return True for a list of lengths that is called `shape`, `q.shape` or `q_shape`."""
    *_, word = re.split(r"[._]", name.lower())
    is_list = sides.ndim == 1 and sides.dtype.kind == "i"
    return word in _SHAPE_KEYS and is_list and sides.min() > 0


def _lists_beside(lists_by_object: dict[str, list[str]], shape_name: str) -> list[str]:
    """Return the names of lists that a shape may be about: `q` for `q_shape`, else all of its object.

    Args:
        lists_by_object: The names of lists by the path of their object: the object `q` has the
            lists `q.data` and `q.shape`.
        shape_name: The name of the shape.
    """
    path, _, key = shape_name.rpartition(".")
    siblings = lists_by_object[path]
    if "_" in key:
        owner = shape_name.rpartition("_")[0]
        return [owner] if owner in siblings else []
    return [name for name in siblings if name != shape_name]


def _name_without_data(name: str) -> str:
    """Return the name of a tensor without its last part, if that is a word for numbers.

    >>> _name_without_data("q.data"), _name_without_data("data"), _name_without_data("q.before")
    ('q', 'data', 'q.before')
    """
    path, _, key = name.rpartition(".")
    return path if path and key in _DATA_KEYS else name


class _Parser:
    """A parser of JSON whose lists of numbers become arrays."""

    def __init__(self, contents: Contents) -> None:
        self.contents = contents
        self.offset = 0
        self.place = 0  # where the token begins that was read or looked at last; errors name it
        self.left_out_count = 0  # values that are neither lists nor objects
        # The first and the last path of vectors that have numbers for names.
        self.numbered_vectors: tuple[str, ...] = ()
        self.decimals = 0  # to which the numbers were rounded; 0 if they have all their digits

    def lists(self) -> Iterator[_FoundList]:
        """Yield the lists of numbers of the file, which is one value."""
        yield from self._lists_in_value("", 0)
        token = self._read_token()
        self._refuse_if(token != b"", f"{_shown(token)} follows the end")

    def _read_token(self) -> bytes:
        """Read the next sign, text or word; it is empty at the end."""
        match = self._match()
        self.offset = match.end()
        return match[1]

    def _next_token(self) -> bytes:
        """Return the next token without reading it."""
        return self._match()[1]

    def _match(self) -> re.Match[bytes]:
        """Return the next token and the blanks before it."""
        match = _TOKEN.match(self.contents.data, self.offset)
        if match is None:
            self.place = self._start_of_next()
            raise self._error("a text does not end")
        self.place = match.start(1)
        return match

    def _start_of_next(self) -> int:
        """Return the offset of the next sign that is not a blank."""
        blanks = _BLANKS.match(self.contents.data, self.offset)
        assert blanks is not None  # It matches the empty text as well.
        return blanks.end()

    def _error(self, problem: str) -> FileError:
        """Return the error for the token that was read or looked at last."""
        return error_at(self.contents, self.place, problem)

    def _refuse_if(self, wrong: bool, problem: str) -> None:
        """Raise FileError for the token that was read or looked at last, if it is wrong."""
        if wrong:
            raise self._error(problem)

    def _lists_in_value(self, path: str, depth: int) -> Iterator[_FoundList]:
        """Read a value, and yield the lists of numbers in it with their paths, such as `layers.0.q`.

        Other values (texts, numbers) are counted and left out.

        Args:
            path: The names and indices that lead to the value.
            depth: The number of objects and lists around it.
        """
        token = self._read_token()
        self._refuse_if(depth > MAX_DEPTH, f"is nested more than {MAX_DEPTH} levels deep")
        if token == b"{":
            yield from self._object(path, depth)
        elif token == b"[":
            yield from self._list(path, depth)
        elif token in _NO_VALUES:
            raise self._error(f"a value is missing before {_shown(token)}")
        else:
            self._parsed(token)
            self.left_out_count += 1

    def _object(self, path: str, depth: int) -> Iterator[_FoundList]:
        """Yield the lists of numbers in an object, which may be a list itself: a typed array."""
        if _TYPED_ARRAY.match(self.contents.data, self.offset):
            yield _FoundList(path, self._typed_array())
        else:
            yield from self._lists_in_object(path, depth)

    def _list(self, path: str, depth: int) -> Iterator[_FoundList]:
        """Yield a list of numbers, or the lists of numbers in a list of other values."""
        if self._holds_numbers():
            yield _FoundList(path, self._read_numbers())
        else:
            yield from self._lists_in_list(path, depth)

    def _parsed(self, token: bytes) -> object:
        """Return a text, a number or a word of JSON."""
        try:
            value: object = json.loads(token)
        except ValueError:
            raise self._error(f"{_shown(token)} is not JSON") from None
        return value

    def _lists_in_object(self, path: str, depth: int) -> Iterator[_FoundList]:
        """Read the members of an object, and yield the lists of numbers in them with their paths.

        Args:
            path: The path of the object, whose opening brace was read.
            depth: The number of objects and lists around it.
        """
        names: dict[str, None] = {}  # in their order
        vector_names: list[str] = []  # members that are flat lists, such as "0": [1.5, 2.5]
        while self._next_token() != b"}":
            name = self._read_name(names)
            names[name] = None
            member_path = _joined(path, name)
            for found in self._lists_in_value(member_path, depth + 1):
                is_member_itself = found.path == member_path  # not a list somewhere within it
                if is_member_itself and found.values.ndim == 1:
                    vector_names.append(name)
                yield found
            self._read_comma(unless=b"}")
        self._read_token()  # the closing brace
        self._note_numbered_vectors(path, names, vector_names)

    def _note_numbered_vectors(
        self, path: str, names: Iterable[str], vector_names: list[str]
    ) -> None:
        """Keep the names of vectors that may be meant as rows: {"0": [1, 2], "1": [3, 4]}.

        They may as well be columns, as pandas writes them, or layers: nothing states which.

        Args:
            path: The path of the object.
            names: The names of all its members.
            vector_names: The names of members that are flat lists of numbers.
        """
        numbers = [str(number) for number in range(len(vector_names))]
        are_numbered = len(vector_names) > 1 and vector_names == numbers == [*names]
        if are_numbered and not self.numbered_vectors:
            first_path = _joined(path, vector_names[0])
            last_path = _joined(path, vector_names[-1])
            self.numbered_vectors = (first_path, last_path)

    def _read_name(self, names_before: Container[str]) -> str:
        """Read the name before a value, and the colon after it; refuse a name that was there before."""
        token = self._read_token()
        name = self._parsed(token) if token.startswith(b'"') else None
        if not is_text(name):
            raise self._error(f"{_shown(token)} is not a name in quotes")
        self._refuse_if(name in names_before, f"{quoted(name)} is named twice")
        has_colon = self._read_token() == b":"
        self._refuse_if(not has_colon, f"a colon is missing after {_shown(token)}")
        return name

    def _lists_in_list(self, path: str, depth: int) -> Iterator[_FoundList]:
        """Read a list of objects, and yield the lists of numbers in them with their paths.

        [{"q": [1, 2]}, {"q": [3, 4]}] has the lists `0.q` and `1.q`. A list of JavaScript's typed
        arrays, [{"0": 1, "1": 2}, {"0": 3, "1": 4}], is one list with these rows.

        Args:
            path: The path of the list, whose opening bracket was read.
            depth: The number of objects and lists around it.
        """
        lists: list[_FoundList] = []
        count = 0
        while self._next_token() != b"]":
            lists += self._lists_in_value(_joined(path, str(count)), depth + 1)
            self._refuse_if(len(lists) > MAX_ROWS, f"has more than {MAX_ROWS:,} lists in a list")
            self._read_comma(unless=b"]")
            count += 1
        self._read_token()  # the closing bracket
        item_paths = (_joined(path, str(index)) for index in range(count))
        if _are_rows(lists, item_paths):
            yield _FoundList(path, np.stack([row.values for row in lists]))
        else:
            yield from lists

    def _read_comma(self, *, unless: bytes) -> None:
        """Read the comma after an item, unless the next token is the end of the object or list."""
        token = self._next_token()
        if token == b",":
            self._read_token()
            return
        self._refuse_if(token != unless, f"a comma is missing before {_shown(token)}")

    def _holds_numbers(self) -> bool:
        """Return True if the list whose bracket was read holds numbers, or lists of them, only.

        `[]` holds none, and `[{…}]` and `["a"]` hold something else.
        """
        if self._next_token() == b"]":
            return False
        depth = 1  # lists that are open
        for match in _BRACE_BRACKET_OR_TEXT.finditer(self.contents.data, self.offset):
            token = match[0]
            if token == b"[":
                depth += 1
            elif token == b"]":
                depth -= 1
            elif token not in _NUMBERS_IN_QUOTES:
                return False  # A brace begins an object, and a quote a text that is no number.
            if depth == 0:
                return True
        raise error_at(self.contents, len(self.contents.data), "a list does not end")

    def _read_numbers(self) -> AnyArray:
        """Return the numbers of a nested list, such as [[1, 2], [3, 4]], whose bracket was read."""
        nested = NestedNumbers()
        nested.open_list(self.contents, self.offset)
        closing_bracket = nested.read_rest(self.contents, self.offset)
        self.offset = closing_bracket + 1
        self._note_decimals(nested.numbers.rounded_decimals)
        return nested.array(self.contents, closing_bracket)

    def _typed_array(self) -> AnyArray:
        """Return the numbers of an object {"0": 1.5, "1": 0.25}, whose brace was read.

        JSON.stringify writes a Float32Array in this form, with its indices as names.
        """
        numbers = NumberList()
        # A member is an index and a number with the sign after it: `"0": 1.5,` or `"1": 0.25}`.
        while (member := _MEMBER.match(self.contents.data, self.offset)) is not None:
            index, numeral, comma_or_brace = member.groups()
            expected_index = len(numbers.values)
            self.place = self._start_of_next()
            problem = f"member {expected_index} of a list is missing"
            self._refuse_if(int(index) != expected_index, problem)
            numbers.scan(self.contents, numeral, member.start(2))
            self.offset = member.end()
            if comma_or_brace == b"}":
                self._note_decimals(numbers.rounded_decimals)
                return numbers.array(self.contents, (len(numbers.values),))
        self.place = self._start_of_next()
        raise self._error("a list does not end with its members in order")

    def _note_decimals(self, decimals: int) -> None:
        """Keep the fewest decimals of all lists, if numbers were rounded before they were written."""
        if decimals:
            self.decimals = min(decimals, self.decimals or decimals)


def _are_rows(lists: Sequence[_FoundList], item_paths: Iterable[str]) -> bool:
    """Return True if every item of a list is a list of numbers, and all have one shape."""
    paths = [found.path for found in lists]
    shapes = {found.values.shape for found in lists}
    return paths == list(item_paths) and len(shapes) == 1


def _joined(path: str, name: str) -> str:
    """Return the path of a value within an object or a list: `layers.0`."""
    return f"{path}.{name}" if path else name


def _shown(token: bytes) -> str:
    if not token:
        return "the end"
    return quoted(token.decode("utf-8", "replace"))
