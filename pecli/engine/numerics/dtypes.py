"""The floating dtypes that tables come in, by name.

NumPy has no bfloat16 of its own; `ml_dtypes` lends it one and is imported only when a bfloat16 array is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike


SIGNIFICAND_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
"""The dtypes by name, with their bits of precision, the leading one included."""

COMPLEX = {"complex64": "float32", "complex128": "float64"}
"""Complex dtypes, and those of their parts."""

_FROM_ML_DTYPES = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz"}
)


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """The NumPy dtype of that name.

    >>> numpy_dtype("float16")
    dtype('float16')
    """
    import numpy as np

    if name in _FROM_ML_DTYPES:
        import ml_dtypes

        found: np.dtype[np.generic] = np.dtype(getattr(ml_dtypes, name))
        return found
    return np.dtype(name)


def dtype_name(dtype: DTypeLike) -> str:
    """The name under which pecli speaks of a NumPy dtype."""
    import numpy as np

    return str(np.dtype(dtype).name)
