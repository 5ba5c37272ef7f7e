"""A quick test whether a table of unknown origin has columns that are waves."""

import numpy as np

from pecli.engine.arrays import AnyArray

MAX_PROBED = 64  #: columns that are tested
SMOOTH = 0.05
"""The residual of a wave or a line with some noise, as a share of its largest value."""


def has_waves(values: AnyArray) -> bool:
    """Return True if some column is a wave or a line: x[n + 1] + x[n − 1] is a multiple of x[n].

    For a wave of angular frequency w the multiple is 2 cos w, for a line it is 2.

    >>> has_waves(np.sin(np.arange(32.0))[:, None])
    True
    >>> has_waves(np.random.default_rng(0).normal(size=(32, 4)))
    False
    """
    if len(values) < 3:
        return False
    columns = values[:, :: max(1, values.shape[1] // MAX_PROBED)]
    middle = columns[1:-1]
    neighbours = columns[:-2] + columns[2:]
    with np.errstate(all="ignore"):
        multiples = (neighbours * middle).sum(axis=0) / (middle * middle).sum(axis=0)
        residual = np.median(np.abs(neighbours - multiples * middle), axis=0)
        is_rough = residual > SMOOTH * np.abs(middle).max(axis=0)
    return not is_rough.all()
