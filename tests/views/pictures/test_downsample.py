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
def test_rows_are_averaged_and_columns_left_out(monkeypatch, dtype: type) -> None:
    """1,200 rows become 30 means of 40 rows; of 24 columns, every third is kept. The table is read
    in blocks of 1,000 bytes; the expected means are NumPy's, of the whole array.
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
    """Of 400 rows of ones, row 5 has a NaN, row 150 an ∞, and rows 200 to 299 have −∞, each in
    another column. Each of the 4 means is of 100 rows.
    """
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    means = reduced(table_of("x", array_with_nan_and_infinities()), rows=4, columns=6)

    assert np.isnan(means[0, 0])
    assert means[1, 1] == np.inf
    assert means[2, 2] == -np.inf
    assert means[3, 3] == 1.0


def test_an_array_has_the_same_means_as_a_table_that_is_read_in_blocks(monkeypatch) -> None:
    """`fitted_to` averages an array in memory, `reduced` a table in blocks, here of 1,000 bytes.
    NaN and infinities are among the numbers.
    """
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = array_with_nan_and_infinities()
    means = reduced(table_of("x", array), rows=4, columns=6)
    np.testing.assert_array_equal(fitted_to(array, rows=4, columns=6), means)


@pytest.mark.parametrize(("length", "count"), [(6, 3), (7, 3), (100, 7), (5, 4), (60, 59)], ids=str)
def test_each_cell_is_the_mean_of_its_share_of_rows(length: int, count: int) -> None:
    """`length` rows are reduced to `count` cells; cell k begins at row k · length // count. The
    expected means are computed by statistics.fmean.
    """
    values = np.random.default_rng(0).integers(-50, 50, (length, 1)).astype(float)
    edges = [k * length // count for k in range(count + 1)]
    expected = [statistics.fmean(values[a:b, 0].tolist()) for a, b in pairwise(edges)]

    means = fitted_to(values, rows=count, columns=1)[:, 0]
    assert means == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_means_of_a_constant_are_exact() -> None:
    """64 rows of 0.25 are drawn in 9 lines, some of which are means of 7 rows and some of 8."""
    means = fitted_to(np.full((64, 64), 0.25), rows=9, columns=64)
    assert set(means.ravel().tolist()) == {0.25}


def test_the_maximum_keeps_the_largest_magnitude_of_a_cell_with_its_sign() -> None:
    """1,000 × 40 numbers are reduced to 10 × 4 cells of 100 rows and 10 columns. The only number
    that is not 0 is at [617, 22]: in cell [6, 2].
    """
    values = np.zeros((1000, 40))
    values[617, 22] = -3.0
    cells = fitted_to(values, rows=10, columns=4, reduction=Reduction.MAX)

    assert cells[6, 2] == -3.0
    assert np.count_nonzero(cells) == 1


def test_a_sampled_diagonal_stays_a_diagonal() -> None:
    """100 rows in 30 cells are every fourth row. The 45 cells across would have room for every
    third column, but one step is taken for both axes of a matrix.
    """
    cells = fitted_to(np.eye(100), rows=30, columns=45, reduction=Reduction.SAMPLE)
    np.testing.assert_array_equal(cells, np.eye(25))


@pytest.mark.parametrize("reduction", [Reduction.MEAN, Reduction.MAX, Reduction.SAMPLE])
def test_an_array_that_fits_stays_as_it_is(reduction: Reduction) -> None:
    """`fitted_to` reduces an array to at most 5 × 3 elements for a picture; this one has 2 × 3."""
    values = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    shown = fitted_to(values, rows=5, columns=3, reduction=reduction)
    np.testing.assert_array_equal(shown, values)


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
    """Every `step`-th of `count` columns is drawn: ⌈count / room⌉, at least 1. Without any room,
    only the first column is taken.
    """
    assert stride(count, room) == step


def test_the_maximum_of_equal_magnitudes_is_the_positive_number() -> None:
    """Each pair of rows becomes one cell: of 1 and −1 the positive one, of −3 and 2 the larger
    magnitude.
    """
    values = np.array([[1.0], [-1.0], [-3.0], [2.0]])
    cells = fitted_to(values, rows=2, columns=1, reduction=Reduction.MAX)
    assert cells.tolist() == [[1.0], [-3.0]]


def test_a_piece_of_a_curve_is_its_lowest_and_its_highest_point() -> None:
    """Six points, 0 and 1 in turn, are reduced to one piece, of which 0 and 1 are drawn."""
    _, y = envelope(np.arange(6.0), np.array([0.0, 1, 0, 0, 1, 0]), 1)
    assert y.tolist() == [0.0, 1.0]


def test_a_short_curve_keeps_its_gap() -> None:
    """NaN is a gap. Two pieces are drawn by two points each, so that all of four points are
    kept.
    """
    y = np.array([np.nan, 1, 2, 3])
    np.testing.assert_array_equal(envelope(np.arange(4.0), y, 2)[1], y)


@pytest.mark.parametrize(
    ("shape", "edges", "column_step"),
    [
        pytest.param((6, 70_000), [0, 2, 4, 6], 1400, id="3 means, every 1400th column"),
        pytest.param((40, 40_000), [*range(0, 41, 2)], 800, id="20 means, every 800th column"),
        pytest.param((9, 3), [0, 2, 4, 6, 9], 1, id="4 means, the last of 3 rows, every column"),
    ],
)
def test_means_are_of_equal_shares_of_rows_whatever_the_width(
    shape: tuple[int, int], edges: list[int], column_step: int
) -> None:
    """A table is reduced to half as many rows and to at most 50 columns: 70,000 / 50 = 1400. Each row
    of the result is the mean of the rows between two neighbouring `edges`, here by NumPy.
    """
    values = np.random.default_rng(0).normal(size=shape)
    kept_columns = values[:, ::column_step]
    expected = [kept_columns[start:stop].mean(axis=0) for start, stop in pairwise(edges)]

    means = reduced(table_of("t", values), rows=len(edges) - 1, columns=50)
    np.testing.assert_allclose(means, expected)


def test_means_of_a_table_that_is_too_large_to_be_read_whole_are_exact_for_a_constant() -> None:
    """65,536 × 64 elements are more than are read for a picture, so that some rows are left out.
    All are 0.25, and so are the 2 × 4 means, whichever rows were read.
    """
    table = table_of("t", np.full((65_536, 64), 0.25))
    assert reduced(table, rows=2, columns=4).tolist() == [[0.25] * 4] * 2


def test_of_very_many_rows_only_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row k holds the number k, so that the means of the two halves of 100,000 rows are near 25,000
    and 75,000. At most 400 elements may be read per mean: 100 rows of 4 columns.
    """
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    monkeypatch.setattr("pecli.views.pictures.downsample.MAX_ELEMENTS", 400)
    rows_read = []

    def fill(start: int, out: np.ndarray) -> None:
        rows_read.append(len(out))
        out[:] = np.arange(start, start + len(out))[:, None]

    means = reduced(Table("x", "float64", (100_000, 4), fill), rows=2, columns=4)

    np.testing.assert_allclose(means[:, 0], [25_000, 75_000], rtol=0.05)
    assert sum(rows_read) <= 2 * 400 / 4
