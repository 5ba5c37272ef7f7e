"""Every command's help, and typical answers, at 80 columns.

python -m tests.cli.golden_text > tests/cli/golden.txt writes the file that a test compares. Read what changed.
"""

import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

ANSWERS = Path(__file__).with_name("golden_commands.txt").read_text(encoding="utf-8").splitlines()


def text() -> str:
    """All of it, without the spaces at the ends of lines."""
    from pecli.cli.app import COMMANDS, run

    os.chdir(tempfile.mkdtemp())
    parts = []
    for line in ["--help", *(f"{name} --help" for name in COMMANDS), *ANSWERS]:
        with redirect_stdout(StringIO()) as output, redirect_stderr(output):
            code = run(line.split())
        shown = "\n".join(row.rstrip() for row in output.getvalue().strip("\n").splitlines())
        parts.append(
            "\n".join(filter(None, [f"$ pecli {line}", shown, f"exit {code}" if code else ""]))
        )
    return "\n\n".join(parts)


if __name__ == "__main__":
    os.environ |= {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1"}
    print(text())
