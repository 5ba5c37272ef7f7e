"""Texts in little room: broken where words end; what is too long loses its middle."""

from __future__ import annotations

import re

_PARTS = re.compile(r"[^./_-]*[./_-]?")
"""The parts of a name that has no spaces."""


def fitted(text: str, room: int, lines: int, mark: str = "…") -> list[str]:
    """At most so many lines of so many letters. The middle goes first: the end often tells a text from its like.

    >>> fitted("rope, base 10000, cos", 12, 2), fitted("vision_model.position_embedding.weight", 16, 2)
    (['rope, base', '10000, cos'], ['vision_model.', 'p…bedding.weight'])
    """
    if len(text) <= room:
        return [text] if text else []
    text, room = " ".join(text.split()), max(3 + len(mark), room)
    found, kept = _broken(text, room), min(len(text), room * lines)
    while len(found) > lines:
        kept -= 1
        head, tail = text[: kept - kept // 2].rstrip(), text[len(text) - kept // 2 :].lstrip()
        found = _broken(f"{head}{mark}{tail}", room)
    return found


def _broken(text: str, room: int) -> list[str]:
    """Lines of so many letters, or more of them: between words, or inside of a word that has no line of its own."""
    found = [""]
    for word in text.split(" "):
        whole = len(word) <= room
        for number, part in enumerate([word] if whole else _parts(word, room)):
            gap = " " if found[-1] and not number else ""
            if len(found[-1]) + len(gap) + len(part) <= room:
                found[-1] += gap + part
            else:
                found.append(part)
    return found if found[0] else found[1:]


def _parts(word: str, room: int) -> list[str]:
    parts = [part for part in _PARTS.findall(word) if part]
    return [part[k : k + room] for part in parts for k in range(0, len(part), room)]
