"""`pecli diff`: two files, tensor by tensor."""

from collections.abc import Callable
from typing import Any

from pecli.checks.diff import diff as compare
from pecli.cli import answer, command, made_by, options
from pecli.errors import ParameterError
from pecli.views import check_results, screen

_A = "A file, FILE:NAME for one tensor, or a model: its folder or .gguf; - is standard input."


@command(
    options.argument("a", "A", _A),
    options.argument("b", "B", "The file to compare with it."),
    *options.model_options(
        "The model whose rotated queries or keys A and B are: by how many positions is B moved?"
    ),
    *options.TOLERANCES,
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
    a: str, b: str, plot: bool | None, output: str | None, json: bool, quiet: bool, **allowed: Any
) -> int:
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
    settings = {**options.tolerances(allowed), "reasons": json or not quiet or output is not None}
    show: Callable[[Any], None] = check_results.show_difference
    if (model := options.model_name(named)) is not None:
        from pecli.checks.verify import verify

        show = check_results.show_verification
        result: Any = verify(
            b, model, before=a, shift=0, layer_type=named["layer_type"], **settings
        )
    else:
        if a.split(":")[0] == b.split(":")[0] == "-":
            raise ParameterError("A and B", "- and -", "standard input can be read once only")
        result = compare(a, b, **settings)
    drawn = not (json or quiet) and (screen.is_terminal() if plot is None else plot)
    if drawn or output is not None:
        from pecli.views.pictures import mistakes
    if output is not None:
        mistakes.save(output, [result], made_by(["diff", a, b], {**named, **allowed}))
    code = answer(result, json, quiet, show, output=output)
    if drawn:
        mistakes.show(result.tensors)
    return code
