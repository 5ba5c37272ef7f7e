"""Tables seen with other axes, whatever block is asked for."""

from __future__ import annotations

import numpy as np
import pytest

from pecli.checks.reshape import as_pairs, reshaped, views
from pecli.engine.table import table_of

ARRAY = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("shape", [(120,), (6, 20), (24, 5), (2, 60), (1, 120), (60, 2), (2, 3, 4, 5), (120, 1)])
@pytest.mark.parametrize("rows", [1, 2, 7, 1000])
def test_every_block_of_every_shape(shape, rows) -> None:
    table = reshaped(table_of("t", ARRAY), shape)
    np.testing.assert_array_equal(table.array(), ARRAY.reshape(shape))
    np.testing.assert_array_equal(np.concatenate(list(table.blocks(rows))).reshape(shape), ARRAY.reshape(shape))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_complex_numbers_as_pairs(dtype, rows) -> None:
    numbers = (ARRAY[0] + 1j * ARRAY[1]).astype(dtype)
    table = as_pairs(table_of("t", numbers))
    expected = np.stack([numbers.real, numbers.imag], -1)
    assert (table.shape, table.dtype) == (expected.shape, str(expected.dtype))
    np.testing.assert_array_equal(np.concatenate(list(table.blocks(rows))).reshape(table.shape), expected)


def test_axes_of_length_one() -> None:
    assert [view.shape for view in views(table_of("t", np.zeros((1, 1, 4, 1, 2))))] == [
        (1, 1, 4, 1, 2), (1, 4, 1, 2), (4, 1, 2), (4, 2)
    ]  # fmt: skip
    assert [view.shape for view in views(table_of("t", np.zeros(())))] == [(), (1,)]
    assert [view.shape for view in views(table_of("t", np.zeros((1, 1))))] == [(1, 1), (1,)]
