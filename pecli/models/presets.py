"""Well-known models with confirmed settings, each with where they were read: data in presets.json beside this file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from pecli.engine.parameters import spelled
from pecli.engine.spelling import nearest
from pecli.errors import ParameterError
from pecli.models.encoding import ModelEncodings


@dataclass(frozen=True)
class Preset:
    """A model by its short name."""

    name: str
    repository: str
    source: str
    config: dict[str, Any]

    def load(self) -> ModelEncodings:
        """Its encodings."""
        from pecli.models.reader import read_object

        return replace(read_object(self.config, self.name), file=self.name)


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    import json

    data = json.loads((Path(__file__).parent / "presets.json").read_text(encoding="utf-8"))
    return {name: Preset(name, **values) for name, values in data.items()}


def load(name: str) -> ModelEncodings:
    """The encodings of a preset, by its name or by that of its repository."""
    word = name.lower()
    for preset in presets().values():
        if word in (preset.name, preset.repository.lower()):
            return preset.load()
    advice = nearest(word, presets()) or "see pecli models"
    raise ParameterError("model", spelled(name), "no preset has that name", advice)
