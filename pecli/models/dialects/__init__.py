"""Dialects of configurations: rows of dialects.json say by which keys each is recognised, and what reads it, which is
imported when a file is written in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import TEXTS
from pecli.models.keys import Keys, plain_name, stored, unread_keys
from pecli.models.rope import LENGTHS, ORIGINAL


@dataclass(frozen=True)
class Dialect:
    """How one project spells its configurations."""

    reader: str  #: Module and function; it takes the keys, and a list that it adds warnings to
    has: Sequence[str] = ()
    has_one: Sequence[Sequence[str]] = ()  #: Keys of each of which one is there
    lacks: Sequence[str] = ()
    model_types: Sequence[str] | None = ()  #: What model_type may be, where it is given; None for anything
    inside: str = ""  #: An object that may hold the keys instead

    def recognises(self, config: Mapping[str, Any]) -> bool:
        if self.model_types is not None and config.get("model_type") not in (None, *self.model_types):
            return False
        inner = config.get(self.inside)
        for values in (config, inner if isinstance(inner, Mapping) else {}):
            names = {plain_name(name) for name, value in values.items() if value is not None}
            if names >= {*self.has} and not names & {*self.lacks} and all(map(names.intersection, self.has_one)):
                return True
        return False

    def read(self, keys: Keys, warnings: list[str]) -> list[Encoding]:
        module, function = self.reader.split(".")
        found: list[Encoding] = getattr(import_module(f"{__name__}.{module}"), function)(keys, warnings)
        return found


DIALECTS = tuple(Dialect(**row) for row in stored("dialects/dialects.json"))
"""The first that recognises a file reads it."""
CONTEXTS = (
    *LENGTHS,
    *("initial_context_length", "max_context_len", "max_seqlen", "context_window_size", "context"),
    *("seq-length", "max-position-embeddings", "--max-position-embeddings", "--seq-length"),
)
"""Keys that say how long a context is, in all dialects."""
INSIDE = ("model", "MODEL_ARGS", "pretrained_config", "model_config")  #: What may hold the keys of other dialects
WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")
LLAMA3_BASE, LLAMA3_CONTEXT = 500000.0, 131072


def read_object(config: Mapping[str, Any], label: str) -> ModelEncodings:
    """The encodings of a configuration that is read already."""
    keys = Keys(config, label)
    warnings: list[str] = []
    found = next(each for each in DIALECTS if each.recognises(config)).read(keys, warnings)
    said = keys.word("model_type", "_class_name")
    model_type = said.value if said else None
    parts = [keys, *(inner for name in (*TEXTS, *INSIDE) if (inner := keys.part(name)))]
    context = _first_positive(parts, CONTEXTS)
    windows = () if any(part.data.get("use_sliding_window") is False for part in parts) else WINDOWS
    warnings += inconsistencies(found, context, model_type)
    unread = unread_keys(keys, {each.scheme for each in found})
    if unread and not found:
        warnings = [each.replace("no key names one", "no key that is read here names one") for each in warnings]
    warnings += unread
    window = _first_positive(parts, windows)
    return ModelEncodings(label, model_type, tuple(found), tuple(dict.fromkeys(warnings)), context, window)


def _first_positive(parts: Sequence[Keys], names: Iterable[str]) -> int | None:
    """The first of the keys that is a number above 0; those that say the same count as read, too."""
    values = [(part, name, part.data.get(name)) for part in parts for name in (*names, ORIGINAL)]
    found = next((each for _, _, each in values if isinstance(each, int) and each > 0), None)
    for part, name, value in values:
        if found is not None and value == found:
            part.mark(name)
    return found


def inconsistencies(
    encodings: Sequence[Encoding],
    context: int | None,
    model_type: str | None,
    length: str = "max_position_embeddings",
    lost: str = "rope_scaling",
) -> Iterator[str]:
    """Settings that do not fit one another, or that leave out what they seem to need."""
    for encoding in encodings:
        given = encoding.parameters
        if not encoding.is_rotary or encoding.part or context is None:
            continue
        scaling, factor, original = given["scaling"], given.get("factor"), given.get(ORIGINAL)
        if scaling in ("yarn", "longrope") and factor and original and round(factor * original) != context:
            yield (
                f"{encoding.sources.get('factor', 'factor')} {factor:g} × {original} positions make "
                f"{factor * original:.12g}, but the model says {context} ({length}): check which of them is meant"
            )
        if scaling == "none" and given["base"] == LLAMA3_BASE and context == LLAMA3_CONTEXT and model_type == "llama":
            yield (
                f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but its scaling (llama3, "
                f"factor 8) is not given: {lost} may have been lost"
            )
