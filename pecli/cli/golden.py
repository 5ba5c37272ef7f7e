"""`pecli golden`: small golden vectors for ports in any language."""

from __future__ import annotations

import os
from dataclasses import dataclass

from pecli.cli import options
from pecli.cli.answers import answer
from pecli.cli.commands import command
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.parameters import Choice
from pecli.errors import ParameterError, counted, listed
from pecli.golden import INDEX, WRITERS, write
from pecli.views import screen

FORMAT = Choice(help="a format of the cases", options=(*WRITERS, "all"))

MAX_LISTED = 3
"""Files of no case that are named."""


@dataclass
class _Suite:
    """A suite that was written."""

    folder: str
    cases: list[str]
    other_files: list[str]  #: files of the folder that belong to no case, from an older suite say

    def as_json(self) -> JsonObject:
        return {"output": self.folder, "cases": self.cases, "others": self.other_files}


@command(
    options.argument(
        "models",
        "MODEL…",
        "Only these models; without any, the whole suite.",
        several=True,
        default=[],
    ),
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
def golden(models: list[str], output: str | None, format: str, json: bool, quiet: bool) -> None:
    """Write golden vectors: exact numbers with their tolerances, and known mistakes that a port has to catch.

    Frequencies, tables near and far, rotated queries and keys, biases, buckets and grids, each a
    small file.

    Examples:
      pecli golden -o golden
      pecli golden llama-3.1-8b qwen2.5-7b -o golden --format all
      pecli verify golden
      pecli verify --golden golden answers.npz
    """
    if output is None:
        raise ParameterError("output", "missing", "the suite is a folder of files", "-o golden")
    if output == "-":
        rule = "the suite is a folder of files, which standard output cannot hold"
        raise ParameterError("output", "-", rule, "-o golden")
    formats = tuple(WRITERS) if format == "all" else (format,)
    entries = write(output, models, formats)
    written_files = {INDEX}
    for entry in entries:
        written_files.update(entry["files"])
    other_files = sorted(set(os.listdir(output)) - written_files)
    suite = _Suite(output, [entry["name"] for entry in entries], other_files)
    answer(suite, _show, json=json, quiet=quiet)


def _show(suite: _Suite) -> None:
    """Print the number of cases, and the files of the folder that do not belong to the suite."""
    text = f"{suite.folder}: {counted(len(suite.cases), 'case')} and index.json"
    if suite.other_files:
        count = counted(len(suite.other_files), "file")
        text += f"; beside them {count} of no case: {listed(suite.other_files, MAX_LISTED)}"
    screen.print_line(text)
