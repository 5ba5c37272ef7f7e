"""Data files of this folder: families, class defaults, synonyms of keys, presets."""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeVar

from pecli.engine.named_values import NamedValues
from pecli.package_data import package_bytes

Row = TypeVar("Row")

MAX_NAMES = 4096
"""Names of keys that are remembered: the same ones are looked for in every configuration."""


@cache
def stored(name: str) -> Any:
    """Return the content of a JSON file in this folder."""
    return json.loads(package_bytes("pecli.models", name))


def synonyms(meaning: str) -> tuple[str, ...]:
    """Return the keys that configurations use for one meaning; the first one that is present
    counts.

    >>> synonyms("local_theta")
    ('rope_local_base_freq', 'local_rope_theta', 'swa_rope_theta')
    """
    return tuple(stored("synonyms.json")[meaning].split())


@lru_cache(maxsize=MAX_NAMES)
def plain_name(name: str | None) -> str:
    """Return a model_type or a key as the data files spell it; empty for None.

    >>> plain_name("XLM-RoBERTa")
    'xlm_roberta'
    """
    return (name or "").lower().lstrip("-").replace("-", "_")


def first_known(rows: Mapping[str, Row], names: Iterable[str], default: Row) -> Row:
    """Return the row of the first name that has one; the default if none has.

    >>> first_known({"qwen2": "halves"}, ["qwen2_text", "qwen2"], "unknown")
    'halves'
    """
    for name in names:
        if name in rows:
            return rows[name]
    return default


def nonempty(*texts: str) -> list[str]:
    """Return the texts that are not empty: a family without a note has an empty one.

    >>> nonempty("", "its table has 900 queries")
    ['its table has 900 queries']
    """
    return [text for text in texts if text]


def object_at(config: NamedValues, names: Sequence[str]) -> NamedValues:
    """Return the object of a configuration that names lead to; an empty one if it is absent.

    >>> object_at({"model": {"vision": {"size": 16}}}, ["model", "vision"])
    {'size': 16}
    """
    for name in names:
        inner = config.get(name)
        config = inner if isinstance(inner, Mapping) else {}
    return config


def value_at(config: NamedValues, place: str) -> object:
    """Return the value of a key of nested objects, such as `model.type`; None if it is absent.

    >>> value_at({"model": {"type": "llama"}}, "model.type")
    'llama'
    """
    *objects, name = place.split(".")
    return object_at(config, objects).get(name)
