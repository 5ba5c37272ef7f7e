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
OTHER_BASE = pecli.apply(RANDOM_QUERIES, pecli.Rope(33, 128, base=500.0), layout="halves")
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


@pytest.mark.parametrize("place", WAYS_TO_STATE_POSITIONS)
@pytest.mark.parametrize(("first", "words"), [(32, "row 32 is"), (20, "rows 20–32 are")])
def test_zeros_at_the_end_are_named(place: dict[str, Any], first: int, words: str) -> None:
    """Rows from 20 or 32 on are zero after the rotation, and not before it. `place` states the
    positions 0 to 32 in the ways of WAYS_TO_STATE_POSITIONS.
    """
    result = pecli.verify(
        with_zeros_from_row(ROTATED_QUERIES, first),
        LLAMA_2_7B,
        before=RANDOM_QUERIES,
        atol=1e-5,
        **place,
    )
    (reason,) = result.diagnosis

    assert f"{words} zero after the rotation, and not before it" in reason


def test_zeros_before_the_rotation_are_named() -> None:
    """Rows from 20 on are zero in the queries before the rotation only."""
    result = pecli.verify(
        ROTATED_QUERIES, LLAMA_2_7B, before=with_zeros_from_row(RANDOM_QUERIES, 20), atol=1e-5
    )
    assert "rows 20–32 are zero before the rotation" in result.diagnosis[0]


@pytest.mark.parametrize("place", WAYS_TO_STATE_POSITIONS)
def test_zeros_on_both_sides_pass(place: dict[str, Any]) -> None:
    """Rows from 20 on are padding: zero before and after the rotation."""
    after = with_zeros_from_row(ROTATED_QUERIES, 20)
    assert pecli.verify(
        after, LLAMA_2_7B, before=with_zeros_from_row(RANDOM_QUERIES, 20), atol=1e-5, **place
    ).passed


@pytest.mark.parametrize("is_zero_before", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_mistake_in_the_rows_before_the_zeros_is_named(is_zero_before: bool) -> None:
    """Rows from 20 on are zeros; rows 0 to 19 are rotated with base 500 instead of 10000, which is
    to be named.
    """
    before = with_zeros_from_row(RANDOM_QUERIES, 20) if is_zero_before else RANDOM_QUERIES
    result = pecli.verify(with_zeros_from_row(OTHER_BASE, 20), LLAMA_2_7B, before=before, atol=1e-5)

    assert any("base is 500" in line for line in result.diagnosis)


MASK = np.ones((2, 33), int)
MASK[1, :5] = 0
NAN_AND_INFINITIES = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_queries_that_is_not_finite_fails(value: float) -> None:
    """Five rows of padding may hold anything finite; NaN there spreads through softmax."""
    after = ROTATED_QUERIES.copy()
    after[1] = pecli.apply(
        RANDOM_QUERIES[1], LLAMA_2_7B, positions=np.maximum(np.arange(33) - 5, 0)
    )
    options: dict[str, Any] = {"before": RANDOM_QUERIES, "attention_mask": MASK, "atol": 1e-5}
    after[1, :, :5] = 7

    assert pecli.verify(after, LLAMA_2_7B, **options).passed

    after[1, 1, 3, 0] = value
    result = pecli.verify(after, LLAMA_2_7B, **options)
    assert result.diagnosis == ("array: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_tables_that_is_not_finite_fails(value: float) -> None:
    """Five rows of padding may hold anything finite; NaN there spreads through softmax."""
    places = np.stack([np.arange(33), np.maximum(np.arange(33) - 5, 0)])
    angles = places[..., None] * 1e4 ** (-np.arange(64) / 64)
    dump = {"cos": np.cos(angles).astype("f4"), "sin": np.sin(angles).astype("f4")}
    dump["cos"][1, :5] = 7

    assert pecli.verify(dump, LLAMA_2_7B, attention_mask=MASK, atol=1e-5).passed

    dump["cos"][1, 0, 0] = value
    result = pecli.verify(dump, LLAMA_2_7B, attention_mask=MASK, atol=1e-5)
    assert result.problems == ("cos: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_sums_that_is_not_finite_fails(value: float) -> None:
    """Rows of a learned table were added to inputs with five rows of padding."""
    table = np.random.default_rng(1).normal(size=(40, 16)).astype("f4")
    before = np.random.default_rng(2).normal(size=(2, 33, 16)).astype("f4")
    places = np.maximum(np.cumsum(MASK, axis=1) - 1, 0)
    after = before + table[places]
    after[1, 2, 3] = value
    result = pecli.verify(after, table, before=before, attention_mask=MASK, atol=1e-5)

    assert result.problems == ("array: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_that_was_not_finite_before_is_weak(value: float) -> None:
    """Padding is NaN or infinite before and after the rotation; `weak` are remarks on a pass that
    proves little.
    """
    before = RANDOM_QUERIES.copy()
    before[1, :, :5] = value
    places = np.maximum(np.cumsum(MASK, axis=1) - 1, 0)
    after = pecli.apply(RANDOM_QUERIES, LLAMA_2_7B, positions=places)
    after[1, :, :5] = value
    result = pecli.verify(after, LLAMA_2_7B, before=before, attention_mask=MASK, atol=1e-5)

    assert result.passed
    assert any("padding holds infinities or NaN" in line for line in result.weak)
