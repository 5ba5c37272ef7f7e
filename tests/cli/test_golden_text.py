"""The output of commands is exactly that in golden.txt, which was read by a person.

`python -m tests.cli.golden_text` writes the file from the present output; whoever changes a sentence
reads the difference.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.golden_text import ANSWERS, help_lines, sections

GOLDEN = Path(__file__).with_name("golden.txt")
EXPECTED_OUTPUT = sections(GOLDEN.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What the commands print now, by their command lines."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.cli.golden_text"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
        check=True,
    )
    return sections(result.stdout)


def test_the_golden_file_has_a_section_for_every_command_line() -> None:
    """golden.txt has one section for the help of each command, and for each line of
    golden_commands.txt, in this order.
    """
    assert list(EXPECTED_OUTPUT) == [*help_lines(), *ANSWERS]


@pytest.mark.parametrize("line", EXPECTED_OUTPUT)
def test_the_output_of_a_command_is_that_of_the_golden_file(
    line: str, printed: dict[str, str]
) -> None:
    """Each command line of golden_commands.txt prints what golden.txt has, a text that is reviewed
    by hand whenever wording changes.
    """
    assert printed[line] == EXPECTED_OUTPUT[line]


@pytest.mark.parametrize("line", help_lines())
def test_the_help_of_every_command_fits_80_columns(line: str) -> None:
    """The recorded help of each command, before its examples, has lines of at most 80 characters;
    examples may be longer, as they must be copied whole.
    """
    options, _, examples = EXPECTED_OUTPUT[line].partition("\n Examples:\n")
    assert max(map(len, options.splitlines())) <= 80
    assert examples
