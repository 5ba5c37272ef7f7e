"""The distribution of a table's values and rows, gathered block by block in flat memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pecli.checks.statistics import Statistics, extent, finite, in_pieces
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

    extents: list[tuple[float, float, float]]
    counts: Positions
    """Of zeros, NaNs and infinities."""
    squares: float
    """Of the distances from the centre, over all that is finite."""
    quantiles: Counts
    rows: _Rows


class Profile:
    """Everything that `inspect --stats` reports of one table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.statistics = Statistics(table)
        self.quantiles = Quantiles(double=table.dtype in _DOUBLE)
        self.rows = _Rows()
        self._counts: Positions = np.zeros(3, np.int64)
        self._squares = 0.0
        self._centre: float | None = None
        self._has_rows = len(table.shape) > 1 and table.dtype[:7] != "complex"
        weights = np.random.default_rng(0).integers(1, 2**63, table.width, np.uint64) | np.uint64(1)
        self._weights: Ints | None = weights if table.rows <= MAX_ROWS else None

    def gather(self, see: Callable[[Array], None] | None = None) -> Profile:
        """Read the table: once for nearly everything, and again for the last bits of the quantiles. `see` gets every
        block, in order.
        """
        for block, measured in results_in_order(self._measured, self._centred(self.table.blocks())):
            self.statistics.see(block)
            for each in measured.extents:
                self.statistics.merge(*each)
            self._counts += measured.counts
            self._squares += measured.squares
            self.quantiles.merge(measured.quantiles)
            self.rows.merge(measured.rows)
            if see is not None:
                see(block)
        while self.table.size and self.quantiles.next_bits():
            for counts in results_in_order(self._counted, self.table.blocks()):
                self.quantiles.merge(counts)
        return self

    def _centred(self, blocks: Iterable[Array]) -> Iterator[Array]:
        """The blocks; where the squares are measured from is known before the first is handed on that has any."""
        for block in blocks:
            if self._centre is None and block.dtype.kind != "c":
                kept = _finite(widened(block))
                if kept.size:
                    with np.errstate(over="ignore", invalid="ignore"):
                        self._centre = float(kept.mean())
            yield block

    def _measured(self, block: Array) -> tuple[Array, _Measured]:
        if block.dtype.kind == "c":
            return block, _Measured([extent(block)], _counts(block), 0.0, {}, _Rows())
        extents, counts, squares, rows = [], np.zeros(3, np.int64), 0.0, _Rows()
        for piece in in_pieces(block):
            values = widened(piece)
            extents.append(extent(values))
            counts += _counts(values)
            with np.errstate(over="ignore", invalid="ignore"):
                squares += float(np.square(_finite(values) - (self._centre or 0.0)).sum())
            if self._has_rows:
                rows.merge(_rows(piece, values, self._weights))
        return block, _Measured(extents, counts, squares, self._counted(block), rows)

    def _counted(self, block: Array) -> Counts:
        return self.quantiles.counted(map(_finite, in_pieces(block)))

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
        found |= {"std": finite(self.std), "quantiles": self.quantiles.values()}
        found |= zip(("zeros", "nan", "inf"), self._counts.tolist(), strict=True)
        if self._has_rows:
            duplicate = None if self._weights is None else self.rows.duplicate
            found["rows"] = {**self.rows.as_json(), "duplicate": duplicate}
        return {**found, "sha256": digest}


def _counts(values: Array) -> Positions:
    """How many zeros, NaNs and infinities there are."""
    return np.array([np.count_nonzero(found) for found in (values == 0, np.isnan(values), np.isinf(values))])


def _finite(values: Any) -> Any:
    """The finite values, as a flat array."""
    with np.errstate(invalid="ignore"):
        finite = np.isfinite(values)
    return values.reshape(-1) if finite.all() else values[finite]


@dataclass
class _Rows:
    """Norms of rows, constant and duplicate rows, and the closest adjacent rows."""

    count: int = 0
    constant: int = 0
    norms: tuple[float, float, float, int] = (math.inf, -math.inf, 0.0, 0)
    """The smallest, the largest, the sum and the number of those that are finite."""
    nearest: tuple[float, int] = (math.inf, 0)
    """The cosine distance of the closest adjacent rows, and the first of them."""
    prints: list[Ints] = field(default_factory=list)
    ends: tuple[Floats, Floats] | None = None
    """The first and the last row, as unit vectors."""

    def merge(self, after: _Rows) -> None:
        """Take the rows after these into account."""
        if self.ends is not None and after.ends is not None:
            self.nearest = min(self.nearest, _nearest(self.ends[1], after.ends[0], self.count - 1))
        self.nearest = min(self.nearest, (after.nearest[0], after.nearest[1] + self.count))
        self.ends = (self.ends[0], after.ends[1]) if self.ends and after.ends else self.ends or after.ends
        (low, high, total, finite), other = self.norms, after.norms
        self.norms = min(low, other[0]), max(high, other[1]), total + other[2], finite + other[3]
        self.prints += after.prints
        self.constant += after.constant
        self.count += after.count

    @property
    def duplicate(self) -> int:
        """How many rows equal an earlier one."""
        return self.count - len(np.unique(np.concatenate(self.prints))) if self.prints else 0

    def as_json(self) -> dict[str, Any]:
        (low, high, total, finite), (distance, row) = self.norms, self.nearest
        norm = {"min": low, "max": high, "mean": total / finite} if finite else None
        near = {"rows": [row, row + 1], "cosine_distance": distance} if distance < math.inf else None
        return {"norm": norm, "constant": self.constant, "duplicate": None, "nearest_neighbours": near}


def _rows(piece: Array, values: Floats, weights: Ints | None) -> _Rows:
    """Some rows, and the same as float64; with weights, also a fingerprint of each."""
    likely = piece[piece[:, 0] == piece[:, -1]]  # others need not be read in full
    constant = int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))
    prints = []
    if weights is not None:
        bits = np.ascontiguousarray(piece).view(f"u{piece.dtype.itemsize}").astype(np.uint64)
        bits *= weights
        prints = [bits.sum(axis=1)]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        norms = np.sqrt(np.square(values).sum(axis=1))
        units = values / norms[:, None]
        nearest = _nearest(units[:-1], units[1:], 0)
    finite = norms[np.isfinite(norms)]
    sums = (float(finite.min()), float(finite.max()), float(finite.sum()), finite.size) if finite.size else _Rows.norms
    return _Rows(len(piece), constant, sums, nearest, prints, (units[:1].copy(), units[-1:].copy()))


def _nearest(rows: Floats, others: Floats, first: int) -> tuple[float, int]:
    """The smallest cosine distance of pairs of unit rows, and which pair it is."""
    apart = others - rows
    distance = np.square(apart, out=apart).sum(axis=1) / 2  # 1 − cos, exact for rows that are nearly the same
    distance[np.isnan(distance)] = math.inf
    place = int(distance.argmin()) if distance.size else 0
    return (float(distance[place]), first + place) if distance.size else (math.inf, 0)


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
