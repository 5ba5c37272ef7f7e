"""What a table holds, in numbers, gathered block by block."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table, raw_bytes


class Statistics:
    """Smallest, largest and mean value, and the SHA-256 of the bytes."""

    def __init__(self, table: Table) -> None:
        from hashlib import sha256

        self.table = table
        self.min, self.max = math.inf, -math.inf
        self._sums: list[float] = []
        self._hash = sha256()

    def add(self, block: Array) -> None:
        """Take the next rows into account."""
        self._hash.update(raw_bytes(block))
        if not block.size:
            return
        if block.dtype.kind == "c":  # complex numbers have no order
            self.min = self.max = math.nan
            self._sums.append(math.nan)
            return
        values = widened(block)
        with np.errstate(invalid="ignore", over="ignore"):
            self.min = float(np.minimum(self.min, values.min()))  # which keeps NaN
            self.max = float(np.maximum(self.max, values.max()))
            self._sums.append(_sum(values.sum(axis=1).tolist()))

    @property
    def mean(self) -> float:
        return _sum(self._sums) / self.table.size if self.table.size else math.nan

    def as_json(self) -> dict[str, Any]:
        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "shape": list(self.table.shape),
            "dtype": self.table.dtype,
            "min": finite(self.min),
            "max": finite(self.max),
            "mean": finite(self.mean),
            "sha256": self._hash.hexdigest(),
        }


def _sum(values: list[float]) -> float:
    """Exactly rounded; not a number where a sum has no finite value."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan
