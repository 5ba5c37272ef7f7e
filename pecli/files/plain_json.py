"""JSON as programs write it: an object of nested lists, `{"cos": [[1, 0.5]], "sin": [[0, 0.8]]}`.

Lists of numbers are scanned as text, since Python's parser would take 32 bytes per number. Objects
may be nested; a tensor's name is its path, as in `layers.0.q`. Other values are left out.
"""

import json
import json.decoder
import json.scanner
import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pecli.engine.arrays import AnyArray
from pecli.engine.grouping import grouped
from pecli.errors import FileError, counted, quoted
from pecli.files.contents import Contents, LoadedFile, PrintedText
from pecli.files.npy import ARRAY_NAME
from pecli.files.number_text import NestedNumbers, NumberList, error_at
from pecli.files.strict_json import MAX_DEPTH, refused_as_json, unique_members

MAX_TENSORS = 10_000
MAX_LISTS = 2 * MAX_TENSORS  # A tensor of JavaScript has a list of its shape as well.
MAX_ARRAYS = 1 << 20  # lists of numbers, of which each takes some 200 bytes of memory
MAX_VALUES = 1 << 20  # other values, whose names take some 300 bytes of memory each
_EMPTY = re.compile(rb"\s*\]")
"""The rest of a list without items."""
_NUMBERS_IN_QUOTES = (b'"NaN"', b'"Infinity"', b'"-Infinity"')
"""Texts for the numbers that JSON lacks."""
_BRACE_BRACKET_OR_TEXT = re.compile(rb'"(?:NaN|-?Infinity)"|[\[\]{}"]')
"""Of a text, only the first quote, unless it is a number in quotes."""
_TYPED_ARRAY = re.compile(rb'\s*"0"\s*:\s*[-0-9n]')
"""The beginning of a JavaScript typed array; Infinity and NaN are null."""
_MEMBER = re.compile(rb'\s*"([0-9]{1,9})"\s*:\s*([^\s,"{}\[\]]{1,99})\s*([,}])')
"""A member of it: its index, its number, and the comma or brace after it."""
_BLANKS = re.compile(rb"\s*")


def read_plain(contents: Contents) -> LoadedFile:
    """Return the lists of numbers of a JSON object as tensors, by their paths: `layers.0.q`.

    An object with flat `data` and its `shape`, as JavaScript's tensors have, is one tensor.

    Raises:
        FileError: it is not JSON, holds no list of numbers, or lists have different lengths.
    """
    decoder = _Decoder(contents)
    # A byte that is not ASCII becomes one letter, so that places in the text are those in the file.
    text = str(contents.data, "ascii", "surrogateescape")
    with refused_as_json(contents.error):
        root = decoder.decode(text)
    lists: dict[str, AnyArray] = {}
    left_out_count = 0  # values that are neither lists of numbers nor objects
    for path, value in _values_by_path("", root):
        if not isinstance(value, np.ndarray):
            left_out_count += 1
            continue
        name = path or ARRAY_NAME
        contents.refuse_if(name in lists, f"names {quoted(name)} twice")
        lists[name] = value
    contents.require(lists, "holds no list of numbers", "write nested lists: [[1.0, 0.5], …]")
    contents.refuse_if(len(lists) > MAX_LISTS, f"has more than {MAX_LISTS:,} lists")
    tensors = _with_shapes(lists)
    contents.refuse_if(len(tensors) > MAX_TENSORS, f"has more than {MAX_TENSORS:,} tensors")
    notes = []
    if left_out_count:
        notes.append(f"{counted(left_out_count, 'value')} beside the lists left out")
    notes += _notes_on_numbered_vectors(lists)
    decimals = min(filter(None, decoder.decimals), default=0)
    printed = PrintedText(decimals, are_rows=False)
    return LoadedFile(contents.path, "json", tensors, printed=printed, notes=tuple(notes))


