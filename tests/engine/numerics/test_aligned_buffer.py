"""Arrays to work in."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pecli.engine.numerics.aligned_buffer import LINE, room_for


def test_rooms_begin_with_a_cache_line():
    for count in (1, 7, 4096):
        for dtype in (np.float32, np.bool_, ml_dtypes.bfloat16):
            room = room_for(count, dtype)
            assert (room.size, room.dtype, room.ctypes.data % LINE) == (count, np.dtype(dtype), 0)
