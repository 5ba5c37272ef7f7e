"""Position ids are printed in runs: `0–11 12 × 88` counts up to 11, then 12 stands for 88 tokens.

Expected runs are counted by hand.
"""

import numpy as np
import pytest

from pecli.views.position_ids import in_runs


@pytest.mark.parametrize(
    ("ids", "text"),
    [
        ([0, 1, 2, 3], "0–3"),
        ([5], "5"),
        ([4, 4, 4], "4 × 3"),
        ([0, 1, 1, 2], "0 1 × 2 2"),
        ([3, 2, 1], "3 2 1"),
    ],
    ids=["rising", "one id", "repeated", "mixed", "falling"],
)
def test_position_ids_are_written_in_runs(ids: list[int], text: str) -> None:
    """An en dash joins the ends of a rising run, and × counts repetitions; falling numbers are
    listed.
    """
    assert in_runs(np.array(ids)) == text


@pytest.mark.parametrize(("count", "end"), [(12, "22"), (13, "22 …")])
def test_at_most_twelve_runs_are_shown(count: int, end: str) -> None:
    """Of the even numbers 0, 2, 4, …, each is a run by itself, and the twelfth is 2 · 11 = 22. «…»
    stands for the others.
    """
    even = np.arange(0, 2 * count, 2)
    assert in_runs(even).endswith(end)
    assert len(in_runs(even).replace(" …", "").split()) == 12
