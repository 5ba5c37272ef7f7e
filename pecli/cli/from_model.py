"""`--config` and `--model`: a scheme as a model uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import options
from pecli.cli.options import parsed
from pecli.engine.schemes.parameters import Parameter
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding

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
OPTIONS = (("config", Config, None), ("model", Model, None), ("layer_type", LayerType, None))

_PLACES = ("positions", "grid", "keep", "grid_base", "grid_scale")
_BESIDE = ("seq_len", "offset", "layout", "length", "recipe", "runtime", "dtype", *_PLACES)
"""What the command line still decides."""


def scheme_of(values: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Scheme | None:
    """The scheme that the options name a model for; None where they name none."""
    if not is_named(values):
        return None
    given = beside(values, parameters)
    if not {"seq_len", "positions", "grid"} & given.keys():
        raise ParameterError("seq_len", "missing", parameters["seq_len"].rule)
    return _of_layers(values["config"], values["model"], values["layer_type"], given)


def is_named(values: Mapping[str, Any]) -> bool:
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


def beside(values: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> dict[str, Any]:
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
