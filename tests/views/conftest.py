"""What the tests of views share: a terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Terminal]:
    """From the call on, standard output is a terminal that keeps what it was shown; pytest's own comes before that."""

    def turn_to() -> Terminal:
        shown = Terminal()
        monkeypatch.setattr("sys.stdout", shown)
        monkeypatch.setenv("TERM", "xterm-256color")
        return shown

    return turn_to
