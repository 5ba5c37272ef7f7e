"""Names for the arrays that are passed around, and buffers to work in.

The names are for annotations alone: at run time they stand for any object, so that importing them costs neither NumPy
nor numpy.typing, and no file needs a TYPE_CHECKING block for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]
    AnyArray = NDArray[Any]
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]
    Ints = NDArray[np.uint64]
    Positions = NDArray[np.int64]
    Indices = NDArray[np.intp]
    Flags = NDArray[np.bool_]
    Complex = NDArray[np.complex128]
else:
    Array = AnyArray = Floats = Singles = Ints = Positions = Indices = Flags = Complex = object

CACHE_LINE = 64
"""Bytes. Vector loads that cross a line take twice as long."""


def aligned_buffer(count: int, dtype: np.dtype[Any] | type) -> AnyArray:
    """An uninitialised flat array that begins at a cache line.

    >>> import numpy as np
    >>> aligned_buffer(3, np.float32).size
    3
    """
    import numpy as np

    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + CACHE_LINE, np.uint8)
    start = -raw.ctypes.data % CACHE_LINE
    return raw[start : start + size].view(dtype)
