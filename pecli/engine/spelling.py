"""Advice for mistyped words."""

from __future__ import annotations

from collections.abc import Callable, Iterable


def nearest(word: str, options: Iterable[str], show: Callable[[str], str] = repr) -> str:
    """«did you mean 'halves'?», or nothing where no option is close."""
    from difflib import get_close_matches

    matches = get_close_matches(word, list(options), 1, 0.6)
    return f"did you mean {show(matches[0])}?" if matches else ""
