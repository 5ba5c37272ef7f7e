"""Options that commands share, those that derive from a scheme's parameters or name a model, and the scheme of them."""

import os
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, replace
from inspect import Parameter as Option
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli import OUTPUT as OUTPUT
from pecli.cli import command_of, option_name, print_note
from pecli.engine.schemes import Choice, Flag, Parameter, scheme_named
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError, spelled

if TYPE_CHECKING:
    from pecli.models.encoding import Encoding, ModelEncodings

MAX_METAVAR = 16  #: Letters of choices in brackets: help on 80 columns would break more of them inside of a word
TABLE = "Table"
CHECK = "Check"

REQUIRED = Option.empty


def _keyword(name: str, info: Any, kind: Any, default: Any) -> Option:
    return Option(
        name, Option.KEYWORD_ONLY, annotation=Annotated[kind | None, info], default=default
    )


def argument(
    name: str, metavar: str, help: str, *, several: bool = False, default: Any = REQUIRED
) -> Option:
    """What stands on a command line without an option; `several` of them are a list."""
    info = typer.Argument(metavar=metavar, help=help, show_default=False)
    return _keyword(name, info, list[str] if several else str, default)


def text(
    names: str, metavar: str, help: str, panel: str = "", *, name: str = "", default: Any = None,
    several: bool = False, choices: Sequence[str] = (), complete: Callable[[str], list[str]] | None = None,
    rule: Parameter | None = None, hidden: bool = False,
) -> Option:  # fmt: skip
    """An option that takes a value, as text unless there is a rule that parses it; a shell completes the choices. Its
    name in Python is the first of its names, unless another is given."""
    name = name or _python_name(names)
    choices = rule.options if isinstance(rule, Choice) else choices
    if choices:

        def complete(incomplete: str) -> list[str]:
            return [choice for choice in choices if choice.startswith(incomplete)]

    about: dict[str, Any] = {
        "metavar": metavar,
        "autocompletion": complete,
        "rich_help_panel": panel or None,
    }
    if rule is not None:
        about["callback"] = lambda value: None if value is None else parse(name, rule, value)
    info = typer.Option(*names.split(), help=help, show_default=False, hidden=hidden, **about)
    return _keyword(name, info, list[str] if several else str, default)


def flag(names: str, help: str, panel: str = "", default: bool | None = False) -> Option:
    """An option without a value."""
    info = typer.Option(
        *names.split(), help=help, show_default=False, rich_help_panel=panel or None
    )
    return _keyword(_python_name(names), info, bool, default)


def _python_name(names: str) -> str:
    """That of `--max-ulp`, `--quiet -q` or `--plot/--no-plot`."""
    return re.split("[ /]", names)[0].removeprefix("--").replace("-", "_")


def output(
    help: str, panel: str = OUTPUT, default: Any = None, rule: Parameter | None = None
) -> Option:
    """`--output`, with what is written there."""
    return text("--output -o", "FILE", help, panel, default=default, rule=rule)


def picture(help: str, panel: str = OUTPUT) -> Option:
    """`--output` of a figure."""
    return output(f"{help} .png, .svg or .pdf.", panel, rule=_PictureFile(help=""))


class _PictureFile(Parameter):
    """A path whose suffix is checked before any work."""

    def check(self, name: str, value: Any) -> Any:
        from pecli.views.pictures.figure_files import check_suffix

        return check_suffix(value) and value


