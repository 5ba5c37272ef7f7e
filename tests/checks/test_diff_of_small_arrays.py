"""diff of two small arrays of random numbers: the change from the first to the second is named, or
no reason is made up.

The second array is made from the first by NumPy; expected words are written by hand. «exact» means
that the change makes every number.
"""

import numpy as np
import pytest

import pecli
from tests.checks.waves import Array

DRAWN = np.random.default_rng(1).normal(size=(8, 6)).astype(np.float32)
HEADS = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32)
MASKED = np.where(np.arange(6) < 3, DRAWN, -np.inf).astype(np.float32)
INTEGERS = np.arange(12).reshape(3, 4)
COMPLEX = DRAWN[:, :3] + 1j * DRAWN[:, 3:]
ROW_NUMBERS = np.arange(8)[:, None]
CAUSAL = np.where(np.tri(6), DRAWN[:6], -np.inf).astype(np.float32)
HALVES = (DRAWN[:, :3], DRAWN[:, 3:])


def assert_named_exactly(a: Array, b: Array, words: str) -> None:
    """Assert that the last line of the diagnosis states the change from A to B in these words, and
    that it makes every number of B.
    """
    diagnosis = pecli.diff({"x": a}, {"x": b}).diagnosis

    assert diagnosis[-1].startswith(f"x: in B, {words}")
    assert diagnosis[-1].endswith("; exact")


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            DRAWN, DRAWN[[0, 1, 3, 5, 6]], "only rows 0, 1, 3, 5, 6 are there", id="some rows"
        ),
        pytest.param(DRAWN[[0, 2, 5, 7]], DRAWN, "rows 1, 3, 4, 6 are added", id="rows between"),
        pytest.param(
            DRAWN[[0, 1, 2, 5, 6, 7]], DRAWN, "rows 3, 4 are added", id="rows in the middle"
        ),
        pytest.param(
            DRAWN,
            np.concatenate([np.zeros_like(DRAWN[:2]), DRAWN]),
            "the table starts at row 2, after padding",
            id="rows of zeros in front",
        ),
        pytest.param(
            DRAWN,
            np.concatenate([DRAWN, np.full_like(DRAWN[:2], 7)]),
            "the last 2 rows are padding",
            id="rows of sevens behind",
        ),
        pytest.param(INTEGERS, INTEGERS[::-1], "rows are in reverse order", id="integers"),
        pytest.param(DRAWN, DRAWN[[3] * 8], "all rows are at position 3", id="one row"),
        pytest.param(
            DRAWN, DRAWN[[2, 3, 4, 5] * 2], "positions wrap at row 4", id="four rows, twice"
        ),
        pytest.param(DRAWN, DRAWN[:5], "truncated to the first 5 rows", id="fewer rows"),
        pytest.param(
            DRAWN,
            np.concatenate([np.zeros_like(DRAWN[:2]), DRAWN[:6]]),
            "the table starts at row 2, after padding",
            id="zeros in front, as many rows",
        ),
    ],
)
def test_rows_of_a_small_array_that_were_left_out_added_or_moved_are_named(
    a: Array, b: Array, words: str
) -> None:
    """B has some rows of A, or rows between, before or behind those of A, or A's rows in another
    order; padding is rows of one number.
    """
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            HEADS, HEADS[[1, 0, 2]], "heads are in another order (1, 0, 2)", id="two heads"
        ),
        pytest.param(HEADS, HEADS[::-1], "heads are in reverse order", id="heads in reverse"),
        pytest.param(
            DRAWN, DRAWN[:, ::-1], "channels are in reverse order", id="channels in reverse"
        ),
        pytest.param(
            DRAWN[:, :5],
            DRAWN[:, [1, 0, 2, 3, 4]],
            "channels are in another order (1, 0, 2, 3, 4)",
            id="two channels",
        ),
        pytest.param(
            HEADS, HEADS.transpose(2, 0, 1), "the table is transposed", id="axes (2, 0, 1)"
        ),
        pytest.param(
            HEADS, HEADS.transpose(0, 2, 1), "the table is transposed", id="axes (0, 2, 1)"
        ),
    ],
)
def test_heads_channels_and_axes_of_a_small_array_in_another_order_are_named(
    a: Array, b: Array, words: str
) -> None:
    """B has the heads (axis 0 of HEADS), the channels (the last axis) or the axes of A in another
    order.
    """
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(MASKED, 2 * MASKED, "values are scaled by 2", id="values beside a mask"),
        pytest.param(DRAWN, DRAWN / 2, "values are scaled by 0.5", id="half"),
        pytest.param(
            DRAWN,
            -3 * DRAWN,
            "the sign is flipped, and values are scaled by 3",
            id="minus three times",
        ),
        pytest.param(
            np.arange(1.0, 9), 2 * np.arange(1.0, 9), "values are scaled by 2", id="eight numbers"
        ),
        pytest.param(
            DRAWN,
            DRAWN + np.where(ROW_NUMBERS < 3, np.float32(4), 0),
            "a constant is added to each row, which softmax ignores",
            id="a constant in three rows",
        ),
        pytest.param(
            DRAWN[:, :3],
            DRAWN[:, :3] + np.where(ROW_NUMBERS < 3, np.float32(4), 0),
            "a constant is added to each row, which softmax ignores",
            id="a constant in rows of three",
        ),
    ],
)
def test_a_small_array_that_is_scaled_negated_or_shifted_is_named(
    a: Array, b: Array, words: str
) -> None:
    """B is A times a number, or plus a constant in some rows. Softmax gives the same weights if a
    constant is added to all scores of a row.
    """
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            MASKED,
            np.where(np.isinf(MASKED), np.float32(-1e4), MASKED),
            "mask differs: -1e+04",
            id="a mask of BERT",
        ),
        pytest.param(
            CAUSAL,
            np.where(np.tri(6), CAUSAL, np.float32(-65504)),
            "mask differs: -6.6e+04",
            id="a causal mask",
        ),
    ],
)
def test_another_number_in_the_mask_of_a_small_array_is_named(
    a: Array, b: Array, words: str
) -> None:
    """MASKED and CAUSAL hide keys with −∞, and B with a finite number: the lowest of float16,
    −65504, or BERT's −10000.
    """
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            DRAWN,
            np.repeat(DRAWN[:, :, None], 3, axis=2),
            "repeated 3× along axis 2",
            id="a copy for each number",
        ),
        pytest.param(
            DRAWN, np.concatenate([DRAWN] * 2), "repeated 2× along axis 0", id="a copy below"
        ),
    ],
)
def test_copies_of_a_small_array_are_named(a: Array, b: Array, words: str) -> None:
    """B has each number of A, or all of A, several times."""
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(DRAWN, np.stack(HALVES, axis=-1), "layout is pairs (in A halves)", id="pairs"),
        pytest.param(DRAWN, np.stack(HALVES), "layout is stacked (in A halves)", id="stacked"),
        pytest.param(DRAWN, COMPLEX, "layout is complex (in A halves)", id="complex"),
        pytest.param(
            DRAWN,
            np.stack(HALVES[::-1], axis=-1).reshape(8, 6),
            "layout is interleaved (in A halves), and sin and cos are swapped",
            id="interleaved with sines first",
        ),
        pytest.param(
            COMPLEX, COMPLEX.imag + 1j * COMPLEX.real, "sin and cos are swapped", id="swapped parts"
        ),
        pytest.param(
            COMPLEX,
            -COMPLEX.conj(),
            "the first function of each pair is negated",
            id="a negated part",
        ),
    ],
)
def test_another_layout_of_a_small_array_is_named(a: Array, b: Array, words: str) -> None:
    """HALVES are columns 0 to 2 of DRAWN, and 3 to 5. B has pairs of both, in turn, stacked, or as
    complex numbers; or the two parts of a pair are exchanged or negated.
    """
    assert_named_exactly(a, b, words)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            DRAWN,
            DRAWN[[1, 0, 2, 3, 4, 5, 6, 7]],
            "only rows 0, 1 differ",
            id="two rows in another order",
        ),
        pytest.param(
            DRAWN,
            np.where(ROW_NUMBERS < 6, DRAWN, 10.0 + ROW_NUMBERS),
            "only rows 6, 7 differ",
            id="16 in row 6 and 17 in row 7",
        ),
        pytest.param(
            DRAWN,
            DRAWN + np.where(ROW_NUMBERS == 2, np.float32(4), 0),
            "only row 2 differs",
            id="a constant in one row",
        ),
        pytest.param(
            COMPLEX,
            np.where(ROW_NUMBERS == 3, 0, COMPLEX),
            "only row 3 differs",
            id="a complex row",
        ),
        pytest.param(
            DRAWN,
            np.where((ROW_NUMBERS == 2) & (np.arange(6) == 3), np.float32(9), DRAWN),
            "only element [2, 3] differs",
            id="an element",
        ),
    ],
)
def test_a_small_part_that_is_wrong_is_named(a: Array, b: Array, words: str) -> None:
    """B is A with other numbers in one row, two rows or one element."""
    diagnosis = pecli.diff({"x": a}, {"x": b}).diagnosis

    assert diagnosis[-1] == f"x: in B, {words}; all others are exact"


