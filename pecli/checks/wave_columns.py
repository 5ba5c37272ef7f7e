"""A quick test whether a table of unknown origin has columns that are waves."""

import numpy as np

from pecli.engine.arrays import AnyArray

MAX_PROBED_COLUMNS = 64  #: columns that are tested
SMOOTH = 0.05
"""The residual of a wave or a line with some noise, as a share of its largest value."""


def has_waves(values: AnyArray) -> bool:
    """Return True if some column of a table is a sine wave or a straight line over its rows.

    Then the sum of both neighbours of a value is always the same multiple of it: x[n + 1] + x[n − 1]
    is 2 cos(w) · x[n] for a wave of angular frequency w, and 2 · x[n] for a line. The multiple is
    found by least squares, and may leave a little noise.

    >>> has_waves(np.sin(np.arange(32.0))[:, None])
    True
    >>> has_waves(np.random.default_rng(0).normal(size=(32, 4)))
    False
    """
    if len(values) < 3:
        return False
    columns = values[:, :: max(1, values.shape[1] // MAX_PROBED_COLUMNS)]
    middle = columns[1:-1]  # x[n], (rows − 2, columns)
    neighbours = columns[:-2] + columns[2:]  # x[n + 1] + x[n − 1]
    with np.errstate(all="ignore"):
        multiples = (neighbours * middle).sum(axis=0) / (middle * middle).sum(axis=0)
        residual = np.median(np.abs(neighbours - multiples * middle), axis=0)
        is_rough = residual > SMOOTH * np.abs(middle).max(axis=0)
    return not is_rough.all()
