"""Rows picked from tables of any shape are those that NumPy takes."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.checks.diagnose.sample import samples
from pecli.engine.table import table_of

SHAPES = [  # each with the shape that it is seen in, and the axes that positions may lie on
    ((70000, 1), (70000, 1), (0, 1)),
    ((1, 70000), (1, 70000), (0, 1)),
    ((300, 300), (300, 300), (0, 1)),
    ((1, 1, 300, 300), (300, 300), (0, 1)),
    ((300, 1, 300), (300, 300), (0, 1)),
    ((300, 300, 1), (300, 300), (0, 1)),
    ((2, 300, 300), (2, 300, 300), (1, 2)),
    ((400, 100, 2), (400, 100, 2), (0, 1)),
]


@pytest.mark.parametrize(("shape", "seen", "axes"), SHAPES)
def test_rows_of_large_tables(shape, seen, axes) -> None:
    array = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    found = list(samples(table_of("t", array), 300))
    assert found
    for sample in found:
        axis = axes[sample.transposed]
        expected = np.take(array.reshape(seen), sample.rows, axis)
        if sample.transposed:
            expected = np.swapaxes(expected, axis - 1, axis)
        np.testing.assert_array_equal(sample.array, expected)
        assert sample.length == seen[axis]
