"""Progress bars: on terminals that can move their cursor."""

from __future__ import annotations

import pytest

from pecli.views import progress


@pytest.mark.parametrize("bytes", [True, False])
def test_a_dumb_terminal_sees_none(bytes, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "MIN_SECONDS", -1.0)
    seen = {}
    for term in ("xterm-256color", "dumb"):
        monkeypatch.setenv("TERM", term)
        bar = progress.Progress("work", 2, bytes=bytes)
        bar.advance(1)
        bar.close()
        seen[term] = capsys.readouterr().err
    assert seen["xterm-256color"]
    assert seen["dumb"] == ""
