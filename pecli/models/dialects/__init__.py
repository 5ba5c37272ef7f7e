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

from pecli.engine.named_values import NamedValues, without_none
from pecli.models.consistency import inconsistencies
from pecli.models.data import object_at, plain_name, stored, synonyms
from pecli.models.encoding import ModelEncodings, ParsedEncodings
from pecli.models.families import family_of
from pecli.models.key_names import FULL, LENGTHS, ORIGINAL, SLIDING, TEXTS
from pecli.models.keys import Keys, Origin, as_texts, origin_at, value_of
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
        arguments: Further arguments of its function `read`: for the module renamed_keys, the
            project's name in projects.json.
    """

    module: str
    has: frozenset[str] = frozenset()
    has_one: tuple[frozenset[str], ...] = ()
    lacks: frozenset[str] = frozenset()
    inside: str = ""
    model_types: Sequence[str] | None = ()
    arguments: tuple[str, ...] = ()

    @classmethod
    def of(cls, row: NamedValues) -> "Dialect":
        """Return the dialect of a row of dialects.json; a null as `model_types` accepts any.

        `{"module": "mlc", "has_one": [["model_config", "position_embedding_base"]],
        "model_types": null}` is read by mlc.py: files that have one of two keys.
        """
        return cls(
            module=row["module"],
            has=frozenset(row.get("has", ())),
            has_one=tuple(frozenset(group) for group in row.get("has_one", ())),
            lacks=frozenset(row.get("lacks", ())),
            inside=row.get("inside", ""),
            model_types=row.get("model_types", ()),
            arguments=tuple(row.get("arguments", ())),
        )

    def matches(self, config: Mapping[str, object]) -> bool:
        """Return True if a configuration is written in this dialect."""
        model_type = config.get("model_type")
        if self.model_types is not None and model_type not in (None, *self.model_types):
            return False
        inner = object_at(config, self.inside.split("."))
        return self._recognises(config) or self._recognises(inner)

    def _recognises(self, values: Mapping[str, object]) -> bool:
        """Return True if an object has the keys of the dialect; a null counts as absent."""
        names = {plain_name(name) for name in without_none(values)}
        has_all = self.has <= names and self.lacks.isdisjoint(names)
        return has_all and all(group & names for group in self.has_one)

    def read(self, keys: Keys) -> ParsedEncodings:
        """Return the encodings by the rules of the dialect's module, which is imported now."""
        module = import_module(f"{__name__}.{self.module}")
        parsed: ParsedEncodings = module.read(keys, *self.arguments)
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
    intended_context: int | None = None,
) -> ModelEncodings:
    """Return the encodings of a configuration.

    Args:
        config: The object that a config.json holds.
        label: The file's name; errors name it, and models of MaxText go by it.
        origins: The flags that keys come from, by full names of keys, if not from the file.
        intended_context: The context that the settings are made for, if it is not the
            configuration's.
    """
    keys = Keys(data=config, path=label, origins=_origins_of_flags(origins or {}))
    dialect = next(dialect for dialect in dialects() if dialect.matches(config))
    encodings, warnings = dialect.read(keys)
    model_type = value_of(keys.word("model_type", "_class_name"))
    objects = _objects_of(keys)  # The language model may stand in an object of the file.
    context = _first_positive(objects, (*LENGTHS, *synonyms("context"), ORIGINAL))
    window = _window(objects)
    warnings += inconsistencies(
        encodings,
        intended_context or context,
        model_type,
        length_key="max_position_embeddings",
        scaling_key="rope_scaling",
    )
    keys.mark_names_in_file()
    # Unread keys are reported last, after all others were read.
    warnings += unread_keys(keys, {encoding.scheme for encoding in encodings})
    return ModelEncodings(
        file=label,
        model_type=model_type,
        encodings=tuple(encodings),
        warnings=tuple(dict.fromkeys(warnings)),
        context=context,
        window=window,
        layers=_layer_types(objects, model_type),
        notes=tuple(reader_notes(encodings, config)),
    )


def _origins_of_flags(origins: Mapping[str, str]) -> dict[str, Origin]:
    return {name: origin_at(flag) for name, flag in origins.items()}


def _window(objects: Sequence[Keys]) -> int | None:
    """Return the window of sliding attention; None if there is none, or it is switched off.

    Qwen2's files have a `sliding_window` although their `use_sliding_window` is false.
    """
    if any(keys.data.get("use_sliding_window") is False for keys in objects):
        return None
    return _first_positive(objects, WINDOWS)


def _objects_of(keys: Keys) -> list[Keys]:
    """Return the keys of the file, and those of the objects that may hold a language model."""
    return [keys, *(keys.inner(name) for name in (*TEXTS, *INSIDE))]


def _layer_types(objects: Sequence[Keys], model_type: str | None) -> tuple[str, ...]:
    """Return the type of each layer by number: as listed, or by a pattern that repeats."""
    for keys in objects:
        types = as_texts(keys.data.get("layer_types"))
        if types:
            return tuple(types)
    pattern = _pattern(objects, model_type)
    repetitions = MAX_LAYERS // max(1, len(pattern))
    return pattern * repetitions


def _pattern(objects: Sequence[Keys], model_type: str | None) -> tuple[str, ...]:
    """Return the layer types that repeat.

    A `sliding_window_pattern` of 6 means five sliding layers, then a full one. Files of Gemma 3
    need not state it: the family has the same pattern, SSSSSF.
    """
    for keys in objects:
        for name in PATTERNS:
            period = keys.data.get(name)
            if isinstance(period, int) and 0 < period < MAX_LAYERS:
                return (*[SLIDING] * (period - 1), FULL)
    letters = {"F": FULL, "S": SLIDING}
    return tuple(letters[letter] for letter in family_of(model_type).pattern)


def _first_positive(objects: Sequence[Keys], names: Sequence[str]) -> int | None:
    """Return the first number above 0 among keys of one meaning; None if there is none.

    All keys with the same number are recorded as read: a file may repeat its context length in
    `max_position_embeddings` and `seq_length`.

    Args:
        objects: Objects of a file; all names are looked up in the first before the second.
        names: The names of keys with one meaning.
    """
    for keys in objects:
        for name in names:
            number = keys.data.get(name)
            if isinstance(number, int) and number > 0:
                _mark_repetitions_as_read(objects, names, number)
                return number
    return None


def _mark_repetitions_as_read(objects: Sequence[Keys], names: Sequence[str], number: int) -> None:
    """Record all keys of some names as read that have the number which one of them states."""
    for keys in objects:
        repetitions = [name for name in names if keys.data.get(name) == number]
        keys.mark_as_read(*repetitions)
