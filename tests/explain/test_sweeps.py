"""A few random cases of the sweeps that attack the search for reasons; `python -m
tests.tools.sweep` tries thousands.

A sweep draws a scheme, a mistake and a storage from a seed, by formulas of its own in NumPy, so
that it knows the answer; `problem` is empty if verify or identify found it.
"""

from collections.abc import Callable

import pytest

from tests.tools.sweeps import Attempt
from tests.tools.sweeps.attack import KINDS, attempt_attack
from tests.tools.sweeps.judging import attempt_verdict
from tests.tools.sweeps.unrelated import attempt_unrelated


@pytest.mark.parametrize("seed", range(len(KINDS)))
@pytest.mark.sample("2", "5", "6", "7", "8")
def test_the_first_reason_is_the_planted_mistake(seed: int) -> None:
    """`attempt_attack` draws a scheme and a kind of mistake from the seed, plants the mistake in the
    tables by a formula of tests/tools/sweeps, and runs `verify`. It reports a problem, as text, if
    the first reason is another one.
    """
    assert attempt_attack(seed).problem == ""


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("attempt", [attempt_verdict, attempt_unrelated])
@pytest.mark.sample("attempt_verdict-2", "attempt_verdict-6", "attempt_unrelated-9")
def test_no_table_has_a_wrong_verdict_or_an_invented_reason(
    attempt: Callable[[int], Attempt], seed: int
) -> None:
    """`attempt_verdict` draws a right or wrong table from the seed, by formulas of tests/tools/sweeps,
    and `attempt_unrelated` one that has nothing to do with the spec. `problem` is a text if `verify`
    passes a wrong table, fails a right one, or gives a reason that is not true.
    """
    assert attempt(seed).problem == ""
