"""`pecli report`: one page about models and files."""

from __future__ import annotations

from typing import Any

from pecli.cli import options
from pecli.cli.commands import command
from pecli.cli.messages import Exit, print_error
from pecli.engine.runtimes import RUNTIMES
from pecli.errors import ParameterError, PecliError
from pecli.views import report as reports
from pecli.views import screen
from pecli.views.report.draft import Page


@command(
    options.argument(
        "sources",
        "MODEL…|FILE…",
        "Presets, config.json, folders or .gguf; and files of tensors to check.",
        several=True,
    ),
    options.output("Where to write the page. (required)"),
    *options.TOLERANCES,
    options.text(
        "--runtime",
        "NAME",
        f"Verify files against what this runtime computes: {', '.join(RUNTIMES)}.",
        default="none",
        choices=tuple(RUNTIMES),
    ),
    options.text("--before", "FILE", "Queries or keys before rotation; FILE… holds them after."),
    options.flag(
        "--interactive",
        "Add sliders for the settings of rotary encodings (pip install plotly; 4.7 MB more).",
    ),
    *options.RAW,
    options.QUIET,
)
def report(
    sources: list[str],
    output: str | None,
    runtime: str,
    before: str | None,
    interactive: bool,
    quiet: bool,
    **tolerances: Any,
) -> int:
    """Write one page of HTML: a model's encodings, its scaling explained, drift, a heatmap, checks of files.

    Files are verified against the first model, or against the spec they carry, and compared with
    the first file. The page needs no network, and can be printed.

    Exit code 0: all checks passed, or there are none; 1: at least one failed; 3: a file cannot be read.

    Examples:
      pecli report llama-3.1-8b -o report.html
      pecli report config.json dump.npz --atol 1e-3 -o report.html
      pecli report llama-3.1-8b q_after.npy --before q_before.npy --atol 1e-3 -o report.html
      pecli report golden.safetensors port.npz -o report.html
      pecli report llama-2-7b llama-3.1-8b --interactive -o report.html
    """
    if output is None or not output.endswith((".html", ".htm")):
        rule = "a report is one page of HTML"
        raise ParameterError("output", output or "missing", rule, "add -o report.html")
    settings = options.tolerances(tolerances)
    page = reports.report(
        *sources,
        output=output,
        runtime=runtime,
        before=before,
        interactive=interactive,
        **settings,
    )
    if not quiet:
        screen.print_written(output)
    return _exit_code(page)


def _exit_code(page: Page) -> int:
    """Print the errors of a report, and return the gravest exit code."""
    errors = [print_error(answer) for answer in page.answers if isinstance(answer, PecliError)]
    return max([Exit.of(bool(page)), *errors])
