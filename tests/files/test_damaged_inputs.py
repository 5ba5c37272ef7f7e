"""Damaged text, JSON and raw files: one clear line or a right answer, in little memory."""

import pytest

from tests.tools.damage_inputs import damage


def test_some_damaged_files() -> None:
    problems, codes = damage(30, seed=1)
    assert problems == []
    assert codes.total() == 30


@pytest.mark.thorough
def test_many_damaged_files() -> None:
    problems, _ = damage(2000, seed=0)
    assert problems == []
