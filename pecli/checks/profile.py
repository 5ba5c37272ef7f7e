"""The distribution of a table's values and rows, gathered block by block in flat memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.statistics import ELEMENTS, NO_EXTENT, Statistics, extent, in_pieces
from pecli.engine.arrays import Array, Floats, Ints, Positions
from pecli.engine.numerics.rounding import widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.table import Table

_DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""Dtypes whose values float32 cannot hold."""
MAX_ROWS = 1 << 22
"""Of a table whose duplicate rows are counted: a fingerprint of each is kept."""


class _Measured(NamedTuple):
    """The contribution of one block, computed in a thread of its own."""

    extent: tuple[float, float, float]
    zeros: int
    nan: int
    infinite: int
    squares: float
    """Of the distances from the centre, over all that is finite."""
    quantiles: Counts | None
    rows: _MeasuredRows | None


class Profile:
    """Everything that `inspect --stats` reports of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.statistics = Statistics(table)
        self.quantiles = Quantiles(double=table.dtype in _DOUBLE)
        self.zeros = self.nan = self.infinite = 0
        self._squares = 0.0
        self._centre: float | None = None
        self.rows = _Rows(table) if len(table.shape) > 1 and table.dtype[:7] != "complex" else None

    def gather(self, see: Callable[[Array], None] | None = None) -> Profile:
        """Read the table: once for nearly everything, and again for the last bits of the quantiles. `see` gets every
        block, in order.
        """
        for block, measured in results_in_order(self._measured, self._centred(self.table.blocks())):
            self.statistics.see(block)
            if measured is not None:
                self._merge(measured)
            if see is not None:
                see(block)
        while self.quantiles.next_bits():
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
    """How many zeros, NaNs and infinities there are."""
    return tuple(int(np.count_nonzero(found)) for found in (values == 0, np.isnan(values), np.isinf(values)))  # type: ignore[return-value]


def _finite(values: Array) -> Array:
    """The finite values, as a flat array."""
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(values)
    return values.reshape(-1) if finite.all() else values[finite]


def _squares(flat: Array, centre: float) -> float:
    """The sum of squares of all finite values, added pairwise as NumPy would for the whole."""
    if len(flat) <= ELEMENTS:
        with np.errstate(over="ignore", invalid="ignore"):
            apart = widened(_finite(flat))
            apart -= centre
            return float(np.square(apart, out=apart).sum())
    half = len(flat) // 2
    half -= half % 8
    return _squares(flat[:half], centre) + _squares(flat[half:], centre)


class _MeasuredRows(NamedTuple):
    """The contribution of the rows of one block."""

    norms: Floats
    constant: int
    prints: Ints | None
    nearest: tuple[float, int] | None
    """The cosine distance of the closest adjacent rows, and the first of them, counted in the block."""
    first: Floats
    last: Floats
    """As unit vectors."""


class _Rows:
    """Norms of rows, constant and duplicate rows, and the closest adjacent rows."""

    def __init__(self, table: Table) -> None:
        self.count = self.measured_norms = 0
        self.low, self.high, self.total = math.inf, -math.inf, 0.0
        self.constant = 0
        self.nearest: tuple[float, int] | None = None
        self._last: Floats | None = None
        weights = np.random.default_rng(0).integers(1, 2**63, table.width, np.uint64)
        self._weights: Ints = weights | np.uint64(1)
        self._prints: list[Ints] | None = [] if table.rows <= MAX_ROWS else None

    def measured(self, block: Array) -> _MeasuredRows:
        """Measure the rows of one block, some at a time."""
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
        """How many rows equal an earlier one; None for more than MAX_ROWS rows."""
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
    """The closest of all pairs of unit rows, and of the closest so far."""
    if not len(rows):
        return known
    apart = others - rows
    distance = np.square(apart, out=apart).sum(axis=1) / 2  # 1 − cos, exact for rows that are nearly the same
    if not np.isfinite(distance).any():
        return known
    place = int(np.nanargmin(distance))
    return known if known is not None and known[0] <= distance[place] else (float(distance[place]), first + place)


def _constant(rows: Array) -> int:
    """How many rows hold a single value; only those whose ends are equal are read in full."""
    likely = rows[rows[:, 0] == rows[:, -1]]
    return int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))


SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_STEP = 16
"""Bits of a pass."""
_LAST = (1 << _STEP) - 1


Counts = dict[int, "Positions"]
"""Histograms of the next bits, by the bits before."""


class Quantiles:
    """Exact quantiles of any number of values in flat memory: elements, not means of two.

    The bits of a float, its sign adjusted, are an integer in the order of the values. Each pass over the values is a
    histogram of the next 16 bits, among those that share the bits before with a quantile: two passes for a float32,
    four for a float64. Count all values and merge the counts, again as long as `next_bits` is true. `double` keeps what
    float32 cannot hold.
    """

    def __init__(self, *, double: bool = False) -> None:
        self._bits = self._left = 64 if double else 32
        self._counts: Counts = {0: np.zeros(1 << _STEP, np.int64)}
        self._wanted = np.empty(0, np.bool_)
        self._found: dict[float, tuple[int, int]] = {}

    def counted(self, pieces: Iterable[Array]) -> Counts:
        """The counts of finite values; any thread may ask for them."""
        counts = {known: np.zeros(1 << _STEP, np.int64) for known in self._counts}
        first = self._left == self._bits
        for values in pieces:
            bits = values.astype(f"f{self._bits // 8}", copy=False).view(f"u{self._bits // 8}")
            top = (bits >> (self._bits - _STEP)).astype(np.intp)
            if first:
                counts[0] += np.bincount(top, minlength=1 << _STEP)
                continue
            keys = _keys(bits[self._wanted[top]], self._bits) >> (self._left - _STEP)
            for known in counts:
                chosen = keys[keys >> _STEP == known] & _LAST
                counts[known] += np.bincount(chosen.astype(np.intp), minlength=1 << _STEP)
        return counts

    def merge(self, counts: Counts) -> None:
        """Add the counts of more values."""
        for known, found in counts.items():
            self._counts[known] += found

    def next_bits(self) -> bool:
        """Find the next bits of every quantile; whether there are more, for which all values are needed again."""
        if self._left == self._bits:
            tops = np.arange(1 << _STEP, dtype=np.uint16)
            self._counts[0] = self._counts[0][np.argsort(_keys(tops, _STEP))]
            count = int(self._counts[0].sum())
            self._found = {share: (0, int(share * (count - 1))) for share in SHARES} if count else {}
        for share, (known, rank) in self._found.items():
            running = np.cumsum(self._counts[known])
            half = int(np.searchsorted(running, rank, side="right"))
            before = int(running[half] - self._counts[known][half])
            self._found[share] = (known << _STEP | half, rank - before)
        if self._left == self._bits:
            self._wanted = np.isin(_keys(tops, _STEP), [known for known, _ in self._found.values()])
        self._left -= _STEP
        self._counts = {known: np.zeros(1 << _STEP, np.int64) for known, _ in self._found.values()}
        return bool(self._found) and self._left > 0

    def values(self) -> dict[str, float] | None:
        """The quantiles by share; None where there are no finite values."""
        return {f"{share:g}": self._value(key) for share, (key, _) in self._found.items()} or None

    def _value(self, key: int) -> float:
        sign = 1 << (self._bits - 1)
        bits = key ^ sign if key & sign else ~key & (2 * sign - 1)
        return float(np.array(bits, f"u{self._bits // 8}").view(f"f{self._bits // 8}"))


def _keys(bits: Any, size: int) -> Any:
    """The bits of floats as integers in their order."""
    sign = 1 << (size - 1)
    return np.where(bits & sign, ~bits, bits | sign)
