"""`pecli config`: the positional encodings of a model; `pecli models`: the built-in presets."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.cli import options
from pecli.cli.answers import print_answer
from pecli.cli.commands import command
from pecli.cli.messages import Exit, print_error, print_note
from pecli.engine.arrays import Floats, widened
from pecli.engine.grouping import grouped
from pecli.engine.schemes.parameters import Whole
from pecli.errors import ParameterError, PecliError, listed, quoted
from pecli.files.load import load_file
from pecli.models.config_files import CONFIGS
from pecli.models.dialects import read_object
from pecli.models.encoding import ModelEncodings
from pecli.models.find import describe, describe_standard_input
from pecli.models.presets import Preset, presets
from pecli.views import encodings as view
from pecli.views import screen

_CONTEXT = "Context length for dynamic and longrope. (default: before any call)"
_MODEL = f"{options.MODEL[0].upper()}{options.MODEL[1:]}; or llama.cpp's log of loading a model."

STANDARD_INPUT_NAME = "-"
MAX_NAMES = 2  #: tensors that a warning names
STORED_RTOL = 1e-2
"""Relative difference up to which stored frequencies are the configured ones: bfloat16 keeps 8 bits."""


@command(
    options.argument("files", "MODEL…", _MODEL, several=True, default=[]),
    options.text(
        "--model --config",
        "MODEL",
        "The same, by an option; may be repeated.",
        complete=options.preset_names,
        several=True,
    ),
    options.text("--seq-len --length", "INTEGER", _CONTEXT, rule=Whole(help="a length")),
    options.server_flags(),
    options.flag("--strict", "Exit code 1 if there are warnings."),
    options.JSON,
)
def config(
    files: list[str],
    model: list[str],
    seq_len: int | None,
    flags: str | None,
    strict: bool,
    json: bool,
) -> int:
    """Show the positional encodings of a config.json: every value with its source, and warnings.

    For several models, also show the differences. Exit code 1: warnings, with --strict; 3: a file
    cannot be read.

    Examples:
      pecli config config.json
      pecli config models/*/config.json --json --seq-len 8192
      pecli config old/config.json new/config.json
      pecli config --model gpt-oss-20b --strict
      pecli config server.log
      curl -s https://huggingface.co/Qwen/Qwen3-8B/raw/main/config.json | pecli config -
      pecli config llama-2-7b --flags 'llama-server -c 8192 --rope-scale 2'
    """
    sources = _sources(files, model)
    codes = [Exit.DONE]
    shown: list[ModelEncodings] = []
    for source in sources:
        try:
            encodings = _read(source, flags)
            print_answer(
                partial(encodings.as_json, seq_len),
                partial(_show_model, source.name, encodings, seq_len, first=not shown),
                json=json,
                quiet=False,
            )
        except PecliError as problem:  # the models after it are still shown
            codes.append(print_error(problem))
        else:
            shown.append(encodings)
            if strict and encodings.warnings:
                codes.append(Exit.CHECK_FAILED)
    if not json and len(shown) > 1:
        view.show_differences(shown, seq_len)
    return max(codes)


def _sources(files: Sequence[str], models: Sequence[str]) -> list[_Source]:
    """Return the models that a command line names: its arguments, then its options."""
    sources = [_Source(name, "MODEL") for name in files]
    sources += [_Source(name, "model") for name in models]
    if not sources:
        rule = "name a config.json or a preset"
        raise ParameterError("MODEL", "missing", rule, "see pecli models")
    return sources


class _Source(NamedTuple):
    """A model as it was named, and the parameter that an error about it names."""

    name: str
    parameter: str


def _read(source: _Source, flags: str | None) -> ModelEncodings:
    """Read a model; weights beside the configuration add a warning if they hold other frequencies."""
    if source.name == STANDARD_INPUT_NAME:
        return describe_standard_input().encodings(flags)
    encodings = describe(source.name, source.parameter).encodings(flags)
    if os.path.isdir(source.name) and flags is None:
        warnings = (*encodings.warnings, *_frequency_warnings(source.name, encodings))
        encodings = replace(encodings, warnings=warnings)
    return encodings


def _show_model(name: str, encodings: ModelEncodings, seq_len: int | None, *, first: bool) -> None:
    """Print a model as tables, and the commands that make its own tables.

    Args:
        name: The model as the user named it, which the commands repeat.
        encodings: The model.
        seq_len: The context length at which scalings that depend on it are resolved.
        first: False if another model was printed before.
    """
    view.show(encodings, seq_len, first=first)
    if name == STANDARD_INPUT_NAME:
        name = CONFIGS[0]  # Commands need a file; this is the name that it usually has.
        option = "--config"
    else:
        option = "--config" if os.path.exists(name) else "--model"
    for line in view.commands(encodings, f"{option} {shlex.quote(name)}", seq_len):
        screen.print_line(line)


def _frequency_warnings(folder: str, model: ModelEncodings) -> list[str]:
    """Return a warning if the weights in a folder hold other frequencies than its config.json means.

    Older checkpoints store them as `….rotary_emb.inv_freq`; a program that loads these ignores the
    config.json. Each tensor must agree, within 1 %, with some rotary encoding of the model. There is
    a warning for those that do not; copies, which every layer may have, share one.
    """
    rotary = [encoding for encoding in model.encodings if encoding.is_rotary]
    configured = [np.array(encoding.inverse_frequencies()) for encoding in rotary]
    if not configured:
        return []
    departing = [
        stored
        for stored in _stored_frequencies(folder)
        if not _is_configured(stored.frequencies, configured)
    ]
    copies = grouped(departing, lambda stored: stored.frequencies.tobytes())
    return [_describe_departing(tensors) for tensors in copies.values()]


class _StoredFrequencies(NamedTuple):
    """A tensor of frequencies in the weights of a model."""

    name: str
    frequencies: Floats


def _stored_frequencies(folder: str) -> Iterator[_StoredFrequencies]:
    """Yield each `….inv_freq` in the weights of a folder."""
    with suppress(PecliError):  # a folder without weights, or with weights that cannot be read
        for name, array in load_file(folder).tensors.items():
            if name.endswith("inv_freq"):
                yield _StoredFrequencies(name, widened(array).reshape(-1))


def _describe_departing(copies: Sequence[_StoredFrequencies]) -> str:
    """Return the warning about equal tensors of frequencies that the configuration does not mean."""
    names = listed([stored.name for stored in copies], MAX_NAMES)
    count = f"{len(copies[0].frequencies)} frequencies"
    if len(copies) == 1:
        return f"{names} in the weights, {count}, differs from the configuration"
    return f"{names} in the weights, {count} each, differ from the configuration"


def _is_configured(stored: Floats, configured: list[Floats]) -> bool:
    """Return True if stored frequencies are as many as, and nearly equal to, those of an encoding."""
    for frequencies in configured:
        is_same_size = frequencies.shape == stored.shape
        if is_same_size and np.allclose(stored, frequencies, rtol=STORED_RTOL, atol=0):
            return True
    return False


@command(
    options.argument(
        "words", "WORD…", "Only models that match all words.", several=True, default=[]
    ),
    options.JSON,
)
def models(words: list[str], json: bool) -> int:
    """List the presets that --model accepts, by family; --json has the sources of their settings.

    Words are searched in names, families, repositories and encodings. Exit code 1: no model matches
    all of them.

    Examples:
      pecli models
      pecli models phi longrope
      pecli models --json | jq -r '.models[].name'
      pecli config --model llama-3.1-8b
    """
    searched_words = [word.lower() for word in words]
    matching = [*_matching_presets(searched_words)]
    if not matching:
        missing = " and ".join(map(quoted, searched_words))
        print_note(f"no preset has {missing}; the config.json of any model can be read")
        return Exit.CHECK_FAILED
    print_answer(
        lambda: {"models": [_preset_as_json(preset, model) for preset, model in matching]},
        partial(view.show_presets, matching),
        json=json,
        quiet=False,
    )
    return Exit.DONE


def _matching_presets(words: Sequence[str]) -> Iterator[tuple[Preset, ModelEncodings]]:
    """Yield the presets whose name, family, repositories and encodings hold all words."""
    for preset in presets().values():
        model = read_object(preset.config, preset.name)
        searched = view.searched_text(preset, model)
        if all(word in searched for word in words):
            yield preset, model


def _preset_as_json(preset: Preset, model: ModelEncodings) -> dict[str, object]:
    """Return a preset for JSON: its name, family and sources, and the encodings of its configuration."""
    encodings = []
    for encoding in model:
        encodings.append(
            {
                "layer_type": encoding.layer_type,
                "scheme": encoding.scheme,
                "parameters": encoding.described(),
            }
        )
    fields_of_preset = options.without(vars(preset), ("config",))
    return {
        **fields_of_preset,
        "context": model.context,
        "model_type": model.model_type,
        "encodings": encodings,
    }
