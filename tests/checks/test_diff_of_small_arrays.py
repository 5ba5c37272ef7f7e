"""diff of two small arrays of random numbers: the change from the first to the second is named, or
no reason is made up.

The second array is made from the first by NumPy; expected words are written by hand. «exact» means
that the change makes every number.
"""

from typing import NamedTuple

import numpy as np
import pytest

import pecli
from tests.checks.waves import Array

DRAWN = np.random.default_rng(1).normal(size=(8, 6)).astype(np.float32)
HEADS = np.random.default_rng(2).normal(size=(3, 4, 5)).astype(np.float32)
MASKED = np.where(np.arange(6) < 3, DRAWN, -np.inf).astype(np.float32)
INTEGERS = np.arange(12).reshape(3, 4)


class Change(NamedTuple):
    """Two arrays, and the words that name what was done to the first one."""

    a: Array
    b: Array
    words: str


CHANGES = {
    "a mask of BERT": Change(
        MASKED, np.where(np.isinf(MASKED), np.float32(-1e4), MASKED), "mask differs: -1e+04"
    ),
    "values beside a mask": Change(MASKED, 2 * MASKED, "values are scaled by 2"),
    "some rows": Change(DRAWN, DRAWN[[0, 1, 3, 5, 6]], "only rows 0, 1, 3, 5, 6 are there"),
    "rows between": Change(DRAWN[[0, 2, 5, 7]], DRAWN, "rows 1, 3, 4, 6 are added"),
    "rows of zeros in front": Change(
        DRAWN,
        np.concatenate([np.zeros_like(DRAWN[:2]), DRAWN]),
        "the table starts at row 2, after padding",
    ),
    "rows of sevens behind": Change(
        DRAWN, np.concatenate([DRAWN, np.full_like(DRAWN[:2], 7)]), "the last 2 rows are padding"
    ),
    "negated and reversed": Change(
        DRAWN, -DRAWN[::-1], "the sign is flipped, and rows are in reverse order"
    ),
    "two heads": Change(HEADS, HEADS[[1, 0, 2]], "heads are in another order (1, 0, 2)"),
    "integers": Change(INTEGERS, INTEGERS[::-1], "rows are in reverse order"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_small_array_is_named(name: str) -> None:
    """Each case of CHANGES has A, B, and the words: B has rows 0, 1, 3, 5, 6 of A, for example."""
    change = CHANGES[name]
    diagnosis = pecli.diff({"x": change.a}, {"x": change.b}).diagnosis

    assert diagnosis[-1].startswith(f"x: in B, {change.words}")
    assert diagnosis[-1].endswith("; exact")


NOT_NAMED = {
    "scalars": (np.float32(3), np.float32(4)),
    "masks of booleans, which have no sign": (np.tri(6, dtype=bool), np.tri(6, k=1, dtype=bool)),
    "a single element": (np.ones((1, 1)), np.full((1, 1), 2.0)),
    "repeated and missing rows": (DRAWN, DRAWN[[0, 0, 1, 2, 5, 6]]),
    "a constant per row of integers": (INTEGERS, INTEGERS + np.arange(3)[:, None]),
    "other axes": (DRAWN, HEADS),
    "zeros": (DRAWN, 0 * DRAWN),
    "from zeros": (0 * DRAWN, DRAWN),
    "no rows": (DRAWN[:0], DRAWN),
}


@pytest.mark.parametrize("name", NOT_NAMED)
def test_no_reason_is_made_up_for_small_arrays_that_differ(name: str) -> None:
    """Each case of NOT_NAMED is a pair that no single change explains, or that has too few numbers
    to tell, such as two scalars.
    """
    a, b = NOT_NAMED[name]
    result = pecli.diff({"x": a}, {"x": b})

    assert not result.passed
    assert result.explanations == ()


def test_tensors_that_changed_places_may_be_complex() -> None:
    """B's cos holds A's sin, and the other way round; the numbers are random."""
    first = DRAWN[:, :3] + 1j * DRAWN[:, 3:]
    second = 2 * first[::-1]
    a = {"cos": first, "sin": second}
    b = {"cos": second, "sin": first}

    assert pecli.diff(a, b).diagnosis == ("cos, sin: in B, sin and cos are swapped; exact",)


@pytest.mark.parametrize("columns", [0, 1, 4])
def test_rows_without_elements_are_compared_by_shape(columns: int) -> None:
    """A has cosines and sines of (32, 0), which a program writes for a head without rotation; B has
    0, 1 or 4 columns, all zeros.
    """
    rotated = np.zeros((32, columns), np.float16)
    empty = np.zeros((32, 0), np.float16)

    result = pecli.diff({"cos": empty, "sin": empty}, {"cos": rotated, "sin": rotated})

    assert result.passed == (columns == 0)
