"""Damaged files of every format: one clear line or a right answer, in little memory."""

import pytest

from tests.tools.damage_inputs import damage


def test_damaged_files_are_answered_in_one_line() -> None:
    campaign = damage(30, seed=1)
    assert campaign.problems == []
    assert campaign.count == 30


@pytest.mark.thorough
def test_many_damaged_files_are_answered_in_one_line() -> None:
    assert damage(2000, seed=0).problems == []
