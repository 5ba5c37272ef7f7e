"""What the terminal can do: its size, its colours, its characters."""

from __future__ import annotations

import codecs
import os
import sys
from typing import NamedTuple

SMALLEST = (24, 10)
"""Columns and lines below which a picture is no picture; a smaller terminal wraps it."""


class Terminal(NamedTuple):
    """Where a picture is drawn."""

    columns: int = 80
    lines: int = 24
    colours: int = 0
    """2**24, 256, or 0 where nothing but characters is wanted."""
    unicode: bool = True

    @property
    def dots(self) -> str:
        """What stands for a part of a text that was left out."""
        return "…" if self.unicode else "..."


def terminal() -> Terminal:
    """Standard output as it is now. A pipe is a terminal of 80 × 24 without colours, so that files come out alike."""
    try:
        unicode = codecs.lookup(sys.stdout.encoding or "ascii").name == "utf-8"
    except LookupError:
        unicode = False
    if not sys.stdout.isatty():
        return Terminal(unicode=unicode)
    columns, lines = _size()
    return Terminal(max(columns, SMALLEST[0]), max(lines, SMALLEST[1]), _colours(), unicode)


def _size() -> tuple[int, int]:
    """COLUMNS and LINES where they are set, else what the terminal says, else 80 × 24."""
    try:
        said = os.get_terminal_size(sys.stdout.fileno())
    except (OSError, ValueError):
        said = os.terminal_size((0, 0))
    return _wish("COLUMNS") or said.columns or 80, _wish("LINES") or said.lines or 24


def _wish(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0


def _colours() -> int:
    kind = os.environ.get("TERM", "")
    if os.environ.get("NO_COLOR") or kind in ("", "dumb"):
        return 0
    if os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit") or kind.endswith("-direct"):
        return 1 << 24
    return 256 if "256color" in kind else 0
