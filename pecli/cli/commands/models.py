"""`pecli models`: the built-in presets."""

from __future__ import annotations

from typing import Any

from pecli.cli import options
from pecli.cli.command import command_of
from pecli.cli.exits import Exit

EXAMPLES = (
    "pecli models",
    "pecli models --json | jq -r '.models[].name'",
    "pecli config --model llama-3.1-8b",
)


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return command_of(models, name, EXAMPLES)


def models(json: options.Json = False) -> int:
    """List the presets that --model takes: well-known models whose settings are confirmed."""
    from pecli.models.presets import presets
    from pecli.views import encodings as view
    from pecli.views import screen

    loaded = [(preset, preset.load()) for preset in presets().values()]
    if not json:
        view.show_presets(loaded)
        return Exit.DONE
    found = [
        {
            "name": preset.name,
            "repository": preset.repository,
            "model_type": model.model_type,
            "encodings": [
                {"layer_type": each.layer_type, "scheme": each.scheme, "parameters": each.described()}
                for each in model.encodings
            ],
            "source": preset.source,
        }
        for preset, model in loaded
    ]
    screen.say_json({"models": found})
    return Exit.DONE
