"""Random command lines end with a result or an error of one line, whatever the words are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
@pytest.mark.parametrize("count", [10_000])
def test_random_command_lines(count: int) -> None:
    """`count` random command lines run in a process of its own, whose files are limited; the
    campaign reports crashes and errors that are not pecli's.
    """
    campaign = [sys.executable, "-m", "tests.tools.campaign", "commands", "--json"]
    options = ["--cases", str(count), "--seed", "3", "--processes", "1"]
    done = subprocess.run([*campaign, *options], cwd=ROOT, capture_output=True, text=True)
    report = json.loads(done.stdout)

    assert report["problems"] == []
    assert report["cases"] == count
