"""`pecli diff`: two files, tensor by tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pecli.checks.diff import Difference
from pecli.checks.diff import diff as compare
from pecli.cli import options
from pecli.cli.answers import answer_with_figure, provenance
from pecli.cli.commands import command
from pecli.engine.named_values import NamedValues
from pecli.errors import ParameterError
from pecli.views import check_results, screen

if TYPE_CHECKING:  # Two tables are compared without importing what verifies them.
    from pecli.checks.verification import Verification


@command(
    options.argument(
        "a",
        "A",
        "A file, FILE:NAME for one tensor, or a model: its folder or .gguf; - is standard input.",
    ),
    options.argument("b", "B", "The file to compare with it."),
    *options.model_options("Compare as rotated q/k of this model; report the position shift."),
    *options.TOLERANCES,
    *options.RAW,
    options.flag(
        "--plot/--no-plot",
        "Draw the errors below the text. (default: on a terminal)",
        options.OUTPUT,
        None,
    ),
    options.picture("Draw A, B and their difference to"),
    *options.ANSWER,
)
def diff(
    a: str,
    b: str,
    config: str | None,
    model: str | None,
    layer_type: str | None,
    plot: bool | None,
    output: str | None,
    json: bool,
    quiet: bool,
    **tolerances: object,
) -> int:
    """Compare two files tensor by tensor, and name the porting mistake that explains a difference.

    Known mistakes are other layouts, swapped or negated parts, shifted rows, factors, roundings,
    and offsets that softmax ignores. Two forms of a model (Hugging Face, GGUF, Meta) are compared
    by their meaning: names, encodings, permuted q and k.

    Exit code 0: equal within the tolerance; 1: different; 3: a file cannot be read.

    Examples:
      pecli diff ours.safetensors theirs.safetensors
      pecli diff pe.npy model.safetensors:wpe.weight --max-ulp 2
      pecli diff a.npy b.npy --atol 1e-6 -o diff.png
      pecli diff Llama-3.1-8B/ llama-3.1-8b-Q8_0.gguf
      pecli diff cache.npy moved.npy --model llama-3.1-8b --atol 1e-3
    """
    named = {"config": config, "model": model, "layer_type": layer_type}
    settings = options.tolerances(tolerances)
    settings["reasons"] = json or not quiet or output is not None
    name = options.model_name(named)
    result: Verification | Difference
    if name is not None:
        result = _position_shift(a, b, name, layer_type, settings)
    else:
        result = _difference(a, b, settings)

    def save(path: str) -> None:
        from pecli.views.pictures import mistakes

        metadata = provenance(["diff", a, b], {**named, **tolerances})
        mistakes.save(path, [result], metadata)

    code = answer_with_figure(result, _show, output, save, json=json, quiet=quiet)
    if not json and not quiet:
        _draw_in_terminal(result, wanted=plot)
    return code


def _draw_in_terminal(result: Verification | Difference, *, wanted: bool | None) -> None:
    """Draw a difference in the terminal.

    Args:
        result: The comparison.
        wanted: True for `--plot`, False for `--no-plot`. None, without either, draws only if the
            output is a terminal.
    """
    if wanted is None:
        wanted = screen.is_terminal()
    if wanted:
        from pecli.views.pictures import mistakes

        mistakes.show(result.tensors)


def _position_shift(
    a: str, b: str, model: str, layer_type: str | None, settings: NamedValues
) -> Verification:
    """Compare rotated queries or keys: a shift of 0 is expected, and any other is the reason of a failure."""
    from pecli.checks.verify import verify

    return verify(b, model, before=a, shift=0, layer_type=layer_type, **settings)


def _difference(a: str, b: str, settings: NamedValues) -> Difference:
    """Compare two files; only one of them can be standard input."""
    is_stdin_twice = a.split(":")[0] == b.split(":")[0] == "-"
    if is_stdin_twice:
        raise ParameterError("A and B", "- and -", "standard input can be read only once")
    return compare(a, b, **settings)


def _show(result: Verification | Difference) -> None:
    if isinstance(result, Difference):
        check_results.show_difference(result)
    else:
        check_results.show_verification(result)
