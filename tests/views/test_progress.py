"""Progress bars on standard error: which conditions must hold for a bar to be drawn."""

import pytest

from pecli.views import progress


@pytest.mark.parametrize(
    ("term", "is_terminal", "wanted", "min_seconds", "is_drawn"),
    [
        ("xterm", True, True, -1, True),
        ("xterm", True, False, -1, False),
        ("dumb", True, True, -1, False),
        ("xterm", False, True, -1, False),
        ("xterm", True, True, 99, False),
    ],
    ids=["drawn", "not wanted", "dumb terminal", "no terminal", "too quick"],
)
def test_a_bar_is_drawn_if_it_is_wanted_and_can_be_erased(
    term: str,
    is_terminal: bool,
    wanted: bool,
    min_seconds: float,
    is_drawn: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bar is erased at the end, which a dumb terminal and a file cannot do. Work that is done
    within MIN_SECONDS has none: −1 is always over, and 99 never. Two of three steps are 67 %.
    """
    monkeypatch.setattr("sys.stderr.isatty", lambda: is_terminal)
    monkeypatch.setattr(progress, "MIN_SECONDS", min_seconds)
    monkeypatch.setenv("TERM", term)
    with progress.counting("work", 3, wanted=wanted) as advance:
        advance(1)
        advance(1)
    shown = capsys.readouterr().err

    assert ("67%" in shown) == is_drawn
    assert bool(shown) == is_drawn
