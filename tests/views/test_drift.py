"""Audits as text: for how many positions each recipe, a way of rounding, stays within the tolerance.

Expected verdicts follow from bfloat16, which cannot hold most cosines, but cos 0 = 1.
"""

import pytest

import pecli
from pecli.checks.audit import audit
from pecli.views.drift import verdicts


@pytest.mark.parametrize(
    ("recipe", "rows", "tolerance", "words", "colour"),
    [
        pytest.param(
            "bfloat16-table", 300, 9.0, "within 9 at all 300 positions", "green",
            id="no cosine is off by more than 2",
        ),
        pytest.param(
            "bfloat16-positions", 300, 0.01, "within 0.01 to position 256", "yellow",
            id="position 257 is rounded to 256",
        ),
        pytest.param(
            "bfloat16-table", 300, 0.0, "not within 0", "yellow",
            id="only position 0 is exact",
        ),
        pytest.param(
            "bfloat16-table", 1, 0.0, "within 0 at all 1 positions", "green",
            id="there is only position 0",
        ),
    ],
)  # fmt: skip
def test_verdicts_state_how_far_a_recipe_stays_within_the_tolerance(
    recipe: str, rows: int, tolerance: float, words: str, colour: str
) -> None:
    """A recipe is green if its error stays within the tolerance at all positions, else yellow, with
    the last position up to which it does. It is «not within» it if that is position 0, where every
    recipe is exact, as cos 0 = 1 and sin 0 = 0.

    bfloat16 has 8 bits: it rounds most cosines, and whole numbers from 257 on.
    """
    rope = pecli.Rope(seq_len=rows, dim=32)
    (verdict,) = verdicts(audit(rope, [recipe], tolerance))
    assert verdict.words.strip() == words
    assert verdict.style == colour
