"""Buffers begin at a cache line; what gives no numbers is refused in one line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import pecli
from pecli.engine.arrays import CACHE_LINE, aligned_buffer, numbers
from pecli.errors import KindError


def test_buffers_begin_at_a_cache_line():
    for count in (1, 7, 4096):
        for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16):
            buffer = aligned_buffer(count, dtype)
            assert (buffer.size, buffer.dtype, buffer.ctypes.data % CACHE_LINE) == (count, np.dtype(dtype), 0)


class BrokenTensor:
    dtype = "float32"

    def detach(self):
        raise OSError("the device is gone")


class BrokenArray:
    def __array__(self, dtype=None, copy=None):
        raise ZeroDivisionError


NO_NUMBERS = [
    (np.ma.array([[1.0, 2.0]], mask=[[True, False]]), "a masked array; its hidden values would count"),
    (np.rec.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "a table holds numbers"),
    (np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]), "a table holds numbers"),
    (BrokenTensor(), "a BrokenTensor of dtype float32; its values cannot be had"),
    (BrokenArray(), "a BrokenArray; its values cannot be had"),
    ([[1], [1, 2]], "unlike lengths"),
    (["a"], "a table holds numbers"),
    (np.array([None, 1]), "a table holds numbers"),
    (object(), "a table holds numbers"),
]


@pytest.mark.parametrize(("values", "problem"), NO_NUMBERS, ids=lambda value: type(value).__name__)
def test_what_gives_no_numbers_is_refused(values, problem):
    with pytest.raises(KindError, match=problem) as caught:
        numbers("pe", values)
    assert "\n" not in str(caught.value)


def test_a_mask_that_hides_nothing_is_no_mask():
    table = np.ma.array([[1.0, 2.0]])
    assert type(numbers("pe", table)) is np.ndarray
    assert pecli.diff(table, np.array([[1.0, 2.0]]))
