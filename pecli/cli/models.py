"""`pecli models`: the built-in presets."""

from __future__ import annotations

from typing import Any

import typer
import typer.main

from pecli.cli import options
from pecli.cli.exits import Exit

EXAMPLES = (
    "pecli models",
    "pecli models --json | grep yarn",
    "pecli config --model llama-3.1-8b",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return typer.main.get_command(app)


@app.command("models", epilog=options.examples(EXAMPLES))
def models(json: options.Json = False) -> int:
    """List the presets that --model takes: well-known models whose settings are confirmed."""
    from pecli.models.presets import presets
    from pecli.views import encodings as view
    from pecli.views import screen

    loaded = [(preset, preset.load()) for preset in presets().values()]
    if not json:
        view.show_presets(loaded)
        return Exit.DONE
    for preset, model in loaded:
        line = {
            "name": preset.name,
            "repository": preset.repository,
            "model_type": model.model_type,
            "encodings": [
                {"layer_type": each.layer_type, "scheme": each.scheme, "parameters": each.described()}
                for each in model.encodings
            ],
            "source": preset.source,
        }
        screen.say_json(line)
    return Exit.DONE
