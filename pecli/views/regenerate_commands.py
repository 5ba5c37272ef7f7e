"""The commands that make a model's tables, ready to be copied."""

from __future__ import annotations

import shlex
from contextlib import suppress

from pecli.engine.schemes.registry import scheme_named
from pecli.engine.text import spelled
from pecli.errors import ParameterError
from pecli.models.encoding import Encoding, ModelEncodings

_ROWS = 4096
"""Rows of a rotary table where no length is asked for."""


def commands(model: ModelEncodings, given: str, length: int | None = None) -> list[str]:
    """A command for all rotary encodings, which are read from what was `given` again, and one for each other.

    Rotary tables end at the length that the encodings are read at, since some scalings depend on it.
    """
    lines = []
    schemes = [encoding.scheme for encoding in model.encodings]
    for encoding in model.encodings:
        if not encoding.is_rotary:
            lines.append(_command(encoding, alone=schemes.count(encoding.scheme) == 1))
        elif not encoding.extra.get("axes"):  # whose positions are those of an image
            lines.append(f"pecli rope {given} --seq-len {length or _ROWS} -o rope.safetensors")
    return list(dict.fromkeys(lines))


def _command(encoding: Encoding, *, alone: bool) -> str:
    """The options in full; the file is called by its layers, too, where others have tables of the same scheme."""
    name = "learned-init" if encoding.scheme == "learned" else encoding.scheme
    kind = scheme_named(name)
    settings = {key: value for key, value in encoding.parameters.items() if key in kind.settings()}
    with suppress(ParameterError):  # the command itself says what is wrong
        settings = {key: value for key, value in settings.items() if key not in kind(**settings).inert_parameters}
    options = {f"--{key.replace('_', '-')}": value for key, value in settings.items() if value is not False}
    words = [word for name, value in options.items() for word in (name, *([] if value is True else [spelled(value)]))]
    file = name if alone or not encoding.layer_type else f"{name}-{encoding.layer_type}"
    return shlex.join(["pecli", name, *words, "-o", f"{file}.npy"])
