"""Options that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.engine.schemes.parameters import Choice
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance

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
    typer.Option("--atol", metavar="NUMBER", help="Let elements be off by this much.", rich_help_panel=CHECK),
]
Rtol = Annotated[
    str | None,
    typer.Option(
        "--rtol", metavar="NUMBER", help="Let elements be off by this share of their value.", rich_help_panel=CHECK
    ),
]


def output(help: str, panel: str | None = OUTPUT) -> Any:
    """`--output`, with what is written there."""
    return typer.Option("--output", "-o", metavar="FILE", help=help, show_default=False, rich_help_panel=panel)


def model(help: str, panel: str | None = None) -> Any:
    """`--model`, with what it is for; a shell completes the names of presets."""
    return typer.Option(
        "--model",
        metavar="NAME",
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
    """What completes the name of a model in a shell."""
    from pecli.models.presets import presets

    return [name for name in presets() if name.startswith(incomplete.lower())]


def tolerances(max_ulp: str | None, atol: str | None, rtol: str | None) -> dict[str, Any]:
    """What the three options give, of those that were given."""
    from pecli.checks.tolerance import ERROR, MAX_ULP

    texts = (("max_ulp", max_ulp, MAX_ULP), ("atol", atol, ERROR), ("rtol", rtol, ERROR))
    return {name: parameter.parse(name, text) for name, text, parameter in texts if text is not None}


def tolerance(max_ulp: str | None, atol: str | None, rtol: str | None) -> Tolerance:
    """The tolerance that the three options ask for."""
    from pecli.checks.tolerance import Tolerance

    return Tolerance(**tolerances(max_ulp, atol, rtol))
