"""`pecli runtimes MODEL`: what runtimes compute for a model, and where and why they differ."""

from __future__ import annotations

from typing import Annotated

import typer

from pecli.checks.runtimes import LENGTH, NAME
from pecli.checks.runtimes import runtimes as compare
from pecli.checks.tolerance import DRIFT, ERROR
from pecli.cli import Exit, options
from pecli.engine.runtimes import RUNTIMES

EXAMPLES = (
    "pecli runtimes gpt-oss-20b",
    "pecli runtimes config.json --length 32768 -o drift.png",
    "pecli runtimes --model llama-3.1-8b --strict --tolerance 1e-3",
)

_SERVED = "The served context. (default: the longest of the model)"
Length = Annotated[str | None, options.text("--length", "INTEGER", _SERVED)]
_NAMES = f"This one alone; may be repeated: {', '.join(RUNTIMES)}."
Names = Annotated[list[str] | None, options.choice("--runtime", tuple(RUNTIMES), _NAMES)]
_ERROR = f"An absolute error that does not count as a departure. (default: {DRIFT:g})"
Error = Annotated[str, options.text("--tolerance", "NUMBER", _ERROR)]
Strict = Annotated[bool, typer.Option("--strict", help="Exit code 1 when a runtime departs or lacks something.")]
Figure = Annotated[str | None, options.output("Draw the errors over positions: .png, .svg or .pdf.")]


def runtimes(
    model_or_file: options.ModelArgument = None,
    config: options.Config = None,
    model: options.Model = None,
    layer_type: options.LayerType = None,
    length: Length = None,
    runtime: Names = None,
    tolerance: Error = f"{DRIFT:g}",
    strict: Strict = False,
    output: Figure = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Say what each runtime computes for a model: as the model defines it, or where it departs, by how much, and why.

    What float32 arithmetic adds is listed apart: it is not a departure. Exit code 1: with --strict, where one departs.
    """
    named = options.one_model(model_or_file, config, model)
    from pecli.views import drift, screen
    from pecli.views.pictures import figure

    if output is not None:
        figure.check_suffix(output)
    served = None if length is None else LENGTH.parse("length", length)
    found = compare(
        named,
        served,
        layer_type=layer_type,
        names=[NAME.check("runtime", name) for name in runtime or RUNTIMES],
        tolerance=ERROR.parse("tolerance", tolerance),
    )
    if output is not None:
        figure.save(drift.runtimes_picture(found), output)
    if json:
        screen.say_json({**found.as_json(), "output": output})
    elif not quiet:
        drift.show_runtimes(found)
        if output is not None:
            screen.say_written(output)
    return Exit.CHECK_FAILED if strict and not found.agree else Exit.DONE
