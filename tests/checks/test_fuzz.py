"""Cases of the attack by independent formulas: some in every run, thousands in a thorough one."""

from __future__ import annotations

import pytest

from tests.tools.attack import attack


def test_verdicts_of_random_dumps() -> None:
    assert attack((12, 20, False)) == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(6))
def test_verdicts_of_many_random_dumps(part: int) -> None:
    assert attack((100 + part, 500, False)) == []
