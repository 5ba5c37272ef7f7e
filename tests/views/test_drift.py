"""Audits as text: for how many positions each recipe, a way of rounding, stays within the tolerance.

Expected verdicts follow from bfloat16, which cannot hold most cosines, but cos 0 = 1.
"""

import pytest

import pecli
from pecli.checks.audit import audit
from pecli.views.drift import verdicts


@pytest.mark.parametrize(
    ("rows", "tolerance", "words", "style"),
    [
        (1, 0.0, "within 0 at all 1 positions", "green"),
        (300, 0.0, "not within 0", "yellow"),
        (300, 9.0, "within 9 at all 300 positions", "green"),
    ],
    ids=["position 0 is exact", "others are rounded", "9 exceeds any error of a cosine"],
)
def test_verdicts_state_how_far_a_recipe_stays_within_the_tolerance(
    rows: int, tolerance: float, words: str, style: str
) -> None:
    """A bfloat16 table is exact at position 0, as cos 0 = 1 and sin 0 = 0; from position 1 on it is
    rounded. `verdicts` are the lines of `pecli audit`, one per recipe.
    """
    rope = pecli.Rope(seq_len=rows, dim=32)
    verdict = verdicts(audit(rope, ["bfloat16-table"], tolerance))[0]
    assert verdict.words.strip() == words
    assert verdict.style == style
