"""Dialects of configurations.

A dialect is a module of this folder with a function `read(keys) -> ParsedEncodings`, and a row of
dialects.json that names the keys by which it is recognised. The first row that matches a file
counts; the last one, Hugging Face's, matches any. Projects that only name keys differently share a
module, renamed_keys, and are rows of projects.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeGuard

from pecli.engine.named_values import NamedValues
from pecli.models.consistency import inconsistencies
from pecli.models.data import plain_name, stored, synonyms, value_at
from pecli.models.encoding import ModelEncodings, ParsedEncodings
from pecli.models.families import family_of
from pecli.models.key_names import FULL, LENGTHS, ORIGINAL, SLIDING, TEXTS
from pecli.models.keys import Keys, origin_at, value_of
from pecli.models.layer_types import MAX_LAYERS
from pecli.models.readers import reader_notes
from pecli.models.unread import unread_keys

#: Objects that may hold the keys of other dialects.
INSIDE = ("model", "MODEL_ARGS", "pretrained_config", "model_config")
PATTERNS = ("sliding_window_pattern", "global_attn_every_n_layers")
WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")


@dataclass(frozen=True)
class Dialect:
    """The keys by which a dialect is recognised.

    Attributes:
        module: The module of this folder that reads it.
        has: Keys that must all be present.
        has_one: Groups of keys, of each of which one must be present.
        lacks: Keys that must be absent.
        inside: An object that may hold these keys instead of the file itself, such as `model` or
            `model.arch`.
        model_types: Model types that a file may have; any for None. A file without a model type
            always fits.
        project: The project's name in projects.json, for the module renamed_keys.
    """

    module: str
    has: frozenset[str] = frozenset()
    has_one: tuple[frozenset[str], ...] = ()
    lacks: frozenset[str] = frozenset()
    inside: str = ""
    model_types: tuple[str, ...] | None = ()
    project: str = ""

    @classmethod
    def of(cls, row: NamedValues) -> "Dialect":
        """Return the dialect of a row of dialects.json; a null as `model_types` accepts any."""
        types = row.get("model_types", ())
        return cls(
            row["module"],
            frozenset(row.get("has", ())),
            tuple(frozenset(group) for group in row.get("has_one", ())),
            frozenset(row.get("lacks", ())),
            row.get("inside", ""),
            None if types is None else tuple(types),
            row.get("project", ""),
        )

    def matches(self, config: Mapping[str, object]) -> bool:
        """Return True if a configuration is written in this dialect."""
        model_type = config.get("model_type")
        if self.model_types is not None and model_type not in (None, *self.model_types):
            return False
        inner = value_at(config, self.inside)
        within = inner if isinstance(inner, Mapping) else {}
        return self._recognises(config) or self._recognises(within)

    def _recognises(self, values: Mapping[str, object]) -> bool:
        names = {plain_name(name) for name, value in values.items() if value is not None}
        if not self.has <= names or self.lacks & names:
            return False
        return all(group & names for group in self.has_one)

    def read(self, keys: Keys) -> ParsedEncodings:
        module = import_module(f"{__name__}.{self.module}")
        parsed: ParsedEncodings = (
            module.read(keys, self.project) if self.project else module.read(keys)
        )
        return parsed


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return all dialects, in the order in which they are tried."""
    return tuple(Dialect.of(row) for row in stored("dialects/dialects.json"))


def read_object(
    config: Mapping[str, object],
    label: str,
    *,
    origins: Mapping[str, str] | None = None,
    served: int | None = None,
) -> ModelEncodings:
    """Return the encodings of a configuration.

    Args:
        config: The object that a config.json holds.
        label: The file's name; errors name it, and models of MaxText go by it.
        origins: The flags that keys come from, by full names of keys, if not from the file.
        served: The context that the settings are made for, if it is not the configuration's.
    """
    places = {name: origin_at(flag) for name, flag in (origins or {}).items()}
    keys = Keys(config, label, origins=places)
    dialect = next(dialect for dialect in dialects() if dialect.matches(config))
    encodings, warnings = dialect.read(keys)
    named = keys.word("model_type", "_class_name")
    model_type = value_of(named)
    parts = _objects_of(keys)
    context = _first_positive(parts, (*LENGTHS, *synonyms("context"), ORIGINAL))
    window = _window(parts)
    warnings += inconsistencies(
        encodings,
        served or context,
        model_type,
        length_key="max_position_embeddings",
        scaling_key="rope_scaling",
    )
    _mark_own_names(keys)
    warnings += unread_keys(keys, {encoding.scheme for encoding in encodings})
    distinct = tuple(dict.fromkeys(warnings))
    layers = _layer_types(parts, model_type)
    return ModelEncodings(
        label,
        model_type,
        tuple(encodings),
        distinct,
        context,
        window,
        layers,
        notes=tuple(reader_notes(encodings, config)),
    )


def _window(parts: Sequence[Keys]) -> int | None:
    """Return the window of sliding attention; None if there is none, or it is switched off.

    Qwen2's files have a `sliding_window` although their `use_sliding_window` is false.
    """
    if any(part.data.get("use_sliding_window") is False for part in parts):
        return None
    return _first_positive(parts, WINDOWS)


def _mark_own_names(keys: Keys) -> None:
    """Record keys that come from flags as read under the names that they have in the file.

    A key that was read as `--hf-overrides.rope_parameters.factor` is `rope_parameters.factor`.
    """
    for name, (flag, _) in keys.origins.items():
        for source in tuple(keys.account.read):
            if source == flag or source.startswith(f"{flag}."):
                keys.account.read.add(name + source.removeprefix(flag))


def _objects_of(keys: Keys) -> list[Keys]:
    """Return the keys of the file, and those of the objects that may hold a language model."""
    objects = [keys]
    for name in (*TEXTS, *INSIDE):
        section = keys.inner(name)
        if section is not None:
            objects.append(section)
    return objects


def _layer_types(parts: Sequence[Keys], model_type: str | None) -> tuple[str, ...]:
    """Return the type of each layer by number: as listed, or by a pattern that repeats."""
    for part in parts:
        types = part.data.get("layer_types")
        if _are_names(types):
            return tuple(types)
    pattern = _pattern(parts, model_type)
    if not pattern:
        return ()
    return pattern * (MAX_LAYERS // len(pattern))


def _are_names(value: object) -> TypeGuard[list[str]]:
    """Return True for a list of texts that is not empty."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(name, str) for name in value)


def _pattern(parts: Sequence[Keys], model_type: str | None) -> tuple[str, ...]:
    """Return the layer types that repeat: a `sliding_window_pattern` of 6 means five sliding
    layers, then a full one.
    """
    for part in parts:
        periods = [part.data.get(name) for name in PATTERNS]
        for period in filter(_is_period, periods):
            return (*[SLIDING] * (period - 1), FULL)
    family = family_of(model_type)
    letters = "" if family is None else family.pattern
    return tuple(FULL if letter == "F" else SLIDING for letter in letters)


def _is_period(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and 0 < value < MAX_LAYERS


def _first_positive(parts: Sequence[Keys], names: Sequence[str]) -> int | None:
    """Return the first number above 0; all keys with the same number are recorded as read."""
    values: list[object] = []
    for part in parts:
        values += map(part.data.get, names)
    first = next(filter(_is_positive, values), None)
    if first is None:
        return None
    for part in parts:
        part.mark_as_read(*(name for name in names if part.data.get(name) == first))
    return first


def _is_positive(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and value > 0
