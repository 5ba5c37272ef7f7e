"""Learned tables at another length: every new row is a weighted sum of a few old ones.

Rows are samples at the middle of equal cells (align_corners is false, as everywhere in vision models). The cubic
kernel is Keys's, with the coefficient that torch uses: −0.75, or −0.5 with antialias, where the kernel is also
stretched by the ratio of the sizes when a table shrinks.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices

KERNELS = {"linear": 1, "cubic": 2}
"""The kernels, with how far they reach."""


class Taps(NamedTuple):
    """For every new row, which old rows it is made of and how much of each: both (new, taps)."""

    rows: Indices
    weights: Floats

    def apply(self, values: Floats) -> Floats:
        """The new rows of (old, …) values."""
        return self.added(None, values, 0, slice(None))

    def added(self, sums: Floats | None, values: Floats, first: int, which: slice) -> Floats:
        """The sums so far, and what some taps add to them; row 0 of the values is the old row `first`."""
        part = np.empty((len(self.rows), *values.shape[1:]))
        for rows, weights in zip(self.rows.T[which], self.weights.T[which], strict=True):
            np.take(values, rows - first, axis=0, out=part, mode="clip")
            part *= weights.reshape(-1, *([1] * (values.ndim - 1)))
            if sums is None:
                sums = part + 0.0  # a sum from 0 on, in which −0 does not last
            else:
                sums += part
        assert sums is not None
        return sums


def taps(old: int, new: int, kernel: str, antialias: bool = False, part: slice = slice(None)) -> Taps:
    """How `old` rows become `new` ones, or some of the new ones.

    >>> taps(4, 2, "linear").weights.tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    wanted = np.arange(*part.indices(new))
    if old == new:
        return Taps(wanted[:, None], np.ones((len(wanted), 1)))
    ratio = old / new
    centre = (wanted.astype(np.float64) + 0.5) * ratio - 0.5
    if not antialias:
        return _plain(centre, old, kernel)
    stretch = max(ratio, 1.0)
    reach = KERNELS[kernel] * stretch
    first = np.floor(centre - reach + 1).astype(np.intp)
    rows = first[:, None] + np.arange(math.ceil(2 * reach) + 1)
    weights = _kernel((rows - centre[:, None]) / stretch, kernel, -0.5)
    weights[(rows < 0) | (rows >= old)] = 0  # what lies outside does not count at all
    return Taps(np.clip(rows, 0, old - 1), weights / weights.sum(axis=1, keepdims=True))


def _plain(centre: Floats, old: int, kernel: str) -> Taps:
    """As many taps as the kernel is wide; outside the table its first and last row go on."""
    if kernel == "linear":
        centre = np.clip(centre, 0, old - 1)
    reach = KERNELS[kernel]
    rows = np.floor(centre).astype(np.intp)[:, None] + np.arange(1 - reach, 1 + reach)
    return Taps(np.clip(rows, 0, old - 1), _kernel(rows - centre[:, None], kernel, -0.75))


def _kernel(distance: Floats, kernel: str, a: float) -> Floats:
    x = np.abs(distance)
    if kernel == "linear":
        return np.asarray(np.maximum(0.0, 1 - x))
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))
