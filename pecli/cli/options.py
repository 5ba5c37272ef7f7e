"""Options that commands share, those that derive from a scheme's parameters or name a model, and the scheme of them."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import command_of, keyword, option_name, print_note, with_options
from pecli.engine.schemes import Choice, Flag, Parameter, scheme_named
from pecli.errors import ParameterError, spelled

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance
    from pecli.engine.schemes.scheme import Scheme
    from pecli.models.encoding import Encoding, ModelEncodings


MAX_METAVAR = 16
"""Letters of choices in brackets: on a terminal of 80 columns, help would break more of them inside of a word."""
OUTPUT = "Output"
CHECK = "Check"
PAIRS = Choice(help="a layout of pairs", options=("halves", "interleaved", "deepseek"))
FORMATS = "Write to .npy, .npz, .safetensors, .csv, .json, .h or .zarr; - is standard output"


def text(name: str, metavar: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that takes a value, as text; a parameter's own rule parses it."""
    return typer.Option(name, metavar=metavar, help=help, show_default=False, rich_help_panel=panel, **more)


def choice(name: str, choices: tuple[str, ...], help: str, panel: str | None = None, metavar: str = "NAME") -> Any:
    """An option that takes one of a few words, which a shell completes."""
    return text(name, metavar, help, panel, autocompletion=completer(choices))


def completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What completes a word in a shell."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Never draw a progress bar.", rich_help_panel=OUTPUT)]
Plot = Annotated[
    bool, typer.Option("--plot", help="Draw the table in the terminal; see pecli plot.", rich_help_panel=OUTPUT)
]
_ULPS = "Maximum error in ULPs (units in the last place). (default: 0)"
MaxUlp = Annotated[str | None, text("--max-ulp", "INTEGER", _ULPS, CHECK)]
Atol = Annotated[str | None, text("--atol", "NUMBER", "Absolute tolerance; not for inv_freq and slopes.", CHECK)]
_RELATIVE = "Relative tolerance. (of inv_freq and slopes, where any tolerance is given: 1e-5)"
Rtol = Annotated[str | None, text("--rtol", "NUMBER", _RELATIVE, CHECK)]


def output(help: str, panel: str | None = OUTPUT) -> Any:
    """`--output`, with what is written there."""
    return typer.Option("--output", "-o", metavar="FILE", help=help, show_default=False, rich_help_panel=panel)


MODEL = "a config.json or params.json, a folder with one, a .gguf, a preset, or a repository in the local cache"
"""Whatever says what a model is; `--config` and `--model` both take it."""


def model(help: str, panel: str | None = None, name: str = "--model") -> Any:
    """`--model` or `--config`, with what it is for; a shell completes the names of presets."""
    return text(name, "MODEL", help, panel, autocompletion=preset_names)


def check_output(path: str, *, json: bool, example: str) -> None:
    """Refuse a table where JSON goes, or on a terminal."""
    if path == "-" and json:
        raise ParameterError("json", "given with -o -", "standard output holds either the table or JSON")
    if path == "-" and sys.stdout.isatty():
        raise ParameterError(
            "output", "-", "refusing to write binary to a terminal", f"redirect it: … -o - > {example}"
        )


def preset_names(incomplete: str) -> list[str]:
    """What completes the name of a model in a shell: names of presets, or repositories once there is an owner."""
    from pecli.models.presets import presets

    word = incomplete.lower()
    names = [preset.repository if "/" in word else preset.name for preset in presets().values()]
    return [name for name in names if name.lower().startswith(word)]


def tolerances(max_ulp: str | None, atol: str | None, rtol: str | None) -> dict[str, Any]:
    """What the three options give, of those that were given."""
    from pecli.checks.tolerance import ERROR, MAX_ULP

    texts = (("max_ulp", max_ulp, MAX_ULP), ("atol", atol, ERROR), ("rtol", rtol, ERROR))
    return {name: parameter.parse(name, text) for name, text, parameter in texts if text is not None}


def tolerance(max_ulp: str | None, atol: str | None, rtol: str | None) -> Tolerance:
    """The tolerance that the three options ask for."""
    from pecli.checks.tolerance import Tolerance

    return Tolerance(**tolerances(max_ulp, atol, rtol))


