"""A closer look at a table: how its values and its rows are distributed, gathered block by block in flat memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.statistics import ELEMENTS, NO_EXTENT, Statistics, extent, in_pieces
from pecli.checks.statistics.quantiles import Counts, Quantiles
from pecli.engine.arrays import Array, Floats, Ints
from pecli.engine.numerics.rounding import widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.table import Table

_DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""What float32 does not hold."""
MOST_ROWS = 1 << 22
"""Rows whose fingerprints are kept to find those that come twice."""


class _Measured(NamedTuple):
    """What one block adds, found in a thread of its own."""

    extent: tuple[float, float, float]
    zeros: int
    nan: int
    infinite: int
    squares: float
    """Of the distances from the centre, over all that is finite."""
    quantiles: Counts | None
    rows: _MeasuredRows | None


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
        for block, measured in results_in_order(self._measured, self._centred(self.table.blocks())):
            self.statistics.see(block)
            if measured is not None:
                self._merge(measured)
            if see is not None:
                see(block)
        while self.quantiles.settle():
            for counts in results_in_order(self._counted, self.table.blocks()):
                self.quantiles.merge(counts)
        return self

    def _centred(self, blocks: Iterable[Array]) -> Iterator[Array]:
        """The blocks; where the squares are measured from is known before the first is handed on that has any."""
        for block in blocks:
            if self._centre is None and block.size and block.dtype.kind != "c":
                kept = _finite(widened(block))
                if kept.size:
                    with np.errstate(over="ignore", invalid="ignore"):
                        self._centre = float(kept.mean())
            yield block

    def _measured(self, block: Array) -> tuple[Array, _Measured | None]:
        if not block.size:
            return block, None
        if block.dtype.kind == "c":
            return block, _Measured(NO_EXTENT, *_counts(block), 0.0, None, None)
        found = extent(map(widened, in_pieces(block)))
        if math.isfinite(found[2]):
            zeros = sum(int(np.count_nonzero(piece == 0)) for piece in in_pieces(block))
            counts = (zeros, 0, 0)
        else:
            counts = _counts(widened(block))
        squares = 0.0 if self._centre is None else _squares(block.reshape(-1), self._centre)
        rows = None if self.rows is None else self.rows.measured(block)
        return block, _Measured(found, *counts, squares, self._counted(block), rows)

    def _counted(self, block: Array) -> Counts:
        return self.quantiles.counted(map(_finite, in_pieces(block)))

    def _merge(self, measured: _Measured) -> None:
        self.statistics.merge(*measured.extent)
        self.zeros += measured.zeros
        self.nan += measured.nan
        self.infinite += measured.infinite
        self._squares += measured.squares
        if measured.quantiles is not None:
            self.quantiles.merge(measured.quantiles)
        if self.rows is not None and measured.rows is not None:
            self.rows.merge(measured.rows)

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


def _counts(values: Array) -> tuple[int, int, int]:
    """How many zeros, how many that are not numbers, how many infinite ones."""
    return tuple(int(np.count_nonzero(found)) for found in (values == 0, np.isnan(values), np.isinf(values)))  # type: ignore[return-value]


def _finite(values: Array) -> Array:
    """Those that are, in a row."""
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(values)
    return values.reshape(-1) if finite.all() else values[finite]


def _squares(flat: Array, centre: float) -> float:
    """The sum over all that is finite, added up two by two as NumPy would that of the whole."""
    if len(flat) <= ELEMENTS:
        with np.errstate(over="ignore", invalid="ignore"):
            apart = widened(_finite(flat))
            apart -= centre
            return float(np.square(apart, out=apart).sum())
    half = len(flat) // 2
    half -= half % 8
    return _squares(flat[:half], centre) + _squares(flat[half:], centre)


class _MeasuredRows(NamedTuple):
    """What the rows of one block add."""

    norms: Floats
    constant: int
    prints: Ints | None
    nearest: tuple[float, int] | None
    """How far apart the two neighbours are that are most alike, and the first of them, counted in the block."""
    first: Floats
    last: Floats
    """As vectors of length 1."""


