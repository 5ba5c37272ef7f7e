"""Options that commands share: how they are declared, and how their texts become values."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter as Option
from typing import Annotated, Any, TypeVar

import typer

from pecli.cli.commands import OUTPUT as OUTPUT
from pecli.cli.messages import print_note
from pecli.engine.named_values import MutableValues, NamedValues
from pecli.engine.schemes.parameters import Choice, Flag, ParameterRule, Real
from pecli.errors import ParameterError
from pecli.files.formats import one_of, written_suffixes

TABLE = "Table"
CHECK = "Check"
FROM_MODEL = "From a model"
RAW_FILES = "Raw files"
"""Panels of the help."""

REQUIRED = Option.empty
"""The default of an option that has to be given."""

Values = NamedValues
"""The values of a command's options by name; None if an option was not given."""


def _keyword(name: str, info: object, kind: Any, default: object) -> Option:
    """Return a parameter of a function as Typer reads it.

    Args:
        name: The parameter's name in Python.
        info: Typer's description of the option or argument.
        kind: The type of its value; None is always accepted, for an option that is not given.
        default: The default, or REQUIRED.
    """
    annotation = Annotated[kind | None, info]
    return Option(name, Option.KEYWORD_ONLY, annotation=annotation, default=default)


def argument(
    name: str, metavar: str, help: str, *, several: bool = False, default: object = REQUIRED
) -> Option:
    """Return an argument, which is a list if there can be several of it."""
    info = typer.Argument(metavar=metavar, help=help, show_default=False)
    kind = list[str] if several else str
    return _keyword(name, info, kind, default)


def text(
    names: str,
    metavar: str,
    help: str,
    panel: str | None = None,
    *,
    name: str = "",
    default: object = None,
    several: bool = False,
    choices: Sequence[str] = (),
    complete: Callable[[str], list[str]] | None = None,
    rule: ParameterRule | None = None,
    hidden: bool = False,
) -> Option:
    """Return an option with a value.

    Args:
        names: Its names, such as `--output -o`.
        metavar: The placeholder of the value in the help.
        help: The help.
        panel: The panel of the help.
        name: Its name in Python; by default the first of its names.
        default: Its value if it is not given.
        several: It can be repeated, and its value is a list, empty if it is not given.
        choices: Values that a shell completes.
        complete: A function that completes values instead.
        rule: The rule that parses the value; without one it stays a text.
        hidden: Leave it out of the help.
    """
    python_name = name or _python_name(names)
    completed_values = rule.options if isinstance(rule, Choice) else choices
    completion = _completion(completed_values) if completed_values else complete
    settings: MutableValues = {}
    if rule is not None:
        settings["callback"] = _parser(python_name, rule)
    info = typer.Option(
        *names.split(),
        metavar=metavar,
        help=help,
        show_default=False,
        hidden=hidden,
        autocompletion=completion,
        rich_help_panel=panel,
        **settings,
    )
    if several:
        return _keyword(python_name, info, list[str], [])
    return _keyword(python_name, info, str, default)


# Typer inspects the parameters of these callbacks, so that they have to be plain functions.


