"""Queries with rows of zeros after the prompt, and padding that holds NaN or infinity.

Random queries (2 sequences, 2 heads, 33 positions, 128 channels) are rotated by this package as
Llama 2 does; zeros, NaN and infinities are put in by NumPy. A mask hides 5 tokens of padding at the
beginning of the second sequence.
"""

from typing import Any

import numpy as np
import pytest

import pecli

LLAMA_2_7B = "llama-2-7b"
RANDOM_QUERIES = np.random.default_rng(0).normal(size=(2, 2, 33, 128)).astype("f4")
ROTATED_QUERIES = pecli.apply(RANDOM_QUERIES, LLAMA_2_7B)
QUERIES_BY_BASE_500 = pecli.apply(RANDOM_QUERIES, pecli.Rope(33, 128, base=500.0), layout="halves")
WAYS_TO_STATE_POSITIONS: list[dict[str, Any]] = [
    {},
    {"positions": np.arange(33)},
    {"positions": np.tile(np.arange(33), (2, 1))},
    {"attention_mask": np.ones((2, 33), int)},
    {"offset": 0},
]


def with_zeros_from_row(array: np.ndarray, first: int) -> np.ndarray:
    """Return an array whose rows from `first` on are zero."""
    copy = array.copy()
    copy[:, :, first:] = 0
    return copy


@pytest.mark.parametrize("options", WAYS_TO_STATE_POSITIONS)
@pytest.mark.parametrize(("first_zero", "words"), [(32, "row 32 is"), (20, "rows 20–32 are")])
def test_zeros_at_the_end_of_rotated_queries_are_named(
    options: dict[str, Any], first_zero: int, words: str
) -> None:
    """Queries have rows 0 to 32. Those from 20 or 32 on are zero after the rotation, and not before
    it. WAYS_TO_STATE_POSITIONS are options that all state the positions 0 to 32.
    """
    after = with_zeros_from_row(ROTATED_QUERIES, first_zero)
    result = pecli.verify(after, LLAMA_2_7B, before=RANDOM_QUERIES, atol=1e-5, **options)
    (reason,) = result.diagnosis

    assert f"{words} zero after the rotation, and not before it" in reason


def test_zeros_before_the_rotation_are_named() -> None:
    """Rows 20 to 32, the last, are zero in the queries before the rotation only."""
    before = with_zeros_from_row(RANDOM_QUERIES, 20)
    result = pecli.verify(ROTATED_QUERIES, LLAMA_2_7B, before=before, atol=1e-5)

    assert "rows 20–32 are zero before the rotation" in result.diagnosis[0]


@pytest.mark.parametrize("options", WAYS_TO_STATE_POSITIONS)
def test_zeros_on_both_sides_of_the_rotation_pass(options: dict[str, Any]) -> None:
    """Rows from 20 on are padding: zero before and after the rotation. WAYS_TO_STATE_POSITIONS are
    options that all state the positions 0 to 32.
    """
    before = with_zeros_from_row(RANDOM_QUERIES, 20)
    after = with_zeros_from_row(ROTATED_QUERIES, 20)

    assert pecli.verify(after, LLAMA_2_7B, before=before, atol=1e-5, **options).passed


@pytest.mark.parametrize("is_zero_before", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_mistake_in_the_rows_before_the_zeros_is_named(is_zero_before: bool) -> None:
    """Rows from 20 on are zeros; rows 0 to 19 are rotated with base 500 instead of Llama 2's 10000,
    which is to be named.
    """
    before = with_zeros_from_row(RANDOM_QUERIES, 20) if is_zero_before else RANDOM_QUERIES
    after = with_zeros_from_row(QUERIES_BY_BASE_500, 20)
    result = pecli.verify(after, LLAMA_2_7B, before=before, atol=1e-5)

    assert any("base is 500" in line for line in result.diagnosis)


MASK = np.ones((2, 33), int)
MASK[1, :5] = 0
NAN_AND_INFINITIES = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_queries_that_is_not_finite_fails(value: float) -> None:
    """The second of two sequences begins with five tokens of padding, which `MASK` hides. After the
    rotation they may hold anything finite, such as 7; NaN there spreads through softmax.
    """
    positions_after_padding = np.maximum(np.arange(33) - 5, 0)
    after = ROTATED_QUERIES.copy()
    after[1] = pecli.apply(RANDOM_QUERIES[1], LLAMA_2_7B, positions=positions_after_padding)
    options: dict[str, Any] = {"before": RANDOM_QUERIES, "attention_mask": MASK, "atol": 1e-5}
    after[1, :, :5] = 7

    assert pecli.verify(after, LLAMA_2_7B, **options).passed

    after[1, 1, 3, 0] = value
    result = pecli.verify(after, LLAMA_2_7B, **options)
    assert result.diagnosis == ("array: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_tables_that_is_not_finite_fails(value: float) -> None:
    """Tables have cosines and sines of two sequences, the second of which begins with five tokens
    of padding, which `MASK` hides. These may hold anything finite, such as 7; NaN there spreads
    through softmax.
    """
    positions = np.stack([np.arange(33), np.maximum(np.arange(33) - 5, 0)])
    angles = positions[..., None] * 1e4 ** (-np.arange(64) / 64)
    dump = {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}
    dump["cos"][1, :5] = 7

    assert pecli.verify(dump, LLAMA_2_7B, attention_mask=MASK, atol=1e-5).passed

    dump["cos"][1, 0, 0] = value
    result = pecli.verify(dump, LLAMA_2_7B, attention_mask=MASK, atol=1e-5)
    assert result.problems == ("cos: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_sums_that_is_not_finite_fails(value: float) -> None:
    """Rows of a learned table were added to inputs of two sequences, the second of which begins
    with five tokens of padding, which `MASK` hides. NaN there spreads through softmax.
    """
    table = np.random.default_rng(1).normal(size=(40, 16)).astype("f4")
    before = np.random.default_rng(2).normal(size=(2, 33, 16)).astype("f4")
    positions = np.maximum(np.cumsum(MASK, axis=1) - 1, 0)
    after = before + table[positions]
    after[1, 2, 3] = value
    result = pecli.verify(after, table, before=before, attention_mask=MASK, atol=1e-5)

    assert result.problems == ("array: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_that_was_not_finite_before_the_rotation_passes_weakly(value: float) -> None:
    """The second of two sequences begins with five tokens of padding, which `MASK` hides. They are
    NaN or infinite before and after the rotation, so the rotation is not to blame: the check
    passes, with a remark.
    """
    before = RANDOM_QUERIES.copy()
    before[1, :, :5] = value
    positions = np.maximum(np.cumsum(MASK, axis=1) - 1, 0)
    after = pecli.apply(RANDOM_QUERIES, LLAMA_2_7B, positions=positions)
    after[1, :, :5] = value
    result = pecli.verify(after, LLAMA_2_7B, before=before, attention_mask=MASK, atol=1e-5)

    assert result.passed
    assert any("padding holds infinities or NaN" in line for line in result.weak)
