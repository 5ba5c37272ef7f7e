"""Progress bars on standard error: which conditions must hold for a bar to be drawn."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from pecli.views import progress


class Conditions(NamedTuple):
    """What a bar depends on; by default, one is drawn."""

    wanted: bool = True
    is_terminal: bool = True  #: Otherwise standard error is a file or a pipe.
    term: str = "xterm"  #: The kind of terminal, by the environment variable TERM.
    min_seconds: float = -1.0  #: Shorter work has no bar: −1 seconds are always over, 99 are not.


@pytest.fixture
def shown_after_two_of_three_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[Conditions], str]:
    def shown(conditions: Conditions) -> str:
        monkeypatch.setattr("sys.stderr.isatty", lambda: conditions.is_terminal)
        monkeypatch.setattr(progress, "MIN_SECONDS", conditions.min_seconds)
        monkeypatch.setenv("TERM", conditions.term)
        with progress.counting("work", 3, wanted=conditions.wanted) as advance:
            advance(1)
            advance(1)
        return capsys.readouterr().err

    return shown


def test_a_bar_has_the_share_of_the_work_that_is_done(shown_after_two_of_three_steps) -> None:
    """Two of three steps are 67 %."""
    assert "67%" in shown_after_two_of_three_steps(Conditions())


@pytest.mark.parametrize(
    "conditions",
    [
        pytest.param(Conditions(wanted=False), id="not wanted"),
        pytest.param(Conditions(is_terminal=False), id="a file"),
        pytest.param(Conditions(term="dumb"), id="a dumb terminal"),
        pytest.param(Conditions(min_seconds=99.0), id="too quick"),
    ],
)
def test_nothing_is_drawn_if_a_condition_does_not_hold(
    shown_after_two_of_three_steps, conditions: Conditions
) -> None:
    """A bar is erased at the end, which a dumb terminal and a file cannot do."""
    assert shown_after_two_of_three_steps(conditions) == ""
