"""Averages that are averages."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pecli.views.pictures.block_mean import envelope, shrink, shrink_rows


@pytest.mark.parametrize(("length", "count"), [(6, 3), (7, 3), (100, 7), (5, 4), (60, 59)])
def test_each_row_is_the_mean_of_its_share(length: int, count: int) -> None:
    values = np.random.default_rng(0).integers(-50, 50, (length, 1)).astype(float)
    for k, (found,) in enumerate(shrink_rows(values, count)):
        low, high = Fraction(k * length, count), Fraction((k + 1) * length, count)
        parts = [max(Fraction(0), min(high, r + 1) - max(low, r)) * int(values[r, 0]) for r in range(length)]
        assert found == pytest.approx(float(sum(parts) / (high - low)), rel=1e-12, abs=1e-12)


def test_the_mean_of_all_is_kept() -> None:
    values = np.random.default_rng(1).normal(size=(37, 53))
    assert shrink(values, 10, 7).mean() == pytest.approx(values.mean(), rel=1e-12)
    assert shrink(values, 10, 7).shape == (10, 7)


def test_a_constant_stays_constant_to_the_last_bit() -> None:
    assert set(shrink(np.full((64, 64), 0.25), 9, 11).ravel().tolist()) == {0.25}


def test_what_is_small_stays_as_it_is() -> None:
    values = np.arange(6.0).reshape(2, 3)
    assert shrink(values, 2, 3) is not None
    np.testing.assert_array_equal(shrink(values, 5, 3), values)


def test_the_largest_magnitude_survives() -> None:
    values = np.zeros((1000, 4))
    values[617, 2] = -3.0
    assert shrink(values, 10, 4, "max")[6, 2] == -3.0
    assert np.count_nonzero(shrink(values, 10, 4, "max")) == 1


def test_nan_shows_and_infinity_only_where_it_is_alone() -> None:
    values = np.ones((12, 1))
    values[0], values[4], values[8:] = np.nan, -np.inf, -np.inf
    found = shrink_rows(values, 3)[:, 0]
    assert np.isnan(found[0])
    assert found[1] == 1.0
    assert found[2] == -np.inf


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_long_curve_turns_where_it_turned_and_keeps_its_spikes(sign: float) -> None:
    x = np.arange(4096.0)
    shown, y = envelope(x, sign * np.sqrt(x), 2000)
    assert len(y) == 4000
    assert (np.diff(shown) >= 0).all()
    assert (sign * np.diff(y) >= 0).all(), "a saw"
    spiky = np.zeros(4096)
    spiky[1234] = sign
    assert sign in envelope(x, spiky, 500)[1]
