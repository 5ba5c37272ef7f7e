"""`pecli inspect`: what is in a file."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.main

from pecli.cli import options
from pecli.cli.exits import Exit

EXAMPLES = (
    "pecli inspect rope.safetensors",
    "pecli inspect pe.npy --stats",
    "pecli inspect model.safetensors:wpe.weight --stats --json",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return typer.main.get_command(app)


@app.command("inspect", epilog=options.examples(EXAMPLES))
def inspect(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file, or FILE:NAME for one tensor; - is a .npy on standard input.")
    ],
    stats: Annotated[
        bool, typer.Option("--stats", help="Read the data too: smallest, largest, mean, SHA-256.")
    ] = False,
    json: options.Json = False,
) -> int:
    """Say what a file holds: tensors, dtypes, shapes, and the spec that made it. Only the header is read, unless
    asked for more.
    """
    from pecli.checks.statistics import Statistics
    from pecli.files import open_tensors
    from pecli.views import contents, screen

    with open_tensors(file) as loaded:
        found = contents.describe(loaded, file)
        if stats:
            loaded.check()
            for table, entry in zip(loaded.tables, found["tensors"], strict=True):
                gathered = Statistics(table)
                for block in table.blocks():
                    gathered.add(block)
                entry.update(gathered.as_json())
    if json:
        screen.say_json(found)
    else:
        contents.show(found)
    return Exit.DONE
