"""Statistics of tables (inspect --stats) are what NumPy computes, however the tables are cut into
slices.

Expected values are NumPy's of the whole array in float64, or by hand for small arrays; the quantile
of share s is element ⌊s · (n − 1)⌋ in order.
"""

import hashlib
import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from pecli.checks import quantiles, statistics
from pecli.checks.quantiles import SHARES
from pecli.checks.statistics import described, profile
from pecli.engine.table import table_of

NOT_FINITE = np.array([[1.0, np.nan], [np.inf, 3.0], [2.0, -np.inf]], np.float32)
COMPLEX_WITH_NAN_AND_INF = np.array(
    [[0, 1j, complex(1, np.nan), complex(-np.inf, 2)]], np.complex64
)


@pytest.fixture(params=[1 << 16, 60], ids=["one slice", "many slices"])
def slices(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SLICE_ELEMENTS", request.param)
    monkeypatch.setattr(quantiles, "QUANTILE_ELEMENTS", request.param)


@pytest.mark.usefixtures("slices")
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32]
)
def test_statistics_of_random_values_are_those_of_numpy(dtype: type) -> None:
    """`profile` reads an array in slices, one or many by the fixture; NumPy computes the expected
    values from the whole array in float64. The quantile of share s is element ⌊s · (n − 1)⌋ in
    order.
    """
    array = (np.random.default_rng(1).standard_normal((97, 33)) * 50).astype(dtype)
    array[3, 4] = 0  # There is one zero at least.
    found = profile(array)
    values = array.astype(np.float64)
    ordered = np.sort(values, axis=None)
    norms = np.linalg.norm(values, axis=1)

    for share in SHARES:
        assert found["quantiles"][f"{share:g}"] == ordered[int(share * (array.size - 1))]
    assert math.isclose(found["std"], values.std(), rel_tol=1e-12)
    assert found["zeros"] == np.count_nonzero(values == 0)
    assert math.isclose(found["rows"]["norm"]["mean"], norms.mean(), rel_tol=1e-12)
    assert math.isclose(found["rows"]["norm"]["max"], norms.max(), rel_tol=1e-12)


def test_the_statistics_of_a_matrix_of_2_by_2_are_those_computed_by_hand() -> None:
    """The mean of 3, 4, 0 and 0 is 7/4 = 1.75, the variance 25/4 − 1.75² = 3.1875. In order they
    are 0, 0, 3, 4: the quantile of share s is element ⌊3 · s⌋, so that of 0.75 is 3 and that of
    0.99 too. The norm of (3, 4) is 5; the row (0, 0) is constant.
    """
    array = np.array([[3.0, 4.0], [0.0, 0.0]])
    assert profile(array) == {
        "shape": [2, 2],
        "dtype": "float64",
        "min": 0,
        "max": 4,
        "mean": 1.75,
        "std": 3.1875**0.5,
        "quantiles": {"0.01": 0, "0.25": 0, "0.5": 0, "0.75": 3, "0.99": 3},
        "zeros": 2,
        "nan": 0,
        "inf": 0,
        "rows": {"norm": {"min": 0, "max": 5, "mean": 2.5}, "constant": 1},
        "sha256": hashlib.sha256(array.tobytes()).hexdigest(),
    }


def test_quantiles_are_right_although_the_sample_holds_only_the_largest_numbers() -> None:
    """Quantiles are sought around those of a sample, here of every fifth element. Exactly these are
    1, a fifth of all, and the others 0: only the quantile of 0.99 is above the lower 80 %.
    """
    array = np.where(np.arange(1 << 18) % 5, 0, 1)[:, None]
    expected = {"0.01": 0, "0.25": 0, "0.5": 0, "0.75": 0, "0.99": 1}

    assert profile(array)["quantiles"] == expected


def test_quantiles_are_right_although_the_sample_lacks_the_largest_numbers() -> None:
    """Quantiles are sought around those of a sample, here of every fifth element. These are 0 and 1 in
    turn, and all others 2. So the lowest 10 % of all elements are 0, the next 10 % are 1, and the
    upper 80 % are 2.
    """
    numbers = np.arange(1 << 18)
    in_sample = numbers // 5 % 2
    array = np.where(numbers % 5, 2, in_sample)[:, None]
    expected = {"0.01": 0, "0.25": 2, "0.5": 2, "0.75": 2, "0.99": 2}

    assert profile(array)["quantiles"] == expected


