"""`pecli config`: which positional encodings a model asks for; `pecli models`: the built-in presets."""

import os
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import numpy as np

from pecli.cli import Exit, command, options, print_error, print_note
from pecli.engine.arrays import widened
from pecli.engine.schemes import Whole
from pecli.errors import ParameterError, PecliError, quoted
from pecli.files.load import load_file
from pecli.models.dialects import read_object
from pecli.models.encoding import ModelEncodings
from pecli.models.find import describe
from pecli.models.presets import presets
from pecli.views import encodings as view
from pecli.views import screen

_CONTEXT = "Context length for dynamic and longrope. (default: before any call)"
_MODEL = f"{options.MODEL[0].upper()}{options.MODEL[1:]}."
_SAME = "The same, by an option; may be repeated."


@command(
    options.argument("files", "MODEL…", _MODEL, several=True, default=None),
    options.text("--model --config", "MODEL", _SAME, complete=options.preset_names, several=True),
    options.text("--seq-len --length", "INTEGER", _CONTEXT, rule=Whole(help="a length")),
    options.flag("--strict", "Exit code 1 when there are warnings."),
    options.JSON,
)
def config(
    files: list[str] | None, model: list[str] | None, seq_len: int | None, strict: bool, json: bool
) -> int:
    """Say which positional encodings a config.json asks for: every value, its source, and warnings.

    Of several models it also says what differs. Exit code 1: warnings, with --strict; 3: a file cannot be read.

    Examples:
      pecli config config.json
      pecli config models/*/config.json --json --seq-len 8192
      pecli config old/config.json new/config.json
      pecli config --model gpt-oss-20b --strict
    """
    if not files and not model:
        raise ParameterError(
            "MODEL", "missing", "name a config.json or a preset", "see pecli models"
        )
    code, found = Exit.DONE, []
    for name, parameter in [
        *((name, "MODEL") for name in files or []),
        *((name, "model") for name in model or []),
    ]:
        try:
            result = describe(name, parameter).encodings()
            if os.path.isdir(name):
                result = replace(
                    result, warnings=(*result.warnings, *_stored_frequencies(name, result))
                )
            data = result.as_json(seq_len) if json else {}
        except PecliError as problem:
            code = max(code, print_error(problem))
            continue
        if strict and result.warnings:
            code = max(code, Exit.CHECK_FAILED)
        found.append(result)
        if json:
            screen.print_json(data)
        else:
            view.show(result, seq_len, first=len(found) == 1)
            option = "--config" if os.path.exists(name) else "--model"
            for line in view.commands(result, f"{option} {shlex.quote(name)}", seq_len):
                screen.print_line(line)
    if not json and len(found) > 1:
        view.show_differences(found, seq_len)
    return code


def _stored_frequencies(folder: str, model: ModelEncodings) -> Iterator[str]:
    """Frequencies that the weights beside a configuration hold, where none of its encodings has them."""
    known = [np.array(each.inverse_frequencies()) for each in model.encodings if each.is_rotary]
    with suppress(PecliError):
        file = load_file(folder)
        for name in [name for name in file.tensors if name.endswith("inv_freq")] if known else ():
            stored = widened(file.tensors[name]).reshape(-1)
            if not any(
                each.shape == stored.shape and np.allclose(stored, each, rtol=1e-2, atol=0)
                for each in known
            ):
                yield f"{name} in the weights, {len(stored)} frequencies, is not what the configuration asks for"
                return


@command(
    options.argument(
        "words", "WORD…", "Only models that have all words.", several=True, default=None
    ),
    options.JSON,
)
def models(words: list[str] | None, json: bool) -> int:
    """List the presets that --model takes, by family; --json says where their settings were read.

    Words are looked for in names, families, repositories and encodings. Exit code 1: no model has them all.

    Examples:
      pecli models
      pecli models phi longrope
      pecli models --json | jq -r '.models[].name'
      pecli config --model llama-3.1-8b
    """
    wanted = [word.lower() for word in words or []]
    every = [(preset, read_object(preset.config, preset.name)) for preset in presets().values()]
    chosen = [both for both in every if all(word in view.searched_text(*both) for word in wanted)]
    if not chosen:
        print_note(
            f"no preset has {' and '.join(map(quoted, wanted))}; the config.json of any model can be read"
        )
        return Exit.CHECK_FAILED
    if not json:
        view.show_presets(chosen)
        return Exit.DONE
    found = []
    for preset, model in chosen:
        about = {name: value for name, value in vars(preset).items() if name != "config"}
        encodings = [
            {"layer_type": each.layer_type, "scheme": each.scheme, "parameters": each.described()}
            for each in model
        ]
        found.append(
            {
                **about,
                "context": model.context,
                "model_type": model.model_type,
                "encodings": encodings,
            }
        )
    screen.print_json({"models": found})
    return Exit.DONE