TABLES = "Write to .npy, .npz, .safetensors, .csv, .json, .h or .zarr; - is standard output."
NO_HEADER = flag("--no-header", "Write .csv without column names.", OUTPUT)
DRIFT_PICTURE = picture("Draw the errors over positions:")
JSON = flag("--json", "Print JSON, one object per line.", OUTPUT)
QUIET = flag("--quiet -q", "Print nothing but errors.", OUTPUT)
ANSWER = (JSON, QUIET)  #: How a command answers
WORK = (
    *ANSWER,
    flag("--no-progress", "Never draw a progress bar.", OUTPUT),
)  #: The same, of one that may take long
_RELATIVE = "Relative tolerance. (inv_freq and slopes: 1e-5, where any tolerance is given)"
TOLERANCES = (
    text(
        "--max-ulp",
        "INTEGER",
        "Maximum error in ULPs (units in the last place). (default: 0)",
        CHECK,
    ),
    text("--atol", "NUMBER", "Absolute tolerance; not for inv_freq and slopes.", CHECK),
    text("--rtol", "NUMBER", _RELATIVE, CHECK),
)
MODEL = "a config.json or params.json, a folder with one, a .gguf, a preset, or a repository in the local cache"
"""Whatever says what a model is; `--config` and `--model` both take it."""


def preset_names(incomplete: str) -> list[str]:
    """What completes the name of a model in a shell: names of presets, or repositories once there is an owner."""
    from pecli.models.presets import presets

    word = incomplete.lower()
    names = [preset.repository if "/" in word else preset.name for preset in presets().values()]
    return [name for name in names if name.lower().startswith(word)]


def model_options(
    help: str,
    panel: str = "From a model",
    layers: str = "Only layers of this type, where a model has several.",
) -> tuple[Option, ...]:
    """The options that name a model, and one kind of its layers."""
    return (
        text("--model", "MODEL", help, panel, complete=preset_names),
        text("--config", "MODEL", "The same.", panel, complete=preset_names, hidden=True),
        text("--layer-type", "NAME", layers, panel),
    )


MODEL_ARGUMENT = (
    argument(
        "named",
        "MODEL",
        "A preset, config.json, params.json, .gguf, or a folder with one.",
        default=None,
    ),
    *model_options(f"The same by an option: {MODEL}."),
)


def one_model(values: Mapping[str, Any]) -> str:
    """The model that is named, once, by an argument or an option."""
    given: list[str] = [
        values[name] for name in ("named", "config", "model") if values[name] is not None
    ]
    if len(given) != 1:
        count = "missing" if not given else f"given {len(given)} times"
        raise ParameterError("MODEL", count, "name one model", "see pecli models")
    note_preset(given[0])
    return given[0]


def note_preset(name: str) -> None:
    """Say what a short name stands for."""
    from pecli.models.presets import stands_for

    if not os.path.lexists(name) and (preset := stands_for(name)):
        print_note(f"{name} → {preset}")


def check_output(path: str, *, json: bool) -> None:
    """Refuse a format that there is not, and a table where JSON goes, or on a terminal."""
    from pecli.files import format_of

    format_of(path)
    if path == "-" and json:
        raise ParameterError(
            "json", "given with -o -", "standard output holds either the table or JSON"
        )
    if path == "-" and sys.stdout.isatty():
        raise ParameterError(
            "output", "-", "refusing to write binary to a terminal", "redirect it: … -o - > pe.npy"
        )


def shows_progress(values: Mapping[str, Any]) -> bool:
    """Return True unless the options ask for silence."""
    return not values["quiet"] and not values["no_progress"]


