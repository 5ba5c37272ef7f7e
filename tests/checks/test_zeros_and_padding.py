"""Queries with rows of zeros after the prompt, and padding that holds NaN or infinity.

Random queries (2 sequences, 2 heads, 33 positions, 128 channels) are rotated by NumPy as Llama 2
does, and zeros, NaN and infinities are put in. A mask hides 5 tokens of padding at the beginning of
the second sequence.
"""

from typing import Any

import numpy as np
import pytest

import pecli

LLAMA_2_7B = "llama-2-7b"
RANDOM_QUERIES = np.random.default_rng(0).normal(size=(2, 2, 33, 128)).astype("f4")
"""2 sequences, 2 heads, 33 positions, 128 channels."""


def rotate_in_halves(queries: np.ndarray, positions: Any, base: float = 10000.0) -> np.ndarray:
    """Return queries rotated at positions (33,) or (2, 33), with channels (i, i + 64) as pairs."""
    angles = np.multiply.outer(positions, base ** (-np.arange(64) / 64))
    rotations = np.exp(1j * angles)[..., None, :, :]  # the same for both heads
    rotated = (queries[..., :64] + 1j * queries[..., 64:]) * rotations
    return np.concatenate([rotated.real, rotated.imag], axis=-1).astype(np.float32)


ROTATED_QUERIES = rotate_in_halves(RANDOM_QUERIES, np.arange(33))
"""Rotated as Llama 2 does, with base 10000."""
QUERIES_BY_BASE_500 = rotate_in_halves(RANDOM_QUERIES, np.arange(33), base=500.0)
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


MASK = np.array([[1] * 33, [0] * 5 + [1] * 28])
"""Two sequences of 33 tokens; the second begins with five tokens of padding."""
POSITIONS_AFTER_PADDING = np.array([[*range(33)], [0] * 5 + [*range(28)]])
"""The positions that MASK implies; those of padding are 0, and of no consequence."""
NAN_AND_INFINITIES = [np.nan, np.inf, -np.inf]
"""Values that attention, which multiplies padding by 0, turns into NaN for all tokens."""


def test_padding_of_queries_may_have_any_finite_values() -> None:
    """The second of two sequences begins with five tokens of padding, which a mask hides. After the
    rotation they may be anything finite, such as 7; with another mask, they are compared and fail.
    """
    after = rotate_in_halves(RANDOM_QUERIES, POSITIONS_AFTER_PADDING)
    after[1, :, :5] = 7
    check: dict[str, Any] = {"before": RANDOM_QUERIES, "atol": 1e-5, "reasons": False}

    assert pecli.verify(after, LLAMA_2_7B, attention_mask=MASK, **check).passed
    assert not pecli.verify(after, LLAMA_2_7B, attention_mask=np.ones_like(MASK), **check).passed


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_queries_that_is_not_finite_fails(value: float) -> None:
    """One number in the five tokens of padding of the second sequence is NaN or infinite after the
    rotation: a product with the weight 0 of attention is NaN then, and spoils the other tokens.
    """
    after = rotate_in_halves(RANDOM_QUERIES, POSITIONS_AFTER_PADDING)
    after[1, 1, 3, 0] = value  # sequence 1, head 1, token 3 of the padding, channel 0
    result = pecli.verify(after, LLAMA_2_7B, before=RANDOM_QUERIES, attention_mask=MASK, atol=1e-5)

    assert result.diagnosis == ("array: 1 of its values in padding are infinite or not numbers",)


def tables_after_padding() -> dict[str, np.ndarray]:
    """Return NumPy's cosines and sines of Llama 2, (2, 33, 64), with 7 in the cosines of padding."""
    angles = POSITIONS_AFTER_PADDING[..., None] * 10000.0 ** (-np.arange(64) / 64)
    cos = np.cos(angles).astype(np.float32)
    cos[1, :5] = 7
    return {"cos": cos, "sin": np.sin(angles).astype(np.float32)}


def test_padding_of_tables_may_have_any_finite_values() -> None:
    """Tables have a row for each token of two sequences. The five rows of padding in the second one,
    which a mask hides, have the cosine 7.
    """
    tables = tables_after_padding()
    assert pecli.verify(tables, LLAMA_2_7B, attention_mask=MASK, atol=1e-5).passed


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_tables_that_is_not_finite_fails(value: float) -> None:
    """One cosine in the five rows of padding of the second sequence is NaN or infinite: queries of
    padding become NaN by it, and spoil the other tokens in attention.
    """
    tables = tables_after_padding()
    tables["cos"][1, 0, 0] = value  # sequence 1, token 0 of the padding, pair 0
    result = pecli.verify(tables, LLAMA_2_7B, attention_mask=MASK, atol=1e-5)

    assert result.problems == ("cos: 1 of its values in padding are infinite or not numbers",)


LEARNED_TABLE = np.random.default_rng(1).normal(size=(40, 16)).astype(np.float32)
INPUTS = np.random.default_rng(2).normal(size=(2, 33, 16)).astype(np.float32)


def test_sums_with_a_learned_table_pass_at_positions_after_padding() -> None:
    """The model adds the row of each token's position to its input, and counts positions after the
    five tokens of padding, which a mask hides.
    """
    sums = INPUTS + LEARNED_TABLE[POSITIONS_AFTER_PADDING]
    result = pecli.verify(sums, LEARNED_TABLE, before=INPUTS, attention_mask=MASK, atol=1e-5)

    assert result.passed


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_of_sums_that_is_not_finite_fails(value: float) -> None:
    """Rows of a learned table were added to inputs. One of the sums in the five tokens of padding of
    the second sequence is NaN or infinite, which spoils the other tokens in attention.
    """
    sums = INPUTS + LEARNED_TABLE[POSITIONS_AFTER_PADDING]
    sums[1, 2, 3] = value  # sequence 1, token 2 of the padding, channel 3
    result = pecli.verify(sums, LEARNED_TABLE, before=INPUTS, attention_mask=MASK, atol=1e-5)

    assert result.problems == ("array: 1 of its values in padding are infinite or not numbers",)


@pytest.mark.parametrize("value", NAN_AND_INFINITIES)
def test_padding_that_was_not_finite_before_the_rotation_passes_weakly(value: float) -> None:
    """The five tokens of padding of the second sequence are NaN or infinite before and after the
    rotation, so that the rotation is not to blame: the check passes, with a remark.
    """
    before = RANDOM_QUERIES.copy()
    before[1, :, :5] = value
    after = rotate_in_halves(RANDOM_QUERIES, POSITIONS_AFTER_PADDING)
    after[1, :, :5] = value
    result = pecli.verify(after, LLAMA_2_7B, before=before, attention_mask=MASK, atol=1e-5)

    assert result.passed
    assert any("padding holds infinities or NaN" in line for line in result.weak)
