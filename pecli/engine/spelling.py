"""Advice for mistyped words."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def nearest(word: str, options: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """«did you mean 'halves'?», or nothing where no option is close; what the word begins is closest.

    >>> nearest("llama-3.1", ["llama-3.2-1b", "llama-3.1-70b"])
    "did you mean 'llama-3.1-70b'?"
    """
    from difflib import get_close_matches

    known = list(options)
    begun = [option for option in known if len(word) > 2 and option.startswith(word)]
    matches = begun or get_close_matches(word, known, 1, 0.6)
    return f"did you mean {show(matches[0])}?" if matches else ""
