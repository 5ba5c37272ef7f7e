"""Statistics of the values and rows of a table, gathered slice by slice."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from hashlib import sha256
from operator import call
from typing import Any, NamedTuple

import numpy as np

from pecli.checks import plain
from pecli.checks.quantiles import quantiles
from pecli.engine.arrays import AnyArray, Array, Floats, dtype_name, widened
from pecli.engine.named_values import JsonObject
from pecli.engine.table import Table, raw_bytes, results_in_order

SLICE_ELEMENTS = 1 << 16
"""Elements that are processed at once, so that intermediate arrays stay in the cache."""


LONG_ROW = 1 << 22
"""Elements of a row that is too long to be processed at once: in float64, it takes 32 MiB."""


class Norms(NamedTuple):
    """The finite norms of some rows: how many there are, the smallest, the largest and their sum."""

    rows: int
    min: float
    max: float
    sum: float

    @classmethod
    def of(cls, norms: Floats) -> "Norms":
        """Summarise the norms of rows: [1, 3, inf] are 2 rows, 1 at least, 3 at most, 4 in sum."""
        finite = norms[np.isfinite(norms)]
        return cls(
            rows=finite.size,
            min=float(finite.min(initial=math.inf)),
            max=float(finite.max(initial=-math.inf)),
            sum=float(finite.sum()),
        )

    def joined(self, others: "Norms") -> "Norms":
        """Return the norms of these rows and others."""
        return Norms(
            rows=self.rows + others.rows,
            min=min(self.min, others.min),
            max=max(self.max, others.max),
            sum=self.sum + others.sum,
        )


NO_NORMS = Norms(rows=0, min=math.inf, max=-math.inf, sum=0.0)


class Extent(NamedTuple):
    """The smallest and the largest value of some rows, and their sum; NaN if they have none."""

    min: float
    max: float
    sum: float


NO_EXTENT = Extent(math.nan, math.nan, math.nan)


class ElementCounts(NamedTuple):
    """The numbers of elements that are zero, NaN or infinite, and of rows whose elements are all the same."""

    zeros: int
    nan: int
    inf: int
    constant: int


NO_COUNTS = ElementCounts(zeros=0, nan=0, inf=0, constant=0)


@dataclass(frozen=True)
class SliceStatistics:
    """The share of some rows in the statistics of a table.

    Attributes:
        extent: Their smallest and largest value, and their sum.
        size: The number of elements.
        counts: The numbers of special elements and rows.
        mean: The mean; NaN for complex numbers.
        squares: The sum of squares of the distances from that mean.
        norms: The Euclidean norms of the rows.
    """

    extent: Extent
    size: int
    counts: ElementCounts
    mean: float
    squares: float
    norms: Norms


def described(
    table: Table, advance: Callable[[int], None] = lambda count: None
) -> dict[str, object]:
    """Return shape, dtype, minimum, maximum and mean of a table, and the SHA-256 of its bytes.

    `pecli rope --json` prints them, so that two machines can compare a table without copying it.

    Args:
        table: The table, which is computed block by block and never in memory as a whole.
        advance: Called with the number of bytes of each block, for a progress bar.
    """
    digest = sha256()
    extents: list[Extent] = []
    for block in table.blocks():
        digest.update(raw_bytes(block))
        extents += [_measure_extent(rows) for rows in _split_into_slices(block)]
        advance(block.nbytes)
    return {
        "shape": list(table.shape),
        "dtype": table.dtype,
        **_summarise(extents, table.size),
        "sha256": digest.hexdigest(),
    }


def _split_into_slices(rows: Array) -> Iterator[Array]:
    """Yield a few rows at a time, at least one; of longer rows than LONG_ROW, parts as rows."""
    if rows.shape[1] > LONG_ROW:
        yield from (part[None] for part in _split_into_flat_slices(rows))
        return
    step = max(1, SLICE_ELEMENTS // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def _split_into_flat_slices(rows: Array) -> Iterator[Array]:
    """Yield some elements at a time, whatever rows they belong to."""
    elements = rows.reshape(-1)
    for start in range(0, elements.size, SLICE_ELEMENTS):
        yield elements[start : start + SLICE_ELEMENTS]


def _measure_extent(rows: Array) -> Extent:
    """Return the smallest number, the largest number and the sum of some rows."""
    if not _is_ordered(rows):
        return NO_EXTENT
    values = np.asarray(rows, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        sums_of_rows = values.sum(axis=1)
        total = _sum_exactly(sums_of_rows.tolist())
        return Extent(float(values.min()), float(values.max()), total)


def _summarise(extents: Sequence[Extent], size: int) -> dict[str, float | None]:
    """Return minimum, maximum and mean of a table from the extents of its slices; None for what is not finite.

    Args:
        extents: The smallest, the largest and the sum of each slice.
        size: The number of elements in all of them.
    """
    minima, maxima, sums = np.array(extents, np.float64).reshape(-1, 3).T
    # NumPy's minimum is NaN if any number is; Python's may skip it.
    smallest = float(minima.min(initial=math.inf))
    largest = float(maxima.max(initial=-math.inf))
    mean = plain(_sum_exactly(sums) / size) if size else None
    return {"min": plain(smallest), "max": plain(largest), "mean": mean}


def _sum_exactly(values: Iterable[float]) -> float:
    """Return the exactly rounded sum; NaN if it has no finite value."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return math.nan


def profile(array: Array) -> JsonObject:
    """Return everything that `pecli inspect --stats` reports of one tensor."""
    measured = _measure_array(array)
    counts = _add_counts(measured.slices)
    statistics: JsonObject = {
        "shape": list(array.shape),
        "dtype": dtype_name(array.dtype),
        **_make_value_statistics(measured.slices, array.size),
        "quantiles": measured.quantiles,
        "zeros": counts.zeros,
        "nan": counts.nan,
        "inf": counts.inf,
    }
    if _has_rows(array) and _is_ordered(array):
        statistics["rows"] = {
            "norm": _summarise_norms(measured.slices),
            "constant": counts.constant,
        }
    statistics["sha256"] = measured.sha256
    return statistics


