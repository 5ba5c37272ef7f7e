"""The distribution of the values and rows of a table, gathered slice by slice; and whether it has waves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Array, dtype_name, widened
from pecli.engine.table import Table, raw_bytes, results_in_order

SLICE_ELEMENTS = 1 << 16
"""Elements processed at once, so that intermediate arrays stay in the cache."""
SLICES_PER_TASK = 32
"""Slices that a thread takes at a time."""


class Statistics:
    """Minimum, maximum and mean of a table, and the SHA-256 of its bytes, from blocks as they are made."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.min = math.inf
        self.max = -math.inf
        self._sums: list[float] = []
        self._hash = sha256()

    def add(self, block: Array) -> None:
        """Take the next rows into account."""
        self._hash.update(raw_bytes(block))
        for piece in _slices(block):
            low, high, total = _extent(piece if piece.dtype.kind == "c" else widened(piece))
            self.min = float(np.minimum(self.min, low))  # which keeps NaN
            self.max = float(np.maximum(self.max, high))
            self._sums.append(total)

    def as_json(self) -> dict[str, Any]:
        return {
            "shape": list(self.table.shape),
            "dtype": self.table.dtype,
            "min": finite(self.min),
            "max": finite(self.max),
            "mean": finite(_sum(self._sums) / self.table.size) if self.table.size else None,
            "sha256": self._hash.hexdigest(),
        }


class _Slice(NamedTuple):
    """What some rows add to the profile of a tensor; squares are those of distances from the slice's own mean."""

    size: int
    low: float
    high: float
    total: float
    mean: float
    squares: float
    counts: tuple[int, int, int]
    """Zeros, NaNs and infinities."""
    constant_rows: int
    norms: AnyArray
    """The norms of its rows that are finite."""


def profile(array: Array) -> dict[str, Any]:
    """Everything that `inspect --stats` reports of one tensor, as plain data."""
    rows = array.reshape(-1, array.shape[-1] if array.ndim > 1 else 1) if array.size else np.empty((0, 1))
    tasks = list(_slices(rows, SLICE_ELEMENTS * SLICES_PER_TASK))
    digest = sha256()
    slices: list[_Slice] = []
    for task, measured in zip(tasks, results_in_order(_measured, tasks), strict=True):
        digest.update(raw_bytes(task))
        slices += measured
    mean = _sum([each.total for each in slices]) / array.size if array.size else math.nan
    ordered = array.dtype.kind != "c"
    found: dict[str, Any] = {
        "shape": list(array.shape),
        "dtype": dtype_name(array.dtype),
        "min": finite(float(np.min([each.low for each in slices], initial=math.inf))),
        "max": finite(float(np.max([each.high for each in slices], initial=-math.inf))),
        "mean": finite(mean),
        "std": finite(_deviation(slices, mean)),
        "quantiles": quantiles(rows) if ordered and array.size else None,
    }
    found |= {name: sum(each.counts[k] for each in slices) for k, name in enumerate(("zeros", "nan", "inf"))}
    if array.ndim > 1 and ordered:
        norms = np.concatenate([each.norms for each in slices]) if slices else np.empty(0)
        norm = {"min": norms.min(), "max": norms.max(), "mean": norms.mean()} if norms.size else {}
        found["rows"] = {
            "norm": {name: float(value) for name, value in norm.items()} or None,
            "constant": sum(each.constant_rows for each in slices),
        }
    return {**found, "sha256": digest.hexdigest()}


def _measured(rows: Array) -> list[_Slice]:
    return [_slice(piece) for piece in _slices(rows)]


def _slice(rows: Array) -> _Slice:
    values: Any = rows if rows.dtype.kind == "c" else widened(rows)
    low, high, total = _extent(values)
    zeros, nans, infinities = (
        int(np.count_nonzero(where)) for where in (values == 0, np.isnan(values), np.isinf(values))
    )
    likely = rows[rows[:, 0] == rows[:, -1]]  # others need not be read in full
    constant = int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))
    mean = math.nan
    squares = math.nan
    norms = np.empty(0)
    if rows.dtype.kind != "c":
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
            norms = np.sqrt(np.square(values).sum(axis=1))
    return _Slice(
        rows.size, low, high, total, mean, squares, (zeros, nans, infinities), constant, norms[np.isfinite(norms)]
    )


def _deviation(slices: list[_Slice], mean: float) -> float:
    """The standard deviation; not a number where the mean is none."""
    if not slices or not math.isfinite(mean):
        return math.nan
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [each.squares + each.size * np.square(np.float64(each.mean - mean)) for each in slices]
        return math.sqrt(_sum(squares) / sum(each.size for each in slices))


def _slices(rows: Array, elements: int = SLICE_ELEMENTS) -> Iterator[Array]:
    step = max(1, elements // max(1, rows.shape[1]))
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _extent(values: AnyArray) -> tuple[float, float, float]:
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


SHARES = (0.01, 0.25, 0.5, 0.75, 0.99)
_DOUBLE = ("float64", "int64", "uint64", "int32", "uint32")
"""Dtypes whose values float32 cannot hold."""


def quantiles(rows: Array) -> dict[str, float] | None:
    """Exact quantiles, elements and not means of two, by share; None without any finite value."""
    with np.errstate(invalid="ignore", over="ignore"):
        floats = np.asarray(rows).astype("f8" if dtype_name(rows.dtype) in _DOUBLE else "f4", copy=False)
        values = floats[np.isfinite(floats)]
    if not values.size:
        return None
    ranks = [int(share * (values.size - 1)) for share in SHARES]
    values.partition(ranks)
    return {f"{share:g}": float(values[rank]) for share, rank in zip(SHARES, ranks, strict=True)}


MAX_PROBED = 64
"""Columns that are tested for waves."""
SMOOTH = 0.05
"""Share of its largest value that a wave, or a line, with some noise leaves."""


def has_waves(values: AnyArray) -> bool:
    """Whether some column is a wave, or a line: x[n + 1] + x[n − 1] is a multiple of x[n].

    >>> has_waves(np.sin(np.arange(32.0))[:, None]), has_waves(np.random.default_rng(0).normal(size=(32, 4)))
    (True, False)
    """
    if len(values) < 3:
        return False
    values = values[:, :: max(1, values.shape[1] // MAX_PROBED)]
    here = values[1:-1]
    both = values[:-2] + values[2:]
    with np.errstate(all="ignore"):
        residual = np.median(np.abs(both - (both * here).sum(axis=0) / (here * here).sum(axis=0) * here), axis=0)
        return not (residual > SMOOTH * np.abs(here).max(axis=0)).all()
