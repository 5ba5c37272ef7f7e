"""Exit codes, and the one place where errors become a line and a code."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

from pecli.errors import DefectError, ParameterError, PecliError, UnsupportedError
from pecli.views.screen import printable


class Exit(enum.IntEnum):
    """What the shell is told."""

    DONE = 0
    CHECK_FAILED = 1  #: verification failed, tables differ, nothing identified, a runtime lacks what is asked for
    USAGE = 2  #: the command line or a parameter is wrong
    FILE = 3  #: a file cannot be read or written, or is not what it claims to be
    DEFECT = 70  #: a defect of pecli itself
    INTERRUPTED = 130
    PIPE = 141


_LONGEST = 1000
"""Letters of an error."""


def complain(problem: PecliError | str, words: Sequence[str] = ()) -> None:
    """One line on standard error; options are called what they are among the words of the command line.

    With PECLI_DEBUG=1 the traceback of a defect precedes it.
    """
    if isinstance(problem, DefectError) and os.environ.get("PECLI_DEBUG"):
        import traceback

        traceback.print_exception(problem.__cause__)
    text = str(problem)
    if isinstance(problem, ParameterError):
        text = problem.spelled(lambda name: _typed(name, words))
    if len(text) > _LONGEST:  # a name from a file, say; what to do about it comes last
        text = f"{text[: _LONGEST // 2]} … {text[-_LONGEST // 2 :]}"
    with suppress(OSError):  # a full disk behind standard error does not change the exit code
        print(printable(f"pecli: error: {' '.join(text.split(chr(10)))}", sys.stderr), file=sys.stderr, flush=True)


def remark(text: str) -> None:
    """One line on standard error, where nothing went wrong but something is worth knowing."""
    with suppress(OSError):
        print(printable(f"pecli: note: {text}", sys.stderr), file=sys.stderr, flush=True)


def _typed(name: str, words: Sequence[str]) -> str:
    """A parameter's name on the command line, the other one where that was typed: only rope's have two."""
    from pecli.engine.schemes.rope import Rope

    given = {word.partition("=")[0] for word in words}
    parameter = Rope.parameters().get(name)
    return next((alias for alias in (parameter.aliases if parameter else ()) if alias in given), option(name))


def option(name: str) -> str:
    """A parameter's name on the command line."""
    return f"--{name.replace('_', '-')}" if name.islower() and name.replace("_", "").isalnum() else name


def code_of(problem: PecliError) -> Exit:
    """The exit code that an error stands for."""
    if isinstance(problem, DefectError):
        return Exit.DEFECT
    if isinstance(problem, UnsupportedError):
        return Exit.CHECK_FAILED
    return Exit.USAGE if isinstance(problem, ParameterError) else Exit.FILE