class _MeasuredArray(NamedTuple):
    """Results that each need all of an array: quantiles, statistics of its slices, and its hash."""

    quantiles: dict[str, float] | None
    slices: list[SliceStatistics]
    sha256: str


def _measure_array(array: Array) -> _MeasuredArray:
    """Measure an array in three threads, since each result reads all of it."""
    rows = _as_rows(array)
    jobs: list[Callable[[], Any]] = [
        # Quantiles take as long as the others together, so they begin first.
        lambda: _find_quantiles(rows),
        lambda: [*map(_measure_slice, _split_into_slices(rows))],
        lambda: sha256(raw_bytes(rows)).hexdigest(),
    ]
    return _MeasuredArray(*results_in_order(call, jobs))


def _is_ordered(array: Array) -> bool:
    """Return False for complex numbers: none is larger than another."""
    return array.dtype.kind != "c"


def _find_quantiles(rows: Array) -> dict[str, float] | None:
    return quantiles(rows, _split_into_flat_slices(rows)) if _is_ordered(rows) else None


def _make_value_statistics(slices: Sequence[SliceStatistics], size: int) -> JsonObject:
    """Return minimum, maximum, mean and standard deviation."""
    summary = _summarise([piece.extent for piece in slices], size)
    return {**summary, "std": _compute_standard_deviation(slices, summary["mean"], size)}


def _add_counts(slices: Sequence[SliceStatistics]) -> ElementCounts:
    """Return the numbers of special elements and rows in all slices."""
    counts = [piece.counts for piece in slices]
    return ElementCounts._make(np.sum([NO_COUNTS, *counts], axis=0).tolist())


def _has_rows(array: Array) -> bool:
    """Return True if the last axis of an array is that of rows which are short enough to be measured.

    A vector has no rows. A row of more than four million elements would take much memory at once.
    """
    return array.ndim > 1 and array.shape[-1] <= LONG_ROW


def _as_rows(array: Array) -> Array:
    """Return an array with two axes: (2, 8, 64) becomes 16 rows of 64.

    An array without rows becomes a single one.
    """
    if not array.size:
        return np.empty((0, 1))
    width = array.shape[-1] if _has_rows(array) else array.size
    return array.reshape(-1, width)


def _measure_slice(rows: Array) -> SliceStatistics:
    """Return what some rows add to the statistics of a tensor: counts, sums, the smallest value.

    Complex numbers have no moments here.
    """
    is_complex = rows.dtype.kind == "c"
    values: AnyArray = rows if is_complex else widened(rows)
    # Real values are a copy of the rows, which the moments overwrite: these are measured last.
    extent = _measure_extent(values)
    counts = ElementCounts(
        zeros=int(np.count_nonzero(values == 0)),
        nan=int(np.count_nonzero(np.isnan(values))),
        inf=int(np.count_nonzero(np.isinf(values))),
        constant=_count_constant(rows),
    )
    moments = NO_MOMENTS if is_complex else _measure_moments(values)
    return SliceStatistics(
        extent=extent,
        size=rows.size,
        counts=counts,
        mean=moments.mean,
        squares=moments.squares,
        norms=moments.norms,
    )


def _count_constant(rows: Array) -> int:
    """Return the number of rows whose elements are all the same."""
    likely = rows[rows[:, 0] == rows[:, -1]]  # Others need not be read in full.
    return int(np.count_nonzero((likely == likely[:, :1]).all(axis=1)))


class Moments(NamedTuple):
    """The mean of some rows, the squares of distances from it, and the norms of rows."""

    mean: float
    squares: float
    norms: Norms


NO_MOMENTS = Moments(mean=math.nan, squares=math.nan, norms=NO_NORMS)
"""The moments of complex numbers, which are not measured."""


def _measure_moments(values: AnyArray) -> Moments:
    """Return the mean of real values, the sum of squares around it, and the lengths of the rows.

    Args:
        values: Rows of real numbers, (rows, columns). They are overwritten, to spare a copy.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        distances = values - mean
        squares = float(np.square(distances, out=distances).sum())
        norms = np.sqrt(np.square(values, out=values).sum(axis=1))
    return Moments(mean=mean, squares=squares, norms=Norms.of(norms))


def _compute_standard_deviation(
    slices: Sequence[SliceStatistics], mean: float | None, size: int
) -> float | None:
    """Return the standard deviation of a tensor from statistics of its slices.

    Each slice has its own mean s and the sum of squares around it. Around the mean m of the whole
    tensor, the sum is larger by n·(s − m)² for a slice of n elements. For the slices (1, 3) and
    (5, 7), s is 2 and 6 and m is 4: 2 + 2·4 + 2 + 2·4 = 20, and the deviation is √(20 / 4).
    """
    if mean is None:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        squares = [
            piece.squares + piece.size * np.square(np.float64(piece.mean - mean))
            for piece in slices
        ]
    deviation: float | None = plain(math.sqrt(_sum_exactly(squares) / size))
    return deviation


def _summarise_norms(slices: Sequence[SliceStatistics]) -> JsonObject | None:
    """Return the smallest, the largest and the mean Euclidean norm of the rows of a tensor.

    Rows that hold NaN or infinities have no norm; None is returned if all do.
    """
    norms = reduce(Norms.joined, [piece.norms for piece in slices], NO_NORMS)
    if not norms.rows:
        return None
    return {"min": norms.min, "max": norms.max, "mean": norms.sum / norms.rows}
