"""`pecli verify`: files that carry their spec, held against it."""

from __future__ import annotations

from typing import Annotated, Any

import typer
import typer.main

from pecli.cli import options
from pecli.cli.exits import Exit, code_of, complain
from pecli.errors import PecliError

EXAMPLES = (
    "pecli verify rope.safetensors",
    "pecli verify tables/*.safetensors --json",
    "pecli verify pe.npz --max-ulp 1 || echo differs",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return typer.main.get_command(app)


@app.command("verify", epilog=options.examples(EXAMPLES))
def verify(
    files: Annotated[list[str], typer.Argument(metavar="FILE…", help=".safetensors or .npz files that pecli wrote.")],
    max_ulp: options.MaxUlp = None,
    atol: options.Atol = None,
    rtol: options.Rtol = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Check that files hold exactly what their own spec says. Exit code 0: they do; 1: one does not; 3: one cannot
    be read.
    """
    from pecli.checks.verify import verify as check
    from pecli.views import report, screen

    tolerance = options.tolerance(max_ulp, atol, rtol)
    code = Exit.DONE
    for file in files:
        try:
            result = check(file, None, tolerance)
        except PecliError as problem:
            complain(problem)
            code = max(code, code_of(problem))
            if json:
                screen.say_json({"file": file, "passed": False, "tensors": [], "diagnosis": [str(problem)]})
            continue
        code = max(code, Exit.DONE if result.passed else Exit.NO)
        if json:
            screen.say_json(result.as_json())
        elif not quiet:
            report.show(result)
    return code
