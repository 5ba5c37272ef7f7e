"""From a command line to a scheme: by options that derive from its parameters, or as a model uses it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import options
from pecli.cli.command import command_of, keyword, with_options
from pecli.cli.options import option, parsed
from pecli.engine.schemes.parameters import Parameter
from pecli.engine.schemes.registry import scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding


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
    return MODEL_OPTIONS if kind.is_configured else ()


def scheme_from(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme:
    """The scheme that the options ask for; only what was given is passed on, so that a style can fill in the rest."""
    if "config" in values:
        modelled = _of_model(values, kind.settings())
        if modelled is not None:
            return modelled
    given = parsed(kind.settings(), values)
    for name, parameter in kind.settings().items():
        if name not in given and kind.default_of(name) is MISSING:
            raise ParameterError(name, "missing", parameter.rule)
    return kind(**given)


_PANEL = "From a model"

_HELP = f"Take --dim, --theta, --scaling, … from a model: {options.MODEL}."
Config = Annotated[str | None, options.model(_HELP, _PANEL, "--config")]
Model = Annotated[str | None, options.model("The same; pecli models lists the presets.", _PANEL)]
LayerType = Annotated[
    str | None,
    typer.Option(
        "--layer-type",
        metavar="NAME",
        help="The layers of this kind alone, where a model has several.",
        rich_help_panel=_PANEL,
    ),
]
MODEL_OPTIONS = (("config", Config, None), ("model", Model, None), ("layer_type", LayerType, None))

_PLACES = ("positions", "grid", "keep", "grid_base", "grid_scale")
_BESIDE = ("seq_len", "offset", "layout", "length", "recipe", "runtime", "dtype", *_PLACES)
"""What the command line still decides."""


def _of_model(values: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Scheme | None:
    """The scheme that the options name a model for; None where they name none."""
    if not names_model(values):
        return None
    given = given_beside(values, parameters)
    if not {"seq_len", "positions", "grid"} & given.keys():
        raise ParameterError("seq_len", "missing", parameters["seq_len"].rule)
    return _of_layers(values["config"], values["model"], values["layer_type"], given)


def names_model(values: Mapping[str, Any]) -> bool:
    """Whether the options name a model."""
    config, model, layer_type = (values.get(name) for name in ("config", "model", "layer_type"))
    if config is None and model is None:
        if layer_type is not None:
            raise ParameterError("layer_type", repr(layer_type), "layers belong to a model", "add --config or --model")
        return False
    check_one(config, model)
    return True


def check_one(config: str | None, model: str | None) -> None:
    """Refuse two names for the model."""
    if config is not None and model is not None:
        raise ParameterError("model", repr(model), "the model is named by --config or --model, not both")


def given_beside(values: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
    """The values given beside a model; what the model decides is refused."""
    for name in parameters:
        if values[name] is not None and name not in _BESIDE:
            raise ParameterError(name, values[name], "it comes from the model", "leave it out")
    return parsed(parameters, values)


def _of_layers(config: str | None, model: str | None, layer_type: str | None, given: dict[str, Any]) -> Scheme:
    from pecli.engine.schemes.bundle import Bundle
    from pecli.models.find import find_model

    found = find_model(config, model)
    encodings: tuple[Encoding, ...] = (found.one(layer_type),) if layer_type is not None else found.ropes()
    what = "config" if config else "model"
    if not encodings:
        kinds = ", ".join(sorted({encoding.scheme for encoding in found.encodings})) or "none"
        raise ParameterError(what, found.file, f"it has no rotary encoding (found: {kinds})")
    reason = next(filter(None, (encoding.no_table for encoding in encodings)), "")
    if reason:
        raise ParameterError(what, found.file, f"it has no table over positions 0, 1, 2, …: {reason}")
    schemes = {encoding.layer_type: encoding.rope(**given) for encoding in encodings}
    if len(schemes) == 1:
        (scheme,) = schemes.values()
        return scheme
    return Bundle(tuple(schemes.items()), dtype=given.get("dtype", "float32"))
