"""Names for the arrays that are passed around. For type checkers: importing numpy.typing takes 3 ms, so nothing
does at run time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.uint64]
Places = NDArray[np.intp]
Flags = NDArray[np.bool_]
Complex = NDArray[np.complex128]
