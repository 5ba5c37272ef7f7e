"""Well-known models with confirmed settings, each with its source: the rows of presets.json."""

import re
from dataclasses import dataclass
from functools import cache

from pecli.engine.named_values import JsonObject
from pecli.errors import listed, nearest
from pecli.models.data import stored

MAX_OFFERED = 6
#: Letters that a word must have, to be looked for within names.
MIN_LETTERS = 3


@dataclass(frozen=True)
class Preset:
    """A model by its short name.

    Attributes:
        name: The short name, such as `llama-3.1-8b`.
        family: The family that `pecli models` lists it under.
        repository: Its repository.
        source: Where the values were read.
        config: The keys of its config.json that are about positions.
        aliases: Other repositories with the same values, and other names in use.
    """

    name: str
    family: str
    repository: str
    source: str
    config: JsonObject
    aliases: tuple[str, ...] = ()


def find(name: str) -> Preset | None:
    """Return the preset of a name, a repository or an alias, however its words are joined; None if
    there is none.

    >>> find("Llama-3.1-8B-Instruct").name, find("llama3.1:8b").name
    ('llama-3.1-8b', 'llama-3.1-8b')
    """
    return _by_key().get(_key(name))


@cache
def presets() -> dict[str, Preset]:
    """Return all presets by name, family by family."""
    rows = {}
    for name, row in stored("presets.json").items():
        aliases = tuple(row.get("aliases", ()))
        rows[name] = Preset(name, **{**row, "aliases": aliases})
    return rows


def stands_for(name: str) -> str:
    """Return the preset that a shorter or another name stands for; empty if the name is complete,
    or no preset's.

    >>> stands_for("mistral"), stands_for("Llama 3.1 8B"), stands_for("config.json")
    ('mistral-7b-v0.3', '', '')
    """
    preset = find(name)
    if preset is None or "/" in name or _key(preset.name) in _key(name):
        return ""
    return preset.name


def advice(name: str) -> str:
    """Return a hint at presets that may be meant by an unknown name; empty if none is near.

    A preset of the same family is nearer than any other: `glm-4.8` is not `phi-4`.

    >>> advice("llama-3.1-9b"), advice("glm-4.8")
    ("did you mean 'llama-3.1-8b'?", "did you mean 'glm-4.6'?")
    """
    word = name.lower().rpartition("/")[2]
    containing = _presets_containing(word)
    if len(containing) > 1:
        return f"it could be: {listed(containing, MAX_OFFERED)}"
    relatives = [preset for preset in presets() if _first_word(preset) == _first_word(word)]
    if relatives:
        return nearest(word, relatives) or f"it could be: {listed(relatives, MAX_OFFERED)}"
    return nearest(word, presets())


def _presets_containing(word: str) -> list[str]:
    """Return the presets whose names contain a word of some letters: phi3 is contained in phi-3-mini."""
    key = _key(word)
    if len(key) < MIN_LETTERS:
        return []
    return [preset for preset in presets() if key in _key(preset)]


def _first_word(name: str) -> str:
    """Return the letters that a name begins with: `qwen` of `qwen3.5-9b`."""
    return re.split(r"[^a-z]", name, maxsplit=1)[0]


def _key(name: str) -> str:
    """Return a name without case and the signs between words; the plus of Command R+ is spelled
    out.

    >>> _key("Command R+"), _key("llama3.1:8b")
    ('commandrplus', 'llama3.18b')
    """
    return re.sub(r"[^a-z0-9.]+", "", name.lower().replace("+", "plus"))


@cache
def _by_key() -> dict[str, Preset]:
    """Return the presets by all words for them; of several presets for a word, the first counts.

    They are names, repositories and aliases: `llama-3.1-8b`, `meta-llama/Llama-3.1-8B`, and the
    repository without its owner.
    """
    by_key = {_key(name): preset for name, preset in presets().items()}
    for preset in presets().values():
        for name in (preset.repository, *preset.aliases):
            without_owner = name.rpartition("/")[2]
            by_key.setdefault(_key(name), preset)
            by_key.setdefault(_key(without_owner), preset)
    return by_key
