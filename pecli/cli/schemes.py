"""From a command line to a scheme: the options of each scheme derive from its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import Any

from pecli.cli.command import command_of, keyword, with_options
from pecli.cli.options import option, parsed
from pecli.engine.schemes.registry import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError


def options_of(kind: type[Scheme]) -> list[inspect.Parameter]:
    """The options that make a scheme of that kind, as parameters of a Typer command."""
    own = [option(label, parameter, kind) for label, parameter in kind.settings().items()]
    return own + [keyword(*each) for each in _model_options(kind)]


def parse(name: str, words: Sequence[str], defaults: Mapping[str, str] | None = None) -> Scheme:
    """The scheme of that name that the words ask for; `defaults` count for what they leave out."""
    kind: type[Scheme] = scheme_named(name)
    values: dict[str, Any] = {}

    def run(**given: Any) -> int:
        values.update(given)
        return 0

    command = command_of(with_options(run, options_of(kind)), name, (), add_help_option=False)
    with command.make_context(f"pecli {name}", list(words)) as context:
        command.invoke(context)
    modelled = values.get("config") is not None or values.get("model") is not None
    for label, text in (defaults or {}).items():
        if label in values and values[label] is None and (label == "seq_len" or not modelled):
            values[label] = text
    return scheme_from(kind, values)


def _model_options(kind: type[Scheme]) -> tuple[tuple[str, Any, Any], ...]:
    """Options that name a model, for the scheme that models configure."""
    if not kind.is_configured:
        return ()
    from pecli.cli import from_model

    return from_model.OPTIONS


def scheme_from(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme:
    """The scheme that the options ask for; only what was given is passed on, so that a style can fill in the rest."""
    if "config" in values:
        from pecli.cli import from_model

        modelled = from_model.scheme_of(values, kind.settings())
        if modelled is not None:
            return modelled
    given = parsed(kind.settings(), values)
    for name, parameter in kind.settings().items():
        if name not in given and kind.default_of(name) is MISSING:
            raise ParameterError(name, "missing", parameter.rule)
    return kind(**given)
