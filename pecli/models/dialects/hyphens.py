"""Arguments of command lines as keys: `--rotary-base`, `rotary-base` and `rotary_base` are one
name.
"""

from dataclasses import replace
from typing import NamedTuple

from pecli.errors import quoted
from pecli.models.keys import Keys


class PlainKeys(NamedTuple):
    """Keys with underscores in all names, and warnings about names that are given twice."""

    keys: Keys
    warnings: list[str]


def plain_keys(keys: Keys) -> PlainKeys:
    """Return the keys of a file that holds command-line arguments, in one spelling.

    `--rotary-base`, `rotary-base` and `rotary_base` become `rotary_base`. Of several spellings in
    one file the last counts, as on a command line, and a warning names values that differ.
    """
    last_spellings: dict[str, str] = {}  # `rotary_base` leads to `--rotary-base`, for example.
    warnings = []
    for spelling, value in keys.data.items():
        plain = _without_hyphens(spelling)
        earlier_spelling = last_spellings.get(plain)
        if earlier_spelling is not None and keys.data[earlier_spelling] != value:
            keys.mark_as_read(earlier_spelling)
            both = f"{_shown(keys, earlier_spelling)} and {_shown(keys, spelling)}"
            warnings.append(f"{both}, which are one key: the last one counts")
        last_spellings[plain] = spelling
    data = {plain: keys.data[spelling] for plain, spelling in last_spellings.items()}
    origins = {plain: keys.origin(spelling) for plain, spelling in last_spellings.items()}
    return PlainKeys(replace(keys, data=data, origins=origins), warnings)


def _without_hyphens(spelling: str) -> str:
    """Return the plain name of an argument: `--rotary-base` is `rotary_base`."""
    return spelling.lstrip("-").replace("-", "_")


def _shown(keys: Keys, name: str) -> str:
    return f"{keys.full_name(name)} is {quoted(keys.data[name])}"
