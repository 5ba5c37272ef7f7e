"""`pecli extend MODEL`: the settings that stretch a model's context."""

from __future__ import annotations

from typing import Any

from pecli.checks.extend import FACTOR, METHOD, METHODS, ORIGINAL_LEN, TO
from pecli.checks.extend import extend as extend_model
from pecli.cli import options
from pecli.cli.answers import answer_with_figure
from pecli.cli.commands import command
from pecli.views import drift_pictures
from pecli.views.pictures import figure_files
from pecli.views.runtime_results import show_extension

_METHOD = (
    f"How frequencies are stretched: {', '.join(METHODS)}. "
    "(default: what the model's makers use, else yarn)"
)

_FACTOR = "The factor of the scaling. (default: --to over the original context)"
_ORIGINAL = "The context without any scaling. (default: as the makers state it, else the config)"


@command(
    *options.MODEL_ARGUMENT,
    options.text("--to", "LENGTH", "Positions to serve, such as 131072 or 128k.", rule=TO),
    options.text("--method", "NAME", _METHOD, rule=METHOD),
    options.text("--factor", "NUMBER", _FACTOR, rule=FACTOR),
    options.text("--original-len", "LENGTH", _ORIGINAL, rule=ORIGINAL_LEN),
    options.picture("Draw the wavelengths before and after:"),
    *options.ANSWER,
)
def extend(
    to: int | None,
    method: str | None,
    factor: float | None,
    original_len: int | None,
    output: str | None,
    json: bool,
    quiet: bool,
    **named: Any,
) -> None:
    """Print the settings that stretch a model's context: for config.json, vLLM, SGLang, llama.cpp and GGUF.

    Also print which runtimes honour them, their effect on short prompts, and how the wavelengths
    change.

    Examples:
      pecli extend qwen2.5-7b --to 131072
      pecli extend qwen3-8b --to 128k --factor 4
      pecli extend config.json --to 65536 --method linear --json
      pecli extend mistral-7b-v0.3 --to 131072 --method ntk -o wavelengths.png
    """
    model = options.one_model(named)
    extension = extend_model(
        model,
        to,
        method,
        factor=factor,
        original_len=original_len,
        layer_type=named["layer_type"],
    )

    def save(path: str) -> None:
        figure_files.save(drift_pictures.extension_figure(extension), path)

    answer_with_figure(extension, show_extension, output, save, json=json, quiet=quiet)
