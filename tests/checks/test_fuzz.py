"""Cases of the attack by independent formulas: some in every run, thousands in a thorough one."""

from __future__ import annotations

import pytest

from tests.tools.attack import verdict


def test_verdicts_of_random_dumps() -> None:
    assert [problem for seed in range(20) if (problem := verdict(seed)[1])] == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(6))
def test_verdicts_of_many_random_dumps(part: int) -> None:
    seeds = range(1000 * part + 100, 1000 * part + 600)
    assert [problem for seed in seeds if (problem := verdict(seed)[1])] == []
