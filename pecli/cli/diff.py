"""`pecli diff`: two files, tensor by tensor."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from pecli.checks.diff import diff_models, diff_open
from pecli.checks.verify import verify
from pecli.cli import Exit, command, command_line, options
from pecli.engine import __version__
from pecli.errors import ParameterError
from pecli.files import open_tensors
from pecli.views import check_results, screen


@command(
    options.argument(
        "a", "A", "A file, FILE:NAME for one tensor, or a model: its folder or .gguf; - is standard input."
    ),
    options.argument("b", "B", "The file to compare with it."),
    *options.model_options("A model whose rotated queries or keys A and B are: is B moved against A?"),
    *options.TOLERANCES,
    options.flag("--plot/--no-plot", "Draw the errors below the text. (default: on a terminal)", options.OUTPUT, None),
    options.picture("Draw A, B and their difference to"),
    *options.ANSWER,
)
def diff(a: str, b: str, plot: bool | None, output: str | None, json: bool, quiet: bool, **allowed: Any) -> int:
    """Compare two files tensor by tensor; where they differ, say which porting mistake explains it.

    It knows other layouts, swapped or negated parts, shifted rows, factors, roundings, and what softmax ignores.
    Two forms of a model (Hugging Face, GGUF, Meta) are compared by what they mean: names, encodings, permuted q and k.

    Exit code 0: equal within the tolerance; 1: different; 3: a file cannot be read.

    Examples:
      pecli diff ours.safetensors theirs.safetensors
      pecli diff pe.npy model.safetensors:wpe.weight --max-ulp 2
      pecli diff a.npy b.npy --atol 1e-6 -o diff.png
      pecli diff Llama-3.1-8B/ llama-3.1-8b-Q8_0.gguf
      pecli diff cache.npy moved.npy --model llama-3.1-8b --atol 1e-3
    """
    named = {name: allowed.pop(name) for name in ("config", "model", "layer_type")}
    tolerance = options.tolerance(allowed)
    if options.names_model(named):
        moved = verify(b, options.one_model(named["config"], named["model"]), tolerance, before=a, shift=0)
        if json:
            screen.say_json(moved.as_json())
        elif not quiet:
            check_results.show_verification(moved)
        if output is not None:
            _draw(output, moved, command_line(["diff", a, b], {**named, **allowed}))
        return Exit.DONE if moved.passed else Exit.CHECK_FAILED
    if a.split(":")[0] == b.split(":")[0] == "-":
        raise ParameterError("A and B", "- and -", "standard input can be read once only")
    with ExitStack() as stack:
        result = diff_models(a, b, tolerance)
        if result is None:
            files = stack.enter_context(open_tensors(a)), stack.enter_context(open_tensors(b))
            result = diff_open((a, files[0]), (b, files[1]), tolerance, reasons=json or not quiet or output is not None)
        if json:
            screen.say_json(result.as_json())
        elif not quiet:
            check_results.show_difference(result)
        drawn = not (json or quiet) and (screen.is_terminal() if plot is None else plot)
    if drawn:
        from pecli.views.pictures import mistakes

        mistakes.show(result.tensors)
    if output is not None:
        _draw(output, result, command_line(["diff", a, b], allowed))
        if not (json or quiet):
            screen.say_written(output)
    return Exit.DONE if result.passed else Exit.CHECK_FAILED


def _draw(output: str, result: Any, command: str) -> None:
    from pecli.views.pictures import mistakes

    mistakes.save(output, [result], {"command": command, "version": __version__})
