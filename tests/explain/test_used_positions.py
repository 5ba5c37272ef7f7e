"""Positions that were used, solved from rotations by a formula of the test's own."""

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.edits import Misplacement, PositionMistake
from pecli.explain.rotation import UNKNOWN, solve
from pecli.explain.used_positions import find_position_mistake, positions_edit, runs
from pecli.explain.words import position_mistake_words

INVERSE = 10000.0 ** (-np.arange(32) / 32)
PADDED = np.r_[np.zeros(9, int), np.arange(15)]
PADDED_BY_1 = np.r_[np.ones(9, int), np.arange(15)]


def turned(
    places: np.ndarray, dtype: type = np.float32, inverse: np.ndarray = INVERSE
) -> np.ndarray:
    rng = np.random.default_rng(0)
    before = rng.normal(size=(4, len(places), len(inverse))) + 1j * rng.normal(
        size=(4, len(places), len(inverse))
    )
    before = before.real.astype(dtype).astype(float) + 1j * before.imag.astype(dtype).astype(float)
    after = before * np.exp(1j * np.outer(places, inverse))
    after = after.real.astype(dtype).astype(float) + 1j * after.imag.astype(dtype).astype(float)
    return (after * before.conj()).sum(axis=0) / (np.abs(before) ** 2).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_positions_are_solved(dtype: type) -> None:
    """Plain ones, padded, padded by 1, packed, far, negative, constant, with one row stale."""
    cases = [
        np.arange(40),
        PADDED,
        PADDED_BY_1,
        np.r_[np.arange(20), np.arange(12)],
        np.arange(40) + 3777,
    ]
    cases += [np.arange(40) - 17, np.full(40, 5), np.r_[np.arange(10), 9, np.arange(11, 30)]]
    for places in cases:
        np.testing.assert_array_equal(
            solve(turned(places, dtype), INVERSE, np.arange(len(places))), places
        )


def test_rows_that_are_no_rotation_are_unknown() -> None:
    rows = turned(np.arange(20))
    rows[7] = np.random.default_rng(1).normal(size=32) + 1j
    found = solve(rows, INVERSE, np.arange(20))
    assert found[7] == UNKNOWN
    assert (np.delete(found, 7) == np.delete(np.arange(20), 7)).all()


@pytest.mark.parametrize(
    ("places", "words"),
    [
        ([7], "7"),
        ([4, 2, 9], "4, then 2, then 9"),
        ([0, 0], "0 × 2"),
        ([3, 3, 4], "3 × 2, then 4"),
        ([0, 0, 5], "0 × 2, then 5"),
        ([0, UNKNOWN, UNKNOWN, 3], "0, then unknown, then 3"),
        ([UNKNOWN], "unknown"),
        (PADDED, "0 × 9, then 0 … 14"),
        (PADDED_BY_1, "1 × 9, then 0 … 14"),
        (np.r_[np.zeros(9, int), np.arange(1, 1500)], "0 × 8, then 0 … 1,499"),
        (np.r_[np.ones(9, int), np.arange(2, 15)], "1 × 9, then 2 … 14"),
        (
            np.r_[np.arange(512), np.arange(3), np.full(1000, 1234)],
            "0 … 511, then 0 … 2, then 1,234 × 1,000",
        ),
        ([5, 4, 3, 2, 1, 0], "5, then 4, then 3, then 2, then 1, then 0"),
        ([6, 5, 4, 3, 2, 1, 0], "6, then 5, then 4, then 3, then 2, then 1, then …"),
    ],
)
def test_positions_are_written_in_runs(places: np.ndarray, words: str) -> None:
    assert runs(np.array(places)) == words


ROWS = np.arange(24)
FIVE = np.full(24, 5)
PACKED = np.r_[np.arange(12), np.arange(12)]
SEVEN = np.array([7])


