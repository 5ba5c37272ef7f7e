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
        pytest.param([[1j, 2j], [2j, 4j]], id="complex, although it is 1"),
        pytest.param([[1e308, 1e307], [1e308, 1e307]], id="too large to be squared"),
        pytest.param([[[1.0, 2.0]], [[2.0, 4.0]], [[3.0, 6.0]]], id="a stack of single rows"),
    ],
)
def test_a_rank_is_mentioned_only_of_matrices_of_real_numbers(values: Any) -> None:
    """A rank would be a second sentence. The squares of numbers near 1e308, which singular values
    require, are infinite; of complex matrices no rank is computed, only their magnitudes.
    """
    (shape_and_range,) = description_of(values)
    assert "rank" not in shape_and_range


def test_a_rank_that_is_full_is_not_mentioned() -> None:
    """The singular values of a diagonal matrix are its elements, here 1 and 1e-4: more than the 1e-5
    that may be rounding.
    """
    (shape_and_range,) = description_of([[1.0, 0.0], [0.0, 1e-4]])
    assert "rank" not in shape_and_range


def test_a_rank_is_counted_above_the_rounding_of_coarse_dtypes() -> None:
    """The singular values of a diagonal matrix are its elements, here 1 and 1e-5. A table in a coarse
    dtype has such small ones by rounding, so at most 1e-5 of the largest counts as zero.
    """
    _, rank = description_of([[1.0, 0.0], [0.0, 1e-5]])
    assert rank == "of rank 1, not 2"


def sentence_about_equal_rows(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the description of a tensor all of whose rows are 0, 1, 2, …

    No more than 8 elements are read whole, instead of 2 million.
    """
    monkeypatch.setattr("pecli.explain.description.MAX_FULL_READ", 8)
    return description_of(np.broadcast_to(np.arange(shape[-1]), shape))[0]


def test_a_small_tensor_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 × 2 are the 8 elements that are read whole."""
    sentence = sentence_about_equal_rows((4, 2), monkeypatch)
    assert sentence == "x: 4 × 2, int64, from 0 to 1, std 0.5"


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        pytest.param(
            (10, 2),
            "10 × 2, int64, of which 4 rows were looked at, from 0 to 1, std 0.5",
            id="20 elements: rows 0, 3, 6 and 9",
        ),
        pytest.param(
            (5, 4),
            "5 × 4, int64, of which 2 rows were looked at, from 0 to 3, std 1.118",
            id="20 elements: rows 0 and 3",
        ),
        pytest.param(
            (17,),
            "17, int64, of which 6 elements were looked at, from 0 to 15, std 5.123",
            id="17 elements: 0, 3, 6, 9, 12 and 15",
        ),
    ],
)
def test_every_third_row_of_a_tensor_three_times_too_large_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], words: str
) -> None:
    """If 8 elements may be read, the step is 20/8 or 17/8, rounded up: 3. A vector has elements in
    place of rows. The deviations are those of (0, 1), of 0 … 3 (√1.25) and of 0, 3, …, 15.
    """
    assert sentence_about_equal_rows(shape, monkeypatch) == f"x: {words}"


def test_only_the_first_elements_of_a_row_that_is_too_long_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One row of 17 elements is more than twice the 8 that may be read, and the first 8 of it are:
    0 … 7, whose deviation is √(63/12) = 2.291.
    """
    sentence = sentence_about_equal_rows((1, 17), monkeypatch)
    words = "of which 8 elements were looked at, from 0 to 7, std 2.291"
    assert sentence == f"x: 1 × 17, int64, {words}"


def test_the_rank_of_a_large_matrix_is_that_of_its_corner() -> None:
    """Of 300 columns, the first 256 of 256 rows are looked at; all rows are alike."""
    table = np.broadcast_to(np.arange(300.0), (300, 300))
    assert description_of(table)[1] == "256 × 256 of its elements are of rank 1, not 256"
