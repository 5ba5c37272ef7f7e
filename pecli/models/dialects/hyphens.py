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
    spellings: dict[str, str] = {}  # the last spelling in the file, by the plain name
    warnings = []
    for spelling, value in keys.data.items():
        name = spelling.lstrip("-").replace("-", "_")
        earlier = spellings.get(name, spelling)
        spellings[name] = spelling
        if keys.data[earlier] != value:
            keys.mark_as_read(earlier)
            both = f"{_shown(keys, earlier)} and {_shown(keys, spelling)}"
            warnings.append(f"{both}, which are one key: the last one counts")
    data = {name: keys.data[spelling] for name, spelling in spellings.items()}
    origins = {name: keys.origin(spelling) for name, spelling in spellings.items()}
    return PlainKeys(replace(keys, data=data, origins=origins), warnings)


def _shown(keys: Keys, name: str) -> str:
    return f"{keys.full_name(name)} is {quoted(keys.data[name])}"
