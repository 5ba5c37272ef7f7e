"""`pecli extend MODEL --to N`: the settings that stretch a model's context."""

from __future__ import annotations

from typing import Annotated

from pecli.checks.extend import METHOD, METHODS, TO
from pecli.checks.extend import extend as extended
from pecli.cli import Exit, options
from pecli.errors import ParameterError
from pecli.views import screen

EXAMPLES = (
    "pecli extend qwen2.5-7b --to 131072",
    "pecli extend config.json --to 65536 --method linear --json",
    "pecli extend mistral-7b-v0.3 --to 131072 --method ntk -o wavelengths.png",
)
Length = Annotated[str | None, options.text("--to", "INTEGER", "Positions of the longer context. (required)")]
_METHOD = f"How frequencies are stretched: {', '.join(METHODS)}. (default: what the model's makers use, else yarn)"
Method = Annotated[str | None, options.choice("--method", METHODS, _METHOD)]
Picture = Annotated[str | None, options.output("Draw the wavelengths before and after: .png, .svg or .pdf.")]


def extend(
    model_or_file: options.ModelArgument = None,
    config: options.Config = None,
    model: options.Model = None,
    layer_type: options.LayerType = None,
    to: Length = None,
    method: Method = None,
    output: Picture = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> int:
    """Print the settings that stretch a model's context: for config.json, vLLM, llama.cpp and GGUF.

    Says which runtimes honour them, what happens to short prompts, and how the wavelengths change.
    """
    named = options.one_model(model_or_file, config, model)
    if to is None:
        raise ParameterError("to", "missing", TO.rule, "pecli extend MODEL --to 131072")
    from pecli.views import extension
    from pecli.views.pictures import figure

    if output is not None:
        figure.check_suffix(output)
    chosen = None if method is None else METHOD.parse("method", method)
    found = extended(named, TO.parse("to", to), chosen, layer_type=layer_type)
    if output is not None:
        figure.save(extension.extension_picture(found), output)
    if json:
        screen.say_json({**found.as_json(), "output": output})
    elif not quiet:
        extension.show_extension(found)
        if output is not None:
            screen.say_written(output)
    return Exit.DONE
