"""Dialects of configurations, one file each: what recognises it, which keys it has, what its own code defaults to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pecli.models.account import inconsistencies, unread_keys
from pecli.models.dialects import deepseek, diffusers, executorch, gpt_oss, huggingface, meta, mlc, moshi, neox, olmo
from pecli.models.dialects.dialect import Dialect
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.rope import LENGTHS, ORIGINAL
from pecli.models.values import Keys

DIALECTS: tuple[Dialect, ...] = (
    diffusers.DIALECT,
    mlc.DIALECT,
    gpt_oss.DIALECT,
    deepseek.DIALECT,
    executorch.DIALECT,
    moshi.DIALECT,
    olmo.DIALECT,
    neox.DIALECT,
    meta.DIALECT,
    huggingface.DIALECT,
)
"""The first that recognises a file reads it; where another one would read it otherwise, a warning says so."""
WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")


def read_object(config: Mapping[str, Any], label: str) -> ModelEncodings:
    """The encodings of a configuration that is read already."""
    keys = Keys(config, label)
    warnings: list[str] = []
    dialect, *others = [each for each in DIALECTS if each.recognises(keys)]
    found = dialect.read(keys, warnings)
    warnings += _other_readings(found, dialect, others, config, label)
    said = keys.word("model_type") or keys.word(diffusers.DIFFUSERS_CLASS)
    model_type = said.value if said else None
    parts = [keys, *(inner for name in huggingface.TEXTS if (inner := keys.part(name)))]
    names = tuple(dict.fromkeys((*LENGTHS, *dialect.lengths)))
    context = _first_positive(parts, names)
    windows = () if any(part.data.get("use_sliding_window") is False for part in parts) else WINDOWS
    warnings += inconsistencies(found, context, model_type)
    warnings += unread_keys(keys, dialect.harmless, {each.scheme for each in found})
    window = _first_positive(parts, windows)
    return ModelEncodings(label, model_type, tuple(found), tuple(dict.fromkeys(warnings)), context, window)


def _other_readings(
    found: Sequence[Encoding], dialect: Dialect, others: Iterable[Dialect], config: Mapping[str, Any], label: str
) -> Iterator[str]:
    """What is said where another dialect of as much detail recognises the file, and finds something else in it."""
    said = [(each.scheme, each.parameters, each.layout) for each in found]
    for other in others if not dialect.names_model else ():
        read = [] if other.is_general else other.read(Keys(config, label), [])
        if not other.is_general and said != [(each.scheme, each.parameters, each.layout) for each in read]:
            yield f"read as {dialect.name}; as {other.name} it would mean something else"


def _first_positive(parts: Sequence[Keys], names: Iterable[str]) -> int | None:
    """The first of the keys that is a number above 0; those that say the same count as read, too."""
    values = [(part, name, part.data.get(name)) for part in parts for name in (*names, ORIGINAL)]
    found = next((each for _, _, each in values if isinstance(each, int) and each > 0), None)
    for part, name, value in values:
        if found is not None and value == found:
            part.mark(name)
    return found
