"""Writes golden.txt: the whole output of `--help` of every command, and of golden_commands.txt.

    python -m tests.cli.golden_text > tests/cli/golden.txt

The output has 80 columns. Read what changed before you commit it: test_golden_text.py compares with it.
"""

import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

ANSWERS = Path(__file__).with_name("golden_commands.txt").read_text(encoding="utf-8").splitlines()
PROMPT = "$ pecli "


def help_lines() -> list[str]:
    """Return the command lines that print help."""
    from pecli.cli.app import COMMANDS

    return ["--help", *(f"{name} --help" for name in COMMANDS)]


def text() -> str:
    """Return all sections; the commands run one after the other in one folder."""
    os.chdir(tempfile.mkdtemp())
    return "\n\n".join(map(section, [*help_lines(), *ANSWERS]))


def section(line: str) -> str:
    """Run a command line and return its output, without spaces at the ends of lines."""
    from pecli.cli.app import run

    with redirect_stdout(StringIO()) as output, redirect_stderr(output):
        code = run(line.split())
    shown = [row.rstrip() for row in output.getvalue().strip("\n").splitlines()]
    lines = [f"{PROMPT}{line}", *shown]
    if code:
        lines.append(f"exit {code}")
    return "\n".join(lines)


def sections(text: str) -> dict[str, str]:
    """Return the sections of a text by their command lines."""
    parts = text.strip("\n").removeprefix(PROMPT).split(f"\n\n{PROMPT}")
    found: dict[str, str] = {}
    for part in parts:
        line, _, output = part.partition("\n")
        found[line] = output
    return found


if __name__ == "__main__":
    os.environ |= {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}
    print(text())
