"""`pecli runtimes MODEL`: what runtimes compute for a model, and why they differ."""

from __future__ import annotations

from typing import Any

from pecli.checks.runtimes import LENGTH, NAME
from pecli.checks.runtimes import runtimes as compare_runtimes
from pecli.cli import options
from pecli.cli.answers import answer_with_figure
from pecli.cli.commands import command
from pecli.cli.messages import Exit
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.runtimes import RUNTIMES
from pecli.models.find import find_model
from pecli.views import drift_pictures
from pecli.views.pictures import figure_files
from pecli.views.runtime_results import show_runtimes

_OPTIONS = (
    *options.MODEL_ARGUMENT,
    options.text(
        "--length",
        "INTEGER",
        "The served context. (default: the longest of the model)",
        rule=LENGTH,
    ),
    options.server_flags(),
    options.text(
        "--runtime",
        "NAME",
        f"Only this runtime (repeatable): {', '.join(RUNTIMES)}.",
        choices=tuple(RUNTIMES),
        several=True,
    ),
    options.text(
        "--tolerance",
        "NUMBER",
        f"Absolute error that does not count as a deviation. (default: {DRIFT:g})",
        default=f"{DRIFT:g}",
        rule=ERROR,
    ),
    options.flag("--strict", "Exit code 1 if a runtime deviates or lacks something."),
    options.DRIFT_PICTURE,
    *options.ANSWER,
)


@command(*_OPTIONS)
def runtimes(
    length: int | None,
    flags: str | None,
    runtime: list[str],
    tolerance: float,
    strict: bool,
    output: str | None,
    json: bool,
    quiet: bool,
    **model_options: Any,
) -> int:
    """Show what each runtime computes for a model: as the model defines it, or where, how far and why it deviates.

    The error of float32 arithmetic is listed separately: it is not a deviation. Exit code 1: with
    --strict, if one deviates.

    Examples:
      pecli runtimes gpt-oss-20b
      pecli runtimes config.json --length 32768 -o drift.png
      pecli runtimes --model llama-3.1-8b --strict --tolerance 1e-3
      pecli runtimes llama-2-7b --flags '--rope-scaling yarn --rope-scale 4 -c 16384'
    """
    model = options.one_model(model_options)
    names = [NAME.check("runtime", name) for name in runtime or RUNTIMES]
    comparison = compare_runtimes(
        find_model(model=model, flags=flags),
        length,
        layer_type=model_options["layer_type"],
        names=names,
        tolerance=tolerance,
    )

    def save_figure(path: str) -> None:
        figure_files.save(drift_pictures.runtimes_figure(comparison), path)

    exit_code = answer_with_figure(
        comparison, show_runtimes, output, save_figure, json=json, quiet=quiet
    )
    if strict:
        return exit_code  # 1 if a runtime deviates
    return Exit.DONE
