"""Help and typical answers are those in golden.txt, which tests.cli.golden_text writes."""

import subprocess
import sys
from pathlib import Path

from tests.cli.golden_text import ANSWERS

GOLDEN = Path(__file__).with_name("golden.txt")


def test_help_and_answers_are_the_golden_ones_and_fit_80_columns() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.cli.golden_text"]
    found = subprocess.run(
        command, cwd=root, capture_output=True, text=True, encoding="utf-8", timeout=300, check=True
    )
    assert found.stdout.split("\n") == GOLDEN.read_text(encoding="utf-8").split("\n")
    boxes, answers = GOLDEN.read_text(encoding="utf-8").split(f"$ pecli {ANSWERS[0]}")
    assert all(len(line) <= 80 for line in boxes.splitlines())
    assert answers.count("\n$ pecli ") == len(ANSWERS) - 1
