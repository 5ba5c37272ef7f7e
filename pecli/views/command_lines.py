"""Command lines that can be run again, as figures and reports state them."""

import shlex
from collections.abc import Iterable, Mapping


def command_line(words: Iterable[str], options: Mapping[str, object]) -> str:
    """Return a command line that can be run again, with the options that are set.

    >>> command_line(["plot", "a b.npy"], {"dark": True, "max_ulp": None, "label": ["x", "y"]})
    "pecli plot 'a b.npy' --dark --label x --label y"
    """
    return shlex.join(["pecli", *words, *option_words(options)])


def option_words(options: Mapping[str, object]) -> list[str]:
    """Return the words that set options by their names in Python; unset ones have no words.

    >>> option_words({"max_ulp": 1, "dark": False, "label": ["x", "y"]})
    ['--max-ulp', '1', '--label', 'x', '--label', 'y']
    """
    words: list[str] = []
    for name, value in options.items():
        repeated_values = value if isinstance(value, list) else [value]
        for item in repeated_values:
            words += _words_of_option(name, item)
    return words


def _words_of_option(name: str, value: object) -> list[str]:
    """Return the words that set one option: `--dim 64`, or `--dark` for a flag; none if it is unset.

    >>> _words_of_option("max_ulp", 1), _words_of_option("dark", True)
    (['--max-ulp', '1'], ['--dark'])
    """
    is_unset = value is None or value is False
    if is_unset:
        return []
    typed_name = f"--{name.replace('_', '-')}"
    if value is True:
        return [typed_name]
    return [typed_name, str(value)]
