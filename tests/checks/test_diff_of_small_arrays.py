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
COMPLEX = DRAWN[:, :3] + 1j * DRAWN[:, 3:]
ROW_NUMBERS = np.arange(8)[:, None]
CAUSAL = np.where(np.tri(6), DRAWN[:6], -np.inf).astype(np.float32)
HALVES = (DRAWN[:, :3], DRAWN[:, 3:])


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
    "axes (2, 0, 1)": Change(HEADS, HEADS.transpose(2, 0, 1), "the table is transposed"),
    "axes (0, 2, 1)": Change(HEADS, HEADS.transpose(0, 2, 1), "the table is transposed"),
    "a copy for each number": Change(
        DRAWN, np.repeat(DRAWN[:, :, None], 3, axis=2), "repeated 3× along axis 2"
    ),
    "a copy below": Change(DRAWN, np.concatenate([DRAWN] * 2), "repeated 2× along axis 0"),
    "half": Change(DRAWN, DRAWN / 2, "values are scaled by 0.5"),
    "minus three times": Change(
        DRAWN, -3 * DRAWN, "the sign is flipped, and values are scaled by 3"
    ),
    "eight numbers": Change(np.arange(1.0, 9), 2 * np.arange(1.0, 9), "values are scaled by 2"),
    "heads in reverse": Change(HEADS, HEADS[::-1], "heads are in reverse order"),
    "channels in reverse": Change(DRAWN, DRAWN[:, ::-1], "channels are in reverse order"),
    "two channels": Change(
        DRAWN[:, :5], DRAWN[:, [1, 0, 2, 3, 4]], "channels are in another order (1, 0, 2, 3, 4)"
    ),
    "one row": Change(DRAWN, DRAWN[[3] * 8], "all rows are at position 3"),
    "four rows, twice": Change(DRAWN, DRAWN[[2, 3, 4, 5] * 2], "positions wrap at row 4"),
    "fewer rows": Change(DRAWN, DRAWN[:5], "truncated to the first 5 rows"),
    "zeros in front, as many rows": Change(
        DRAWN,
        np.concatenate([np.zeros_like(DRAWN[:2]), DRAWN[:6]]),
        "the table starts at row 2, after padding",
    ),
    "a constant in three rows": Change(
        DRAWN,
        DRAWN + np.where(ROW_NUMBERS < 3, np.float32(4), 0),
        "a constant is added to each row, which softmax ignores",
    ),
    "a constant in rows of three": Change(
        DRAWN[:, :3],
        DRAWN[:, :3] + np.where(ROW_NUMBERS < 3, np.float32(4), 0),
        "a constant is added to each row, which softmax ignores",
    ),
    "a causal mask": Change(
        CAUSAL, np.where(np.tri(6), CAUSAL, np.float32(-65504)), "mask differs: -6.6e+04"
    ),
    "swapped parts": Change(COMPLEX, COMPLEX.imag + 1j * COMPLEX.real, "sin and cos are swapped"),
    "a negated part": Change(
        COMPLEX, -COMPLEX.conj(), "the first function of each pair is negated"
    ),
    "pairs": Change(DRAWN, np.stack(HALVES, axis=-1), "layout is pairs (in A halves)"),
    "stacked": Change(DRAWN, np.stack(HALVES), "layout is stacked (in A halves)"),
    "complex": Change(DRAWN, COMPLEX, "layout is complex (in A halves)"),
    "interleaved with sines first": Change(
        DRAWN,
        np.stack(HALVES[::-1], axis=-1).reshape(8, 6),
        "layout is interleaved (in A halves), and sin and cos are swapped",
    ),
}
DAMAGED = {
    "two rows in another order": (DRAWN, DRAWN[[1, 0, 2, 3, 4, 5, 6, 7]], "only rows 0, 1 differ"),
    "two rows of other numbers": (
        DRAWN, np.where(ROW_NUMBERS < 6, DRAWN, DRAWN.T[:1, :1] + ROW_NUMBERS), "only rows 6, 7 differ"
    ),
    "a constant in one row": (
        DRAWN, DRAWN + np.where(ROW_NUMBERS == 2, np.float32(4), 0), "only row 2 differs"
    ),
    "a complex row": (COMPLEX, np.where(ROW_NUMBERS == 3, 0, COMPLEX), "only row 3 differs"),
    "an element": (
        DRAWN, np.where((ROW_NUMBERS == 2) & (np.arange(6) == 3), np.float32(9), DRAWN),
        "only element [2, 3] differs",
    ),
    "a row of float16": (
        DRAWN, np.where(ROW_NUMBERS == 2, 9, DRAWN).astype(np.float16), "only row 2 differs"
    ),
}  # fmt: skip
"""A, B, and the words for the small part of A that is wrong in B."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_a_small_array_is_named(name: str) -> None:
    """Each case of CHANGES has A, B, and the words: B has rows 0, 1, 3, 5, 6 of A, for example."""
    change = CHANGES[name]
    diagnosis = pecli.diff({"x": change.a}, {"x": change.b}).diagnosis

    assert diagnosis[-1].startswith(f"x: in B, {change.words}")
    assert diagnosis[-1].endswith("; exact")


@pytest.mark.parametrize("name", DAMAGED)
def test_a_small_part_that_is_wrong_is_named(name: str) -> None:
    a, b, words = DAMAGED[name]
    diagnosis = pecli.diff({"x": a}, {"x": b}).diagnosis

    assert diagnosis[-1] == f"x: in B, {words}; all others are exact"


def test_a_part_is_wrong_beside_numbers_within_the_tolerance() -> None:
    """Row 2 is off by 1, and all others by 0.0001."""
    wrong = DRAWN + np.where(ROW_NUMBERS == 2, np.float32(1), np.float32(1e-4))
    (sentence,) = pecli.diff({"x": DRAWN}, {"x": wrong}, atol=1e-3).diagnosis

    assert sentence == "x: in B, only row 2 differs; explains every element (to 1e-4)"


NOT_NAMED = {
    "a vector in another order": (DRAWN.ravel(), np.roll(DRAWN.ravel()[::-1], 5)),
    "integers that became floats": (INTEGERS, INTEGERS + np.arange(3.0)[:, None]),
    "seven numbers": (np.arange(1.0, 8), 2 * np.arange(1.0, 8)),
    "one constant for all rows": (DRAWN, DRAWN + np.float32(3)),
    "constants in rows of two numbers": (DRAWN[:, :2], DRAWN[:, :2] + ROW_NUMBERS),
    "another mask that hides other keys": (
        CAUSAL,
        np.where(np.tri(6, k=1), np.nan_to_num(CAUSAL, neginf=0), np.float32(-65504)),
    ),
    "zeros behind three of eight rows": (
        DRAWN,
        np.concatenate([DRAWN[:5], np.zeros_like(DRAWN[:3])]),
    ),
    "rows of three between others": (DRAWN[[0, 2, 5]], DRAWN),
    "rows in another order between others": (DRAWN[[2, 0, 5, 7]], DRAWN),
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


def test_a_bias_of_no_heads_differs_from_one_of_two() -> None:
    difference = pecli.diff({"bias": np.zeros((0, 4, 4))}, {"bias": np.ones((2, 4, 4))})
    assert difference.tensors[0].problem == "its shape is (2, 4, 4) where (0, 4, 4) is expected"
