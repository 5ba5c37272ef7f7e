"""Damaged files of every format: one clear line or a right answer, in little memory.

`attempt` of tests/tools/campaigns/readers.py writes good files, changes them at random from a seed,
and reads them by commands; it knows the right answer, because it made the tables.
"""

import pytest

from tests.tools.campaigns.readers import attempt


@pytest.mark.parametrize("count", [4, pytest.param(2000, marks=pytest.mark.thorough)])
def test_damaged_files_are_answered_in_one_line(count: int) -> None:
    """The campaign damages files of every format at random; a problem is a crash, a traceback, or a
    wrong answer.
    """
    results = list(attempt(range(count), seed=1))
    assert len(results) == count
    for result in results:
        assert result.problems == []
