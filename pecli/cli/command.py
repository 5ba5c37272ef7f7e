"""How functions become commands: their options, the examples below their help."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import typer
import typer.main

Run = Callable[..., int]
"""What a command does with its options; the exit code."""


def new_app(**settings: Any) -> typer.Typer:
    """A Typer application as all of pecli's are."""
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, **settings)


def command_of(run: Run, name: str, shown: tuple[str, ...], **settings: Any) -> Any:
    """The command that runs a function, with examples shown at the end of its help."""
    app = new_app()
    app.command(name, epilog=examples(shown), **settings)(run)
    return typer.main.get_command(app)


def with_options(run: Run, options: Iterable[inspect.Parameter]) -> Run:
    """A function of `**values` as one that has these options."""
    run.__signature__ = inspect.Signature(list(options))  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """An argument of a command's function; required where it has no default."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def examples(lines: tuple[str, ...]) -> str:
    """Examples for the end of a command's help."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])


def command_line(words: Iterable[str], options: Mapping[str, Any]) -> str:
    """A command line that can be run again: words, and the options that were given.

    >>> command_line(["plot", "a b.npy"], {"kind": "curves", "dark": True, "max_ulp": None, "label": ["x", "y"]})
    "pecli plot 'a b.npy' --kind curves --dark --label x --label y"
    """
    parts = ["pecli", *words]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        for each in value if isinstance(value, list) else [value]:
            parts += [option] if each is True else [] if each in (None, False) else [option, str(each)]
    return shlex.join(parts)
