"""From a command line to a scheme: the options of each scheme derive from its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any

import typer
import typer.main

from pecli.engine.parameters import Choice, Flag, Parameter
from pecli.engine.registry import scheme_named
from pecli.engine.scheme import Scheme
from pecli.errors import ParameterError


def options_of(kind: type[Scheme]) -> list[inspect.Parameter]:
    """The options that make a scheme of that kind, as parameters of a Typer command."""
    own = [_option(label, parameter, kind) for label, parameter in _all_parameters(kind).items()]
    return own + [keyword(*each) for each in _model_options(kind.name)]


def parse(name: str, words: Sequence[str], defaults: Mapping[str, str] | None = None) -> Scheme:
    """The scheme of that name that the words ask for; `defaults` count for what they leave out."""
    kind = scheme_named(name)
    values: dict[str, Any] = {}

    def run(**given: Any) -> None:
        values.update(given)

    run.__signature__ = inspect.Signature(options_of(kind))  # type: ignore[attr-defined]
    run.__annotations__ = {}
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name, add_help_option=False)(run)
    command: Any = typer.main.get_command(app)
    with command.make_context(f"pecli {name}", list(words)) as context:
        command.invoke(context)
    modelled = values.get("config") is not None or values.get("model") is not None
    for label, text in (defaults or {}).items():
        if label in values and values[label] is None and (label == "seq_len" or not modelled):
            values[label] = text
    return scheme_from(kind, values)


def _model_options(name: str) -> tuple[tuple[str, Any, Any], ...]:
    """Options that name a model, for the scheme that models configure."""
    if name != "rope":
        return ()
    from pecli.cli import from_model

    return from_model.OPTIONS


def _all_parameters(kind: type[Scheme]) -> dict[str, Parameter]:
    return {**kind.parameters(), **kind.presets}


def keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """An option of a Typer command."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(name: str, parameter: Parameter, kind: type[Scheme]) -> inspect.Parameter:
    """A parameter as an option. Values come as text, so that the parameter's own rule speaks when they are wrong."""
    default = _default(name, parameter, kind)
    if type(parameter) is Flag:
        both = f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
        info = typer.Option(both, help=_sentence(parameter.help), show_default=False)
        return keyword(name, Annotated[bool | None, info], None)
    choices = parameter.options if isinstance(parameter, Choice) else ()
    info = typer.Option(
        f"--{name.replace('_', '-')}",
        *parameter.aliases,
        metavar="NAME" if len(choices) > 6 else f"[{'|'.join(choices)}]" if choices else parameter.metavar,
        help=_sentence(parameter.help + (f": {', '.join(choices)}" if len(choices) > 6 else "")) + _note(default),
        show_default=False,
        rich_help_panel=parameter.panel or None,
        autocompletion=_completer(choices) if choices else None,
    )
    return keyword(name, Annotated[str | None, info], None)


def _default(name: str, parameter: Parameter, kind: type[Scheme]) -> Any:
    """What counts when the option is not given; MISSING where it must be."""
    own = {field.name: field.default for field in fields(kind)}.get(name)
    return parameter.default if own is None else own


def _note(default: Any) -> str:
    if default is MISSING:
        return " (required)"
    return (
        ""
        if default is None
        else f" (default: {default:g})"
        if isinstance(default, float)
        else f" (default: {default})"
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def scheme_from(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme:
    """The scheme that the options ask for; only what was given is passed on, so that a style can fill in the rest."""
    if "config" in values:
        from pecli.cli import from_model

        modelled = from_model.scheme_of(values, _all_parameters(kind))
        if modelled is not None:
            return modelled
    given: dict[str, Any] = {}
    for name, parameter in _all_parameters(kind).items():
        value = values[name]
        if value is not None:
            given[name] = value if type(parameter) is Flag else parameter.parse(name, value)
        elif _default(name, parameter, kind) is MISSING:
            raise ParameterError(name, "missing", parameter.rule)
    return kind(**given)
