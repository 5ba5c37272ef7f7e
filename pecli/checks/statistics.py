"""What a table holds, in numbers, gathered block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.table import Table
from pecli.files.pour import raw_bytes

if TYPE_CHECKING:
    from pecli.engine.arrays import Array


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
        values = block.astype(np.float64)
        if values.size:
            self.min = min(self.min, float(values.min()))
            self.max = max(self.max, float(values.max()))
            with np.errstate(invalid="ignore"):
                self._sums.append(math.fsum(values.sum(axis=1).tolist()) if np.isfinite(values).all() else math.nan)

    @property
    def mean(self) -> float:
        return math.fsum(self._sums) / self.table.size if self.table.size else math.nan

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
