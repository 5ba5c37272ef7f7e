"""Words in messages: values as they were given, advice for mistyped ones, and lists of them that stay short."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pecli.errors import ParameterError

MAX_QUOTED = 60
"""Letters of a value that an error repeats."""


def quoted(value: object) -> str:
    """A value of any kind in one line of an error, cut where it is long: names from hostile files can be megabytes.

    >>> quoted("wpe.weight"), quoted((1, 2))
    ("'wpe.weight'", '(1, 2)')
    """
    if isinstance(value, str):
        return repr(value if len(value) <= MAX_QUOTED else f"{value[:MAX_QUOTED]}…")
    try:
        text = repr(value)
    except ValueError:  # Python spells no integer of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MAX_QUOTED else f"{text[: MAX_QUOTED - 1]}…"


def shown(number: float) -> str:
    """A number in few digits, unless that would make another of it."""
    short = f"{number:g}"
    return short if float(short) == number or math.isnan(number) else repr(number)


def spelled(value: Any) -> str:
    """A value as text that parses to the very same.

    >>> spelled(500000.0), spelled(0.1), spelled((1.0, 2.5)), spelled(True)
    ('500000', '0.1', '1,2.5', 'true')
    """
    if hasattr(value, "spelled"):
        return str(value.spelled())
    if isinstance(value, (tuple, list)):
        return ",".join(map(spelled, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


def nearest(word: str, options: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """«did you mean 'halves'?», or nothing where no option is close; what the word begins is closest.

    >>> nearest("llama-3.1", ["llama-3.2-1b", "llama-3.1-70b"])
    "did you mean 'llama-3.1-70b'?"
    """
    from difflib import get_close_matches

    known = list(options)
    longer = [option for option in known if len(word) > 2 and option.startswith(word)]
    matches = longer or get_close_matches(word, known, 1, 0.6)
    return f"did you mean {show(matches[0])}?" if matches else ""


def bracketed(shape: Sequence[int]) -> str:
    """A shape, also one of a single axis, as people write it.

    >>> bracketed((512, 64)), bracketed((64,))
    ('(512, 64)', '(64)')
    """
    return f"({', '.join(map(str, shape))})"


def listed(words: Sequence[str], most: int, show: Callable[[str], str] = str) -> str:
    """The first words, and how many more there are.

    >>> listed(["a", "b", "c", "d"], 2)
    'a, b and 2 more'
    """
    return ", ".join(map(show, words[:most])) + (f" and {len(words) - most} more" if len(words) > most else "")


def begun(words: Sequence[str], most: int) -> str:
    """The first words, and whether there are more.

    >>> begun(["a", "b", "c", "d"], 2)
    'a, b …'
    """
    return ", ".join(words[:most]) + (" …" if len(words) > most else "")


def indices(name: str, text: str, count: int) -> range:
    """The rows or columns that `3`, `0:8`, `-4:` or `:` stand for, of `count`.

    >>> indices("rows", "-2:", 10)
    range(8, 10)
    """
    match = re.fullmatch(r"(-?[0-9]{1,18})|(-?[0-9]{1,18})?:(-?[0-9]{1,18})?", text.strip())
    if not match:
        raise ParameterError(name, repr(text), "it must be a number or a range, such as 0:8, -4: or :")
    if match[1] is not None:
        place = int(match[1]) + (count if int(match[1]) < 0 else 0)
        if not 0 <= place < count:
            raise ParameterError(name, text, f"there are {count}")
        return range(place, place + 1)
    start, stop = (None if each is None else int(each) for each in match.groups()[1:])
    return range(count)[slice(start, stop)]
