"""A hash of the values of arrays."""

from collections.abc import Iterable
from hashlib import sha256

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import raw_bytes

HASHED_BYTES = 1 << 22  #: bytes of an array that are hashed at once


def compute_digest(arrays: Iterable[Array]) -> str:
    """Return the sha256 of the bytes of all arrays, in their order."""
    digest = sha256()
    for array in arrays:
        for rows in np.array_split(np.atleast_1d(array), max(1, array.nbytes // HASHED_BYTES)):
            digest.update(raw_bytes(rows))
    return digest.hexdigest()
