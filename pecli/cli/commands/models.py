"""`pecli models`: the built-in presets."""

from __future__ import annotations

from typing import Any

from pecli.cli import options
from pecli.cli.command import Exit, command_of

EXAMPLES = (
    "pecli models",
    "pecli models --json | jq -r '.models[].name'",
    "pecli config --model llama-3.1-8b",
)


def command(name: str) -> Any:
    """The command itself, for the group that holds it."""
    return command_of(models, name, EXAMPLES)


def models(json: options.Json = False) -> int:
    """List the presets that --model takes, by family: well-known models, each with where its settings were read."""
    from pecli.models.find import Description
    from pecli.models.presets import presets
    from pecli.views import encodings as view
    from pecli.views import screen

    described = [(preset, Description(preset.name, preset.config)) for preset in presets().values()]
    loaded = [(preset, each.encodings(), each.reach().context) for preset, each in described]
    if not json:
        view.show_presets(loaded)
        return Exit.DONE
    found = [
        {
            "name": preset.name,
            "family": preset.family,
            "repository": preset.repository,
            "aliases": list(preset.aliases),
            "context": context,
            "model_type": model.model_type,
            "encodings": [
                {"layer_type": each.layer_type, "scheme": each.scheme, "parameters": each.described()}
                for each in model.encodings
            ],
            "source": preset.source,
        }
        for preset, model, context in loaded
    ]
    screen.say_json({"models": found})
    return Exit.DONE
