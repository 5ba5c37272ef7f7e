"""The distribution of values and rows of a table, gathered block by block in flat memory; and whether it has waves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Flags, Floats, Ints, Positions, widened
from pecli.engine.table import Table, raw_bytes, results_in_order


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


_DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""Dtypes whose values float32 cannot hold."""
MAX_ROWS = 1 << 22
"""Of a table whose duplicate rows are counted: a fingerprint of each is stored."""


class Profile(Statistics):
    """Everything that `inspect --stats` reports of one table."""

    def __init__(self, table: Table) -> None:
        super().__init__(table)
        self.quantiles: dict[str, float] | None = None
        self.values = _Values()
        self.rows = _Rows()
        self._has_rows = len(table.shape) > 1 and table.dtype[:7] != "complex"
        weights = np.random.default_rng(0).integers(1, 2**63, table.width, np.uint64) | np.uint64(1)
        self._weights: Ints | None = weights if table.rows <= MAX_ROWS else None

    def gather(self, see: Callable[[Array], None] | None = None) -> Profile:
        """Read the table: once for nearly everything, and again for the quantiles. `see` gets every block, in order."""
        for block, pieces in results_in_order(self._measured, self.table.blocks()):
            self.see(block)
            for bounds, values, rows in pieces:
                self.merge(*bounds)
                self.values.merge(values)
                self.rows.merge(rows)
            if see is not None:
                see(block)
        if self.table.size and self.table.dtype[:7] != "complex":
            self.quantiles = _quantiles(self.table)
        return self

    def _measured(self, block: Array) -> tuple[Array, list[tuple[tuple[float, float, float], _Values, _Rows]]]:
        found = []
        for piece in in_pieces(block):
            values: Any = piece if piece.dtype.kind == "c" else widened(piece)
            rows = _rows(piece, values, self._weights) if self._has_rows else _Rows()
            found.append((extent(values), _values(values), rows))
        return block, found

    def as_json(self) -> dict[str, Any]:
        found = super().as_json()
        digest = found.pop("sha256")
        found |= {"std": finite(self.values.std), "quantiles": self.quantiles}
        found |= zip(("zeros", "nan", "inf"), self.values.counts.tolist(), strict=True)
        if self._has_rows:
            duplicate = None if self._weights is None else self.rows.duplicate
            found["rows"] = {**self.rows.as_json(), "duplicate": duplicate}
        return {**found, "sha256": digest}


@dataclass
class _Values:
    """The zeros, NaNs and infinities among some values, their number and mean, and the sum of the squares of their
    distances from it.
    """

    counts: Positions = field(default_factory=lambda: np.zeros(3, np.int64))
    size: int = 0
    mean: float = 0.0
    squares: float = math.nan

    def merge(self, after: _Values) -> None:
        """Take more values into account."""
        self.counts = self.counts + after.counts
        apart, size = after.mean - self.mean, self.size + after.size
        if self.size:
            self.squares += after.squares + apart * (apart * (self.size / size) * after.size)
        else:
            self.squares = after.squares
        self.mean += apart * (after.size / max(1, size))
        self.size = size

    @property
    def std(self) -> float:
        """The standard deviation; not a number where the mean is none."""
        return math.sqrt(self.squares / self.size) if math.isfinite(self.squares) else math.nan


def _values(values: Any) -> _Values:
    counts = np.array([np.count_nonzero(found) for found in (values == 0, np.isnan(values), np.isinf(values))])
    if values.dtype.kind == "c" or not values.size:
        return _Values(counts)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        return _Values(counts, values.size, mean, float(np.square(values - mean).sum()))


@dataclass
class _Rows:
    """Norms of rows, constant and duplicate rows, and the closest adjacent rows."""

    count: int = 0
    constant: int = 0
    norms: tuple[float, float, float, int] = (math.inf, -math.inf, 0.0, 0)
    """The smallest, the largest, the sum and the number of those that are finite."""
    nearest: tuple[float, int] = (math.inf, 0)
    """The cosine distance of the closest adjacent rows, and the first of them."""
    fingerprints: list[Ints] = field(default_factory=list)
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
        self.fingerprints += after.fingerprints
        self.constant += after.constant
        self.count += after.count

    @property
    def duplicate(self) -> int:
        """How many rows equal an earlier one."""
        return self.count - len(np.unique(np.concatenate(self.fingerprints))) if self.fingerprints else 0

    def as_json(self) -> dict[str, Any]:
        (low, high, total, finite), (distance, row) = self.norms, self.nearest
        norm = {"min": low, "max": high, "mean": total / finite} if finite else None
        near = {"rows": [row, row + 1], "cosine_distance": distance} if distance < math.inf else None
        return {"norm": norm, "constant": self.constant, "duplicate": None, "nearest_neighbours": near}


