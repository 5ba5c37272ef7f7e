"""JSON from files is parsed strictly: no repeated keys, no infinities unless allowed, and only so
many levels of nesting.

Python's own parser takes all of these, keeps the last of two equal keys, or recurses until the
stack ends. `file_error` makes the FileError that the caller would raise.
"""

import pytest

from pecli.errors import FileError
from pecli.files.strict_json import parsed_json


def file_error(problem: str) -> FileError:
    """Make the error that a reader of x.json raises."""
    return FileError("x.json", problem)


def nested_lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_lists_are_read_up_to_the_given_depth_and_refused_beyond() -> None:
    """With a `max_depth` of 32, 32 nested lists are read and 33 refused; Python's own parser would
    recurse until the stack ends.
    """
    deepest = nested_lists(32)
    assert str(parsed_json(deepest, file_error, max_depth=32)) == deepest
    with pytest.raises(FileError, match="nested more than 32 levels deep"):
        parsed_json(nested_lists(33), file_error, max_depth=32)


def test_json_with_a_repeated_key_is_refused() -> None:
    """Parsers differ in which of the two values of «a», 2 or 3, they take."""
    with pytest.raises(FileError, match="names 'a' twice"):
        parsed_json('{"b": 1, "a": 2, "a": 3}', file_error)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_allowed(literal: str) -> None:
    """JSON has no word for them; Python writes the first three, and 1e999 exceeds float64.
    `finite=False` allows them, for files of other programs.
    """
    with pytest.raises(FileError, match=f"holds '{literal}', a number out of range"):
        parsed_json(literal, file_error)
    assert isinstance(parsed_json(literal, file_error, finite=False), float)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(b"\xff", "is not UTF-8 text", id="not UTF-8"),
        pytest.param(b"{", "is not JSON: Expecting property name", id="cut"),
        pytest.param(b"[" * 100_000, "is nested too deeply", id="100,000 levels"),
        pytest.param(b"9" * 10_000, "is not JSON that can be read", id="10,000 digits"),
    ],
)
def test_text_that_is_no_json_is_refused(data: bytes, problem: str) -> None:
    """Python converts integers of at most 4,300 digits."""
    with pytest.raises(FileError, match=problem):
        parsed_json(data, file_error)


def test_a_byte_order_mark_before_json_is_skipped() -> None:
    """Editors of Windows put EF BB BF before UTF-8 text."""
    assert parsed_json(b"\xef\xbb\xbf[1]", file_error) == [1]
