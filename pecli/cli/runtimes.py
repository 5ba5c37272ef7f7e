"""`pecli runtimes MODEL`: what runtimes compute for a model, and where and why they differ."""

from typing import Any

from pecli.checks.runtimes import LENGTH, NAME
from pecli.checks.runtimes import runtimes as compare
from pecli.cli import Exit, answer, command, options
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.engine.runtimes import RUNTIMES
from pecli.views import drift_pictures
from pecli.views.pictures import figure_files
from pecli.views.runtime_results import show_runtimes

_NAMES = f"This one alone; may be repeated: {', '.join(RUNTIMES)}."
_ERROR = f"An absolute error that does not count as a deviation. (default: {DRIFT:g})"


@command(
    *options.MODEL_ARGUMENT,
    options.text(
        "--length",
        "INTEGER",
        "The served context. (default: the longest of the model)",
        rule=LENGTH,
    ),
    options.text("--runtime", "NAME", _NAMES, choices=tuple(RUNTIMES), several=True),
    options.text("--tolerance", "NUMBER", _ERROR, default=f"{DRIFT:g}", rule=ERROR),
    options.flag("--strict", "Exit code 1 when a runtime deviates or lacks something."),
    options.DRIFT_PICTURE,
    *options.ANSWER,
)
def runtimes(
    runtime: list[str] | None,
    strict: bool,
    output: str | None,
    json: bool,
    quiet: bool,
    **given: Any,
) -> int:
    """Say what each runtime computes for a model: as the model defines it, or where it deviates, by how much, and why.

    What float32 arithmetic adds is listed apart: it is no deviation. Exit code 1: with --strict, where one deviates.

    Examples:
      pecli runtimes gpt-oss-20b
      pecli runtimes config.json --length 32768 -o drift.png
      pecli runtimes --model llama-3.1-8b --strict --tolerance 1e-3
    """
    model = options.one_model(given)
    chosen = [NAME.check("runtime", name) for name in runtime or RUNTIMES]
    found = compare(
        model,
        given["length"],
        layer_type=given["layer_type"],
        names=chosen,
        tolerance=given["tolerance"],
    )
    if output is not None:
        figure_files.save(drift_pictures.runtimes_picture(found), output)
    code = answer(found, json, quiet, show_runtimes, output=output)
    return code if strict else Exit.DONE
