"""Minimum, maximum, mean and SHA-256 of a table, gathered block by block; and whether rows may be of waves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pecli.engine.arrays import AnyArray, Array
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table, raw_bytes


class Statistics:
    """Minimum, maximum and mean, and the SHA-256 of the bytes."""

    def __init__(self, table: Table) -> None:
        from hashlib import sha256

        self.table = table
        self.min, self.max = math.inf, -math.inf
        self._sums: list[float] = []
        self._hash = sha256()

    def add(self, block: Array) -> None:
        """Take the next rows into account."""
        self.see(block)
        for piece in in_pieces(block):
            self.merge(*extent(piece if piece.dtype.kind == "c" else widened(piece)))

    def see(self, block: Array) -> None:
        """The bytes of the next rows."""
        self._hash.update(raw_bytes(block))

    def merge(self, low: float, high: float, total: float) -> None:
        """The extent of the next rows."""
        with np.errstate(invalid="ignore"):
            self.min = float(np.minimum(self.min, low))  # which keeps NaN
            self.max = float(np.maximum(self.max, high))
        self._sums.append(total)

    @property
    def mean(self) -> float:
        return _sum(self._sums) / self.table.size if self.table.size else math.nan

    def as_json(self) -> dict[str, Any]:
        return {
            "shape": list(self.table.shape),
            "dtype": self.table.dtype,
            "min": finite(self.min),
            "max": finite(self.max),
            "mean": finite(self.mean),
            "sha256": self._hash.hexdigest(),
        }


ELEMENTS = 1 << 16
"""Processed at once, so that intermediate arrays stay in the cache."""


def in_pieces(block: Array) -> Iterator[Array]:
    """The rows of a block, some at a time."""
    step = max(1, ELEMENTS // max(1, block.shape[1]))
    return (block[row : row + step] for row in range(0, len(block), step))


def extent(values: AnyArray) -> tuple[float, float, float]:
    """The smallest and the largest value of some rows, and their sum; of complex numbers, which have no order, none."""
    if values.dtype.kind == "c":
        return math.nan, math.nan, math.nan
    with np.errstate(invalid="ignore", over="ignore"):
        return float(values.min()), float(values.max()), _sum(values.sum(axis=1).tolist())


def finite(value: float) -> float | None:
    """A number as JSON has it: None where it is not finite."""
    return value if math.isfinite(value) else None


def _sum(values: list[float]) -> float:
    """Exactly rounded; not a number where a sum has no finite value."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan


MAX_PROBED = 64
"""Columns that are looked at for waves."""
SMOOTH = 0.05
"""Of its largest value, what a wave, or a line, with some noise leaves."""


def has_waves(values: AnyArray) -> bool:
    """Whether some column is a wave, or a line: x[n + 1] + x[n − 1] is a multiple of x[n].

    >>> has_waves(np.sin(np.arange(32.0))[:, None]), has_waves(np.random.default_rng(0).normal(size=(32, 4)))
    (True, False)
    """
    if len(values) < 3:
        return False
    values = values[:, :: max(1, values.shape[1] // MAX_PROBED)]
    here, both = values[1:-1], values[:-2] + values[2:]
    with np.errstate(all="ignore"):
        left = np.median(np.abs(both - (both * here).sum(axis=0) / (here * here).sum(axis=0) * here), axis=0)
        return not (left > SMOOTH * np.abs(here).max(axis=0)).all()
