"""Well-known models with confirmed settings, each with where they were read: data in presets.json beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pecli.engine.text import nearest, quoted
from pecli.errors import ParameterError
from pecli.models.encoding import ModelEncodings
from pecli.models.submodels import read_object


@dataclass(frozen=True)
class Preset:
    """A model by its short name."""

    name: str
    repository: str
    source: str
    config: dict[str, Any]

    def load(self) -> ModelEncodings:
        """Its encodings."""
        return replace(read_object(self.config, self.name), file=self.name)


def find(name: str) -> Preset | None:
    """The preset of a name, or of a repository; None where there is none."""
    word = name.lower()
    return next((each for each in presets().values() if word in (each.name, each.repository.lower())), None)


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    import json

    data = json.loads((Path(__file__).parent / "presets.json").read_text(encoding="utf-8"))
    return {name: Preset(name, **values) for name, values in data.items()}


def load_model(name: str) -> ModelEncodings:
    """The positional encodings of a well-known model, by its name in `pecli models` or by that of its repository.

    >>> load_model("llama-3.1-8b").one().rope(seq_len=4096).scaling
    'llama3'
    """
    found = find(name)
    if found is not None:
        return found.load()
    word = name.lower()
    raise ParameterError("model", quoted(name), "no preset has that name", _advice(word))


def _advice(word: str) -> str:
    """Presets that may be meant, and what to do where none is."""
    alike = [name for name in presets() if word in name]
    meant = f"these have it: {', '.join(alike)}" if len(alike) > 1 else nearest(word, presets())
    return meant or "pecli models lists them; the config.json of any other can be read"
