"""Notes about values that stand only where some programs look for them.

transformers 4 has the base and the share of rotating channels at the top of a configuration and the
scaling in `rope_scaling`; transformers 5 writes all of them into `rope_parameters`. Both versions
read either place, but other programs, and code of models that was written for one version, look
only in one of them, and fall back to a default in silence.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pecli.engine.named_values import NamedValues, without_none
from pecli.models.data import object_at
from pecli.models.encoding import Encoding
from pecli.models.key_names import PARTIAL

#: The object in which transformers 5 has all rotary settings.
NEW_SETTINGS = "rope_parameters"
#: The object in which transformers 4 has the scaling.
OLD_SETTINGS = "rope_scaling"
#: The base of most configuration classes of transformers 4 if a file has none.
FALLBACK = 10000.0


class Places(NamedTuple):
    """The older and the newer place of a parameter, and what programs do that find nothing there.

    Attributes:
        old_key: The key at the top of a configuration of transformers 4.
        new_keys: The keys within `rope_parameters`, of which a file has one.
        consequence: The default of programs that look in the other place.
    """

    old_key: str
    new_keys: tuple[str, ...]
    consequence: str


#: The places of parameters, by the names that encodings have for them.
PLACES = {
    "base": Places("rope_theta", ("rope_theta",), f"falls back to {FALLBACK:g}"),
    "scaling": Places(OLD_SETTINGS, ("rope_type", "type"), "leaves it unscaled"),
    PARTIAL: Places(PARTIAL, (PARTIAL,), "rotates all channels"),
}


def reader_notes(encodings: Sequence[Encoding], config: NamedValues) -> list[str]:
    """Return notes about the values of the language model that stand in one place only.

    A config of diffusers has no such places.
    """
    if "_class_name" in config:
        return []
    notes: list[str] = []
    for encoding in encodings:
        if encoding.is_rope_of_text:
            *objects, _ = encoding.prefix.split(".")  # `text_config.` ends with its dot.
            notes += _notes(encoding, object_at(config, objects))
    return list(dict.fromkeys(notes))  # Layer types share most of their values.


def _notes(encoding: Encoding, section: NamedValues) -> Iterator[str]:
    """Yield a note for each value that stands only in the older or only in the newer place."""
    for name, places in PLACES.items():
        if _is_default(encoding, name):
            continue
        place = _only_place(encoding, name, places, section)
        if place is not None:
            value = f"{_word(name)} is only in {encoding.prefix}{place.key}"
            yield f"{value}: {place.missed_by} {places.consequence}"


class OnlyPlace(NamedTuple):
    """The key under which a file has a value, and the programs that do not look there."""

    key: str
    missed_by: str


def _only_place(
    encoding: Encoding, name: str, places: Places, section: NamedValues
) -> OnlyPlace | None:
    """Return the key under which a file has a value, if some programs do not look for it there.

    transformers 4 has the base in `rope_theta` at the top, transformers 5 in `rope_parameters`. A
    program that only knows one place misses the other. None if the file states the value in both
    places, or in none.

    Args:
        encoding: The encoding that was read from the file.
        name: The name of the value, such as `base`.
        places: The keys that both versions of transformers have for it.
        section: The object of the file that describes the language model.
    """
    keys_of_value = _outermost_keys(encoding, name)
    is_also_in_old_place = section.get(places.old_key) is not None
    if NEW_SETTINGS in keys_of_value and not is_also_in_old_place:
        return OnlyPlace(key=NEW_SETTINGS, missed_by="code written for transformers 4")
    old_place = _key_in_old_place(keys_of_value, places.old_key)
    is_also_in_new_place = _states_any(section.get(NEW_SETTINGS), places.new_keys)
    if old_place is not None and not is_also_in_new_place:
        program = f"code that reads only {NEW_SETTINGS}, as transformers 5 writes it,"
        return OnlyPlace(key=old_place, missed_by=program)
    return None


def _key_in_old_place(keys: set[str], old_key: str) -> str | None:
    """Return the place of transformers 4 among the keys that a value was read from; None if neither.

    A base may stand there in `rope_theta`, or in `rope_scaling` beside a scaling.
    """
    if old_key in keys:
        return old_key
    return OLD_SETTINGS if OLD_SETTINGS in keys else None


def _states_any(settings: object, keys: Iterable[str]) -> bool:
    """Return True if rotary settings state one of some keys, directly or for a layer type.

    `{"rope_type": "yarn"}` has no `rope_theta`, and `{"full_attention": {"rope_theta": 1e6}}` has.
    """
    if not isinstance(settings, Mapping):
        return False
    settings_of_layers = [value for value in settings.values() if isinstance(value, Mapping)]
    stated_keys: set[str] = set()
    for layer_settings in (settings, *settings_of_layers):
        stated_keys |= without_none(layer_settings).keys()
    return not stated_keys.isdisjoint(keys)


def _outermost_keys(encoding: Encoding, name: str) -> set[str]:
    """Return the keys at the top of the language model's object that a value was read from.

    A base that was read from `text_config.rope_parameters.rope_theta` has `{"rope_parameters"}`.
    """
    full_names = [key.removeprefix(encoding.prefix) for key in encoding.stated_by(name)]
    return {full_name.partition(".")[0] for full_name in full_names}


def _is_default(encoding: Encoding, name: str) -> bool:
    """Return True if a program that does not find a value computes the same without it."""
    value = encoding.parameters.get(name)
    if name == "base":
        return value == FALLBACK
    return value in (None, "none", 1, 1.0)


def _word(name: str) -> str:
    return "theta" if name == "base" else name
