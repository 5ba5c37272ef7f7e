"""Learned tables change their length, and only that."""

from __future__ import annotations

import base64
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pecli.engine.table import Table, table_of
from pecli.errors import ParameterError
from pecli.tensors.resize import Resizing, norms_of, resize, taps

TABLE = np.random.default_rng(3).standard_normal((17, 4)).astype(np.float32)


def test_the_same_size_is_the_same_bytes() -> None:
    made = resize(table_of("w", TABLE), Resizing((4, 4), (4, 4), keep=1))
    assert made.array().tobytes() == TABLE.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_kept_rows_stay_and_leading_axes_too(dtype: str) -> None:
    given = TABLE.astype(dtype)[None]
    made = resize(table_of("w", given), Resizing((4, 4), (6, 5), keep=1)).array()
    assert made.shape == (1, 31, 4)
    assert made.dtype == given.dtype
    assert np.array_equal(made[0, 0], given[0, 0])


def test_a_grid_is_rows_by_columns() -> None:
    """A table that depends on the column alone still does so."""
    cells = np.tile(np.arange(6.0), 3).reshape(18, 1)
    made = resize(table_of("w", cells), Resizing((3, 6), (5, 12), "linear")).array().reshape(5, 12)
    assert np.ptp(made, axis=0).max() < 1e-12
    assert np.allclose(made[0, 1:-1], (np.arange(1, 11) + 0.5) / 2 - 0.5)


def test_norms_are_those_of_the_rows() -> None:
    made = resize(table_of("w", TABLE), Resizing((17, 1), (5, 1), "linear"))
    assert np.allclose(norms_of(made), np.linalg.norm(made.array().astype(float), axis=1))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("grid", "to"), [((4, 4), (6, 5)), ((16, 1), (37, 1)), ((16, 1), (3, 1)), ((2, 8), (9, 2))])
def test_blocks_may_be_cut_anyhow(
    grid: tuple[int, int], to: tuple[int, int], antialias: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = resize(table_of("w", TABLE), Resizing(grid, to, "cubic", antialias, keep=1))
    whole = table.array()
    monkeypatch.setattr("pecli.tensors.resize._ELEMENTS", 1)
    for start in range(0, table.rows, 3):
        for stop in range(start + 1, table.rows + 1, 5):
            assert table.read(start, stop).tobytes() == whole[start:stop].tobytes()


def test_memory_stays_flat() -> None:
    """1 GB becomes 2 GB, or 64 MB become 4 kB, with room for a few blocks."""

    def fill(start: int, out: np.ndarray) -> None:
        out[...] = (np.arange(start, start + len(out)) % 7)[:, None]

    table = Table("w", "float32", (1 << 18, 1024), fill)
    tracemalloc.start()
    longer = resize(table, Resizing((1 << 18, 1), (1 << 19, 1), "linear"))
    for block in (longer.read(0, 2048), longer.read(longer.rows - 2048, longer.rows)):
        assert block.shape == (2048, 1024)
    table = replace(table, shape=(1 << 14, 1024))
    assert resize(table, Resizing((1 << 14, 1), (1, 1), "linear", antialias=True)).array().shape == (1, 1024)
    assert tracemalloc.get_traced_memory()[1] < 40e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (TABLE[:16], "16 rows, and 1 + 4x4 are 17"),
        (TABLE[0], "(rows, dim)"),
        (np.zeros((2, 17, 4)), "(1, rows, dim)"),
        (np.zeros((17, 4), np.int64), "floating"),
    ],
)
def test_tables_that_do_not_fit(array: np.ndarray, words: str) -> None:
    with pytest.raises(ParameterError) as problem:
        resize(table_of("w", array), Resizing((4, 4), (6, 5), keep=1))
    assert words in str(problem.value)


@pytest.mark.parametrize("value", [np.inf, np.nan, 1e308, -1.7e308])
def test_what_is_not_finite_goes_through_without_a_warning(value: float) -> None:
    array = np.ones((16, 4))
    array[3] = value
    made = resize(table_of("w", array), Resizing((16, 1), (5, 1), "cubic")).array()
    assert np.isfinite(made[-1]).all()
    assert made.shape == (5, 4)


CASES = json.loads(Path(__file__).with_name("interpolate.json").read_text("ascii"))["cases"]


def decoded(text: str, grid: list[int]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4").reshape(grid[0] * grid[1], 2).astype(np.float64)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['mode']}-{c['antialias']}-{c['old']}-{c['new']}")
def test_as_torch_interpolates(case: dict[str, Any]) -> None:
    kernel = "cubic" if case["mode"] == "bicubic" else "linear"
    resizing = Resizing(tuple(case["old"]), tuple(case["new"]), kernel, case["antialias"])
    made = resize(table_of("w", decoded(case["given"], case["old"])), resizing).array()
    # torch works out the places in float32: 128 rows · 2**-24 · a difference of 0.1 between neighbours
    assert np.abs(made - decoded(case["made"], case["new"])).max() < 1e-6


@pytest.mark.parametrize("kernel", ["linear", "cubic"])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize(("old", "new"), [(1, 7), (7, 1), (5, 5), (3, 100), (100, 3), (16, 24)])
def test_a_constant_stays_and_weights_add_up(kernel: str, antialias: bool, old: int, new: int) -> None:
    made = taps(old, new, kernel, antialias)
    assert np.abs(made.weights.sum(axis=1) - 1).max() < 1e-14
    assert np.abs(made.apply(np.full((old, 2), 3.0)) - 3).max() < 1e-14
    assert made.rows.min() >= 0
    assert made.rows.max() < old


@pytest.mark.parametrize(("kernel", "antialias"), [("linear", False), ("linear", True), ("cubic", True)])
def test_a_straight_line_stays_straight_inside(kernel: str, antialias: bool) -> None:
    made = taps(40, 100, kernel, antialias).apply(np.arange(40.0)[:, None])[:, 0]
    assert np.abs(np.diff(made)[10:90] - 0.4).max() < 1e-12
