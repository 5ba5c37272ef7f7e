"""Tables with more rows and columns than a picture has room for are reduced to fewer.

Rows are averaged, and columns are left out; other rules keep the largest magnitude, or every n-th
row and column. Expected values are means and choices that NumPy or `statistics` make of the whole
array, or arrays that are small enough to be written down.
"""

import statistics
from itertools import pairwise

import numpy as np
import pytest

from pecli.engine.table import Table, table_of
from pecli.views.pictures.downsample import Reduction, envelope, fitted_to, reduced, stride


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_means_of_rows_are_those_of_numpy(monkeypatch, dtype: type) -> None:
    """1,200 rows in 30 are means of 40; of 24 columns in 8, every third is kept. The table is read
    in blocks of 1,000 bytes, and NumPy averages the whole array.
    """
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = (np.random.default_rng(0).normal(size=(1200, 24)) * 100).astype(dtype)
    means = reduced(table_of("x", array), rows=30, columns=8)

    expected = array.astype(float).reshape(30, 40, 24)[:, :, ::3].mean(axis=1)
    np.testing.assert_allclose(means, expected, rtol=1e-12, atol=1e-12)


def array_with_nan_and_infinities() -> np.ndarray:
    """Return 400 rows of ones, with NaN in row 5, ∞ in row 150, and −∞ in rows 200 to 299."""
    array = np.ones((400, 6))
    array[5, 0] = np.nan
    array[150, 1] = np.inf
    array[200:300, 2] = -np.inf
    return array


def test_nan_and_infinities_survive_averaging(monkeypatch) -> None:
    """Each of the 4 means is of 100 rows."""
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    means = reduced(table_of("x", array_with_nan_and_infinities()), rows=4, columns=6)

    assert np.isnan(means[0, 0])
    assert means[1, 1] == np.inf
    assert means[2, 2] == -np.inf
    assert means[3, 3] == 1.0


def test_an_array_has_the_same_means_as_a_table_that_is_read_in_blocks(monkeypatch) -> None:
    """NaN and infinities are among the numbers; blocks have 1,000 bytes."""
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = array_with_nan_and_infinities()
    means = reduced(table_of("x", array), rows=4, columns=6)
    np.testing.assert_array_equal(fitted_to(array, rows=4, columns=6), means)


@pytest.mark.parametrize(("length", "count"), [(6, 3), (7, 3), (100, 7), (5, 4), (60, 59)], ids=str)
def test_each_row_is_the_mean_of_its_share(length: int, count: int) -> None:
    """Share k of 7 rows in 3 begins at row 7k // 3. The means are computed with statistics.fmean."""
    values = np.random.default_rng(0).integers(-50, 50, (length, 1)).astype(float)
    edges = [k * length // count for k in range(count + 1)]
    expected = [statistics.fmean(values[a:b, 0].tolist()) for a, b in pairwise(edges)]

    means = fitted_to(values, rows=count, columns=1)[:, 0]
    assert means == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_means_of_one_number_are_that_number_to_the_last_bit() -> None:
    """Nine lines of pixels stand for 64 rows, so that some lines hold more rows than others."""
    means = fitted_to(np.full((64, 64), 0.25), rows=9, columns=64)
    assert set(means.ravel().tolist()) == {0.25}


def test_the_largest_magnitude_of_a_cell_survives() -> None:
    """Row 617 of 1,000 is in cell 6 of 10, column 22 of 40 in cell 2 of 4."""
    values = np.zeros((1000, 40))
    values[617, 22] = -3.0
    cells = fitted_to(values, 10, 4, Reduction.MAX)

    assert cells[6, 2] == -3.0
    assert np.count_nonzero(cells) == 1


def test_a_diagonal_that_is_sampled_stays_one() -> None:
    """100 rows in 30 and 100 columns in 45 are every fourth row and every fourth column."""
    cells = fitted_to(np.eye(100), 30, 45, Reduction.SAMPLE)
    np.testing.assert_array_equal(cells, np.eye(25))


@pytest.mark.parametrize("reduction", [Reduction.MEAN, Reduction.MAX, Reduction.SAMPLE])
def test_an_array_that_fits_stays_as_it_is(reduction: Reduction) -> None:
    """`fitted_to` reduces an array to at most 5 × 3 elements for a picture; this one has 2 × 3."""
    values = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    np.testing.assert_array_equal(fitted_to(values, 5, 3, reduction), values)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["rising", "falling"])
