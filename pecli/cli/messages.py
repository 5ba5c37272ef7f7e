"""Errors and notes on standard error, and the exit codes that go with them."""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial, singledispatch
from typing import ParamSpec, TypeVar

from pecli.errors import DefectError, ParameterError, PecliError, UnsupportedError, one_line
from pecli.views import screen

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_is_quiet = ContextVar("is_quiet", default=False)


class Exit(enum.IntEnum):
    """Exit codes."""

    DONE = 0
    CHECK_FAILED = 1  #: The answer is no: a check failed, tables differ, nothing was identified.
    USAGE = 2  #: The command line or a parameter is wrong.
    FILE = 3  #: A file cannot be read or written, or is not what it claims to be.
    DEFECT = 70  #: A defect of pecli itself.
    PIPE = 141  #: The reader of the pipe went away.

    @classmethod
    def of(cls, passed: bool) -> Exit:
        """Return the exit code of an answer that is yes or no."""
        return cls.DONE if passed else cls.CHECK_FAILED


def print_error(problem: PecliError | str, command_line: Sequence[str] = ()) -> Exit:
    """Print an error in one line on standard error, and return its exit code.

    Args:
        problem: The error; a text is an error of usage.
        command_line: The words that the user typed, which decide how options are called.
    """
    if isinstance(problem, DefectError) and os.environ.get("PECLI_DEBUG"):
        import traceback

        traceback.print_exception(problem.__cause__)
    text = str(problem)
    if isinstance(problem, ParameterError):
        text = problem.spelled(partial(_typed_name, command_line=command_line))
    _print_line("error", one_line(text))
    return _exit_code(problem)


def print_note(text: str) -> None:
    """Print a note in one line on standard error, unless the command is quiet."""
    if not _is_quiet.get():
        _print_line("note", text)


def call_quietly(
    function: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Call a function whose notes are not printed."""
    context = copy_context()
    context.run(_is_quiet.set, True)
    return context.run(function, *args, **kwargs)


def _print_line(kind: str, text: str) -> None:
    """Print «pecli: error: …» or «pecli: note: …» on standard error."""
    with suppress(OSError):  # a full disk behind standard error does not change the exit code
        line = screen.printable(f"pecli: {kind}: {text}", sys.stderr)
        print(line, file=sys.stderr, flush=True)


@singledispatch
def _exit_code(problem: PecliError | str) -> Exit:
    """Return the exit code of an error; all errors that are not registered here are about files."""
    return Exit.FILE


@_exit_code.register
def _(problem: DefectError) -> Exit:
    return Exit.DEFECT


@_exit_code.register
def _(problem: UnsupportedError) -> Exit:
    return Exit.CHECK_FAILED


@_exit_code.register(ParameterError)
@_exit_code.register(str)
def _(problem: ParameterError | str) -> Exit:
    return Exit.USAGE


def _typed_name(name: str, command_line: Sequence[str]) -> str:
    """Return a parameter's name as the user typed it: `--theta` for `base` if `--theta` was typed.

    Args:
        name: The name of the parameter in Python.
        command_line: The words that the user typed; empty if a function was called from Python.
    """
    from pecli.engine.schemes.rope import Rope

    typed_words = {word.partition("=")[0] for word in command_line}
    if name == "model" and _can_only_be_argument(typed_words):
        return "MODEL"
    rope_parameter = Rope.parameters().get(name)  # No other scheme has parameters with aliases.
    if rope_parameter is not None:
        for alias in rope_parameter.aliases:
            if alias in typed_words:
                return alias
    return option_name(name)


def _can_only_be_argument(typed_words: set[str]) -> bool:
    """Return True if a model was typed without an option, as MODEL in `pecli config MODEL`.

    >>> _can_only_be_argument({"config", "llama-2-7b"}), _can_only_be_argument({"rope", "--model"})
    (True, False)
    """
    is_called_from_python = not typed_words
    has_option_of_model = not typed_words.isdisjoint(("--model", "--config"))
    return not is_called_from_python and not has_option_of_model


def option_name(name: str) -> str:
    """Return a parameter's name on the command line, or that of one of its values.

    >>> option_name("seq_len"), option_name("recipes[0]"), option_name("FILE")
    ('--seq-len', '--recipes[0]', 'FILE')
    """
    parameter, bracket, index = name.partition("[")
    is_option = parameter.islower() and parameter.replace("_", "").isalnum()
    if not is_option:
        return name
    return f"--{parameter.replace('_', '-')}{bracket}{index}"