def _rows(piece: Array, values: Floats, weights: Ints | None) -> _Rows:
    """Some rows, and the same as float64; with weights, also a fingerprint of each."""
    likely = piece[piece[:, 0] == piece[:, -1]]  # others need not be read in full
    constant = int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))
    fingerprints = []
    if weights is not None:
        bits = np.ascontiguousarray(piece).view(f"u{piece.dtype.itemsize}").astype(np.uint64)
        bits *= weights
        fingerprints = [bits.sum(axis=1)]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        norms = np.sqrt(np.square(values).sum(axis=1))
        units = values / norms[:, None]
        nearest = _nearest(units[:-1], units[1:], 0)
    finite = norms[np.isfinite(norms)]
    sums = (float(finite.min()), float(finite.max()), float(finite.sum()), finite.size) if finite.size else _Rows.norms
    return _Rows(len(piece), constant, sums, nearest, fingerprints, (units[:1].copy(), units[-1:].copy()))


def _nearest(rows: Floats, others: Floats, first: int) -> tuple[float, int]:
    """The smallest cosine distance of pairs of unit rows, and which pair it is."""
    apart = others - rows
    distance = np.square(apart, out=apart).sum(axis=1) / 2  # 1 − cos, exact for rows that are nearly the same
    distance[np.isnan(distance)] = math.inf
    place = int(distance.argmin()) if distance.size else 0
    return (float(distance[place]), first + place) if distance.size else (math.inf, 0)


Counts = dict[int, Positions]
"""Histograms of the next bits, by the bits before."""
SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_STEP = 16
"""Bits of a pass."""


def _quantiles(table: Table) -> dict[str, float] | None:
    """Exact quantiles in flat memory, elements and not means of two, by share; None without any finite value.

    The bits of a float, its sign adjusted, are an integer in the order of the values. Each pass over the table is a
    histogram of the next 16 bits, among the values that share the bits before with a quantile.
    """
    bits = 64 if table.dtype in _DOUBLE else 32
    found, ranks = dict.fromkeys(SHARES, 0), dict[float, int]()
    likely = np.ones(1 << _STEP, np.bool_)  # by the first 16 bits
    for shift in range(bits - _STEP, -1, -_STEP):
        starts = {*found.values()}

        def counted(block: Array, shift: int = shift, starts: set[int] = starts, likely: Flags = likely) -> Counts:
            counts = {start: np.zeros(1 << _STEP, np.int64) for start in starts}
            for piece in in_pieces(block):
                keys = _ordered(_finite_bits(piece, bits, likely)) >> shift
                for start in starts:
                    some = keys[keys >> _STEP == start] & 0xFFFF if start else keys
                    counts[start] += np.bincount(some.astype(np.intp), minlength=1 << _STEP)
            return counts

        counts: Counts = dict.fromkeys(starts, np.zeros(1 << _STEP, np.int64))
        for more in results_in_order(counted, table.blocks()):
            counts = {start: counts[start] + more[start] for start in starts}
        if not ranks:
            size = int(counts[0].sum())
            ranks = {share: int(share * (size - 1)) for share in SHARES}
            if not size:
                return None
        for share, start in found.items():
            running = np.cumsum(counts[start])
            place = int(np.searchsorted(running, ranks[share], side="right"))
            ranks[share] -= int(running[place] - counts[start][place])
            found[share] = start << _STEP | place
        if shift == bits - _STEP:
            likely = np.isin(_ordered(np.arange(1 << _STEP, dtype=np.uint16)), [*found.values()])
    keys = np.array([*found.values()], f"u{bits // 8}")
    values = (~_ordered(~keys)).view(f"f{bits // 8}").tolist()  # the inverse
    return {f"{share:g}": value for share, value in zip(found, values, strict=True)}


def _finite_bits(values: Array, size: int, likely: Flags) -> Any:
    """The bits of the finite values as floats of that size, of those that begin with likely bits."""
    floats: Any = widened(values) if values.dtype.kind == "V" else values
    with np.errstate(invalid="ignore", over="ignore"):
        floats = floats.astype(f"f{size // 8}", copy=False)
        is_finite = np.isfinite(floats)
    bits = (floats.reshape(-1) if is_finite.all() else floats[is_finite]).view(f"u{size // 8}")
    return bits if likely.all() else bits[likely[bits >> (size - _STEP)]]


def _ordered(bits: Any) -> Any:
    """The bits of floats as integers in their order: all of them flipped below zero, else the sign."""
    size = bits.dtype.itemsize
    below = bits.view(f"i{size}") >> (8 * size - 1)
    return bits ^ (below.view(bits.dtype) | bits.dtype.type(1 << (8 * size - 1)))


MAX_PROBED = 64
"""Columns that are tested for waves."""
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
        residual = np.median(np.abs(both - (both * here).sum(axis=0) / (here * here).sum(axis=0) * here), axis=0)
        return not (residual > SMOOTH * np.abs(here).max(axis=0)).all()
