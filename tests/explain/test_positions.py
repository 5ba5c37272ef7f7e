"""Positions at which queries were rotated instead of the expected ones: measured, written in words,
and named as known mistakes.

A turn is the complex factor from a pair of channels before the rotation to the pair after it.
Expected positions are those at which NumPy rotated random vectors; expected words are written by
hand. LEFT_PADDED_BY_9 is nine zeros, then 0 … 14; ROW_NUMBERS 0 … 23; PACKED 0 … 11 twice.
"""

import ml_dtypes
import numpy as np
import pytest

from pecli.engine.edits import Misplacement, PositionMistake
from pecli.explain.catalogue.token_positions import (
    RUN_COST,
    UNKNOWN_POSITIONS_COST,
    OtherTokenPositions,
)
from pecli.explain.measure import solve_positions
from pecli.explain.misplacements import find_position_mistake, positions_edit
from pecli.explain.position_runs import runs
from pecli.explain.words import position_mistake_words

INVERSE_FREQUENCIES = 10000.0 ** (-np.arange(32) / 32)
LEFT_PADDED_BY_9 = np.r_[np.zeros(9), np.arange(15.0)]
PADDED_BY_1 = np.r_[np.ones(9), np.arange(15.0)]
NAN = np.nan


def turns_of_random_heads(places: np.ndarray, dtype: type) -> np.ndarray:
    """Return the turns that lead from random heads to the rotated ones, both in a dtype."""
    rng = np.random.default_rng(0)
    shape = (4, len(places), len(INVERSE_FREQUENCIES))

    def stored(values: np.ndarray) -> np.ndarray:
        real = values.real.astype(dtype).astype(float)
        return real + 1j * values.imag.astype(dtype).astype(float)

    before = stored(rng.normal(size=shape) + 1j * rng.normal(size=shape))
    after = stored(before * np.exp(1j * np.outer(places, INVERSE_FREQUENCIES)))
    products = (after * before.conj()).sum(axis=0)
    return np.asarray(products / (np.abs(before) ** 2).sum(axis=0))


KNOWN_POSITIONS = {
    "plain": np.arange(40.0),
    "padded": LEFT_PADDED_BY_9,
    "padded by 1": PADDED_BY_1,
    "packed": np.r_[np.arange(20.0), np.arange(12.0)],
    "far": np.arange(40.0) + 3777,
    "negative": np.arange(40.0) - 17,
    "constant": np.full(40, 5.0),
    "one row stale": np.r_[np.arange(10.0), 9, np.arange(11.0, 30.0)],
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("positions", KNOWN_POSITIONS.values(), ids=KNOWN_POSITIONS)
def test_positions_are_solved_from_rotations(positions: np.ndarray, dtype: type) -> None:
    """NumPy rotates random heads at `positions`, such as 0 … 19 and then 0 … 11, or −17 … 22, and
    stores them in the dtype. From the factors between the heads before and after, where 0, 1, 2, …
    are expected, exactly these positions must be found again.
    """
    turns = turns_of_random_heads(positions, dtype)
    expected = np.arange(len(positions), dtype=float)
    solved = solve_positions(turns, INVERSE_FREQUENCIES, expected)

    np.testing.assert_array_equal(solved, positions)


def test_a_row_that_is_not_rotated_at_any_position_has_position_nan() -> None:
    """Heads are rotated at positions 0 to 19; the factors of row 7 are replaced by random ones."""
    turns = turns_of_random_heads(np.arange(20.0), np.float32)
    turns[7] = np.random.default_rng(1).normal(size=32) + 1j
    solved = solve_positions(turns, INVERSE_FREQUENCIES, np.arange(20.0))

    assert np.flatnonzero(np.isnan(solved)).tolist() == [7]


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ([7], "7"),
        ([4, 2, 9], "4, then 2, then 9"),
        ([0, 0], "0 × 2"),
        ([3, 3, 4], "3 × 2, then 4"),
        ([0, 0, 5], "0 × 2, then 5"),
        ([1, 1, 1, 0, 1, 2], "1 × 3, then 0 … 2"),
        (range(1500), "0 … 1,499"),
        ([5, 4, 3, 2, 1, 0], "5, then 4, then 3, then 2, then 1, then 0"),
    ],
)
def test_positions_are_written_in_runs(positions: list[int], words: str) -> None:
    """«a … b» counts up from a to b by one, and «a × n» is n times a."""
    assert runs(np.array(positions, float)) == words


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        pytest.param([0, 0, 0, 0, 1, 2], "0 × 3, then 0 … 2", id="three zeros of padding"),
        pytest.param(
            [*[0] * 9, *range(1, 1500)], "0 × 8, then 0 … 1,499", id="eight zeros of padding"
        ),
        pytest.param([1, 1, 1, 1, 2, 3], "1 × 4, then 2 … 3", id="no padding, as it is at 1"),
        pytest.param([*[1] * 9, *range(2, 15)], "1 × 9, then 2 … 14", id="nine ones"),
        pytest.param([1, 1, 1, 0, 1, 2], "1 × 3, then 0 … 2", id="padding at 1 before 0 … 2"),
    ],
)
def test_the_last_zero_of_padding_is_the_first_position_of_its_text(
    positions: list[int], words: str
) -> None:
    """Padding is at position 0, and a text begins there: 0 0 0 0 1 2 are three tokens of padding and a
    text at 0 1 2. Positions that repeat another number are not shared so.
    """
    assert runs(np.array(positions, float)) == words


