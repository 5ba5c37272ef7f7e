"""`pecli report`: one page about models and files."""

from typing import Any

from pecli.cli import Exit, command, options, print_error
from pecli.engine.runtimes import RUNTIMES
from pecli.errors import ParameterError, PecliError
from pecli.views import report as page
from pecli.views import screen

_SOURCES = "Presets, config.json, folders or .gguf; and files of tensors to check."
_RUNTIME = f"Verify files against what this runtime computes: {', '.join(RUNTIMES)}."


@command(
    options.argument("sources", "MODEL…|FILE…", _SOURCES, several=True),
    options.output("Where to write the page. (required)"),
    *options.TOLERANCES,
    options.text("--runtime", "NAME", _RUNTIME, default="none", choices=tuple(RUNTIMES)),
    options.QUIET,
)
def report(
    sources: list[str], output: str | None, runtime: str, quiet: bool, **allowed: Any
) -> int:
    """Write one page of HTML: what a model uses, scaling explained, drift, a heatmap, checks of files.

    Files are verified against the first model, or against the spec they carry, and compared with the first file. The
    page needs no network, and can be printed.

    Exit code 0: all checks passed, or there are none; 1: at least one failed; 3: a file cannot be read.

    Examples:
      pecli report llama-3.1-8b -o report.html
      pecli report config.json dump.npz --atol 1e-3 -o report.html
      pecli report golden.safetensors port.npz -o report.html
    """
    if output is None or not output.endswith((".html", ".htm")):
        raise ParameterError(
            "output", output or "missing", "a report is one page of HTML", "add -o report.html"
        )
    made = page.report(*sources, output=output, runtime=runtime, **options.tolerances(allowed))
    if not quiet:
        screen.print_written(output)
    failed = Exit.DONE if made else Exit.CHECK_FAILED
    return max(
        (print_error(answer) for answer in made.answers if isinstance(answer, PecliError)),
        default=failed,
    )
