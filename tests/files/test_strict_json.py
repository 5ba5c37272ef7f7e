"""JSON from files is parsed strictly: no repeated keys, no infinities unless allowed, and only so
many levels of nesting.

Python's own parser takes all of these, keeps the last of two equal keys, or recurses until the
stack ends. `error` makes the FileError that the caller would raise.
"""

import pytest

from pecli.errors import FileError
from pecli.files.strict_json import parsed_json


def error(problem: str) -> FileError:
    return FileError("x.json", problem)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_lists_are_read_up_to_the_given_depth_and_refused_beyond() -> None:
    """32 levels are read and 33 refused, as `max_depth` says; Python's own parser would recurse
    until the stack ends.
    """
    assert str(parsed_json(nested(32), error, max_depth=32)) == nested(32)
    with pytest.raises(FileError, match="nested more than 32 levels deep"):
        parsed_json(nested(33), error, max_depth=32)


def test_a_repeated_key_is_refused() -> None:
    """Parsers differ in which of the two they take."""
    with pytest.raises(FileError, match="names 'a' twice"):
        parsed_json('{"b": 1, "a": 2, "a": 3}', error)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_allowed(literal: str) -> None:
    """JSON has no word for them; Python writes the first three, and 1e999 exceeds float64."""
    with pytest.raises(FileError, match=f"holds '{literal}', a number out of range"):
        parsed_json(literal, error)
    assert isinstance(parsed_json(literal, error, finite=False), float)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"\xff", "is not UTF-8 text"),
        (b"{", "is not JSON: Expecting property name"),
        (b"[" * 100_000, "is nested too deeply"),
        (b"9" * 10_000, "is not JSON that can be read"),
    ],
)
def test_text_that_is_no_json_is_refused(data: bytes, problem: str) -> None:
    """No UTF-8, cut text, 100,000 levels, and an integer of more digits than Python converts
    (4,300).
    """
    with pytest.raises(FileError, match=problem):
        parsed_json(data, error)


def test_a_byte_order_mark_is_skipped() -> None:
    """Editors of Windows put EF BB BF before UTF-8 text."""
    assert parsed_json(b"\xef\xbb\xbf[1]", error) == [1]
