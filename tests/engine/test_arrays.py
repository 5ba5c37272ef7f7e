"""Buffers begin at a cache line."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pecli.engine.arrays import CACHE_LINE, aligned_buffer


def test_buffers_begin_at_a_cache_line():
    for count in (1, 7, 4096):
        for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16):
            buffer = aligned_buffer(count, dtype)
            assert (buffer.size, buffer.dtype, buffer.ctypes.data % CACHE_LINE) == (count, np.dtype(dtype), 0)
