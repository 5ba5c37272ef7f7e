"""Names for the arrays that are passed around, for annotations alone: at run time they stand for any object, so that
importing them costs neither NumPy nor numpy.typing, and no file needs a block of its own for them.
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
