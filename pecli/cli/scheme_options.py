"""Command-line options that derive from a scheme's parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import Annotated, Any

import typer

from pecli.cli.command import keyword
from pecli.engine.schemes.parameters import Choice, Flag, Parameter
from pecli.engine.schemes.scheme import Scheme


def option(name: str, parameter: Parameter, kind: type[Scheme]) -> inspect.Parameter:
    """A parameter as an option. Values come as text, so that the parameter's own rule speaks when they are wrong."""
    default = kind.default_of(name)
    if type(parameter) is Flag:
        both = f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
        info = typer.Option(both, help=_sentence(parameter.help), show_default=False)
        return keyword(name, Annotated[bool | None, info], None)
    choices = parameter.options if isinstance(parameter, Choice) else ()
    info = typer.Option(
        *sorted((f"--{name.replace('_', '-')}", *parameter.aliases), key=len),  # a long name hides one behind it
        metavar="NAME" if len(choices) > 6 else f"[{'|'.join(choices)}]" if choices else parameter.metavar,
        help=_sentence(parameter.help + (f": {', '.join(choices)}" if len(choices) > 6 else "")) + _note(default),
        show_default=False,
        rich_help_panel=parameter.panel or None,
        autocompletion=completer(choices) if choices else None,
    )
    return keyword(name, Annotated[str | None, info], None)


def _note(default: Any) -> str:
    if default is None:
        return ""
    if default is MISSING:
        return " (required)"
    return f" (default: {default:g})" if isinstance(default, float) else f" (default: {default})"


def _sentence(text: str) -> str:
    """A help text as a sentence; names before a colon, as in «yarn: …», stay as they are written."""
    named = re.match(r"\w+(, \w+)*: ", text)
    return f"{text[:1] if named else text[:1].upper()}{text[1:]}."


def completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What completes a word in a shell."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def parsed(parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the options that were given."""
    return {
        name: values[name] if type(parameter) is Flag else parameter.parse(name, values[name])
        for name, parameter in parameters.items()
        if values[name] is not None
    }
