"""Small arrays that stand for tables of any size."""

from __future__ import annotations

import numpy as np
import pytest

import pecli
from pecli.engine.table import Table, table_of
from pecli.views.pictures import downsample as module
from pecli.views.pictures.downsample import reduced, slab


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_streamed_is_what_numpy_makes_of_the_whole(monkeypatch, dtype: type) -> None:
    monkeypatch.setattr(module, "WHOLE", 0)
    monkeypatch.setattr("pecli.engine.table.BLOCK_BYTES", 1000)
    array = (np.random.default_rng(0).normal(size=(1200, 24)) * 100).astype(dtype)
    found = reduced(table_of("x", array), 30, 8)
    parts = array.astype(float).reshape(30, 40, 8, 3)
    np.testing.assert_allclose(found, parts.mean(axis=(1, 3)), rtol=1e-12, atol=1e-12)


def test_what_is_not_finite_survives_the_stream(monkeypatch) -> None:
    array = np.ones((400, 6))
    array[5, 0], array[150, 1], array[200:300, 2] = np.nan, np.inf, -np.inf
    whole = reduced(table_of("x", array), 4, 6)
    monkeypatch.setattr(module, "WHOLE", 0)
    streamed = reduced(table_of("x", array), 4, 6)
    np.testing.assert_array_equal(streamed, whole)
    assert np.isnan(whole[0, 0])
    assert whole[1, 1] == 1.0
    assert whole[2, 2] == -np.inf


def test_a_table_too_long_to_read_is_read_evenly(monkeypatch) -> None:
    read = []
    monkeypatch.setattr(module, "MOST", 1 << 20)

    def fill(start: int, out: np.ndarray) -> None:
        read.append(len(out))
        out[...] = (start + np.arange(len(out)))[:, None]

    rows = 2**40
    found = reduced(Table("x", "float64", (rows, 4), fill), 16, 4)
    middles = (np.arange(16) + 0.5) * rows / 16
    np.testing.assert_allclose(found, np.tile(middles[:, None], 4), rtol=0, atol=rows / 16 / 16)
    assert sum(read) * 4 <= module.MOST


def test_one_matrix_of_many() -> None:
    table = pecli.Alibi(4, 16).tensors()[0]
    np.testing.assert_array_equal(slab(table, 2).array(), table.array()[2])


def test_memory_stays_flat(peak_memory) -> None:
    def peak(rows: int) -> int:
        code = f"import pecli; t = pecli.Sinusoidal({rows}, 64).tensors()[0]; "
        return peak_memory("-c", code + "from pecli.views.pictures.downsample import reduced; reduced(t, 100, 64)")

    assert peak(1_000_000) - peak(1000) < 100