@pytest.mark.parametrize("share_of_zeros", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_quantiles_of_a_padded_table_are_those_of_its_sorted_elements(
    share_of_zeros: float,
) -> None:
    """The last rows of 400,000 random numbers are zeros. The quantile of share s is element
    ⌊s · (n − 1)⌋ of NumPy's sorted array; some lie among the zeros, and some at their edge.
    """
    table = np.random.default_rng(0).normal(size=(100_000, 4)).astype(np.float32)
    table[round(100_000 * (1 - share_of_zeros)) :] = 0
    ordered = np.sort(table, axis=None)
    expected = [float(ordered[int(share * (table.size - 1))]) for share in SHARES]

    assert [*profile(table)["quantiles"].values()] == expected


def test_quantiles_of_a_padded_table_take_less_memory_than_half_of_it() -> None:
    """Sorting a table would take a copy of it, here 16 MiB. 1,000 of its 16,384 rows are noise, 6 %,
    half of it below 0: the quantiles of 0.01 and 0.99 are noise, and the three between are zeros
    like most of the table.
    """
    table = np.zeros((1 << 14, 256), np.float32)
    table[:1000] = np.random.default_rng(0).normal(size=(1000, 256))
    tracemalloc.start()
    try:
        statistics_of_table = profile(table)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    low, *between, high = statistics_of_table["quantiles"].values()
    assert low < 0 < high
    assert between == [0, 0, 0]
    assert peak_bytes < table.nbytes / 2


def test_quantiles_are_elements_and_never_means_of_two() -> None:
    """The quantile of share s is element ⌊s · (n − 1)⌋ in order, here 0, 1, 2, 3 and 3 of 5; a
    mean of two neighbours would be no element.
    """
    values = np.array([-1e300, -1e-300, 0.1, 2e-310, 1e200])
    assert profile(values)["quantiles"] == {
        "0.01": -1e300,
        "0.25": -1e-300,
        "0.5": 2e-310,
        "0.75": 0.1,
        "0.99": 0.1,
    }


def test_quantiles_of_integers_are_exact_beyond_float32() -> None:
    """The lower of two numbers is 2^24 + 1, the first integer that float32 cannot hold; `profile`
    must give it as the median.
    """
    assert profile(np.array([2**24 + 1, 2**40 + 1]))["quantiles"]["0.5"] == 2**24 + 1


def test_quantiles_are_of_finite_values() -> None:
    """NOT_FINITE has 1, 2 and 3 beside NaN and both infinities: their median is 2."""
    assert profile(NOT_FINITE)["quantiles"]["0.5"] == 2.0


def test_an_array_of_nan_has_no_quantiles() -> None:
    """`profile` returns the statistics of an array; of four NaNs there are no quantiles."""
    assert profile(np.full((2, 2), np.nan))["quantiles"] is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("nan", 1), ("inf", 2), ("mean", None), ("std", None), ("min", None), ("max", None)],
)
def test_values_that_are_not_finite_are_counted(name: str, value: int | None) -> None:
    """The array holds 1, 2, 3, one NaN and two infinities: these are counted, and no mean,
    deviation or range is reported then.
    """
    assert profile(NOT_FINITE)[name] == value


@pytest.mark.parametrize(
    ("name", "value"), [("zeros", 1), ("nan", 1), ("inf", 1), ("min", None), ("quantiles", None)]
)
def test_complex_numbers_are_counted_but_have_no_range_and_quantiles(
    name: str, value: int | None
) -> None:
    """The array holds 0, i, 1 + NaN · i and −∞ + 2i: one zero, one NaN and one infinity. Complex
    numbers have no order.
    """
    assert profile(COMPLEX_WITH_NAN_AND_INF)[name] == value


@pytest.mark.parametrize(("value", "count"), [(np.inf, 1), (-np.inf, 1), (2.0, 0)])
def test_infinite_values_of_a_vector_are_counted(value: float, count: int) -> None:
    """`profile` returns the statistics of (1, value); its field «inf» counts +inf and −inf."""
    assert profile(np.array([1.0, value]))["inf"] == count


@pytest.mark.parametrize(
    ("values", "deviation"),
    [
        pytest.param(np.empty((0, 3)), None, id="no rows"),
        pytest.param(np.empty(0), None, id="no numbers"),
        pytest.param(4.0, 0, id="a single number"),
        pytest.param([1j], None, id="complex"),
        pytest.param(np.full((2, 2), np.nan), None, id="NaN"),
        pytest.param(np.full((2, 2), -1e308), None, id="squares that overflow"),
    ],
)
def test_the_standard_deviation_is_none_if_it_is_not_a_finite_number(
    values: Any, deviation: float | None
) -> None:
    """No numbers, complex numbers and NaN have no deviation, and the squares of −1e308 overflow. A
    single number has the deviation 0.
    """
    assert profile(np.array(values))["std"] == deviation


@pytest.mark.parametrize(
    ("array", "rows"),
    [
        (np.ones(3), None),
        (np.ones((2, 2)) * 1j, None),
        (np.empty((0, 3)), {"norm": None, "constant": 0}),
        (
            np.ones((2, 2)),
            {"norm": {"min": 2**0.5, "max": 2**0.5, "mean": 2**0.5}, "constant": 2},
        ),
    ],
    ids=["a vector", "complex", "empty", "ones"],
)
def test_only_rows_of_real_matrices_have_norms(array: Any, rows: dict[str, Any] | None) -> None:
    """The norm of (1, 1) is √2; a row is constant if all its numbers are equal."""
    assert profile(array).get("rows") == rows


@pytest.mark.usefixtures("slices")
def test_rows_of_equal_numbers_are_counted_as_constant() -> None:
    """Rows 5 and 70 of 90 hold 2.5 throughout, the others random numbers."""
    array = np.random.default_rng(2).standard_normal((90, 17)).astype(np.float32)
    array[[5, 70]] = 2.5

    assert profile(array)["rows"]["constant"] == 2


@pytest.mark.parametrize("rows_per_block", [1, 3, 1000])
def test_a_description_made_in_blocks_is_that_of_the_whole_array(
    rows_per_block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An array of 101 rows and 7 columns of float32 (4 bytes) is read in blocks of 1, 3 or all
    rows; the expected values are NumPy's and hashlib's of the whole array.
    """
    array = np.random.default_rng(1).standard_normal((101, 7)).astype(np.float32)
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", rows_per_block * 7 * 4)
    found = described(table_of("t", array))

    assert found["min"] == array.min()
    assert found["max"] == array.max()
    assert found["mean"] == pytest.approx(array.astype(np.float64).mean(), abs=1e-15)
    assert found["sha256"] == hashlib.sha256(array.tobytes()).hexdigest()
