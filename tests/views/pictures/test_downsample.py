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
def test_streamed_is_what_numpy_makes_of_the_whole(monkeypatch, dtype: type) -> None:
    """Means of 40 rows, of every third column; blocks have 1000 bytes."""
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = (np.random.default_rng(0).normal(size=(1200, 24)) * 100).astype(dtype)
    found = reduced(table_of("x", array), 30, 8)
    parts = array.astype(float).reshape(30, 40, 24)[:, :, ::3]

    np.testing.assert_allclose(found, parts.mean(axis=1), rtol=1e-12, atol=1e-12)


def test_nan_and_infinities_survive_averaging(monkeypatch) -> None:
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = np.ones((400, 6))
    array[5, 0], array[150, 1], array[200:300, 2] = np.nan, np.inf, -np.inf
    means = reduced(table_of("x", array), 4, 6)

    assert np.isnan(means[0, 0])
    assert means[1, 1] == np.inf
    assert means[2, 2] == -np.inf
    assert means[3, 3] == 1.0
    np.testing.assert_array_equal(fitted_to(array, 4, 6), means)


def test_each_row_is_the_mean_of_its_share() -> None:
    """The expected means are computed with statistics.fmean."""
    for length, count in ((6, 3), (7, 3), (100, 7), (5, 4), (60, 59)):
        values = np.random.default_rng(0).integers(-50, 50, (length, 1)).astype(float)
        edges = [k * length // count for k in range(count + 1)]
        expected = [statistics.fmean(values[a:b, 0].tolist()) for a, b in pairwise(edges)]
        assert fitted_to(values, count, 1)[:, 0] == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert set(fitted_to(np.full((64, 64), 0.25), 9, 64).ravel().tolist()) == {0.25}, (
        "to the last bit"
    )


def test_largest_magnitudes_and_diagonals_survive_and_what_is_small_stays_as_it_is() -> None:
    """MAX keeps the largest magnitude of a cell, SAMPLE takes every n-th row and column, so that a
    diagonal stays one.
    """
    values = np.zeros((1000, 40))
    values[617, 22] = -3.0
    small = fitted_to(values, 10, 4, Reduction.MAX)

    assert small[6, 2] == -3.0
    assert np.count_nonzero(small) == 1

    small = fitted_to(np.eye(100), 30, 45, Reduction.SAMPLE)
    np.testing.assert_array_equal(small, np.eye(25))

    for reduction in (Reduction.MEAN, Reduction.MAX, Reduction.SAMPLE):
        np.testing.assert_array_equal(fitted_to(values[:2, :3], 5, 3, reduction), values[:2, :3])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_long_curve_turns_where_it_turned_and_keeps_its_spikes(sign: float) -> None:
    """A square root rises monotonically; a drawn saw would be an artefact."""
    x = np.arange(4096.0)
    shown, y = envelope(x, sign * np.sqrt(x), 2000)

    assert len(y) == 4000
    assert (np.diff(shown) >= 0).all()
    assert (sign * np.diff(y) >= 0).all(), "a saw"

    spiky = np.zeros(4096)
    spiky[1234] = sign
    assert sign in envelope(x, spiky, 500)[1]


@pytest.mark.parametrize(("count", "room", "step"), [(0, 5, 1), (5, 0, 5), (6, 3, 2), (7, 3, 3)])
def test_a_stride_leaves_no_more_than_there_is_room_for(count: int, room: int, step: int) -> None:
    assert stride(count, room) == step


def test_the_larger_magnitude_wins_and_of_equal_ones_the_positive() -> None:
    values = np.array([[1.0], [-1.0], [-3.0], [2.0]])
    assert fitted_to(values, 2, 1, Reduction.MAX).tolist() == [[1.0], [-3.0]]


def test_a_piece_of_a_curve_is_its_lowest_and_its_highest_point() -> None:
    _, y = envelope(np.arange(6.0), np.array([0.0, 1, 0, 0, 1, 0]), 1)
    assert y.tolist() == [0.0, 1.0]


def test_a_short_curve_keeps_its_gap() -> None:
    y = np.array([np.nan, 1, 2, 3])
    np.testing.assert_array_equal(envelope(np.arange(4.0), y, 2)[1], y)


@pytest.mark.parametrize("shape", [(6, 70000), (40, 40000), (9, 3)])
def test_means_are_of_equal_shares_of_rows_whatever_the_width(shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    count = shape[0] // 2
    edges = np.arange(count + 1) * shape[0] // count
    columns = values[:, :: stride(shape[1], 50)]
    expected = [columns[start:stop].mean(axis=0) for start, stop in pairwise(edges)]

    np.testing.assert_allclose(reduced(table_of("t", values), count, 50), expected)


def test_means_of_very_many_rows_are_of_some_of_them() -> None:
    table = table_of("t", np.full((1 << 16, 64), 0.25))
    assert reduced(table, 2, 4).tolist() == [[0.25] * 4] * 2


def test_of_very_many_rows_only_some_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    monkeypatch.setattr("pecli.views.pictures.downsample.MAX_ELEMENTS", 400)
    rows_read = []

    def fill(start: int, out: np.ndarray) -> None:
        rows_read.append(len(out))
        out[:] = np.arange(start, start + len(out))[:, None]

    means = reduced(Table("x", "float64", (100_000, 4), fill), 2, 4)

    np.testing.assert_allclose(means[:, 0], [25_000, 75_000], rtol=0.05)
    assert sum(rows_read) <= 2 * 400 / 4
