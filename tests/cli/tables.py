"""Tables of command lines: refused.txt and answered.txt.

A row has cells that are separated by ` | `: a command line, a part of its output, and the exit code if it is not the
usual one of the table. Commands before a `; ` in the first cell make files that the last one reads.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

MAX_ID = 80


class Row(NamedTuple):
    """A command line and what it should print."""

    preparation: list[list[str]]
    words: list[str]
    output: str
    code: int


def rows(file: str, usual_code: int) -> list[object]:
    """Return the rows of a table as parameters of a test, each named after its command line."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return [parameter(line, usual_code) for line in lines]


def parameter(line: str, usual_code: int) -> object:
    commands, output, *codes = line.split(" | ")
    *preparation, words = [command.split() for command in commands.split("; ")]
    code = int(codes[0]) if codes else usual_code
    return pytest.param(Row(preparation, words, output, code), id=commands[:MAX_ID])
