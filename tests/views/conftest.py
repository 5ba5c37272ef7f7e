"""Helpers of the tests of views: the text that a view prints, and a standard output that claims to be
a terminal.
"""

import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest


def said(show: Callable[..., None], *what: Any) -> str:
    with redirect_stdout(io.StringIO()) as output, redirect_stderr(output):
        show(*what)
    return output.getvalue()


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True

    def plain(self) -> list[str]:
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue()).splitlines()


@pytest.fixture
def turn_to_terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Terminal]:
    """From the call on, standard output is a terminal that keeps what it was shown;
    pytest's own comes before that.
    """

    def turn_to(columns: int = 80) -> Terminal:
        shown = Terminal()
        monkeypatch.setattr("sys.stdout", shown)
        monkeypatch.delenv("NO_COLOR", raising=False)
        for name, value in {"TERM": "xterm-256color", "COLUMNS": str(columns)}.items():
            monkeypatch.setenv(name, value)
        return shown

    return turn_to
