"""Notes about values that stand only where some programs look for them.

transformers 4 has the base and the share of rotating channels at the top of a configuration and the
scaling in `rope_scaling`; transformers 5 writes all of them into `rope_parameters`. Both versions
read either place, but other programs, and code of models that was written for one version, look
only in one of them, and fall back to a default in silence.
"""

from collections.abc import Iterator, Sequence
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
        word: The name of the parameter in notes.
        old_key: The key at the top of a configuration of transformers 4.
        new_keys: The keys within `rope_parameters`, of which a file has one.
        consequence: The default of programs that look in the other place.
        defaults: Values with which these programs compute the same as the others.
    """

    word: str
    old_key: str
    new_keys: frozenset[str]
    consequence: str
    defaults: tuple[object, ...]


#: The places of parameters, by the names that encodings have for them.
PLACES = {
    "base": Places(
        word="theta",
        old_key="rope_theta",
        new_keys=frozenset({"rope_theta"}),
        consequence=f"falls back to {FALLBACK:g}",
        defaults=(FALLBACK,),
    ),
    "scaling": Places(
        word="scaling",
        old_key=OLD_SETTINGS,
        new_keys=frozenset({"rope_type", "type"}),
        consequence="leaves it unscaled",
        defaults=("none",),
    ),
    PARTIAL: Places(
        word=PARTIAL,
        old_key=PARTIAL,
        new_keys=frozenset({PARTIAL}),
        consequence="rotates all channels",
        defaults=(None, 1),
    ),
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
        if encoding.parameters.get(name) not in places.defaults:
            keys = _outermost_keys(encoding, name)
            for place in _only_places(keys, places, section):
                value = f"{places.word} is only in {encoding.prefix}{place.key}"
                yield f"{value}: {place.missed_by} {places.consequence}"


class OnlyPlace(NamedTuple):
    """The key under which a file has a value, and the programs that do not look there."""

    key: str
    missed_by: str


def _only_places(keys: set[str], places: Places, section: NamedValues) -> Iterator[OnlyPlace]:
    """Yield the key under which a file has a value, if some programs do not look for it there.

    transformers 4 has the base in `rope_theta` at the top, or in `rope_scaling` beside a scaling;
    transformers 5 has it in `rope_parameters`. A program that only knows one place misses the other.

    Args:
        keys: The keys that the value was read from, without those within objects.
        places: The keys that both versions of transformers have for it.
        section: The object of the file that describes the language model.
    """
    if NEW_SETTINGS in keys and section.get(places.old_key) is None:
        yield OnlyPlace(key=NEW_SETTINGS, missed_by="code written for transformers 4")
    if places.new_keys.isdisjoint(_stated_keys(section)):
        program = f"code that reads only {NEW_SETTINGS}, as transformers 5 writes it,"
        for old_key in keys.intersection((places.old_key, OLD_SETTINGS)):
            yield OnlyPlace(key=old_key, missed_by=program)


def _stated_keys(section: NamedValues) -> set[str]:
    """Return the keys that `rope_parameters` state, directly or for a layer type.

    `{"rope_type": "yarn"}` has no `rope_theta`, and `{"full_attention": {"rope_theta": 1e6}}` has.
    """
    settings = object_at(section, [NEW_SETTINGS])
    keys = {*without_none(settings)}
    for name in settings:
        keys.update(without_none(object_at(settings, [name])))
    return keys


def _outermost_keys(encoding: Encoding, name: str) -> set[str]:
    """Return the keys at the top of the language model's object that a value was read from.

    A base that was read from `text_config.rope_parameters.rope_theta` has `{"rope_parameters"}`.
    """
    full_names = [key.removeprefix(encoding.prefix) for key in encoding.stated_by(name)]
    return {full_name.partition(".")[0] for full_name in full_names}
