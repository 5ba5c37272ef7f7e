"""Notes about values that stand only where some programs look for them.

transformers 4 has the base and the share of rotating channels at the top of a configuration and the
scaling in `rope_scaling`; transformers 5 writes all of them into `rope_parameters`. Both versions
read either place, but other programs, and code of models that was written for one version, look
only in one of them, and fall back to a default in silence.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pecli.engine.named_values import NamedValues
from pecli.models.data import object_at
from pecli.models.encoding import Encoding
from pecli.models.key_names import PARTIAL

NEW = "rope_parameters"
OLD_SCALING = "rope_scaling"
#: The base of most configuration classes of transformers 4 if a file has none.
FALLBACK = 10000.0
#: Older places of parameters, by the names that encodings have for them, and the default of programs
#: that find nothing there.
OLD_PLACES = {
    "base": ("rope_theta", f"falls back to {FALLBACK:g}"),
    "scaling": (OLD_SCALING, "leaves it unscaled"),
    PARTIAL: (PARTIAL, "rotates all channels"),
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
    for name, (old_key, consequence) in OLD_PLACES.items():
        if _is_default(encoding, name):
            continue
        place, program = _only_place(encoding, name, old_key, section)
        if place:
            value = f"{_word(name)} is only in {encoding.prefix}{place}"
            yield f"{value}: {program} {consequence}"


class OnlyPlace(NamedTuple):
    """The key that holds a value in a file, and the programs that do not look there."""

    key: str
    program: str


def _only_place(encoding: Encoding, name: str, old_key: str, section: NamedValues) -> OnlyPlace:
    """Return the key under which a file has a value, if programs of one version do not look there.

    transformers 4 has `rope_theta` at the top, transformers 5 in `rope_parameters`. The key is
    empty if a file has the value in both places, or in neither: then all programs agree.

    Args:
        encoding: The encoding.
        name: The name of the value, such as `base`.
        old_key: The key that transformers 4 has for it.
        section: The object of the configuration that describes the language model.
    """
    # Of `text_config.rope_parameters.rope_theta`, the outermost key is rope_parameters.
    full_names = [key.removeprefix(encoding.prefix) for key in encoding.stated_by(name)]
    outermost_keys = {full_name.partition(".")[0] for full_name in full_names}
    is_in_new_place = NEW in outermost_keys
    is_in_old_place = old_key in outermost_keys or OLD_SCALING in outermost_keys
    if is_in_new_place and section.get(old_key) is None:
        return OnlyPlace(key=NEW, program="code written for transformers 4")
    if is_in_old_place and NEW not in section:
        program = f"code that reads only {NEW}, as transformers 5 writes it,"
        return OnlyPlace(key=old_key, program=program)
    return OnlyPlace(key="", program="")


def _is_default(encoding: Encoding, name: str) -> bool:
    """Return True if a program that does not find a value computes the same without it."""
    value = encoding.parameters.get(name)
    if name == "base":
        return value == FALLBACK
    return value in (None, "none", 1, 1.0)


def _word(name: str) -> str:
    return "theta" if name == "base" else name
