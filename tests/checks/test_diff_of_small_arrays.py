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


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        pytest.param(
            MASKED,
            np.where(np.isinf(MASKED), np.float32(-1e4), MASKED),
            "mask differs: -1e+04",
            id="a mask of BERT",
        ),
        pytest.param(MASKED, 2 * MASKED, "values are scaled by 2", id="values beside a mask"),
        pytest.param(
            DRAWN, DRAWN[[0, 1, 3, 5, 6]], "only rows 0, 1, 3, 5, 6 are there", id="some rows"
        ),
        pytest.param(DRAWN[[0, 2, 5, 7]], DRAWN, "rows 1, 3, 4, 6 are added", id="rows between"),
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
        pytest.param(
            DRAWN,
            -DRAWN[::-1],
            "the sign is flipped, and rows are in reverse order",
            id="negated and reversed",
        ),
        pytest.param(
            HEADS, HEADS[[1, 0, 2]], "heads are in another order (1, 0, 2)", id="two heads"
        ),
        pytest.param(INTEGERS, INTEGERS[::-1], "rows are in reverse order", id="integers"),
    ],
)
def test_a_change_of_a_small_array_is_named(a: Array, b: Array, words: str) -> None:
    """B is made from A by one change, which the last line of the diagnosis must state in these
    words. DRAWN and HEADS are random numbers of (8, 6) and (3, 4, 5); MASKED is DRAWN with −∞ in
    its last 3 columns.
    """
    diagnosis = pecli.diff({"x": a}, {"x": b}).diagnosis

    assert diagnosis[-1].startswith(f"x: in B, {words}")
    assert diagnosis[-1].endswith("; exact")


@pytest.mark.parametrize(
    ("a", "b"),
    [
        pytest.param(np.float32(3), np.float32(4), id="scalars"),
        pytest.param(
            np.tri(6, dtype=bool),
            np.tri(6, k=1, dtype=bool),
            id="masks of booleans, which have no sign",
        ),
        pytest.param(np.ones((1, 1)), np.full((1, 1), 2.0), id="a single element"),
        pytest.param(DRAWN, DRAWN[[0, 0, 1, 2, 5, 6]], id="repeated and missing rows"),
        pytest.param(
            INTEGERS, INTEGERS + np.arange(3)[:, None], id="a constant per row of integers"
        ),
        pytest.param(DRAWN, HEADS, id="other axes"),
        pytest.param(DRAWN, 0 * DRAWN, id="zeros"),
        pytest.param(0 * DRAWN, DRAWN, id="from zeros"),
        pytest.param(DRAWN[:0], DRAWN, id="no rows"),
    ],
)
def test_no_reason_is_made_up_for_small_arrays_that_differ(a: Array, b: Array) -> None:
    """No single change explains the pair, or it has too few numbers to tell, such as two scalars.
    DRAWN and HEADS are random numbers of (8, 6) and (3, 4, 5).
    """
    result = pecli.diff({"x": a}, {"x": b})

    assert not result.passed
    assert result.explanations == ()


def test_two_complex_tensors_that_changed_places_are_named() -> None:
    """The tensor «cos» of B holds «sin» of A, and «sin» of B holds «cos» of A; the numbers are
    random and complex.
    """
    numbers = DRAWN[:, :3] + 1j * DRAWN[:, 3:]
    doubled_and_reversed = 2 * numbers[::-1]
    a = {"cos": numbers, "sin": doubled_and_reversed}
    b = {"cos": doubled_and_reversed, "sin": numbers}

    assert pecli.diff(a, b).diagnosis == ("cos, sin: in B, sin and cos are swapped; exact",)


@pytest.mark.parametrize("columns", [0, 1, 4])
def test_rows_without_elements_are_equal_only_to_rows_without_elements(columns: int) -> None:
    """A has cosines and sines of (32, 0), which a program writes for a head without rotation; B has
    0, 1 or 4 columns, all zeros, and is equal only if it has none.
    """
    empty = np.zeros((32, 0), np.float16)
    zeros = np.zeros((32, columns), np.float16)

    result = pecli.diff({"cos": empty, "sin": empty}, {"cos": zeros, "sin": zeros})

    assert result.passed == (columns == 0)
