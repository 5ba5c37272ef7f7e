"""Learned tables change their length, and only that."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.engine.table import table_of
from pecli.errors import ParameterError
from pecli.tensors.resize import Resizing, resize

TABLE = np.random.default_rng(3).standard_normal((17, 4)).astype(np.float32)


def test_the_same_size_is_the_same_bytes() -> None:
    made = resize(table_of("w", TABLE), Resizing((4, 4), (4, 4), keep=1))
    assert made.table.array().tobytes() == TABLE.tobytes()
    assert made.before.tolist() == made.after.tolist()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_kept_rows_stay_and_leading_axes_too(dtype: str) -> None:
    given = TABLE.astype(dtype)[None]
    made = resize(table_of("w", given), Resizing((4, 4), (6, 5), keep=1)).table.array()
    assert made.shape == (1, 31, 4)
    assert made.dtype == given.dtype
    assert np.array_equal(made[0, 0], given[0, 0])


def test_a_grid_is_rows_by_columns() -> None:
    """A table that depends on the column alone still does so."""
    cells = np.tile(np.arange(6.0), 3).reshape(18, 1)
    made = resize(table_of("w", cells), Resizing((3, 6), (5, 12), "linear")).table.array().reshape(5, 12)
    assert np.ptp(made, axis=0).max() < 1e-12
    assert np.allclose(made[0, 1:-1], (np.arange(1, 11) + 0.5) / 2 - 0.5)


def test_norms_are_those_of_the_rows() -> None:
    made = resize(table_of("w", TABLE), Resizing((17, 1), (5, 1), "linear"))
    assert np.allclose(made.before, np.linalg.norm(TABLE.astype(float), axis=1))
    assert np.allclose(made.after, np.linalg.norm(made.table.array().astype(float), axis=1))


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
    made = resize(table_of("w", array), Resizing((16, 1), (5, 1), "cubic")).table.array()
    assert np.isfinite(made[-1]).all()
    assert made.shape == (5, 4)
