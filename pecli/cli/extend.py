"""`pecli extend MODEL`: the settings that stretch a model's context."""

from __future__ import annotations

from typing import Any

from pecli.checks.extend import METHOD, METHODS, TO
from pecli.checks.extend import extend as extend_model
from pecli.cli import options
from pecli.cli.answers import answer_with_figure
from pecli.cli.commands import command
from pecli.errors import ParameterError
from pecli.views import drift_pictures
from pecli.views.pictures import figure_files
from pecli.views.runtime_results import show_extension

_METHOD = (
    f"How frequencies are stretched: {', '.join(METHODS)}. "
    "(default: what the model's makers use, else yarn)"
)


@command(
    *options.MODEL_ARGUMENT,
    options.text("--to", "INTEGER", "Positions of the longer context. (required)", rule=TO),
    options.text("--method", "NAME", _METHOD, rule=METHOD),
    options.picture("Draw the wavelengths before and after:"),
    *options.ANSWER,
)
def extend(
    to: int | None, method: str | None, output: str | None, json: bool, quiet: bool, **named: Any
) -> None:
    """Print the settings that stretch a model's context: for config.json, vLLM, llama.cpp and GGUF.

    Also print which runtimes honour them, their effect on short prompts, and how the wavelengths change.

    Examples:
      pecli extend qwen2.5-7b --to 131072
      pecli extend config.json --to 65536 --method linear --json
      pecli extend mistral-7b-v0.3 --to 131072 --method ntk -o wavelengths.png
    """
    model = options.one_model(named)
    if to is None:
        raise ParameterError("to", "missing", TO.rule, "pecli extend MODEL --to 131072")
    extension = extend_model(model, to, method, layer_type=named["layer_type"])
    if output is not None:
        figure_files.save(drift_pictures.extension_picture(extension), output)
    answer_with_figure(extension, show_extension, output, json=json, quiet=quiet)
