"""Progress bars."""

import pytest

from pecli.views import progress


@pytest.mark.parametrize(
    ("term", "wanted", "min_seconds", "is_drawn"),
    [
        ("xterm", True, -1, True),
        ("xterm", False, -1, False),
        ("dumb", True, -1, False),
        ("xterm", True, 99, False),
    ],
    ids=["drawn", "not wanted", "dumb terminal", "too quick"],
)
def test_a_bar_is_drawn_if_it_is_wanted_and_can_be_erased(
    term: str, wanted: bool, min_seconds: float, is_drawn: bool, monkeypatch, capsys
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr(progress, "MIN_SECONDS", min_seconds)
    monkeypatch.setenv("TERM", term)
    with progress.counting("work", 3, wanted=wanted) as advance:
        advance(1)
        advance(1)
    assert ("67%" in capsys.readouterr().err) == is_drawn
