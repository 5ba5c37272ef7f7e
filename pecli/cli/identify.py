"""`pecli identify`: the scheme that made an unknown table."""

from __future__ import annotations

from pecli.checks.identify import identify as find
from pecli.cli import options
from pecli.cli.answers import answer
from pecli.cli.commands import command
from pecli.cli.messages import Exit, print_error
from pecli.errors import PecliError
from pecli.views import screen
from pecli.views.check_results import show_identification


@command(
    options.argument(
        "files",
        "FILE…",
        "Files, or FILE:NAME for one tensor; - is standard input (.npy, JSON, text).",
        several=True,
    ),
    *options.RAW,
    *options.ANSWER,
)
def identify(files: list[str], json: bool, quiet: bool) -> int:
    """Find the scheme that made a table, with every parameter, and the command that makes it again.

    Exit code 0: all identified, if only in part; 1: at least one is not; 3: a file cannot be read.

    Examples:
      pecli identify dump.npy
      pecli identify model.safetensors:wpe.weight --json
      pecli identify tables/*.npy || echo not all are known
    """
    return max(_answer_for(file, json=json, quiet=quiet) for file in files)


def _answer_for(file: str, *, json: bool, quiet: bool) -> Exit:
    """Identify the tensors of a file, print the answer, and return its exit code.

    A file that cannot be read is an answer like others, so that the next files are still searched
    and JSON has one object per file.
    """
    try:
        result = find(file)
    except PecliError as problem:
        code = print_error(problem)
        if json:
            screen.print_json(
                {"file": file, "identified": False, "matches": [], "description": [str(problem)]}
            )
        return code
    return answer(result, show_identification, json=json, quiet=quiet)