def test_numbers_that_were_only_rounded_count_as_exact_beside_a_wrong_row() -> None:
    """B has A's numbers rounded to float16, its dtype, except for nines in row 2. `diff` rounds A in
    the same way before it compares, so that the other seven rows are exact.
    """
    nines_in_row_2 = np.where(ROW_NUMBERS == 2, 9, DRAWN).astype(np.float16)
    diagnosis = pecli.diff({"x": DRAWN}, {"x": nines_in_row_2}).diagnosis

    assert diagnosis[-1] == "x: in B, only row 2 differs; all others are exact"


def test_a_part_is_wrong_beside_numbers_within_the_tolerance() -> None:
    """Row 2 is off by 1, and all others by 0.0001."""
    wrong = DRAWN + np.where(ROW_NUMBERS == 2, np.float32(1), np.float32(1e-4))
    (sentence,) = pecli.diff({"x": DRAWN}, {"x": wrong}, atol=1e-3).diagnosis

    assert sentence == "x: in B, only row 2 differs; explains every element (to 1e-4)"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(np.arange(1.0, 8), 2 * np.arange(1.0, 8), id="seven numbers"),
        pytest.param(
            DRAWN[:, :2], DRAWN[:, :2] + ROW_NUMBERS, id="constants in rows of two numbers"
        ),
        pytest.param(DRAWN[[0, 2, 5]], DRAWN, id="rows of three between others"),
        pytest.param(np.float32(3), np.float32(4), id="scalars"),
        pytest.param(np.ones((1, 1)), np.full((1, 1), 2.0), id="a single element"),
    ],
)
def test_no_reason_is_made_up_for_a_change_that_too_few_numbers_show(a: Array, b: Array) -> None:
    """A factor of seven numbers, or rows added between three, might be chance: the arrays differ,
    and have no explanation.
    """
    result = pecli.diff({"x": a}, {"x": b})

    assert not result.passed
    assert result.explanations == ()


