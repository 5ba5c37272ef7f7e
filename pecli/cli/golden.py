"""`pecli golden`: small golden vectors for ports in any language."""

from __future__ import annotations

from typing import Annotated

import typer

from pecli.cli import Exit, options
from pecli.engine.schemes import Choice
from pecli.errors import ParameterError
from pecli.golden import WRITERS, write
from pecli.views import screen

EXAMPLES = (
    "pecli golden -o golden",
    "pecli golden llama-3.1-8b qwen2.5-7b -o golden --format all",
    "pecli verify golden",
    "pecli verify --golden golden answers.npz",
)
ALL = "all"
FORMAT = Choice(help="a format of the cases", options=(*WRITERS, ALL))
Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODEL]...", help="Only these models; without any, the whole suite.", show_default=False),
]
Folder = Annotated[str | None, options.output("The folder to write: index.json and one file per case.")]
Format = Annotated[str, options.choice("--format", (*WRITERS, ALL), f"{', '.join(WRITERS)} or all. (default: json)")]


def golden(
    models: Models = None,
    output: Folder = None,
    format: Format = "json",
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Write golden vectors: exact numbers with their tolerances, and known mistakes that a port has to catch.

    Frequencies, tables near and far, rotated queries and keys, biases, buckets and grids, each a small file.
    """
    if output is None:
        raise ParameterError("output", "missing", "the suite is a folder of files", "-o golden")
    chosen = FORMAT.check("format", format)
    entries = write(output, models or (), tuple(WRITERS) if chosen == ALL else (chosen,))
    if json:
        screen.say_json({"output": output, "cases": [entry["name"] for entry in entries]})
    elif not quiet:
        screen.say(f"{output}: {screen.counted(len(entries), 'case')} and index.json")
    return Exit.DONE
