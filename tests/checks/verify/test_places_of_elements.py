"""Reasons name wrong rows and elements of queries by their indices in the file.

Random queries (2 sequences, 4 heads, 24 positions, 16 channels) are rotated here by the textbook
formula. The model is a Llama with 4 heads, base 10000.
"""

from typing import Any

import numpy as np
import pytest

import pecli
from pecli.engine.edits import Edit, ElementsWrong, HeadsWrong, RowsWrong
from pecli.explain.element_places import ElementPlaces

BATCH, HEADS, LENGTH, DIM = 2, 4, 24, 16
LLAMA_CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": HEADS * DIM,
    "num_attention_heads": HEADS,
}
QUERIES = np.random.default_rng(0).normal(size=(BATCH, HEADS, LENGTH, DIM))
LEFT_PADDING = np.array([[0, 0, 0] + [1] * 21] * BATCH)
"""An attention mask: the first three rows of both sequences are padding."""


def rotated_by_formula(x: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Rotate (…, positions, channels) in halves by the textbook formula."""
    angles = np.outer(positions, 1e4 ** (-np.arange(DIM // 2) / (DIM // 2)))
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


def edits_of_reasons(after: np.ndarray, mask: np.ndarray | None = None) -> list[tuple[Edit, ...]]:
    """Return the edits of each reason for which rotated queries fail."""
    verification = pecli.verify(after, LLAMA_CONFIG, before=QUERIES, attention_mask=mask, atol=1e-9)
    return [explanation.edits for explanation in verification.explanations]


ROTATED = rotated_by_formula(QUERIES, np.arange(LENGTH))
ROTATED_BEHIND_PADDING = rotated_by_formula(QUERIES, np.maximum(np.arange(LENGTH) - 3, 0))
"""With LEFT_PADDING, row 3 is the token at position 0."""


def test_a_wrong_row_behind_padding_has_its_number_in_the_file() -> None:
    """Row 10 is the token at position 7; padding is counted as rows."""
    after = ROTATED_BEHIND_PADDING.copy()
    after[:, :, 10] += 1
    assert edits_of_reasons(after, LEFT_PADDING) == [(RowsWrong((10,)),)]


def test_a_wrong_element_behind_padding_has_its_index_in_the_file() -> None:
    """Sequences that have padding of their own have a reason each."""
    after = ROTATED_BEHIND_PADDING.copy()
    after[0, 2, 10, 7] += 1
    after[1, 3, 20, 5] += 1
    assert edits_of_reasons(after, LEFT_PADDING) == [
        (ElementsWrong(((0, 2, 10, 7),)),),
        (ElementsWrong(((1, 3, 20, 5),)),),
    ]


def test_a_wrong_element_after_a_row_of_nan_has_its_index_in_the_file() -> None:
    """Row 3 of one head is NaN, and the search goes on without that row."""
    after = ROTATED.copy()
    after[0, 1, 3] = np.nan
    after[0, 2, 10, 7] += 1
    after[1, 3, 20, 5] += 1
    (edits,) = edits_of_reasons(after)
    assert edits == (ElementsWrong(((0, 2, 10, 7), (1, 3, 20, 5))), RowsWrong((3,)))


def test_a_wrong_element_of_the_only_wrong_head_has_its_index_in_the_file() -> None:
    """The search looks at head 2 of sequence 1 alone."""
    after = ROTATED.copy()
    after[1, 2, 10, 7] += 1
    assert edits_of_reasons(after) == [(ElementsWrong(((1, 2, 10, 7),)),)]


def test_every_wrong_element_of_a_batch_is_named() -> None:
    """Row 10 of sequence 0 is none of the few rows that are compared first."""
    after = ROTATED.copy()
    after[0, 2, 10, 7] += 1
    after[1, 3, 20, 5] += 1
    assert edits_of_reasons(after) == [(ElementsWrong(((0, 2, 10, 7), (1, 3, 20, 5))),)]


def test_wrong_heads_of_a_batch_are_named_with_their_sequence() -> None:
    after = ROTATED.copy()
    after[1, 2] = np.random.default_rng(1).normal(size=(LENGTH, DIM))
    assert edits_of_reasons(after) == [(HeadsWrong(((1, 2),)),)]


@pytest.mark.parametrize(
    ("places", "element", "index"),
    [
        pytest.param(
            ElementPlaces.of_whole((2, 8), rows=32), (8, 5, 7), (1, 0, 5, 7), id="whole tensor"
        ),
        pytest.param(
            ElementPlaces.of_whole((2, 8), rows=32).at_heads([3, 11]),
            (1, 5, 7),
            (1, 3, 5, 7),
            id="two heads",
        ),
        pytest.param(
            ElementPlaces.of_whole((), rows=4).at_rows(np.array([False, True, False, True])),
            (0, 1, 7),
            (3, 7),
            id="two rows of a tensor without heads",
        ),
        pytest.param(
            ElementPlaces.of_whole((2, 8), rows=32).with_axes_exchanged(),
            (32 + 20, 6, 7),
            (1, 6, 20, 7),
            id="rows taken for heads",
        ),
    ],
)
def test_an_element_of_a_part_has_an_index_in_the_whole_tensor(
    places: ElementPlaces, element: tuple[int, int, int], index: tuple[int, ...]
) -> None:
    """The element has a head, a row and a channel within the part; the indices are counted by hand.

    If the 32 rows of a tensor (2, 8, 32, channels) are taken for heads, the heads of its second
    sequence begin at 32, and its 8 heads are the rows.
    """
    assert places.element(*element) == index