class _Rows:
    """Norms of rows, rows that say nothing new, and the two neighbours that are most alike."""

    def __init__(self, table: Table) -> None:
        self.count = self.measured_norms = 0
        self.low, self.high, self.total = math.inf, -math.inf, 0.0
        self.constant = 0
        self.nearest: tuple[float, int] | None = None
        self._last: Floats | None = None
        weights = np.random.default_rng(0).integers(1, 2**63, table.width, np.uint64)
        self._weights: Ints = weights | np.uint64(1)
        self._prints: list[Ints] | None = [] if table.rows <= MOST_ROWS else None

    def measured(self, block: Array) -> _MeasuredRows:
        """The rows of one block, of which some are looked at together."""
        norms, prints, constant, nearest, row = [], [], 0, None, 0
        first: Floats | None = None
        last: Floats | None = None
        for piece in in_pieces(block):
            values = widened(piece)
            constant += _constant(piece)
            if self._prints is not None:
                bits = np.ascontiguousarray(piece).view(f"u{piece.dtype.itemsize}").astype(np.uint64)
                bits *= self._weights
                prints.append(bits.sum(axis=1))
            with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
                norms.append(np.sqrt(np.square(values).sum(axis=1)))
                values /= norms[-1][:, None]
                if last is None:
                    first = values[:1].copy()
                else:
                    nearest = _nearer(nearest, last, values[:1], row - 1)
                nearest = _nearer(nearest, values[:-1], values[1:], row)
            last, row = values[-1:].copy(), row + len(values)
        assert first is not None
        assert last is not None
        found = np.concatenate(prints) if prints else None
        return _MeasuredRows(np.concatenate(norms), constant, found, nearest, first, last)

    def merge(self, rows: _MeasuredRows) -> None:
        """Take the next rows into account."""
        with np.errstate(invalid="ignore", over="ignore"):
            self._add_norms(rows.norms[np.isfinite(rows.norms)])
            if self._last is not None:
                self.nearest = _nearer(self.nearest, self._last, rows.first, self.count - 1)
        if rows.nearest is not None and (self.nearest is None or rows.nearest[0] < self.nearest[0]):
            self.nearest = rows.nearest[0], self.count + rows.nearest[1]
        self._last = rows.last
        self.constant += rows.constant
        if self._prints is not None and rows.prints is not None:
            self._prints.append(rows.prints)
        self.count += len(rows.norms)

    def _add_norms(self, norms: Floats) -> None:
        if norms.size:
            self.low, self.high = min(self.low, float(norms.min())), max(self.high, float(norms.max()))
            self.total += float(norms.sum())
            self.measured_norms += norms.size

    @property
    def duplicate(self) -> int | None:
        """Rows that were there before; None where there are too many rows to tell."""
        if self._prints is None:
            return None
        return self.count - len(np.unique(np.concatenate(self._prints))) if self._prints else 0

    def as_json(self) -> dict[str, Any]:
        norm = (
            {"min": self.low, "max": self.high, "mean": self.total / self.measured_norms}
            if self.measured_norms
            else None
        )
        near = None
        if self.nearest is not None:
            near = {"rows": [self.nearest[1], self.nearest[1] + 1], "cosine_distance": self.nearest[0]}
        return {"norm": norm, "constant": self.constant, "duplicate": self.duplicate, "nearest_neighbours": near}


def _nearer(known: tuple[float, int] | None, rows: Floats, others: Floats, first: int) -> tuple[float, int] | None:
    """The two of all pairs that are most alike, the ones known before included; rows of length 1."""
    if not len(rows):
        return known
    apart = others - rows
    distance = np.square(apart, out=apart).sum(axis=1) / 2  # 1 − cos, exact for rows that are nearly the same
    if not np.isfinite(distance).any():
        return known
    place = int(np.nanargmin(distance))
    return known if known is not None and known[0] <= distance[place] else (float(distance[place]), first + place)


def _constant(rows: Array) -> int:
    """How many rows hold one value throughout; only those are looked at whose ends are the same."""
    likely = rows[rows[:, 0] == rows[:, -1]]
    return int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))