def option(name: str, parameter: Parameter, kind: type[Scheme]) -> inspect.Parameter:
    """A parameter as an option. Values come as text, so that the parameter's own rule speaks when they are wrong."""
    default = kind.default_of(name)
    if type(parameter) is Flag:
        both = f"--{name.replace('_', '-')}/--no-{name.replace('_', '-')}"
        info = typer.Option(both, help=_sentence(parameter.help), show_default=False)
        return keyword(name, Annotated[bool | None, info], None)
    choices = parameter.options if isinstance(parameter, Choice) else ()
    is_long = len("|".join(choices)) > MAX_METAVAR
    info = typer.Option(
        *sorted((f"--{name.replace('_', '-')}", *parameter.aliases), key=len),  # a long name hides one behind it
        metavar="NAME" if is_long else f"[{'|'.join(choices)}]" if choices else parameter.metavar,
        help=_sentence(parameter.help + (f": {', '.join(choices)}" if is_long else "")) + _note(default),
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


_HALVES = ("neox", "neox-style", "rotate-half", "split", "half")
_INTERLEAVED = ("gptj", "gpt-j", "traditional", "norm", "normal", "adjacent", "rotate-every-two")
_LAYOUTS = dict.fromkeys(_HALVES, "halves") | dict.fromkeys(_INTERLEAVED, "interleaved")
VALUE_SYNONYMS = {
    **dict.fromkeys(("layout", "from", "to"), _LAYOUTS),
    "scaling": {"su": "longrope", "ntk-aware": "ntk", "default": "none", "dynamic-ntk": "dynamic"},
    "dtype": {
        **dict.fromkeys(("fp64", "f64", "double"), "float64"),
        **dict.fromkeys(("fp32", "f32", "float", "single"), "float32"),
        **dict.fromkeys(("fp16", "f16", "half"), "float16"),
        **dict.fromkeys(("bf16",), "bfloat16"),
    },
}
"""What other programs call the values of an option."""


def parse(name: str, parameter: Parameter, text: str) -> Any:
    """The value that an option's text stands for, which may be the array in a file."""
    text = VALUE_SYNONYMS.get(name, {}).get(text.lower().replace("_", "-"), text)
    if parameter.is_value(text):
        return parameter.parse(name, text)
    from pecli.tensors.inputs import read_numbers

    return parameter.check(name, read_numbers(name, text))


def parsed(parameters: Mapping[str, Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the options that were given."""
    return {
        name: values[name] if type(parameter) is Flag else parse(name, parameter, values[name])
        for name, parameter in parameters.items()
        if values[name] is not None
    }


def options_of(kind: type[Scheme]) -> list[inspect.Parameter]:
    """The options that make a scheme of that kind, as parameters of a Typer command."""
    own = [option(label, parameter, kind) for label, parameter in kind.parameters().items()]
    return own + [keyword(*each) for each in _model_options(kind)]


def parse_scheme(name: str, words: Sequence[str], defaults: Mapping[str, str] | None = None) -> Scheme:
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
    implied = {"seq_len": ("positions", "grid"), "dim": ("axes",)}
    for label, text in (defaults or {}).items():
        if any(values.get(other) is not None for other in implied.get(label, ())):
            continue
        if label in values and values[label] is None and (label == "seq_len" or not modelled):
            values[label] = text
    return scheme_from(kind, values)


def _model_options(kind: type[Scheme]) -> tuple[tuple[str, Any, Any], ...]:
    """Options that name a model: one whose rotary encodings are meant, or one that has a table of this scheme."""
    return MODEL_OPTIONS if kind.is_configured else PART_OPTIONS


def scheme_from(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme:
    """The scheme that the options ask for; only what was given is passed on, so that a style can fill in the rest."""
    if "config" in values:
        modelled = _of_model(values, kind.parameters()) if kind.is_configured else _part_of_model(kind, values)
        if modelled is not None:
            return modelled
    given = parsed(kind.parameters(), values)
    for name, parameter in kind.parameters().items():
        if name not in given and kind.default_of(name) is MISSING:
            raise ParameterError(name, "missing", parameter.rule)
    return kind(**given)


_PANEL = "From a model"

_HELP = f"Take --dim, --theta, --scaling, … from a model: {MODEL}. Options beside it override it."
Config = Annotated[str | None, model(_HELP, _PANEL, "--config")]
Model = Annotated[str | None, model("The same; pecli models lists the presets.", _PANEL)]
_LAYERS = "Only layers of this type, where a model has several."
LayerType = Annotated[str | None, text("--layer-type", "NAME", _LAYERS, _PANEL)]
MODEL_OPTIONS = (("config", Config, None), ("model", Model, None), ("layer_type", LayerType, None))

_PART_HELP = f"Take the parameters from a model that has such a table: {MODEL}. Options beside it override it."
PART_OPTIONS = (("config", Annotated[str | None, model(_PART_HELP, _PANEL, "--config")], None), *MODEL_OPTIONS[1:])

_PLACES = ("positions", "grid", "keep", "grid_base", "grid_scale")
_BESIDE_MODEL = ("seq_len", "offset", "layout", "length", "recipe", "runtime", "dtype", *_PLACES)
"""What no model says; anything else that is given beside one is in place of what it says."""


def _of_model(values: Mapping[str, Any], parameters: Mapping[str, Parameter]) -> Scheme | None:
    """The scheme that the options name a model for; None where they name none."""
    if not names_model(values):
        return None
    given = parsed(parameters, values)
    if not {"seq_len", "positions", "grid"} & given.keys():
        raise ParameterError("seq_len", "missing", parameters["seq_len"].rule)
    return _of_layers(values, given)


ModelArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL", help="A preset, config.json, params.json, .gguf, or a folder with one.", show_default=False
    ),
]


def one_model(*names: str | None) -> str:
    """The model that is named, once, by an argument or an option."""
    given = [name for name in names if name is not None]
    if len(given) != 1:
        count = "missing" if not given else f"given {len(given)} times"
        raise ParameterError("MODEL", count, "name one model", "see pecli models")
    return given[0]


def _part_of_model(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme | None:
    """The scheme of a model's table of that kind, with what was given in place of what the model says."""
    if not names_model(values):
        return None
    from pecli.models.find import find_model

    found, layer_type = find_model(values["config"], values["model"]), values["layer_type"]
    parts = [each for each in found if each.scheme in (kind.name, kind.name.removesuffix("-init"))]
    chosen = [each for each in parts if layer_type in (None, each.layer_type)]
    if len(chosen) != 1:
        names = ", ".join(repr(each.layer_type) for each in parts)
        if not names:
            schemes = ", ".join(dict.fromkeys(each.scheme for each in found)) or "no encoding that pecli makes"
            raise ParameterError("model", repr(found.file), f"it has no {kind.name} table, but {schemes}")
        given = repr(layer_type) if layer_type else "missing"
        raise ParameterError("layer_type", given, f"{found.file} has {kind.name} tables for {names}", "name one")
    own = {name: value for name, value in chosen[0].parameters.items() if name in kind.parameters()}
    return kind(**own | parsed(kind.parameters(), values))


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


def model_encodings(
    values: Mapping[str, Any], given: Mapping[str, Any], *, one: bool = False
) -> tuple[ModelEncodings, tuple[Encoding, ...], dict[str, Any]]:
    """The model that the options name, its rotary encodings (or one) with what was given in place of what it says, and
    what else was given. A note tells what is not the model's own.
    """
    from pecli.models.find import find_model

    config, layer_type = values["config"], values["layer_type"]
    model = find_model(config, values["model"])
    encodings = (model.one(layer_type),) if one or layer_type is not None else model.ropes()
    own = {name: value for name, value in given.items() if name not in _BESIDE_MODEL}
    rest = {name: value for name, value in given.items() if name in _BESIDE_MODEL}
    if own and encodings:
        changed = tuple(_overridden(encoding, own, model.context) for encoding in encodings)
        before = encodings[0].parameters
        rules = scheme_named("rope").parameters()
        names = {name: (*rules[name].aliases, option_name(name))[0] for name in own}
        lines = [f"{names[name]} {spelled(value)}{_instead(before.get(name))}" for name, value in own.items()]
        print_note(f"not as {model.file} has it: {', '.join(lines)}")
        encodings = changed
    return model, encodings, rest


def _instead(value: Any) -> str:
    return "" if value is None else f" instead of {spelled(value)}"


def _overridden(encoding: Encoding, changes: Mapping[str, Any], context: int | None) -> Encoding:
    """An encoding with some parameters of a model replaced. Another scaling takes none of the old one's parameters but
    the length that the model was trained on, which is its context where the old one has none.
    """
    from pecli.engine.scalings import SCALINGS
    from pecli.engine.schemes.rope import Rope

    parameters, extra = dict(encoding.parameters), dict(encoding.extra)
    scaling = changes.get("scaling", parameters.get("scaling"))
    if scaling != parameters.get("scaling"):
        trained = parameters.get("original_max_position_embeddings") or context
        parameters = {name: value for name, value in parameters.items() if name not in Rope.scaling_parameters()}
        extra.pop("mscales", None)
        taken = SCALINGS[scaling].required() + SCALINGS[scaling].optional()
        lengths = ("original_max_position_embeddings", "max_position_embeddings")
        for name in [name for name in lengths if name in taken and trained is not None][:1]:
            parameters[name] = trained
    if "attention_factor" in changes:
        extra.pop("mscales", None)
    return replace(encoding, parameters={**parameters, **changes}, extra=extra)


def _of_layers(values: Mapping[str, Any], given: dict[str, Any]) -> Scheme:
    from pecli.engine.schemes.bundle import Bundle

    model, encodings, rest = model_encodings(values, given)
    what = "config" if values["config"] else "model"
    if not encodings:
        kinds = ", ".join(sorted({encoding.scheme for encoding in model.encodings})) or "none"
        raise ParameterError(what, model.file, f"it has no rotary encoding (found: {kinds})")
    placed = {"positions", "grid"} & rest.keys()
    reasons = (encoding.no_table for encoding in encodings if not (placed and "style" in encoding.extra))
    reason = next(filter(None, reasons), "")
    if reason:
        raise ParameterError(what, model.file, f"it has no table over positions 0, 1, 2, …: {reason}")
    schemes = {encoding.layer_type: encoding.rope(**rest) for encoding in encodings}
    if len(schemes) == 1:
        (scheme,) = schemes.values()
        return scheme
    return Bundle(tuple(schemes.items()), dtype=rest.get("dtype", "float32"))