def _completion(choices: Sequence[str]) -> Callable[[str], list[str]]:
    """Return a function that completes an unfinished word in a shell."""

    def complete(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return complete


def _parser(name: str, rule: ParameterRule) -> Callable[[str | None], object]:
    """Return the callback of an option that is parsed by a rule."""

    def parse_value(value: str | None) -> object:
        if value is None:
            return None
        return parse(name, rule, value)

    return parse_value


def flag(names: str, help: str, panel: str | None = None, default: bool | None = False) -> Option:
    """Return an option without a value.

    Args:
        names: Its names, such as `--quiet -q`, or with its opposite `--plot/--no-plot`.
        help: The help.
        panel: The panel of the help.
        default: Its value if it is not given; None if a command has to notice this.
    """
    info = typer.Option(*names.split(), help=help, show_default=False, rich_help_panel=panel)
    return _keyword(_python_name(names), info, bool, default)


def _python_name(names: str) -> str:
    """Return the Python name of an option: `max_ulp` of `--max-ulp`, `plot` of `--plot/--no-plot`."""
    first = re.split("[ /]", names)[0]
    return first.removeprefix("--").replace("-", "_")


def output(
    help: str, panel: str | None = OUTPUT, default: object = None, rule: ParameterRule | None = None
) -> Option:
    """Return `--output` with a help that describes the file."""
    return text("--output -o", "FILE", help, panel, default=default, rule=rule)


def picture(help: str, panel: str = OUTPUT) -> Option:
    """Return `--output` of a figure; the help must end such that «.png, .svg or .pdf.» can follow."""
    return output(f"{help} .png, .svg or .pdf.", panel, rule=_FigureFile(help=""))


class _FigureFile(ParameterRule):
    """A path of a figure, whose suffix is checked before any work is done."""

    def check(self, name: str, value: object) -> str:
        from pecli.views.pictures.figure_files import check_suffix

        path = str(value)
        check_suffix(path)
        return path


TABLES = f"Write to {one_of(written_suffixes())}; - is standard output."
NO_HEADER = flag("--no-header", "Write .csv without column names.", OUTPUT)
PREFIX = text(
    "--prefix", "NAME", "Begin of the names in a .h file. (default: the file's name)", OUTPUT
)
DRIFT_PICTURE = picture("Draw the errors over positions:")
JSON = flag("--json", "Print JSON, one object per line.", OUTPUT)
QUIET = flag("--quiet -q", "Print nothing but errors.", OUTPUT)
ANSWER = (JSON, QUIET)
"""Options of a command that prints an answer."""
WORK = (*ANSWER, flag("--no-progress", "Never draw a progress bar.", OUTPUT))
"""Options of a command that may take long."""
TOLERANCES = (
    text(
        "--max-ulp",
        "INTEGER",
        "Maximum error in ULPs (units in the last place). (default: 0)",
        CHECK,
    ),
    text("--atol", "NUMBER", "Absolute tolerance; not for inv_freq and slopes.", CHECK),
    text(
        "--rtol",
        "NUMBER",
        "Relative tolerance. (inv_freq and slopes: 1e-5 if any tolerance is given)",
        CHECK,
    ),
)
RAW = (
    text("--shape", "N,N,…", "Shape of raw files or text; one length may be -1.", RAW_FILES),
    text("--raw-dtype", "NAME", "Raw dtype: f32, f16, bf16, …; >f4 is big-endian.", RAW_FILES),
)
"""Options of a command that reads arrays. They apply to all its files without a known format, and
every command handles them in the same way: see `commands.command_of`."""
METHODS = ("linear", "cubic", "nearest", "slice", "crop")
"""The methods of `pecli.tensors.interpolation`, which is not imported for the help."""
SCALE_OFFSET = Real(help="added to the new size", at_least=0)


def interpolation(method: str, panel: str | None = None) -> tuple[Option, ...]:
    """Return the options that choose an interpolation; `method` is the help of the first."""
    antialias = (
        "torch's antialias: average over more rows when shrinking. timm and open_clip set it."
    )
    corners = "torch's align_corners: the first and last rows stay in place. Qwen3-VL sets it."
    offset = "Added to the new size before it is divided by the old one: 0.1 in DINO and DINOv2."
    return (
        text("--method", "NAME", method, panel, choices=METHODS),
        flag("--antialias", antialias, panel, default=None),
        flag("--align-corners", corners, panel, default=None),
        text("--scale-offset", "NUMBER", offset, panel, rule=SCALE_OFFSET),
    )


MODEL = (
    "a config.json or params.json, a folder with one, a .gguf, a preset, "
    "or a repository in the local cache"
)
"""All that `--model` and `--config` accept."""


FLAGS_HELP = (
    "Apply the flags of a server's command line, or a part of it: vLLM, SGLang, llama.cpp, "
    "koboldcpp, exllama, TabbyAPI, Ollama, text-generation-webui, transformers."
)


def server_flags(panel: str | None = None) -> Option:
    """Return `--flags`."""
    return text("--flags", "LINE", FLAGS_HELP, panel)


def preset_names(incomplete: str) -> list[str]:
    """Return the presets that complete a name in a shell; after an owner and a slash, repositories."""
    from pecli.models.presets import presets

    word = incomplete.lower()
    names = [preset.repository if "/" in word else preset.name for preset in presets().values()]
    return [name for name in names if name.lower().startswith(word)]


def model_options(
    help: str,
    panel: str = FROM_MODEL,
    layers: str = "Only layers of this type, if a model has several.",
) -> tuple[Option, ...]:
    """Return the options that name a model and one type of its layers."""
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
"""A model as an argument or an option, and one type of its layers."""
ONE_MODEL = MODEL_ARGUMENT[:3]
"""A model as an argument or an option; all its layers."""


def one_model(values: Values) -> str:
    """Return the model that an argument or an option names.

    Raises:
        ParameterError: There is none, or more than one.
    """
    names = _model_names(values)
    if len(names) != 1:
        count = "missing" if not names else f"given {len(names)} times"
        raise ParameterError("MODEL", count, "name one model", "see pecli models")
    (model,) = names
    note_preset(model)
    return model


def model_name(values: Values) -> str | None:
    """Return the value of `--model` or `--config`; None if neither was given.

    The full name of a model is printed if the user typed a short one: «mistral → mistral-7b-v0.3».

    Raises:
        ParameterError: Both were given, or `--layer-type` without a model.
    """
    names = _model_names(values)
    if not names:
        rule = "layers belong to a model"
        refuse(values, ["layer_type"], rule, advice="add --config or --model", show=repr)
        return None
    if len(names) > 1:
        rule = "the model is named by --config or --model, not both"
        raise ParameterError("model", repr(names[1]), rule)
    note_preset(names[0])
    return names[0]


def _model_names(values: Values) -> list[str]:
    """Return the models that a command line names: by an argument, by --config, by --model."""
    named = [values.get(name) for name in ("named", "config", "model")]
    return [str(name) for name in named if name is not None]


def note_preset(name: str) -> None:
    """Print the full name of a preset that is named by a short one: «mistral → mistral-7b-v0.3».

    A file of this name takes precedence over a preset.
    """
    from pecli.models.presets import stands_for

    if os.path.lexists(name):
        return
    preset = stands_for(name)
    if preset:
        print_note(f"{name} → {preset}")


def check_output(path: str, *, json: bool) -> None:
    """Raise ParameterError for a suffix without a format, and for a table on a terminal or beside JSON."""
    from pecli.files import format_of

    format_of(path)
    if path != "-":
        return
    if json:
        rule = "standard output holds either the table or JSON"
        raise ParameterError("json", "given with -o -", rule)
    if sys.stdout.isatty():
        rule = "refusing to write binary to a terminal"
        raise ParameterError("output", "-", rule, "redirect it: … -o - > pe.npy")


Item = TypeVar("Item")


def only(items: Mapping[str, Item], names: Collection[str]) -> dict[str, Item]:
    """Return the items of some names."""
    return {name: item for name, item in items.items() if name in names}


def without(items: Mapping[str, Item], names: Collection[str]) -> dict[str, Item]:
    """Return all items except those of some names."""
    return {name: item for name, item in items.items() if name not in names}


def refuse(
    values: Values,
    names: Iterable[str],
    rule: str,
    advice: str,
    show: Callable[[object], str] = str,
) -> None:
    """Raise ParameterError for the first of some options that was given.

    For example `--size 8x5` without a file: «--size is 8x5; it only applies with -o; add -o x.png».

    Args:
        values: The values of a command's options.
        names: Options that have no effect here, or contradict others.
        rule: The reason.
        advice: What to do instead.
        show: Returns the value of an option as the error shows it.
    """
    for name in names:
        value = values.get(name)
        is_given = value is not None and value is not False
        if is_given:
            raise ParameterError(name, show(value), rule, advice)


def is_same_file(path: str, other: str) -> bool:
    """Return True if two paths lead to one file; False if one of them does not exist."""
    try:
        return os.path.samefile(path, other)
    except (OSError, ValueError):  # Python raises a ValueError for a path with a NUL.
        return False


def shows_progress(values: Values) -> bool:
    """Return True unless the options ask for silence."""
    return not values["quiet"] and not values["no_progress"]


def tolerances(values: Values) -> MutableValues:
    """Return the tolerances that were given."""
    from pecli.compare.tolerance import ERROR, MAX_ULP

    return parsed({"max_ulp": MAX_ULP, "atol": ERROR, "rtol": ERROR}, values)


def parse(name: str, parameter: ParameterRule, text: str) -> Any:
    """Return the value of an option's text; if it is not a value but a file, the array in the file.

    `--positions 0,1,5` is a list, and `--positions ids.npy` is a file with one.
    """
    if parameter.is_value(text):
        return parameter.parse(name, text)
    return parameter.check(name, value_or_array(name, parameter, text))


def value_or_array(name: str, parameter: ParameterRule, text: str) -> Any:
    """Return the parsed value of an option's text, or the array in the file that it names."""
    if parameter.is_value(text):
        return parameter.parse(name, text)
    from pecli.tensors.inputs import read_numbers

    return read_numbers(name, text)


def parsed(parameters: Mapping[str, ParameterRule], values: Values) -> MutableValues:
    """Return the values of the parameters that were given: {"dim": 64} for `--dim 64`.

    Typer has parsed flags; all others are still texts here.
    """
    results: MutableValues = {}
    for name, parameter in parameters.items():
        value = values[name]
        if value is None:
            continue
        results[name] = value if type(parameter) is Flag else parse(name, parameter, value)
    return results
