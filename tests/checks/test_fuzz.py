"""Some thousand cases of the fuzzer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.fuzz import problem_of


@pytest.mark.parametrize("part", range(6))
def test_no_case_raises_and_every_verdict_is_true(tmp_path: Path, part: int) -> None:
    problems = [problem_of(12, 500 * part + k, tmp_path, thorough=0.005) for k in range(500)]
    assert [problem for problem in problems if problem] == []
