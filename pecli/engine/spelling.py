"""Words in messages: advice for mistyped ones, and lists of them that stay short."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence


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
