"""Progress bars: on terminals that can move their cursor."""

from __future__ import annotations

import pytest

from pecli import views


@pytest.mark.parametrize("bytes", [True, False])
def test_a_dumb_terminal_sees_none(bytes, monkeypatch, capsys) -> None:
    monkeypatch.setattr(views, "MIN_SECONDS", -1.0)
    seen = {}
    for term in ("xterm-256color", "dumb"):
        monkeypatch.setenv("TERM", term)
        bar = views.Progress("work", 2, bytes=bytes)
        bar.advance(1)
        bar.close()
        seen[term] = capsys.readouterr().err
    assert seen["xterm-256color"]
    assert seen["dumb"] == ""


def test_sizes_and_speeds_have_one_unit(monkeypatch) -> None:
    bar = views.Progress("table", 3 << 30)
    monkeypatch.setattr(bar, "_start", bar._start - 2.0)
    monkeypatch.setattr(views.time, "monotonic", lambda: bar._start + 2.0)
    bar._drawn = False
    bar.advance(1 << 30)
    assert bar._amount() == "1.0 GiB of 3.0 GiB, 512 MiB/s"
