"""Random command lines end with a result or an error of one line, whatever the words are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize("count", [10_000])
def test_random_command_lines_end_with_a_result_or_an_error_of_one_line(count: int) -> None:
    """The campaign runs `count` random command lines, in a process whose files are limited. Each
    must end with a result or an error of one line; the report lists crashes and errors that are not
    pecli's.
    """
    campaign = [sys.executable, "-m", "tests.tools.campaign", "commands", "--json"]
    options = ["--cases", str(count), "--seed", "3", "--processes", "1"]
    done = subprocess.run([*campaign, *options], cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)

    assert report["problems"] == []
    assert report["cases"] == count
