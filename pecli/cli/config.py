"""`pecli config`: which positional encodings a model asks for; `pecli models`: the built-in presets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from pecli.cli import Exit, code_of, command_of, options, print_error, print_note
from pecli.engine.schemes import Whole
from pecli.errors import ParameterError, PecliError, quoted

EXAMPLES = {
    "config": (
        "pecli config config.json",
        "pecli config models/*/config.json --json --seq-len 8192",
        "pecli config old/config.json new/config.json",
        "pecli config --model gpt-oss-20b --strict",
    ),
    "models": (
        "pecli models",
        "pecli models phi longrope",
        "pecli models --json | jq -r '.models[].name'",
        "pecli config --model llama-3.1-8b",
    ),
}
_LENGTH = Whole(help="a length")


def command(name: str) -> Any:
    """The command of that name, for the group that holds it."""
    return command_of(config if name == "config" else models, name, EXAMPLES[name])


def config(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL…", help=f"{options.MODEL[0].upper()}{options.MODEL[1:]}.", show_default=False),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "--config",
            metavar="MODEL",
            help="The same, by an option; may be repeated.",
            autocompletion=options.preset_names,
        ),
    ] = None,
    seq_len: Annotated[
        str | None,
        typer.Option(
            "--seq-len",
            "--length",
            metavar="INTEGER",
            help="Context length for dynamic and longrope. (default: before any call)",
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 when there are warnings.")] = False,
    json: options.Json = False,
) -> int:
    """Say which positional encodings a config.json asks for: every value, its source, and warnings.

    Of several models it also says what differs. Exit code 1: warnings, with --strict; 3: a file cannot be read.
    """
    length = None if seq_len is None else _LENGTH.parse("seq_len", seq_len)
    if not files and not model:
        raise ParameterError("MODEL", "missing", "name a config.json or a preset", "see pecli models")
    wanted = [*((name, "MODEL") for name in files or []), *((name, "model") for name in model or [])]
    return _show(wanted, length, strict=strict, json=json)


def _show(wanted: Sequence[tuple[str, str]], length: int | None, *, strict: bool, json: bool) -> int:
    """Each model after the other, whatever is wrong with those before; then what differs. Of each its name, and what
    errors call it.
    """
    from pecli.models.find import describe
    from pecli.views import encodings as view
    from pecli.views import screen
    from pecli.views.encodings import commands

    code, found = Exit.DONE, []
    for name, parameter in wanted:
        try:
            result = describe(name, parameter).encodings()
            data = result.as_json(length) if json else {}
        except PecliError as problem:
            print_error(problem)
            code = max(code, code_of(problem))
            continue
        if strict and result.warnings:
            code = max(code, Exit.CHECK_FAILED)
        found.append(result)
        if json:
            screen.say_json(data)
        else:
            view.show(result, length, first=len(found) == 1)
            option = "--config" if os.path.exists(name) else "--model"
            for line in commands(result, f"{option} {shlex.quote(name)}", length, result.context):
                screen.say(line)
    if not json and len(found) > 1:
        view.show_differences(found, length)
    return code


def models(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD…", help="Only models that have all words.", show_default=False)
    ] = None,
    json: options.Json = False,
) -> int:
    """List the presets that --model takes, by family: well-known models, each with where its settings were read.

    Words are looked for in names, families, repositories and encodings. Exit code 1: no model has them all.
    """
    from pecli.models.dialects import read_object
    from pecli.models.presets import presets
    from pecli.views import encodings as view
    from pecli.views import screen

    every = [(preset, read_object(preset.config, preset.name)) for preset in presets().values()]
    wanted = [word.lower() for word in words or []]
    loaded = [each for each in every if all(word in view.searched_text(*each) for word in wanted)]
    if not loaded:
        print_note(f"no preset has {' and '.join(map(quoted, wanted))}; the config.json of any model can be read")
        return Exit.CHECK_FAILED
    if not json:
        view.show_presets(loaded)
        return Exit.DONE
    found = [
        {
            "name": preset.name,
            "family": preset.family,
            "repository": preset.repository,
            "aliases": list(preset.aliases),
            "context": model.context,
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
