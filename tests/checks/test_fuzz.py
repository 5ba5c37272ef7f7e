"""Cases of the fuzzer: some in every run, thousands in a thorough one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.fuzz import problem_of


def problems(folder: Path, first: int, count: int, thorough: float) -> list[str]:
    found = [problem_of(12, number, folder, thorough) for number in range(first, first + count)]
    return [problem for problem in found if problem]


def test_fuzz_sample(tmp_path: Path) -> None:
    assert problems(tmp_path, 0, 100, thorough=0.005) == []


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(6))
def test_fuzz_thorough(tmp_path: Path, part: int) -> None:
    assert problems(tmp_path, 100 + 500 * part, 500, thorough=0.05) == []
