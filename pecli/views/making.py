"""The commands that make a model's tables, ready to be copied."""

from __future__ import annotations

from pecli.engine.registry import scheme_named
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.views.encodings import cell

_ROWS = 4096
"""Rows of a rotary table, which no configuration asks for."""


def commands(model: ModelEncodings, given: str) -> list[str]:
    """A command for all rotary encodings, which are read from what was `given` again, and one for each other."""
    lines = []
    for encoding in model.encodings:
        if encoding.scheme != "rope":
            lines.append(_command(encoding))
        elif not encoding.extra.get("axes"):  # whose positions are those of an image
            lines.append(f"pecli rope {given} --seq-len {_ROWS} -o rope.safetensors")
    return list(dict.fromkeys(lines))


def _command(encoding: Encoding) -> str:
    name = "learned-init" if encoding.scheme == "learned" else encoding.scheme
    kind = scheme_named(name)
    known = kind.settings()
    words = [f"--{key.replace('_', '-')} {cell(value)}" for key, value in encoding.parameters.items() if key in known]
    return " ".join(["pecli", name, *words, "-o", f"{name}.npy"])
