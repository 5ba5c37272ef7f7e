"""JSON from files is read strictly, within a limit of its depth."""

import pytest

from pecli.errors import FileError
from pecli.files.strict_json import parsed_json


def error(problem: str) -> FileError:
    return FileError("x.json", problem)


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_the_deepest_list_that_is_accepted() -> None:
    """Python's own parser would recurse until the stack ends."""
    assert str(parsed_json(nested(32), error, max_depth=32)) == nested(32)
    with pytest.raises(FileError, match="nested more than 32 levels deep"):
        parsed_json(nested(33), error, max_depth=32)


def test_a_repeated_key_is_refused() -> None:
    """Parsers differ in which of the two they take."""
    with pytest.raises(FileError, match="names 'a' twice"):
        parsed_json('{"b": 1, "a": 2, "a": 3}', error)


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_not_finite_are_refused_unless_they_are_allowed(literal: str) -> None:
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
    with pytest.raises(FileError, match=problem):
        parsed_json(data, error)


def test_a_byte_order_mark_is_skipped() -> None:
    assert parsed_json(b"\xef\xbb\xbf[1]", error) == [1]
