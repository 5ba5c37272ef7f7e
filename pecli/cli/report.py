"""`pecli report`: one page about models and files."""

from __future__ import annotations

from typing import Annotated

import typer

from pecli.cli import Exit, code_of, options, print_error
from pecli.engine.runtimes import RUNTIMES
from pecli.errors import ParameterError, PecliError

EXAMPLES = (
    "pecli report llama-3.1-8b -o report.html",
    "pecli report config.json dump.npz --atol 1e-3 -o report.html",
    "pecli report golden.safetensors port.npz -o report.html",
)


def report(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL…|FILE…", help="Presets, config.json, folders or .gguf; and files of tensors to check."
        ),
    ],
    output: Annotated[str, options.output("Where to write the page. (required)")] = "",
    max_ulp: options.MaxUlp = None,
    atol: options.Atol = None,
    rtol: options.Rtol = None,
    runtime: Annotated[
        str,
        options.text(
            "--runtime",
            "NAME",
            f"Verify files against what this runtime computes: {', '.join(RUNTIMES)}.",
            autocompletion=options.completer(tuple(RUNTIMES)),
        ),
    ] = "none",
    quiet: options.Quiet = False,
) -> int:
    """Write one page of HTML: what a model uses, scaling explained, drift, a heatmap, checks of files.

    Files are verified against the first model, or against the spec they carry, and compared with the first file. The
    page needs no network, and can be printed.

    Exit code 0: all checks passed, or there are none; 1: at least one failed; 3: a file cannot be read.
    """
    from pecli.views import report as page
    from pecli.views import screen

    if not output.endswith((".html", ".htm")):
        raise ParameterError("output", output or "missing", "a report is one page of HTML", "add -o report.html")
    made = page.written(sources, output, options.tolerance(max_ulp, atol, rtol), runtime)
    if not quiet:
        screen.say_written(output)
    problems = [each for each in made.answers if isinstance(each, PecliError)]
    for problem in problems:
        print_error(problem)
    failed = Exit.DONE if all(each is True for each in made.answers) else Exit.CHECK_FAILED
    return max(map(code_of, problems), default=failed)
