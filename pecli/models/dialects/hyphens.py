"""Arguments of command lines as keys: `--rotary-base`, `rotary-base` and `rotary_base` are one
name.
"""

from dataclasses import replace

from pecli.models.keys import Keys


def plain_keys(keys: Keys) -> Keys:
    """Return the keys of a file that holds command-line arguments, in one spelling.

    `--rotary-base`, `rotary-base` and `rotary_base` become `rotary_base`. Of several spellings in
    one file the last counts, as on a command line; the others are keys that nothing reads.
    """
    last_spellings = {_without_hyphens(spelling): spelling for spelling in keys.data}
    data = {plain: keys.data[spelling] for plain, spelling in last_spellings.items()}
    origins = {plain: keys.origin(spelling) for plain, spelling in last_spellings.items()}
    return replace(keys, data=data, origins=origins)


def _without_hyphens(spelling: str) -> str:
    """Return the plain name of an argument: `--rotary-base` is `rotary_base`."""
    return spelling.lstrip("-").replace("-", "_")
