"""The sentence that describes a table which no scheme explains: shape, dtype, range and standard
deviation.

Expected numbers follow from the small arrays in the tests.
"""

from typing import Any

import numpy as np
import pytest

from pecli.explain.description import describe


def description_of(values: Any) -> str:
    return describe("x", np.asarray(values))


def test_a_single_number_is_described() -> None:
    """`describe` writes a sentence about an array that no scheme explains; here about int8(7)."""
    assert description_of(np.int8(7)) == "x: a single number, int8, all 7"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        pytest.param(np.zeros((0, 3)), "x: 0 × 3, float64, empty", id="an empty array"),
        pytest.param([1.0, 3.0], "x: 2, float64, from 1 to 3, std 1", id="a vector"),
        pytest.param(
            [1.0, np.nan],
            "x: 2, float64, 1 of 2 elements are infinite or not numbers, all 1",
            id="one NaN",
        ),
        pytest.param(
            [np.nan, np.inf],
            "x: 2, float64, 2 of 2 elements are infinite or not numbers",
            id="no finite number",
        ),
        pytest.param(
            [[3j, 4j], [4j, 3j]],
            "x: 2 × 2, complex128, from 3 to 4, std 0.5",
            id="complex numbers",
        ),
        pytest.param(
            [[1.0, 2.0], [2.0, 4.0]],
            "x: 2 × 2, float64, from 1 to 4, std 1.09",
            id="integers as floats",
        ),
        pytest.param([[1.0, 2.0]], "x: 1 × 2, float64, from 1 to 2, std 0.5", id="one row"),
        pytest.param([[1.0], [2.0]], "x: 2 × 1, float64, from 1 to 2, std 0.5", id="one column"),
        pytest.param(
            [[1.0, 2.0], [2.0, 1.0]], "x: 2 × 2, float64, from 1 to 2, std 0.5", id="of full rank"
        ),
        pytest.param(np.full((4, 4), 2.0), "x: 4 × 4, float64, all 2", id="all equal"),
        pytest.param(
            [[1.0, 1.0], [1.0, np.inf]],
            "x: 2 × 2, float64, 1 of 4 elements are infinite or not numbers, all 1",
            id="one infinity",
        ),
    ],
)
def test_a_table_is_described_by_shape_range_and_deviation(values: Any, sentence: str) -> None:
    """((1, 2), (2, 4)) has the mean 2.25 and the standard deviation √1.1875 = 1.09. Complex numbers are described by their magnitudes: 3j and 4j are
    3 and 4. Numbers that are not finite are counted, and left out of the rest.
    """
    assert description_of(values) == sentence


def test_numbers_whose_squares_are_infinite_are_described() -> None:
    """The mean and the deviation of numbers near 1e308 overflow; their range does not."""
    assert description_of([[1e308, 1e307]]).startswith("x: 1 × 2, float64, from 1e+307 to 1e+308")


def sentence_about_equal_rows(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the description of a tensor all of whose rows are 0, 1, 2, …

    No more than 8 elements are read, instead of millions, in runs of 2 neighbours.
    """
    monkeypatch.setattr("pecli.explain.description.MAX_FULL_READ", 8)
    monkeypatch.setattr("pecli.explain.description.DESCRIBED_ELEMENTS", 8)
    monkeypatch.setattr("pecli.explain.description.RUN", 2)
    return description_of(np.broadcast_to(np.arange(shape[-1]), shape))


def test_a_small_tensor_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """4 × 2 are the 8 elements that are read whole."""
    sentence = sentence_about_equal_rows((4, 2), monkeypatch)
    assert sentence == "x: 4 × 2, int64, from 0 to 1, std 0.5"


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        pytest.param(
            (10, 2),
            "10 × 2, int64, of which 8 elements were looked at, from 0 to 1, std 0.5",
            id="20 elements, every third run: 0 1, 0 1, 0 1, 0 1",
        ),
        pytest.param(
            (17,),
            "17, int64, of which 6 elements were looked at, from 0 to 13, std 4.924",
            id="17 elements, every third run: 0 1, 6 7, 12 13",
        ),
        pytest.param(
            (1, 4, 4),
            "1 × 4 × 4, int64, of which 8 elements were looked at, from 0 to 1, std 0.5",
            id="16 elements, every second run: 0 1, 0 1, 0 1, 0 1",
        ),
    ],
)
def test_evenly_spaced_runs_of_a_large_tensor_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], words: str
) -> None:
    """If 8 elements may be read, every third run is: 20/8 and 17/8, rounded up; of 16 every second. The
    mean of 0, 1, 6, 7, 12 and 13 is 6.5, and their deviation √24.25.
    """
    assert sentence_about_equal_rows(shape, monkeypatch) == f"x: {words}"
