"""Answers of commands on standard output, and the command line that a figure carries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from pecli.cli.messages import Exit
from pecli.engine import __version__
from pecli.engine.named_values import JsonObject
from pecli.views import screen
from pecli.views.command_lines import command_line


class HasJson(Protocol):
    """A result that can be printed as JSON."""

    def as_json(self) -> JsonObject: ...


Result = TypeVar("Result", bound=HasJson)


def answer(
    result: Result, show: Callable[[Result], None], *, json: bool, quiet: bool = False
) -> Exit:
    """Print a result with `show` or as JSON, and return 1 if it is false, else 0.

    Args:
        result: The result.
        show: The view that prints it.
        json: Print JSON.
        quiet: Print nothing, unless it is JSON.
    """
    print_answer(result.as_json, partial(show, result), json=json, quiet=quiet)
    return Exit.of(bool(result))


def print_answer(
    as_json: Callable[[], JsonObject], show: Callable[[], object], *, json: bool, quiet: bool
) -> None:
    """Print an answer in the form that the options of a command choose.

    Args:
        as_json: Returns the answer for JSON.
        show: Prints the answer for people.
        json: Print JSON.
        quiet: Print nothing, unless it is JSON.
    """
    if json:
        screen.print_json(as_json())
    elif not quiet:
        show()


def answer_with_figure(
    result: Result,
    show: Callable[[Result], None],
    output: str | None,
    save: Callable[[str], None],
    *,
    json: bool,
    quiet: bool,
) -> Exit:
    """Write the figure of a result if a path is given, print the result, and return 1 if it is false.

    Args:
        result: The result.
        show: The view that prints it.
        output: The path of the figure, which JSON has as `output`; None if none is wanted.
        save: Draws the figure and writes it to a path.
        json: Print JSON.
        quiet: Print nothing, unless it is JSON.
    """
    if output is not None:
        save(output)

    def as_json() -> JsonObject:
        return {**result.as_json(), "output": output}

    def show_with_path() -> None:
        show(result)
        if output is not None:
            screen.print_written(output)

    print_answer(as_json, show_with_path, json=json, quiet=quiet)
    return Exit.of(bool(result))


def provenance(words: Iterable[str], options: Mapping[str, object]) -> JsonObject:
    """Return the metadata of a figure: the command that draws it again, and pecli's version."""
    return {"command": command_line(words, options), "version": __version__}
