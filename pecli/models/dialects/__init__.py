"""Dialects of configurations: rows of dialects.json say by which keys each is recognised, the first that is, and what
reads it, a function that takes the keys and a list that it adds warnings to, imported when a file is written in it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from pecli.models.data import plain_name, stored, synonyms
from pecli.models.encoding import Encoding, ModelEncodings
from pecli.models.families import Family, family_of
from pecli.models.key_names import LENGTHS, ORIGINAL, TEXTS
from pecli.models.keys import Keys
from pecli.models.layer_types import MAX_LAYERS
from pecli.models.unread import unread_keys

INSIDE = (
    "model",
    "MODEL_ARGS",
    "pretrained_config",
    "model_config",
)  #: What may hold the keys of other dialects
WINDOWS = ("sliding_window", "sliding_window_size", "local_attention")
LLAMA3_BASE, LLAMA3_CONTEXT = 500000.0, 131072


def read_object(config: Mapping[str, Any], label: str) -> ModelEncodings:
    """The encodings of a configuration that is read already."""
    keys = Keys(config, label)
    warnings: list[str] = []
    reader = next(
        row["reader"] for row in stored("dialects/dialects.json") if _is_written_in(row, config)
    )
    module, function = reader.split(".")
    found: list[Encoding] = getattr(import_module(f"{__name__}.{module}"), function)(keys, warnings)
    said = keys.word("model_type", "_class_name")
    model_type = said.value if said else None
    parts = [keys, *(inner for name in (*TEXTS, *INSIDE) if (inner := keys.part(name)))]
    context = _first_positive(parts, (*LENGTHS, *synonyms("context"), ORIGINAL))
    windows = () if any(part.data.get("use_sliding_window") is False for part in parts) else WINDOWS
    warnings += inconsistencies(
        found, context, model_type, "max_position_embeddings", "rope_scaling"
    )
    unread = unread_keys(keys, {each.scheme for each in found})
    if unread and not found:
        warnings = [
            each.replace("no key names one", "no key that is read here names one")
            for each in warnings
        ]
    warnings += unread
    window = _first_positive(parts, windows)
    told = tuple(dict.fromkeys(warnings))
    return ModelEncodings(
        label, model_type, tuple(found), told, context, window, _layer_types(parts, model_type)
    )


def _layer_types(parts: Sequence[Keys], model_type: str | None) -> tuple[str, ...]:
    """The type of each layer, by number: those that are listed, or a pattern of letters, over and over."""
    for listed in (part.data.get("layer_types") for part in parts):
        if isinstance(listed, list) and listed and all(isinstance(name, str) for name in listed):
            return tuple(listed)
    counts = (part.data.get("sliding_window_pattern") for part in parts)
    every = next((each for each in counts if isinstance(each, int) and 0 < each < MAX_LAYERS), 0)
    pattern = "S" * (every - 1) + "F" if every else (family_of(model_type) or Family()).pattern
    kinds = {"F": "full_attention", "S": "sliding_attention"}
    return tuple(kinds[letter] for letter in pattern) * (MAX_LAYERS // max(1, len(pattern)))


def _is_written_in(row: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Whether a file, or its object `inside`, has all keys of `has`, one of each list of `has_one` and none of `lacks`;
    its model_type, where it has one, must be one of `model_types`, or may be anything where that is null."""
    if (types := row.get("model_types", ())) is not None and config.get("model_type") not in (
        None,
        *types,
    ):
        return False
    inner = config.get(row.get("inside", ""))
    for values in (config, inner if isinstance(inner, Mapping) else {}):
        names = {plain_name(name) for name, value in values.items() if value is not None}
        one_of_each = all(map(names.intersection, row.get("has_one", ())))
        if names >= {*row.get("has", ())} and not names & {*row.get("lacks", ())} and one_of_each:
            return True
    return False


def _first_positive(parts: Sequence[Keys], names: Iterable[str]) -> int | None:
    """The first of the keys that is a number above 0; those that say the same count as read, too."""
    values = [(part, name, part.data.get(name)) for part in parts for name in names]
    found = next((each for _, _, each in values if isinstance(each, int) and each > 0), None)
    for part, name, value in values:
        if found is not None and value == found:
            part.mark(name)
    return found


def inconsistencies(
    encodings: Sequence[Encoding],
    context: int | None,
    model_type: str | None,
    length: str,
    lost: str,
) -> Iterator[str]:
    """Settings that do not fit one another, or that leave out what they seem to need; `length` and `lost` are keys."""
    for encoding in encodings:
        given = encoding.parameters
        if not encoding.is_rotary or encoding.part or context is None:
            continue
        scaling, factor, original = given["scaling"], given.get("factor"), given.get(ORIGINAL)
        if (
            scaling in ("yarn", "longrope")
            and factor
            and original
            and round(factor * original) != context
        ):
            made = (
                f"{encoding.sources.get('factor', 'factor')} {factor:g} × {original} positions make"
            )
            but = f"the model says {context} ({length}): check which of them is meant"
            yield f"{made} {factor * original:.12g}, but {but}"
        if (
            scaling == "none"
            and given["base"] == LLAMA3_BASE
            and context == LLAMA3_CONTEXT
            and model_type == "llama"
        ):
            but = f"its scaling (llama3, factor 8) is not given: {lost} may have been lost"
            yield f"base {LLAMA3_BASE:g} and {LLAMA3_CONTEXT} positions are those of Llama 3.1, but {but}"
