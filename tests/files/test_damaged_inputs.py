"""Damaged files of every format are read or refused in one line, in little memory.

`attempt` of tests/tools/campaigns/readers.py makes good files, one of each format, changes some
bytes at random from a seed, and runs commands that read them, such as `pecli inspect`.
"""

import pytest

from tests.tools.campaigns.readers import attempt


@pytest.mark.parametrize("count", [4, pytest.param(2000, marks=pytest.mark.thorough)])
def test_commands_read_a_damaged_file_or_refuse_it_in_one_line(count: int) -> None:
    """`attempt` damages so many files. Its `problems` are exit codes other than 0 to 3 (a crash has
    70), errors of more than one line or without a reason, and reading that takes 1 MiB more than
    four times the memory of the file. Whether damaged numbers are right is not checked.
    """
    results = list(attempt(range(count), seed=1))
    assert len(results) == count
    for result in results:
        assert result.problems == []