def assert_no_explanation(a: Array, b: Array) -> None:
    """Assert that the arrays differ, and that `diff` gives no reason."""
    result = pecli.diff({"x": a}, {"x": b})

    assert not result.passed
    assert result.explanations == ()


@pytest.mark.parametrize("dtype", [np.int64, np.float64], ids=["integers", "floats in B only"])
def test_a_constant_per_row_is_a_reason_for_floats_and_none_for_integers(dtype: type) -> None:
    """An attention bias is of floats, and softmax ignores a constant that is added to its rows.
    Integers are indices, for which no such reason is given.
    """
    constants = np.array([[0], [1], [2]])
    floats = INTEGERS.astype(np.float32)
    words = "a constant is added to each row, which softmax ignores"

    assert_named_exactly(floats, (floats + constants).astype(np.float32), words)
    assert_no_explanation(INTEGERS, (INTEGERS + constants).astype(dtype))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [1e-8, 1e-7, 2e-7, 4e-7, 1e-6])
def test_differences_as_small_as_rounding_are_not_called_a_constant_per_row(
    size: float, seed: int
) -> None:
    """Sums in float32 that are near 1 differ by up to 2.4e-7. Each of 6 rows has only 3 numbers, and
    the median of their random differences is near to all three.
    """
    draw = np.random.default_rng(seed)
    a = draw.uniform(0.5, 1, (6, 3))

    assert_no_explanation(a, a + draw.uniform(-size, size, a.shape))


def test_one_constant_that_is_added_to_all_rows_is_not_called_a_constant_per_row() -> None:
    """A program that counts keys from another position adds another constant to each row of a bias:
    3 in all rows is not its mistake.
    """
    fours_in_three_rows = DRAWN + np.where(ROW_NUMBERS < 3, np.float32(4), 0)
    words = "a constant is added to each row, which softmax ignores"

    assert_named_exactly(DRAWN, fours_in_three_rows, words)
    assert_no_explanation(DRAWN, DRAWN + np.float32(3))


def test_a_mask_that_hides_other_keys_is_not_called_another_number_in_the_mask() -> None:
    """A hides the keys after each query with −∞. −65504 at the same keys is another number in the
    mask; if the key behind each query is not hidden either, the masks differ.
    """
    zeros_for_infinity = np.nan_to_num(CAUSAL, neginf=0)
    same_keys = np.where(np.tri(6), zeros_for_infinity, np.float32(-65504))
    other_keys = np.where(np.tri(6, k=1), zeros_for_infinity, np.float32(-65504))

    assert_named_exactly(CAUSAL, same_keys, "mask differs: -6.6e+04")
    assert_no_explanation(CAUSAL, other_keys)


def test_zeros_in_three_of_eight_rows_are_not_called_a_small_wrong_part() -> None:
    """Two rows of eight are named as the only ones that differ. Three are too many: a reason that
    excepts enough rows would explain any two arrays.
    """
    zeros_in_two_rows = np.where(ROW_NUMBERS < 6, DRAWN, np.float32(0))
    zeros_in_three_rows = np.where(ROW_NUMBERS < 5, DRAWN, np.float32(0))

    (sentence,) = pecli.diff({"x": DRAWN}, {"x": zeros_in_two_rows}).diagnosis
    assert sentence == "x: in B, only rows 6, 7 differ; all others are exact"
    assert_no_explanation(DRAWN, zeros_in_three_rows)