def _values_by_path(path: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the values in nested objects and lists by their paths, such as `layers.0.q`."""
    items: Iterable[tuple[object, object]]
    match value:
        case dict():
            items = value.items()
        case list():
            items = enumerate(value)
        case _:
            yield path, value
            return
    for key, item in items:
        item_path = f"{path}.{key}" if path else str(key)
        yield from _values_by_path(item_path, item)


def _notes_on_numbered_vectors(lists: dict[str, AnyArray]) -> Iterator[str]:
    """Yield a note on vectors that may be meant as rows: {"0": [1, 2], "1": [3, 4]}.

    They may as well be columns, as pandas writes them, or layers: nothing states which.
    """
    for names in grouped(lists, _path_of_object).values():
        keys = [name.rpartition(".")[2] for name in names]
        are_numbered = len(keys) > 1 and keys == [str(number) for number in range(len(keys))]
        if are_numbered and all(lists[name].ndim == 1 for name in names):
            advice = "nested lists are rows of one"
            yield f"{names[0]} … {names[-1]} are read as tensors of their own; {advice}"
            return


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


ValueAndEnd: TypeAlias = tuple[object, int]
"""A value of JSON, and the offset after it."""
Scanner: TypeAlias = Callable[[str, int], ValueAndEnd]
"""Returns the value that begins at an offset of a text."""
_PythonScanner: Any = json.scanner.py_make_scanner  # type: ignore[attr-defined]
_object_of_json: Any = json.decoder.JSONObject  # type: ignore[attr-defined]
_list_of_json: Any = json.decoder.JSONArray  # type: ignore[attr-defined]


class _Decoder(json.JSONDecoder):
    """A decoder of JSON whose lists of numbers become arrays.

    It derives from Python's, which calls `parse_array` and `parse_object` with the text and the
    offset after a bracket or a brace. They return a value, and the offset after it.
    """

    def __init__(self, contents: Contents) -> None:
        # As a float, an integer may have any number of digits.
        super().__init__(object_pairs_hook=self._members, parse_int=float)
        self.contents = contents
        self.decimals: list[int] = []  # of each list, to which it was rounded; 0 for all digits
        self.depth = 0  # objects and lists around the value that is read
        self.value_count = 0  # values that are no lists of numbers
        self.parse_array = self._list
        self.parse_object = self._object
        self.scan_once = _PythonScanner(self)

    def _members(self, members: list[tuple[str, object]]) -> dict[str, object]:
        """Return the members of an object by their names, which are UTF-8; refuse two of one name."""
        named = [
            (name.encode("utf-8", "surrogateescape").decode("utf-8"), value)
            for name, value in members
        ]
        return unique_members(self.contents.error, named)

    def _list(self, text_and_start: tuple[str, int], scan_once: Scanner) -> ValueAndEnd:
        """Return a list of numbers as an array, and any other as a list.

        A list of JavaScript's typed arrays, [{"0": 1, "1": 2}, {"0": 3, "1": 4}], is one array with
        these rows.
        """
        _, start = text_and_start
        if self._holds_numbers(start):
            return self._read_numbers(start)
        with self._deeper():
            items, end = _list_of_json(text_and_start, partial(self._counted_value, scan_once))
        return (np.stack(items) if _are_rows(items) else items), end

    def _object(
        self, text_and_start: tuple[str, int], strict: bool, scan_once: Scanner, *hooks: Any
    ) -> ValueAndEnd:
        """Return an object as a dict, or a typed array, which is an object, as an array."""
        _, start = text_and_start
        if _TYPED_ARRAY.match(self.contents.data, start):
            return self._typed_array(start)
        with self._deeper():
            scan_member = partial(self._counted_value, scan_once)
            members, end = _object_of_json(text_and_start, strict, scan_member, *hooks)
        return members, end

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        """Count a list or an object as long as its items are read; refuse too many in each other.

        The brackets of a list may be searched once for every list around it.
        """
        self.depth += 1
        is_too_deep = self.depth > MAX_DEPTH
        self.contents.refuse_if(is_too_deep, f"is nested more than {MAX_DEPTH} levels deep")
        yield
        self.depth -= 1

    def _counted_value(self, scan_once: Scanner, text: str, start: int) -> ValueAndEnd:
        """Return an item of a list or an object, and the offset after it; refuse too many of them.

        A text, a number or a word is left out: None stands for it. Python would keep an object of
        some fifty bytes.
        """
        value, end = scan_once(text, start)
        if isinstance(value, np.ndarray):
            return value, end
        self.value_count += 1
        if self.value_count > MAX_VALUES:
            raise self.contents.error(f"has more than {MAX_VALUES:,} values beside its lists")
        is_container = isinstance(value, (dict, list))
        return (value if is_container else None), end

    def _holds_numbers(self, start: int) -> bool:
        """Return True if a list, whose bracket was read, holds only numbers, or lists of them.

        `[]` holds none, and `[{…}]` and `["a"]` hold something else.
        """
        if _EMPTY.match(self.contents.data, start):
            return False
        depth = 1  # lists that are open
        for match in _BRACE_BRACKET_OR_TEXT.finditer(self.contents.data, start):
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

    def _read_numbers(self, start: int) -> tuple[AnyArray, int]:
        """Return the numbers of a nested list, such as [[1, 2], [3, 4]], whose bracket was read."""
        nested = NestedNumbers()
        nested.open_list(self.contents, start)
        closing_bracket = nested.read_rest(self.contents, start)
        self._note_decimals(nested.numbers)
        return nested.array(self.contents, closing_bracket), closing_bracket + 1

    def _typed_array(self, start: int) -> tuple[AnyArray, int]:
        """Return the numbers of an object {"0": 1.5, "1": 0.25}, whose brace was read.

        JSON.stringify writes a Float32Array in this form, with its indices as names.
        """
        numbers = NumberList()
        offset = start
        # A member is an index and a number with the sign after it: `"0": 1.5,` or `"1": 0.25}`.
        while (member := _MEMBER.match(self.contents.data, offset)) is not None:
            index, numeral, comma_or_brace = member.groups()
            expected_index = len(numbers.values)
            if int(index) != expected_index:
                raise self._error(offset, f"member {expected_index} of a list is missing")
            numbers.scan(self.contents, numeral, member.start(2))
            offset = member.end()
            if comma_or_brace == b"}":
                self._note_decimals(numbers)
                return numbers.array(self.contents, (len(numbers.values),)), offset
        raise self._error(offset, "a list does not end with its members in order")

    def _error(self, offset: int, problem: str) -> FileError:
        """Return the error for what follows an offset and the blanks there."""
        blanks = _BLANKS.match(self.contents.data, offset)
        assert blanks is not None  # It matches the empty text as well.
        return error_at(self.contents, blanks.end(), problem)

    def _note_decimals(self, numbers: NumberList) -> None:
        """Keep the decimals of a list, one of a limited number."""
        self.decimals.append(numbers.rounded_decimals)
        has_too_many = len(self.decimals) > MAX_ARRAYS
        self.contents.refuse_if(has_too_many, f"has more than {MAX_ARRAYS:,} lists in a list")


def _are_rows(items: list[object]) -> bool:
    """Return True if every item of a list is an array, and all have one shape."""
    arrays = [item for item in items if isinstance(item, np.ndarray)]
    shapes = {array.shape for array in arrays}
    return len(arrays) == len(items) and len(shapes) == 1
