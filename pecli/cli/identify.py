"""`pecli identify`: what made an unknown table."""

from pecli.checks.identify import identify as find
from pecli.cli import Exit, answer, command, options, print_error
from pecli.errors import PecliError
from pecli.views import screen
from pecli.views.check_results import show_identification

_FILES = "Files, or FILE:NAME for one tensor; - is a .npy on standard input."


@command(options.argument("files", "FILE…", _FILES, several=True), *options.ANSWER)
def identify(files: list[str], json: bool, quiet: bool) -> int:
    """Say which scheme made a table, with every parameter, and the command that makes it again.

    Exit code 0: all identified, if only in part; 1: at least one is not; 3: a file cannot be read.

    Examples:
      pecli identify dump.npy
      pecli identify model.safetensors:wpe.weight --json
      pecli identify tables/*.npy || echo not all are known
    """
    code = Exit.DONE
    for file in files:
        try:
            result = find(file)
        except PecliError as problem:
            code = max(code, print_error(problem))
            if json:
                screen.print_json(
                    {
                        "file": file,
                        "identified": False,
                        "matches": [],
                        "description": [str(problem)],
                    }
                )
            continue
        code = max(code, answer(result, json, quiet, show_identification))
    return code
