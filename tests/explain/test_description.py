"""The sentences that describe a table which no scheme explains: shape, dtype, range, standard
deviation and rank.

Expected numbers follow from the small arrays in the tests.
"""

from typing import Any

import numpy as np
import pytest

from pecli.explain.description import describe


def description_of(values: Any) -> list[str]:
    return describe("x", np.asarray(values))


def test_a_single_number_is_described() -> None:
    """`describe` writes sentences about an array that no scheme explains; here about int8(7)."""
    assert description_of(np.int8(7)) == ["x: a single number, int8, all 7"]


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        pytest.param(np.zeros((0, 3)), ["x: 0 × 3, float64, empty"], id="an empty array"),
        pytest.param([1.0, 3.0], ["x: 2, float64, from 1 to 3, std 1"], id="a vector"),
        pytest.param(
            [1.0, np.nan],
            ["x: 2, float64, 1 of 2 elements are infinite or not numbers, all 1"],
            id="one NaN",
        ),
        pytest.param(
            [np.nan, np.inf],
            ["x: 2, float64, 2 of 2 elements are infinite or not numbers"],
            id="no finite number",
        ),
        pytest.param(
            [[3j, 4j], [4j, 3j]],
            ["x: 2 × 2, complex128, from 3 to 4, std 0.5"],
            id="complex numbers",
        ),
        pytest.param(
            [[1.0, 2.0], [2.0, 4.0]],
            ["x: 2 × 2, float64, from 1 to 4, std 1.09", "of rank 1, not 2"],
            id="of rank 1",
        ),
        pytest.param([[1.0, 2.0]], ["x: 1 × 2, float64, from 1 to 2, std 0.5"], id="one row"),
        pytest.param([[1.0], [2.0]], ["x: 2 × 1, float64, from 1 to 2, std 0.5"], id="one column"),
        pytest.param(
            [[1.0, 2.0], [2.0, 1.0]], ["x: 2 × 2, float64, from 1 to 2, std 0.5"], id="of full rank"
        ),
        pytest.param(np.full((4, 4), 2.0), ["x: 4 × 4, float64, all 2"], id="all equal"),
        pytest.param(
            [[1.0, 1.0], [1.0, np.inf]],
            ["x: 2 × 2, float64, 1 of 4 elements are infinite or not numbers, all 1"],
            id="one infinity",
        ),
    ],
)
def test_a_table_is_described_by_shape_range_deviation_and_a_rank_that_is_not_full(
    values: Any, sentences: list[str]
) -> None:
    """((1, 2), (2, 4)) has the mean 2.25, the standard deviation √1.1875 = 1.09, and rank 1, as its
    second row is twice the first. Complex numbers are described by their magnitudes: 3j and 4j are
    3 and 4. Numbers that are not finite are counted, and left out of the rest.
    """
    assert description_of(values) == sentences


@pytest.mark.parametrize(
    "values",
    [
        [[1.0, 0.0], [0.0, 1e-4]],
        [[1j, 2j], [2j, 4j]],
        [[1e308, 1e307], [1e308, 1e307]],
        np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0]).reshape(4, 1, 2),
    ],
    ids=["full rank", "complex", "too large", "a stack of rows"],
)
def test_no_rank_is_mentioned_if_it_is_full_or_cannot_be_told(values: Any) -> None:
    """A rank would be a second sentence. Singular values of numbers as large as 1e308 overflow; a
    stack of single rows is no matrix.
    """
    (shape_and_range,) = description_of(values)
    assert "rank" not in shape_and_range


def test_a_rank_is_counted_above_the_rounding_of_coarse_dtypes() -> None:
    """The singular values are 1 and 1e-5. A table in a coarse dtype has such by rounding, so 1e-5 of
    the largest counts as zero (1e-4 does not, in the test above).
    """
    _, rank = description_of([[1.0, 0.0], [0.0, 1e-5]])
    assert rank == "of rank 1, not 2"


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((4, 2), "from 0 to 1, std 0.5"),
        ((10, 2), "of which 4 rows were looked at, from 0 to 1, std 0.5"),
        ((5, 4), "of which 2 rows were looked at, from 0 to 3, std 1.118"),
        ((1, 17), "of which 8 elements were looked at, from 0 to 7, std 2.291"),
        ((17,), "of which 6 elements were looked at, from 0 to 15, std 5.123"),
    ],
)
def test_some_rows_or_elements_of_a_large_tensor_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], words: str
) -> None:
    """Every row is 0, 1, 2, …; a tensor of more than 8 elements is looked at in part: in every third
    of 10 rows of 2 (4 rows), and in every third of 17 numbers (0, 3, …, 15). Rows of more than 16
    elements are cut to their first 8.
    """
    monkeypatch.setattr("pecli.explain.description.MAX_FULL_READ", 8)
    (sentence, *_) = description_of(np.broadcast_to(np.arange(shape[-1]), shape))

    assert sentence == f"x: {' × '.join(map(str, shape))}, int64, {words}"


def test_the_rank_of_a_large_matrix_is_that_of_its_corner() -> None:
    """Of 300 columns, the first 256 of 256 rows are looked at; all rows are alike."""
    table = np.broadcast_to(np.arange(300.0), (300, 300))
    assert description_of(table)[1] == "256 × 256 of its elements are of rank 1, not 256"