def test_a_long_curve_that_rises_is_drawn_rising(sign: float) -> None:
    """Each of 2,000 pieces of the square root is drawn by its lowest and its highest point. If they
    were always in this order, a falling curve would be drawn as a saw.
    """
    x = np.arange(4096.0)
    drawn_x, drawn_y = envelope(x, sign * np.sqrt(x), 2000)

    assert len(drawn_y) == 4000
    assert (np.diff(drawn_x) >= 0).all()
    assert (sign * np.diff(drawn_y) >= 0).all()


@pytest.mark.parametrize("spike", [1.0, -1.0])
def test_a_long_curve_keeps_its_spikes(spike: float) -> None:
    """`envelope` reduces 4,096 points to 500 pieces; the only one that is not 0 must survive."""
    y = np.zeros(4096)
    y[1234] = spike
    _, drawn_y = envelope(np.arange(4096.0), y, 500)
    assert spike in drawn_y


@pytest.mark.parametrize(("count", "room", "step"), [(0, 5, 1), (5, 0, 5), (6, 3, 2), (7, 3, 3)])
def test_a_stride_leaves_no_more_than_there_is_room_for(count: int, room: int, step: int) -> None:
    """`room` of `count` columns can be drawn if every `step`-th is taken."""
    assert stride(count, room) == step


def test_the_larger_magnitude_wins_and_of_equal_ones_the_positive() -> None:
    """Each pair of rows becomes one: of 1 and −1 the positive one, of −3 and 2 the larger."""
    values = np.array([[1.0], [-1.0], [-3.0], [2.0]])
    assert fitted_to(values, 2, 1, Reduction.MAX).tolist() == [[1.0], [-3.0]]


def test_a_piece_of_a_curve_is_its_lowest_and_its_highest_point() -> None:
    """Six points become one piece."""
    _, y = envelope(np.arange(6.0), np.array([0.0, 1, 0, 0, 1, 0]), 1)
    assert y.tolist() == [0.0, 1.0]


def test_a_short_curve_keeps_its_gap() -> None:
    """NaN is a gap; four points are twice two pieces, so that all are kept."""
    y = np.array([np.nan, 1, 2, 3])
    np.testing.assert_array_equal(envelope(np.arange(4.0), y, 2)[1], y)


@pytest.mark.parametrize("shape", [(6, 70000), (40, 40000), (9, 3)])
def test_means_are_of_equal_shares_of_rows_whatever_the_width(shape: tuple[int, int]) -> None:
    """The expected means are taken by NumPy, over rows k · n / count to (k + 1) · n / count."""
    values = np.random.default_rng(0).normal(size=shape)
    count = shape[0] // 2
    edges = np.arange(count + 1) * shape[0] // count
    columns = values[:, :: stride(shape[1], 50)]
    expected = [columns[start:stop].mean(axis=0) for start, stop in pairwise(edges)]

    np.testing.assert_allclose(reduced(table_of("t", values), count, 50), expected)


def test_means_of_very_many_rows_are_of_some_of_them() -> None:
    """All elements are 0.25, so are the means of any of them."""
    table = table_of("t", np.full((1 << 16, 64), 0.25))
    assert reduced(table, 2, 4).tolist() == [[0.25] * 4] * 2


def test_of_very_many_rows_only_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row k holds k. The means of the halves of 100,000 rows are near 25,000 and 75,000, although
    at most 400 elements of 4 columns may be read, twice.
    """
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    monkeypatch.setattr("pecli.views.pictures.downsample.MAX_ELEMENTS", 400)
    rows_read = []

    def fill(start: int, out: np.ndarray) -> None:
        rows_read.append(len(out))
        out[:] = np.arange(start, start + len(out))[:, None]

    means = reduced(Table("x", "float64", (100_000, 4), fill), 2, 4)

    np.testing.assert_allclose(means[:, 0], [25_000, 75_000], rtol=0.05)
    assert sum(rows_read) <= 2 * 400 / 4