def tolerances(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the three options give, of those that were given."""
    from pecli.compare.tolerance import ERROR, MAX_ULP

    return parsed({"max_ulp": MAX_ULP, "atol": ERROR, "rtol": ERROR}, values)


def option(name: str, parameter: Parameter, kind: type[Scheme]) -> Option:
    """A parameter as an option. Values come as text, so that the parameter's own rule speaks when they are wrong."""
    default = kind.default_of(name)
    long = f"--{name.replace('_', '-')}"
    if type(parameter) is Flag:
        return flag(
            f"{long}/--no-{long[2:]}",
            _sentence(parameter.help),
            parameter.panel or TABLE,
            default=None,
        )
    choices = parameter.options if isinstance(parameter, Choice) else ()
    is_long = len("|".join(choices)) > MAX_METAVAR
    metavar = "NAME" if is_long else f"[{'|'.join(choices)}]" if choices else parameter.metavar
    help = _sentence(parameter.help + (f": {', '.join(choices)}" if is_long else ""))
    if default is not None:
        said = f"default: {default:g}" if isinstance(default, float) else f"default: {default}"
        help += f" ({'required' if default is MISSING else said})"
    names = sorted((long, *parameter.aliases), key=len)  # a long name hides one behind it
    return text(
        " ".join(names), metavar, help, parameter.panel or TABLE, choices=choices, name=name
    )


def _sentence(text: str) -> str:
    """A help text as a sentence; names before a colon, as in «yarn: …», stay as they are written."""
    named = re.match(r"\w+(, \w+)*: ", text)
    return f"{text[:1] if named else text[:1].upper()}{text[1:]}."


def parse(name: str, parameter: Parameter, text: str) -> Any:
    """The value that an option's text stands for, which may be the array in a file."""
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


def options_of(kind: type[Scheme]) -> list[Option]:
    """The options that make a scheme of that kind; a model has either rotary encodings or a table of that scheme."""
    rotary, other = (
        "--dim, --theta, --scaling, … from a model",
        "the parameters from a model that has such a table",
    )
    what = rotary if kind.applied_as == "rotation" else other
    return [
        *model_options(f"Take {what}: {MODEL}. Options override it; --config is the same."),
        *own_options(kind),
    ]


def own_options(kind: type[Scheme], without: Collection[str] = ()) -> list[Option]:
    """The parameters of a scheme as options."""
    return [
        option(name, rule, kind) for name, rule in kind.parameters().items() if name not in without
    ]


def parse_scheme(
    name: str, words: Sequence[str], defaults: Mapping[str, str]
) -> tuple[Scheme, str | None, str | None]:
    """The scheme that the words ask for, the model and its layers they name; `defaults` fill what they leave out."""
    kind: type[Scheme] = scheme_named(name)
    values: dict[str, Any] = {}
    command = command_of(
        name, lambda **given: values.update(given), options_of(kind), (), add_help_option=False
    )
    with command.make_context("pecli plot", list(words)) as context:
        command.invoke(context)
    instead = {"seq_len": ("positions", "grid"), "dim": ("axes", "config", "model")}
    for label, text in defaults.items():
        others = instead.get(label, ("config", "model"))
        if all(values.get(other) is None for other in (label, *others)):
            values[label] = text
    return scheme_from(kind, values), values["config"] or values["model"], values["layer_type"]


def scheme_from(kind: type[Scheme], values: Mapping[str, Any]) -> Scheme:
    """The scheme that the options ask for; only what was given is passed on, so that a style can fill in the rest."""
    given = parsed(kind.parameters(), values)
    if model_name(values) is not None:
        return (
            _rotary_scheme(values, given)
            if kind.applied_as == "rotation"
            else _table_of_model(kind, values, given)
        )
    for name, parameter in kind.parameters().items():
        if name not in given and kind.default_of(name) is MISSING:
            raise ParameterError(name, "missing", parameter.rule)
    return kind(**given)


def model_name(values: Mapping[str, Any]) -> str | None:
    """The model that the options name, if any; not two."""
    names = [values[name] for name in ("config", "model") if values.get(name) is not None]
    if len(names) > 1:
        raise ParameterError(
            "model", repr(names[1]), "the model is named by --config or --model, not both"
        )
    if not names and (layer_type := values.get("layer_type")) is not None:
        raise ParameterError(
            "layer_type", repr(layer_type), "layers belong to a model", "add --config or --model"
        )
    if not names:
        return None
    note_preset(names[0])
    return str(names[0])


def _table_of_model(
    kind: type[Scheme], values: Mapping[str, Any], given: Mapping[str, Any]
) -> Scheme:
    from pecli.models.find import find_model

    model, layer_type = find_model(values["config"], values["model"]), values["layer_type"]
    tables = [
        encoding
        for encoding in model
        if encoding.scheme in (kind.name, kind.name.removesuffix("-init"))
    ]
    if not tables:
        schemes = (
            ", ".join(dict.fromkeys(encoding.scheme for encoding in model))
            or "no encoding that pecli makes"
        )
        raise ParameterError(
            "model", repr(model.file), f"it has no {kind.name} table, but {schemes}"
        )
    table = replace(model, encodings=tuple(tables)).one(layer_type)
    own = {name: value for name, value in table.parameters.items() if name in kind.parameters()}
    return kind(**own | dict(given))


_BESIDE_MODEL = {"seq_len", "offset", "layout", "length", "recipe", "runtime", "dtype"}
_BESIDE_MODEL |= {"positions", "grid", "keep", "grid_base", "grid_scale"}
"""What no model says; anything else that is given beside one is in place of what it says."""


def _rotary_scheme(values: Mapping[str, Any], given: Mapping[str, Any]) -> Scheme:
    from pecli.engine.schemes.bundle import Bundle

    if not {"positions", "grid", "seq_len"} & given.keys():
        raise ParameterError(
            "seq_len", "missing", scheme_named("rope").parameters()["seq_len"].rule
        )
    _, encodings, rest = model_encodings(values, given)
    schemes = {encoding.layer_type: encoding.rope(**rest) for encoding in encodings}
    if len(schemes) == 1:
        return next(iter(schemes.values()))
    return Bundle(tuple(schemes.items()), dtype=rest.get("dtype", "float32"))


def model_encodings(
    values: Mapping[str, Any], given: Mapping[str, Any], *, one: bool = False
) -> "tuple[ModelEncodings, tuple[Encoding, ...], dict[str, Any]]":
    """The model that the options name, its rotary encodings (or one) with what was given in place of what it says, and
    what else was given. A note tells what is not the model's own."""
    from pecli.models.find import find_model

    model, layer_type = find_model(values["config"], values["model"]), values["layer_type"]
    if not model.ropes():
        kinds = ", ".join(sorted({encoding.scheme for encoding in model})) or "none"
        name = "config" if values["config"] else "model"
        raise ParameterError(name, model.file, f"it has no rotary encoding (found: {kinds})")
    encodings = (model.one(layer_type),) if one or layer_type is not None else model.ropes()
    changes = {name: value for name, value in given.items() if name not in _BESIDE_MODEL}
    if changes:
        before, rules, notes = encodings[0].parameters, scheme_named("rope").parameters(), []
        for name, value in changes.items():
            instead = "" if before.get(name) is None else f" instead of {spelled(before[name])}"
            notes.append(
                f"{(*rules[name].aliases, option_name(name))[0]} {spelled(value)}{instead}"
            )
        encodings = tuple(_overridden(encoding, changes, model.context) for encoding in encodings)
        print_note(f"not as {model.file} has it: {', '.join(notes)}")
    return model, encodings, {name: value for name, value in given.items() if name in _BESIDE_MODEL}


def _overridden(
    encoding: "Encoding", changes: Mapping[str, Any], context: int | None
) -> "Encoding":
    """An encoding with some parameters of a model replaced. Another scaling takes none of the old one's parameters but
    the length that the model was trained on, which is its context where the old one has none."""
    from pecli.engine.scalings import SCALINGS
    from pecli.engine.schemes.rope import Rope

    parameters, mscales = dict(encoding.parameters), encoding.mscales
    scaling = changes.get("scaling", parameters.get("scaling"))
    if scaling != parameters.get("scaling"):
        trained = parameters.get("original_max_position_embeddings") or context
        parameters = {
            name: value
            for name, value in parameters.items()
            if name not in Rope.scaling_parameters()
        }
        taken = SCALINGS[scaling].names()
        lengths = ("original_max_position_embeddings", "max_position_embeddings")
        for name in [name for name in lengths if name in taken and trained is not None][:1]:
            parameters[name] = trained
    if scaling != encoding.parameters.get("scaling") or "attention_factor" in changes:
        mscales = None
    return replace(encoding, parameters={**parameters, **changes}, mscales=mscales)
