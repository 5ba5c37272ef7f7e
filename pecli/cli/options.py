"""Options that several commands share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.tolerance import Tolerance

OUTPUT = "Output"
CHECK = "Check"

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


def tolerances(max_ulp: str | None, atol: str | None, rtol: str | None) -> dict[str, Any]:
    """What the three options give, of those that were given."""
    from pecli.checks.tolerance import ERROR, MAX_ULP

    texts = (("max_ulp", max_ulp, MAX_ULP), ("atol", atol, ERROR), ("rtol", rtol, ERROR))
    return {name: parameter.parse(name, text) for name, text, parameter in texts if text is not None}


def tolerance(max_ulp: str | None, atol: str | None, rtol: str | None) -> Tolerance:
    """The tolerance that the three options ask for."""
    from pecli.checks.tolerance import Tolerance

    return Tolerance(**tolerances(max_ulp, atol, rtol))


def check_stream(path: str, json: bool) -> None:
    """Refuse a table on standard output where that is a terminal, or is to hold JSON."""
    if path == "-" and json:
        raise ParameterError("json", "given with -o -", "standard output holds either the table or JSON")
    if path == "-" and sys.stdout.isatty():
        raise ParameterError("output", "-", "a table is no text for a terminal", "redirect it: … -o - > pe.npy")


def examples(lines: tuple[str, ...]) -> str:
    """Examples for the end of a command's help."""
    return "\n".join(["Examples:", *(f"  {line}" for line in lines)])
