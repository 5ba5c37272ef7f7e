"""Arrays to work in, which begin where a cache line does: the processor takes whole lines, and from one it takes twice
as long if the line is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LINE = 64


def room_for(count: int, dtype: np.dtype[Any] | type) -> NDArray[Any]:
    """A flat array of so many elements, whatever is in it.

    >>> room_for(3, np.float32).size
    3
    """
    size = count * np.dtype(dtype).itemsize
    raw = np.empty(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype)
