"""Where the two channels of a turning pair lie, and how to move them from one place to the other."""

from __future__ import annotations

import numpy as np

from pecli.engine.arrays import Indices


def reorder(channels: int, source: str, target: str) -> Indices:
    """Which old channel stands at each new place: new = old[reorder(…)].

    >>> reorder(6, "interleaved", "halves").tolist()
    [0, 2, 4, 1, 3, 5]
    """
    order = np.arange(channels)
    if source == target:
        return order
    pairs = order.reshape(-1, 2) if source == "interleaved" else order.reshape(2, -1)
    return np.ascontiguousarray(pairs.T).reshape(-1)
