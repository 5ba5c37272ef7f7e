"""A few cases of the sweeps that attack the search for reasons; `python -m tests.tools.sweep` tries thousands."""

from collections.abc import Callable

import pytest

from tests.tools.sweeps import Attempt
from tests.tools.sweeps.attack import KINDS, attempt_attack
from tests.tools.sweeps.judging import attempt_verdict
from tests.tools.sweeps.unrelated import attempt_unrelated


@pytest.mark.parametrize("seed", range(len(KINDS)))
@pytest.mark.sample("2", "5", "6", "7", "8")
def test_the_first_reason_is_the_planted_mistake(seed: int) -> None:
    """Each seed draws a scheme, a mistake and a storage; the sweep knows the answer."""
    assert attempt_attack(seed).problem == ""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("attempt", [attempt_verdict, attempt_unrelated])
@pytest.mark.sample("attempt_verdict-2", "attempt_verdict-6", "attempt_unrelated-9")
def test_nothing_false_is_said(attempt: Callable[[int], Attempt], seed: int) -> None:
    """Each seed draws a right, wrong or unrelated table; the sweep knows the verdict."""
    assert attempt(seed).problem == ""