def test_rows_are_called_added_only_if_the_others_keep_their_order() -> None:
    """A has rows 0, 2, 5 and 7 of B, in this order or with rows 0 and 2 exchanged."""
    assert_named_exactly(DRAWN[[0, 2, 5, 7]], DRAWN, "rows 1, 3, 4, 6 are added")
    assert_no_explanation(DRAWN[[2, 0, 5, 7]], DRAWN)


def test_rows_are_called_left_out_only_if_no_other_is_repeated() -> None:
    """B has rows 0, 1, 2, 5 and 6 of A, and besides, in the second array, row 0 twice."""
    assert_named_exactly(DRAWN, DRAWN[[0, 1, 2, 5, 6]], "only rows 0–2, 5, 6 are there")
    assert_no_explanation(DRAWN, DRAWN[[0, 0, 1, 2, 5, 6]])


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(DRAWN, HEADS, id="unrelated numbers of other axes"),
        pytest.param(DRAWN, 0 * DRAWN, id="zeros, which are A times 0"),
        pytest.param(0 * DRAWN, DRAWN, id="from zeros"),
        pytest.param(DRAWN[:0], DRAWN, id="from no rows"),
        pytest.param(
            np.tri(6, dtype=bool), np.tri(6, k=1, dtype=bool), id="booleans, which have no sign"
        ),
        pytest.param(
            DRAWN.ravel(),
            np.roll(DRAWN.ravel()[::-1], 5),
            id="a vector in another order, which has no rows",
        ),
    ],
)
def test_no_reason_is_made_up_for_small_arrays_that_no_known_change_explains(
    a: Array, b: Array
) -> None:
    """Known changes are those of the tests above: of rows, heads, channels, axes and layouts, factors
    other than 0, signs, constants per row, masks, copies and small parts. None of them makes B of A.
    """
    assert_no_explanation(a, b)


def test_two_complex_tensors_that_changed_places_are_named() -> None:
    """The tensor «cos» of B holds «sin» of A, and «sin» of B holds «cos» of A; the numbers are
    random and complex.
    """
    numbers = DRAWN[:, :3] + 1j * DRAWN[:, 3:]
    doubled_and_reversed = 2 * numbers[::-1]
    a = {"cos": numbers, "sin": doubled_and_reversed}
    b = {"cos": doubled_and_reversed, "sin": numbers}

    assert pecli.diff(a, b).diagnosis == ("cos, sin: in B, sin and cos are swapped; exact",)


def test_one_row_of_cosines_then_sines_is_compared_with_both() -> None:
    """NumPy's row of position 5, of base 10000: A has 32 cosines and 32 sines, B all 64 numbers."""
    angles = 5 * 10000.0 ** (-np.arange(32) / 32)
    cosines = np.cos(angles)
    sines = np.sin(angles)
    a = {"cos": cosines, "sin": sines}
    result = pecli.diff(a, {"cos_sin": np.concatenate([cosines, sines])})

    assert result.passed
    assert result.readings == {"cos_sin": "B: all cosines, then all sines"}


def test_two_scalars_are_not_compared_with_one_array() -> None:
    """cos and sin of A are numbers without an axis: they have no columns that B could hold side by
    side, although B has the same two numbers, 1 and 0. So its tensor has no partner in A.
    """
    result = pecli.diff(
        {"cos": np.ones(()), "sin": np.zeros(())}, {"cos_sin": np.array([1.0, 0.0])}
    )
    assert result.diagnosis[-1] == "cos_sin: only B has it, A does not"


@pytest.mark.parametrize("columns", [0, 1, 4])
def test_rows_without_elements_are_equal_only_to_rows_without_elements(columns: int) -> None:
    """A has cosines and sines of (32, 0), which a program writes for a head without rotation; B has
    0, 1 or 4 columns, all zeros, and is equal only if it has none.
    """
    empty = np.zeros((32, 0), np.float16)
    zeros = np.zeros((32, columns), np.float16)

    result = pecli.diff({"cos": empty, "sin": empty}, {"cos": zeros, "sin": zeros})

    assert result.passed == (columns == 0)


def test_a_bias_of_no_heads_differs_from_one_of_two() -> None:
    """A has 0 heads of 4 × 4 and B has 2: the shapes are reported, of which neither is taken for
    the other.
    """
    difference = pecli.diff({"bias": np.zeros((0, 4, 4))}, {"bias": np.ones((2, 4, 4))})
    assert difference.tensors[0].problem == "its shape is (2, 4, 4) where (0, 4, 4) is expected"
