"""Command lines that run in this process, and their answers."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from pecli.cli.app import run


class Answer(NamedTuple):
    """The exit code of a command, and its errors; notes are left out."""

    code: int
    output: str
    error: str


def answer_to(*words: str) -> Answer:
    """Run a command line in this process."""
    output = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    error = io.StringIO()
    with redirect_stdout(output), redirect_stderr(error):
        code = run(words)
    printed = output.buffer.getvalue().decode(errors="replace")  # type: ignore[attr-defined]
    lines = error.getvalue().splitlines()
    errors = [line for line in lines if not line.startswith("pecli: note:")]
    return Answer(code, printed, "\n".join(errors))
