"""`pecli golden`: small golden vectors for ports in any language."""

import os

from pecli.cli import answer, command, options
from pecli.engine.schemes import Choice
from pecli.errors import ParameterError, counted, listed
from pecli.golden import INDEX, WRITERS, write
from pecli.views import screen

FORMAT = Choice(help="a format of the cases", options=(*WRITERS, "all"))
_MODELS = "Only these models; without any, the whole suite."


@command(
    options.argument("models", "MODEL…", _MODELS, several=True, default=None),
    options.output("The folder to write: index.json and one file per case."),
    options.text(
        "--format",
        "NAME",
        f"{', '.join(WRITERS)} or all. (default: json)",
        default="json",
        rule=FORMAT,
    ),
    *options.ANSWER,
)
def golden(
    models: list[str] | None, output: str | None, format: str, json: bool, quiet: bool
) -> None:
    """Write golden vectors: exact numbers with their tolerances, and known mistakes that a port has to catch.

    Frequencies, tables near and far, rotated queries and keys, biases, buckets and grids, each a small file.

    Examples:
      pecli golden -o golden
      pecli golden llama-3.1-8b qwen2.5-7b -o golden --format all
      pecli verify golden
      pecli verify --golden golden answers.npz
    """
    if output is None:
        raise ParameterError("output", "missing", "the suite is a folder of files", "-o golden")
    entries = write(output, models or (), tuple(WRITERS) if format == "all" else (format,))
    said = f"{output}: {counted(len(entries), 'case')} and index.json"
    others = sorted(
        {*os.listdir(output)} - {INDEX, *(file for entry in entries for file in entry["files"])}
    )
    if others:
        said += f"; beside them {counted(len(others), 'file')} of no case: {listed(others, 3)}"
    about = {"output": output, "cases": [entry["name"] for entry in entries], "others": others}
    answer(about, json, quiet, lambda _: screen.print_line(said))
