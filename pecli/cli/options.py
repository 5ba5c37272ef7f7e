"""Options that several commands share, and those that derive from a scheme's parameters."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.cli.command import keyword
from pecli.engine.schemes.parameters import Choice, Flag, Parameter
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance
    from pecli.engine.schemes.scheme import Scheme

MAX_METAVAR = 16
"""Letters of choices in brackets: on a terminal of 80 columns, help would break more of them inside of a word."""
OUTPUT = "Output"
CHECK = "Check"
PAIRS = Choice(help="a layout of pairs", options=("halves", "interleaved", "deepseek"))
FORMATS = "Write to .npy, .npz, .safetensors, .csv, .json, .h or .zarr; - is standard output"

Json = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)]
NoProgress = Annotated[bool, typer.Option("--no-progress", help="Never draw a progress bar.", rich_help_panel=OUTPUT)]
Plot = Annotated[
    bool, typer.Option("--plot", help="Draw the table in the terminal; see pecli plot.", rich_help_panel=OUTPUT)
]
MaxUlp = Annotated[
    str | None,
    typer.Option(
        "--max-ulp",
        metavar="INTEGER",
        help="Let elements be off by this many units of the last place. (default: 0)",
        rich_help_panel=CHECK,
    ),
]
Atol = Annotated[
    str | None,
    typer.Option(
        "--atol", metavar="NUMBER", help="Absolute tolerance; not for inv_freq and slopes.", rich_help_panel=CHECK
    ),
]
Rtol = Annotated[
    str | None,
    typer.Option(
        "--rtol",
        metavar="NUMBER",
        help="Relative tolerance. (of inv_freq and slopes, where any tolerance is given: 1e-5)",
        rich_help_panel=CHECK,
    ),
]


def output(help: str, panel: str | None = OUTPUT) -> Any:
    """`--output`, with what is written there."""
    return typer.Option("--output", "-o", metavar="FILE", help=help, show_default=False, rich_help_panel=panel)


MODEL = "a config.json or params.json, a folder with one, a .gguf, a preset, or a repository in the local cache"
"""Whatever says what a model is; `--config` and `--model` both take it."""


def model(help: str, panel: str | None = None, name: str = "--model") -> Any:
    """`--model` or `--config`, with what it is for; a shell completes the names of presets."""
    return typer.Option(
        name,
        metavar="MODEL",
        help=help,
        show_default=False,
        rich_help_panel=panel,
        autocompletion=preset_names,
    )


def check_output(path: str, *, json: bool, example: str) -> None:
    """Refuse a table where JSON goes, or on a terminal."""
    if path == "-" and json:
        raise ParameterError("json", "given with -o -", "standard output holds either the table or JSON")
    if path == "-" and sys.stdout.isatty():
        raise ParameterError("output", "-", "a table is no text for a terminal", f"redirect it: … -o - > {example}")


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


def completer(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What completes a word in a shell."""
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


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
