"""A few random cases of the sweeps that attack the search for reasons; `python -m
tests.tools.sweep` tries thousands.

A sweep draws a scheme, a mistake and a storage from a seed, by formulas of its own in NumPy, so
that it knows the answer; `problem` is empty if verify or identify found it.
"""

from collections.abc import Callable

import pytest

from tests.tools.sweeps import Attempt
from tests.tools.sweeps.attack import KINDS, Attack, Random, attempt_attack
from tests.tools.sweeps.judging import attempt_verdict
from tests.tools.sweeps.unrelated import attempt_unrelated


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.sample(
    "damaged_heads", "other_base", "other_scaling_number", "missing_scaling", "grid_base"
)
def test_the_first_reason_is_the_planted_mistake(kind: Callable[[Random], Attack]) -> None:
    """Every function of KINDS plants one kind of mistake in tables by NumPy, and returns the edit that
    describes it: `other_base`, for example, makes a rope of base 500000 instead of 10000, which is
    «base is 500000».

    `attempt_attack` calls the function of the index seed % len(KINDS), with random sizes and storage,
    and compares the first reason of `verify` with the edit. `problem` is empty if they agree, and
    otherwise has the scheme, the expected edit and the first reason.
    """
    attempt = attempt_attack(seed=KINDS.index(kind))
    assert attempt.problem == ""


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
