"""Well-known models with confirmed settings, each with where they were read: data in presets.json beside this file."""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from pecli.errors import listed, nearest
from pecli.models.data import stored

MAX_OFFERED = 6


@dataclass(frozen=True)
class Preset:
    """A model by its short name; `source` is where its values were read."""

    name: str
    family: str
    repository: str
    source: str
    config: dict[str, Any]
    aliases: tuple[
        str, ...
    ] = ()  #: Other repositories with the same values, and other names that people have for it


def find(name: str) -> Preset | None:
    """The preset of a name, a repository or an alias, however its words are joined; None where there is none.

    >>> find("Llama-3.1-8B-Instruct").name, find("llama3.1:8b").name
    ('llama-3.1-8b', 'llama-3.1-8b')
    """
    return _by_key().get(_key(name))


@cache
def presets() -> dict[str, Preset]:
    """All presets by name, family by family."""
    rows = stored("presets.json").items()
    return {
        name: Preset(name, **{**row, "aliases": tuple(row.get("aliases", ()))})
        for name, row in rows
    }


def stands_for(name: str) -> str:
    """The preset that a shorter or other name stands for; empty where it is none, or the preset's own or repository's.

    >>> stands_for("mistral"), stands_for("Llama 3.1 8B"), stands_for("config.json")
    ('mistral-7b-v0.3', '', '')
    """
    preset = find(name)
    return preset.name if preset and "/" not in name and _key(preset.name) not in _key(name) else ""


def advice(name: str) -> str:
    """Presets that may be meant by a name that none has; empty where none is near.

    >>> advice("llama-3.1-9b")
    "did you mean 'llama-3.1-8b'?"
    """
    word = name.lower().rpartition("/")[2]
    alike = [each for each in presets() if len(word) > 2 and word in each]
    return (
        f"it could be: {listed(alike, MAX_OFFERED)}" if len(alike) > 1 else nearest(word, presets())
    )


def _key(name: str) -> str:
    """A name without what people vary: case, the signs between words, and the plus of Command R+."""
    return re.sub(r"[^a-z0-9.]+", "", name.lower().replace("+", "plus"))


@cache
def _by_key() -> dict[str, Preset]:
    """The presets by their names, repositories (also without the owner) and aliases; the first of a name has it."""
    found = {_key(name): preset for name, preset in presets().items()}
    for preset in presets().values():
        for name in (preset.repository, *preset.aliases):
            found.setdefault(_key(name), preset)
            found.setdefault(_key(name.rpartition("/")[2]), preset)
    return found