def test_each_unknown_position_is_written_by_itself() -> None:
    """NaN stands for a row whose position could not be measured. Two of them need not be equal, so
    they are not «unknown × 2».
    """
    assert runs(np.array([0, NAN, NAN, 3])) == "0, then unknown, then unknown, then 3"


def test_no_more_than_six_runs_of_positions_are_written() -> None:
    """7 positions that count down are 7 runs."""
    words = "6, then 5, then 4, then 3, then 2, then 1, then …"
    assert runs(np.array([6.0, 5, 4, 3, 2, 1, 0])) == words


ROW_NUMBERS = np.arange(24.0)
ALL_AT_POSITION_5 = np.full(24, 5.0)
PACKED = np.r_[np.arange(12.0), np.arange(12.0)]
SHUFFLED_SLOTS = np.array([3.0, 0.0, 2.0, 5.0, 1.0, 4.0])
SLOT_NUMBERS = np.arange(6.0)
ONE_ROW_AT_7 = np.array([7.0])
MISTAKEN_POSITIONS = [
    (ROW_NUMBERS, 0 * ROW_NUMBERS, "nothing is rotated"),
    (ROW_NUMBERS, 0 * ROW_NUMBERS + 3, "every row is at one position"),
    (ROW_NUMBERS[:2], ALL_AT_POSITION_5[:2], "every row is at one position"),
    (ROW_NUMBERS, -ROW_NUMBERS, "the direction is reversed"),
    (PACKED, ROW_NUMBERS, "positions are not reset where a packed sequence begins"),
    (PACKED + 5, ROW_NUMBERS + 5, "positions are not reset where a packed sequence begins"),
    (SHUFFLED_SLOTS, SLOT_NUMBERS, "the row number is used as position"),
    (ROW_NUMBERS, PACKED, "positions restart, as those of packed sequences"),
    (ROW_NUMBERS, np.r_[ROW_NUMBERS[:12], ROW_NUMBERS[12:] - 9], "from row 12 on, all 9 too low"),
    (ROW_NUMBERS, np.r_[ROW_NUMBERS[:12], ROW_NUMBERS[12:] + 1], "from row 12 on, all 1 too far"),
    (ROW_NUMBERS, np.r_[0, ROW_NUMBERS[:-1]], "each row has the position of the row before"),
    (
        ROW_NUMBERS + 3,
        np.r_[3, ROW_NUMBERS[:-1] + 3],
        "each row has the position of the row before",
    ),
    (ROW_NUMBERS, ROW_NUMBERS // 2, "each position is given to 2 rows"),
    (ROW_NUMBERS, ROW_NUMBERS // 3, "each position is given to 3 rows"),
    (ROW_NUMBERS, ROW_NUMBERS + 7000, "all 7,000 too far"),
    (ROW_NUMBERS, ROW_NUMBERS - 4, "all 4 too low"),
    (np.arange(200.0), np.arange(200).astype("int8"), "they overflow int8"),
    (ROW_NUMBERS, np.minimum(ROW_NUMBERS, 9), "they are clamped at 9"),
    (ROW_NUMBERS, np.r_[ROW_NUMBERS[:16], 8 * [0]], "from row 16 on, every row is at position 0"),
    (ROW_NUMBERS, np.r_[ROW_NUMBERS[:16], 8 * [3]], "from row 16 on, every row is at position 3"),
    (ROW_NUMBERS, np.r_[ROW_NUMBERS[:23], 0], "from row 23 on, every row is at position 0"),
    (ALL_AT_POSITION_5, 0 * ALL_AT_POSITION_5, "it was not moved"),
    (ALL_AT_POSITION_5[:2], 0 * ALL_AT_POSITION_5[:2], "it was not moved"),
    (ALL_AT_POSITION_5, ALL_AT_POSITION_5 + 5, "it was moved twice"),
    (ALL_AT_POSITION_5, -ALL_AT_POSITION_5, "it was moved the other way"),
    (ALL_AT_POSITION_5, ALL_AT_POSITION_5 - 1, "it was moved by 4, not 5"),
    (0 * ALL_AT_POSITION_5, ALL_AT_POSITION_5, "B is A, whose positions are moved by 5"),
    (ONE_ROW_AT_7, ONE_ROW_AT_7 + 2, "all 2 too far"),
    (ONE_ROW_AT_7, 0 * ONE_ROW_AT_7, "nothing is rotated"),
    (ONE_ROW_AT_7, -ONE_ROW_AT_7, "the direction is reversed"),
]


@pytest.mark.parametrize(("expected", "used", "words"), MISTAKEN_POSITIONS)
def test_a_known_mistake_of_positions_is_stated_in_words(
    expected: np.ndarray, used: np.ndarray, words: str
) -> None:
    """`expected` are the right positions of the rows, and `used` those that were found. For example,
    0, 0, 1, 2, … instead of 0, 1, 2, 3, … is «each row has the position of the row before», and
    0, 1, …, 9, 9, 9 is «they are clamped at 9». If all are expected at 5, a cached key was to be
    moved by 5. SHUFFLED_SLOTS are six tokens in slots of a cache, 3 0 2 5 1 4. The words of each
    case in MISTAKEN_POSITIONS are written by hand.
    """
    mistake = find_position_mistake(expected, used)
    assert mistake is not None
    assert position_mistake_words(mistake) == words


@pytest.mark.parametrize(
    ("expected", "used"),
    [
        pytest.param(2 * ROW_NUMBERS, PACKED, id="restarts, and every second expected"),
        pytest.param(
            ROW_NUMBERS,
            np.r_[ROW_NUMBERS[:12], 3 + 2 * ROW_NUMBERS[:12]],
            id="steps of 2 from row 12 on",
        ),
        pytest.param(ROW_NUMBERS, ROW_NUMBERS, id="no difference"),
        pytest.param(ROW_NUMBERS, np.where(ROW_NUMBERS == 9, 0, ROW_NUMBERS), id="one wrong row"),
        pytest.param(
            ROW_NUMBERS,
            np.where(ROW_NUMBERS == 9, 0, ROW_NUMBERS + 1),
            id="all 1 too far except one row",
        ),
        pytest.param(ROW_NUMBERS, 3 * ROW_NUMBERS, id="three times each"),
        pytest.param(ROW_NUMBERS, np.r_[ROW_NUMBERS[:-1], NAN], id="one row without a position"),
        pytest.param(ALL_AT_POSITION_5, ALL_AT_POSITION_5, id="moved as it should be"),
        pytest.param(ONE_ROW_AT_7, np.array([NAN]), id="a single row without a position"),
        pytest.param(ALL_AT_POSITION_5, ROW_NUMBERS, id="counted, and all at 5 expected"),
        pytest.param(PACKED, 3 * ROW_NUMBERS, id="three times each, and a restart expected"),
        pytest.param(LEFT_PADDED_BY_9, ROW_NUMBERS, id="padding counted"),
        pytest.param(SHUFFLED_SLOTS, SLOT_NUMBERS + 3, id="slots counted from 3 on"),
    ],
)
def test_other_differences_of_positions_are_no_known_mistake(
    expected: np.ndarray, used: np.ndarray
) -> None:
    """ROW_NUMBERS is 0 … 23, PACKED is 0 … 11 twice, and LEFT_PADDED_BY_9 is nine zeros, then 0 … 14.
    No mistake that pecli knows leads from `expected` to `used`: a single row is wrong, every
    position is tripled, nothing differs, a row has no position (NaN), and so on.
    """
    assert find_position_mistake(expected, used) is None


PADDING_IGNORED = PositionMistake(Misplacement.PADDING_IGNORED)


@pytest.mark.parametrize(
    ("expected", "padding"),
    [
        pytest.param(LEFT_PADDED_BY_9, 9, id="nine rows of padding"),
        pytest.param(np.r_[0, ROW_NUMBERS[:-1]], 1, id="one row of padding"),
    ],
)
def test_tokens_that_are_counted_with_their_padding_are_named(
    expected: np.ndarray, padding: int
) -> None:
    """The tokens after the padding should be at 0, 1, …; all rows are at their numbers, 0 … 23."""
    assert find_position_mistake(expected, ROW_NUMBERS, padding) == PADDING_IGNORED


def test_a_shift_is_counted_from_the_positions_after_the_padding() -> None:
    """The 15 tokens should be at 0 … 14, and are at 10 … 24, which is not the count with padding."""
    mistake = find_position_mistake(LEFT_PADDED_BY_9, ROW_NUMBERS + 1, 9)
    assert mistake == PositionMistake(Misplacement.SHIFTED, by=10)


def test_padding_that_was_ignored_explains_all_tokens_or_none() -> None:
    """All rows are at their numbers, 0 … 23, except row 20, which is at 0."""
    used = np.where(ROW_NUMBERS == 20, 0, ROW_NUMBERS)
    assert find_position_mistake(LEFT_PADDED_BY_9, used, 9) is None


@pytest.mark.parametrize(
    ("expected", "used", "padding"),
    [
        pytest.param([0, 0, 0, 1, 2], [0, 0, 0, 1, 2], 2, id="all rows are right"),
        pytest.param([0, 0, 0, 1, 2], [7, 7, 0, 1, 2], 2, id="the tokens after the padding are"),
        pytest.param([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], 5, id="all rows are padding"),
    ],
)
def test_rows_of_padding_are_not_compared(
    expected: list[int], used: list[int], padding: int
) -> None:
    """The first `padding` rows may be at any position, as no token attends to them: there is no
    mistake. The next test has the last case without padding.
    """
    assert find_position_mistake(np.array(expected, float), np.array(used, float), padding) is None


def test_the_same_rows_are_compared_if_they_are_no_padding() -> None:
    """All five rows are 1 too far."""
    mistake = find_position_mistake(np.arange(5.0), np.arange(5.0) + 1, 0)
    assert mistake == PositionMistake(Misplacement.SHIFTED, by=1)


def test_a_table_at_position_0_is_shifted_and_not_unrotated() -> None:
    """One row is expected at position 7 and found at 0. Queries at 0 are as before the rotation, so
    that their mistake is «nothing is rotated»; a row of a table (rotated=False) is 7 too low.
    """
    mistake = find_position_mistake(np.array([7.0]), np.array([0.0]), rotated=False)
    assert mistake == PositionMistake(Misplacement.SHIFTED, by=-7)


def test_the_json_of_positions_has_both_ranges_and_the_mistake_in_words() -> None:
    """24 rows are expected at 0 … 23 and found at 7 … 30."""
    expected = np.arange(24.0)
    found = expected + 7
    edit = positions_edit(expected, found, find_position_mistake(expected, found))

    assert edit.as_json() == {
        "edit": "positions",
        "expected": "0 … 23",
        "found": "7 … 30",
        "reason": "all 7 too far",
    }


def test_axes_with_equal_positions_are_written_once() -> None:
    """Of the axes t, h, w, the first two are expected at 0 … 23 and the last one at 5 everywhere; all
    three are found at 0 … 23.
    """
    counted = np.arange(24.0)
    always_5 = np.full(24, 5.0)
    expected = np.stack([counted, counted, always_5])
    found = np.stack([counted, counted, counted])
    edit = positions_edit(expected, found, None)

    assert edit.expected == "0 … 23; 5 × 24"
    assert edit.found == "0 … 23"


@pytest.mark.parametrize(
    ("used", "rows"),
    [
        pytest.param([0, 1, 2, 0, 1, 2], 3, id="two runs of 3"),
        pytest.param([0, 1, 0, 1, 0, 1], 2, id="three runs of 2"),
        pytest.param([0, 1, 2, 0, 1], 0, id="runs of 3 and 2"),
    ],
)
def test_positions_that_restart_have_the_length_of_their_runs(used: list[int], rows: int) -> None:
    """Expected are 0, 1, 2, …; heads or sequences that were joined count from 0 again. `by` is the
    length of a run, or 0 if the runs differ in length.
    """
    mistake = find_position_mistake(np.arange(len(used)), np.array(used))
    assert mistake == PositionMistake(Misplacement.RESTARTED, by=rows)


@pytest.mark.parametrize(
    ("positions", "further_runs"),
    [([3, 4, 5, 6], 0), ([3, 4, 0, 1], 1), ([9, 7, 5, 3, 1, 8], 3)],
    ids=["one run", "two runs", "more than four runs"],
)
def test_each_further_run_of_unknown_positions_has_a_cost(
    positions: list[float], further_runs: int
) -> None:
    """3 4 5 6 are one run, and 3 4 0 1 two. Four runs are paid for at most (MAX_RUNS)."""
    unknown = OtherTokenPositions(np.array([positions], float), mistake=None, are_stated=True)
    assert unknown.cost == UNKNOWN_POSITIONS_COST + RUN_COST * further_runs
