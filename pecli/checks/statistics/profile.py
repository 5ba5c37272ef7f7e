"""A closer look at a table: how its values and its rows are distributed, gathered block by block in flat memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pecli.checks.statistics import Statistics
from pecli.checks.statistics.quantiles import Quantiles
from pecli.engine.arrays import Array, Floats, Ints
from pecli.engine.numerics.rounding import widened
from pecli.engine.table import Table

_DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""What float32 does not hold."""
MOST_ROWS = 1 << 22
"""Rows whose fingerprints are kept to find those that come twice."""


class Profile:
    """Everything `inspect --stats` tells of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.statistics = Statistics(table)
        self.quantiles = Quantiles(double=table.dtype in _DOUBLE)
        self.zeros = self.nan = self.infinite = 0
        self._squares = 0.0
        self._centre: float | None = None
        self.rows = _Rows(table) if len(table.shape) > 1 and table.dtype[:7] != "complex" else None

    def gather(self, see: Callable[[Array], None] | None = None) -> Profile:
        """Read the table: once for nearly all, and again for the last digits of the quantiles. `see` is shown every
        block, in order.
        """
        for block in self.table.blocks():
            self._add(block)
            if see is not None:
                see(block)
        while self.quantiles.settle():
            for values in map(widened, self.table.blocks()):
                self.quantiles.add(values[np.isfinite(values)])
        return self

    def _add(self, block: Array) -> None:
        self.statistics.add(block)
        if not block.size:
            return
        if block.dtype.kind == "c":
            self._count(block)
            return
        values = widened(block)
        self._count(values)
        kept = values[np.isfinite(values)]
        if kept.size:
            with np.errstate(over="ignore", invalid="ignore"):
                if self._centre is None:
                    self._centre = float(kept.mean())
                self._squares += float(np.square(kept - self._centre).sum())
            self.quantiles.add(kept)
        if self.rows is not None:
            self.rows.add(block, values)

    def _count(self, values: Array) -> None:
        self.zeros += int(np.count_nonzero(values == 0))
        self.nan += int(np.count_nonzero(np.isnan(values)))
        self.infinite += int(np.count_nonzero(np.isinf(values)))

    @property
    def std(self) -> float:
        """The standard deviation; not a number where the mean is none."""
        size, mean = self.table.size, self.statistics.mean
        if not size or self._centre is None or not math.isfinite(mean):
            return math.nan
        return math.sqrt(max(0.0, self._squares / size - (mean - self._centre) * (mean - self._centre)))

    def as_json(self) -> dict[str, Any]:
        found = self.statistics.as_json()
        digest = found.pop("sha256")
        std = self.std
        found |= {"std": std if math.isfinite(std) else None, "quantiles": self.quantiles.values()}
        found |= {"zeros": self.zeros, "nan": self.nan, "inf": self.infinite}
        if self.rows is not None:
            found["rows"] = self.rows.as_json()
        return {**found, "sha256": digest}


class _Rows:
    """Norms of rows, rows that say nothing new, and the two neighbours that are most alike."""

    def __init__(self, table: Table) -> None:
        self.count = self.measured = 0
        self.low, self.high, self.total = math.inf, -math.inf, 0.0
        self.constant = 0
        self.nearest: tuple[float, int] | None = None
        self._last: Floats | None = None
        weights = np.random.default_rng(0).integers(1, 2**63, table.width, np.uint64)
        self._weights: Ints = weights | np.uint64(1)
        self._prints: list[Ints] | None = [] if table.rows <= MOST_ROWS else None

    def add(self, block: Array, values: Floats) -> None:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            norms = np.sqrt(np.square(values).sum(axis=1))
            self._add_norms(norms[np.isfinite(norms)])
            self._add_neighbours(values)
        self.constant += int(np.count_nonzero((values == values[:, :1]).all(axis=1)))
        if self._prints is not None:
            bits = np.ascontiguousarray(block).view(f"u{block.dtype.itemsize}")
            self._prints.append((bits.astype(np.uint64) * self._weights).sum(axis=1))
        self.count += len(values)

    def _add_norms(self, norms: Floats) -> None:
        if norms.size:
            self.low, self.high = min(self.low, float(norms.min())), max(self.high, float(norms.max()))
            self.total += float(norms.sum())
            self.measured += norms.size

    def _add_neighbours(self, values: Floats) -> None:
        rows = values if self._last is None else np.concatenate([self._last, values])
        first = self.count - (self._last is not None)
        self._last = values[-1:].copy()
        units = rows / np.sqrt(np.square(rows).sum(axis=1, keepdims=True))
        apart = np.square(units[1:] - units[:-1]).sum(axis=1) / 2  # 1 − cos, exact for rows that are nearly the same
        if np.isfinite(apart).any():
            place = int(np.nanargmin(apart))
            if self.nearest is None or apart[place] < self.nearest[0]:
                self.nearest = float(apart[place]), first + place

    @property
    def duplicate(self) -> int | None:
        """Rows that were there before; None where there are too many rows to tell."""
        if self._prints is None:
            return None
        return self.count - len(np.unique(np.concatenate(self._prints))) if self._prints else 0

    def as_json(self) -> dict[str, Any]:
        norm = {"min": self.low, "max": self.high, "mean": self.total / self.measured} if self.measured else None
        near = None
        if self.nearest is not None:
            near = {"rows": [self.nearest[1], self.nearest[1] + 1], "cosine_distance": self.nearest[0]}
        return {"norm": norm, "constant": self.constant, "duplicate": self.duplicate, "nearest_neighbours": near}