@pytest.mark.parametrize(
    ("expected", "used", "words"),
    [
        (ROWS, 0 * ROWS, "nothing is rotated"),
        (ROWS, 0 * ROWS + 3, "every row is at one position"),
        (ROWS[:2], FIVE[:2], "every row is at one position"),
        (ROWS, -ROWS, "the direction is reversed"),
        (PACKED, ROWS, "positions are not reset where a packed sequence begins"),
        (ROWS, PACKED, "positions restart, as those of packed sequences"),
        (ROWS, np.r_[ROWS[:12], ROWS[12:] - 9], "from row 12 on, all 9 too low"),
        (ROWS, np.r_[ROWS[:12], ROWS[12:] + 1], "from row 12 on, all 1 too far"),
        (ROWS, np.r_[0, ROWS[:-1]], "each row has the position of the row before"),
        (ROWS + 3, np.r_[3, ROWS[:-1] + 3], "each row has the position of the row before"),
        (ROWS, ROWS // 2, "each position is given to 2 rows"),
        (ROWS, ROWS // 3, "each position is given to 3 rows"),
        (ROWS, ROWS + 7000, "all 7,000 too far"),
        (ROWS, ROWS + 1, "all 1 too far"),
        (ROWS, ROWS - 4, "all 4 too low"),
        (np.arange(200), np.arange(200).astype("int8"), "they overflow int8"),
        (ROWS, np.minimum(ROWS, 9), "they are clamped at 9"),
        (FIVE, 0 * FIVE, "it was not moved"),
        (FIVE[:2], 0 * FIVE[:2], "it was not moved"),
        (FIVE, FIVE + 5, "it was moved twice"),
        (FIVE, -FIVE, "it was moved the other way"),
        (FIVE, FIVE - 1, "it was moved by 4, not 5"),
        (0 * FIVE, FIVE, "B is A moved by 5 positions"),
        (SEVEN, SEVEN + 2, "all 2 too far"),
        (SEVEN, 0 * SEVEN, "nothing is rotated"),
        (SEVEN, -SEVEN, "the direction is reversed"),
    ],
)
def test_known_mistakes_of_positions(expected: np.ndarray, used: np.ndarray, words: str) -> None:
    mistake = find_position_mistake(expected, used)
    assert mistake is not None
    assert position_mistake_words(mistake) == words


@pytest.mark.parametrize(
    ("expected", "used"),
    [
        (2 * ROWS, PACKED),
        (ROWS, np.r_[ROWS[:12], 3 + 2 * ROWS[:12]]),
        (ROWS, ROWS),
        (ROWS, np.where(ROWS == 9, 0, ROWS)),
        (ROWS, np.where(ROWS == 9, 0, ROWS + 1)),
        (ROWS, 3 * ROWS),
        (ROWS, np.r_[ROWS[:-1], UNKNOWN]),
        (FIVE, FIVE),
        (0 * FIVE, 0 * FIVE),
        (SEVEN, SEVEN),
        (SEVEN, np.array([UNKNOWN])),
        (FIVE, ROWS),
        (PACKED, 3 * ROWS),
        (PADDED, ROWS),
    ],
)
def test_positions_without_a_known_mistake(expected: np.ndarray, used: np.ndarray) -> None:
    assert find_position_mistake(expected, used) is None


@pytest.mark.parametrize(
    ("expected", "used", "padding", "mistake"),
    [
        (PADDED, ROWS, 9, PositionMistake(Misplacement.PADDING_IGNORED)),
        (np.r_[0, ROWS[:-1]], ROWS, 1, PositionMistake(Misplacement.PADDING_IGNORED)),
        (PADDED, ROWS + 1, 9, PositionMistake(Misplacement.SHIFTED, by=10)),
        (PADDED, np.where(ROWS == 20, 0, ROWS), 9, None),
        (PADDED, PADDED, 9, None),
        (ROWS, ROWS + 1, 24, None),
    ],
)
def test_rows_of_padding_are_not_looked_at(
    expected: np.ndarray, used: np.ndarray, padding: int, mistake: PositionMistake | None
) -> None:
    assert find_position_mistake(expected, used, padding) == mistake


@pytest.mark.parametrize(
    ("used", "is_of_rotation"),
    [
        (0 * ROWS, True),
        (0 * ROWS + 3, True),
        (-ROWS, True),
        (ROWS + 7, True),
        (np.r_[ROWS[:12], ROWS[12:] + 1], False),
        (ROWS // 2, False),
    ],
)
def test_mistakes_that_all_rows_share_may_be_those_of_a_rotation(
    used: np.ndarray, is_of_rotation: bool
) -> None:
    mistake = find_position_mistake(ROWS, used)
    assert mistake is not None
    assert mistake.is_of_rotation == is_of_rotation


def test_json_has_the_mistake_in_words() -> None:
    edit = positions_edit(ROWS, ROWS + 7, find_position_mistake(ROWS, ROWS + 7))
    assert edit.as_json() == {
        "edit": "positions",
        "expected": "0 … 23",
        "found": "7 … 30",
        "reason": "all 7 too far",
    }
