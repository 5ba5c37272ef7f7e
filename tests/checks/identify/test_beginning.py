"""The beginnings of tensors."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.checks.identify import beginning as module
from pecli.checks.identify.beginning import beginning
from pecli.engine.table import Table, table_of


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (1, 2, 3, 4), (0, 3), (4, 1)])
def test_small_tensors_are_whole(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    found = beginning(table_of("x", array))
    assert found.whole
    assert found.array.dtype == np.float64
    assert np.array_equal(found.array, array)


@pytest.mark.parametrize("shape", [(300,), (40, 7), (7, 40), (2, 30, 5), (3, 17, 17), (2, 2, 9, 9)])
def test_large_ones_are_cut_along_their_longest_axes(shape: tuple[int, ...], monkeypatch) -> None:
    monkeypatch.setattr(module, "MOST", 64)
    monkeypatch.setattr(module, "_READ", 16)
    array = np.random.default_rng(1).normal(size=shape)
    found = beginning(table_of("x", array))
    assert not found.whole
    assert found.shape == shape
    assert 32 <= found.array.size <= 64
    assert np.array_equal(found.array, array[tuple(slice(size) for size in found.array.shape)])


def test_a_huge_table_is_not_read_whole() -> None:
    read = 0

    def fill(start: int, out: np.ndarray) -> None:
        nonlocal read
        read += out.size
        out[...] = 1

    found = beginning(Table("x", "float32", (2, 2**36, 64), fill))
    assert found.array.shape[0] == 2
    assert found.array.size <= module.MOST
    assert read <= 2 * module.MOST


def test_integers_complex_numbers_and_what_is_no_number() -> None:
    assert not beginning(table_of("x", np.arange(6))).floating
    turned = beginning(table_of("x", np.ones((2, 2), np.complex64)))
    assert turned.array.dtype == np.complex128
    assert beginning(table_of("x", np.array([1.0, np.nan, -np.inf]))).not_finite == 2
