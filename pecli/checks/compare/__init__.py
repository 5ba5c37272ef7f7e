"""One comparison of two tables: how far apart they are, where, and whether that is within a tolerance.

Fast where elements are close, exact everywhere. Most pieces are equal, or differ in a few elements only: those are set
aside and measured exactly, many at a time. Where many elements of a piece differ, a few passes over arrays that stay in
the cache are enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.checks.compare.bulk_errors import MAX_SPARSE, BulkErrors
from pecli.checks.compare.error_summary import ErrorSummary, Value, errors, merged, value_of, widest
from pecli.checks.compare.error_summary import ulps_apart as ulps_apart
from pecli.checks.compare.forked import may_fork, work_in_processes
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Flags, Indices, aligned_buffer, dtype_name, numpy_dtype
from pecli.engine.table import Table, cast, thread_count, work_through
from pecli.errors import bracketed
from pecli.files.source import lies_in_rows, mapped_rows

READ_BYTES = 1 << 22
"""Of a table, made or read at once: fewer calls than one for each measured piece."""
PIECE_BYTES = 1 << 18
"""Of a table, measured at once: with its scratch arrays it stays in a core's own cache."""
MIN_SHARE = 1 << 26
"""Bytes of a table for which starting a process takes less time than it saves."""


@dataclass
class Comparison:
    """The result for one tensor. Errors of tensors that cannot be compared are None."""

    name: str
    shape: tuple[int, ...]
    size: int
    expected_dtype: str = ""
    dtype: str = ""
    mismatched: int | None = 0
    max_abs_error: float | None = 0.0
    max_rel_error: float | None = 0.0  #: of elements where 0 is not expected; None where only such ones differ
    max_ulp_error: int | None = 0  #: in units of the dtype that was found; None for integers
    worst_ulp: int | None = 0  #: of the element at worst_index
    worst_index: tuple[int, ...] | None = None
    first_index: tuple[int, ...] | None = None  #: the first element out of tolerance
    expected: Value | None = None
    found: Value | None = None
    strange_expected: int = 0  #: values that are not finite, where the two differ
    strange_found: int = 0
    problem: str = ""

    @property
    def passed(self) -> bool:
        return self.mismatched == 0 and not self.problem

    @property
    def first_row(self) -> int | None:
        """The row of the first element out of tolerance; all axes but the last are flattened."""
        if self.first_index is None:
            return None
        leading = self.shape[:-1] if len(self.shape) > 1 else self.shape
        return int(np.ravel_multi_index(self.first_index[: len(leading)], leading)) if leading else 0


def compare(expected: Table, found: Table, tolerance: Tolerance = EXACT, *, any_dtype: bool = False) -> Comparison:
    """Compare two tables piece by piece; differences of shape and dtype are findings, not errors. With `any_dtype`,
    another floating dtype, or integers of another width, are no finding.

    Values of unlike dtypes are compared as float64, and units of the last place are those of the dtype found, into
    which the expected value is rounded once. Frequencies and slopes are never rounded to half precision for that.
    """
    names = expected.name, found.name
    tolerance, both = tolerance.for_tensor(*names), {expected.dtype, found.dtype}
    alike = both <= {*SIGNIFICAND_BITS} or {numpy_dtype(each).kind for each in both} <= {*"iu"}
    any_dtype = (any_dtype or "inv_freq" in map(role_of, names)) and alike
    if any_dtype and is_relative(*names) and len(both) > 1:
        expected, found = cast(expected, "float32"), cast(found, "float32")
    result = Comparison(expected.name, found.shape, expected.size, expected.dtype, found.dtype)
    if found.shape != expected.shape:
        result.problem = f"its shape is {bracketed(found.shape)} where {bracketed(expected.shape)} is expected"
        result.mismatched = result.max_abs_error = result.max_rel_error = result.max_ulp_error = None
        return result
    if found.dtype != expected.dtype and not any_dtype:
        result.problem = f"its dtype is {found.dtype} where {expected.dtype} is expected"
    _fill_in(result, _measure(expected, found, tolerance))
    return result


def _fill_in(result: Comparison, summary: ErrorSummary) -> None:
    def index(place: int | None) -> tuple[int, ...] | None:
        return None if place is None else tuple(int(k) for k in np.unravel_index(place, result.shape))

    result.mismatched, result.first_index = summary.mismatched, index(summary.first)
    result.max_abs_error, result.worst_index, result.worst_ulp = summary.error, index(summary.worst), summary.worst_ulp
    result.expected, result.found = summary.expected, summary.found
    result.max_rel_error = summary.relative if summary.relative or not summary.error else None
    whole = numpy_dtype(result.dtype).kind in "iub"
    result.max_ulp_error = None if whole else summary.ulp
    result.strange_expected, result.strange_found = summary.strange_expected, summary.strange_found


def _measure(expected: Table, found: Table, tolerance: Tolerance) -> ErrorSummary:
    """The errors of all elements, block by block in threads; what must be read in order is read in that order.

    Rows that lie in a file as they are, are read piece by piece: a piece is still in the cache when it is measured. Of
    large files, child processes measure a share each, mapped into memory.
    """
    tables = expected, found
    dtypes = [numpy_dtype(table.dtype) for table in tables]
    row_bytes = max(1, expected.width * max(dtype.itemsize for dtype in dtypes))
    step, piece = (max(1, size // row_bytes) for size in (READ_BYTES, min(PIECE_BYTES, READ_BYTES)))
    steps = [piece if lies_in_rows(table) else step for table in tables]

    def read(start: int) -> tuple[int, list[Array | None]]:
        return start, [table.read(start, min(start + step, table.rows)) if table.in_order else None for table in tables]

    def meter_and_buffers() -> tuple[ErrorMeter, list[Array]]:
        shapes = [(min(rows, expected.rows), expected.width) for rows in steps]
        buffers = [
            aligned_buffer(math.prod(shape), dtype).reshape(shape) for shape, dtype in zip(shapes, dtypes, strict=True)
        ]
        return ErrorMeter(dtypes[0], dtypes[1], tolerance), buffers

    spare: list[tuple[ErrorMeter, list[Array]]] = []  # each is used by one thread at a time

    def measure(given: tuple[int, list[Array | None]]) -> None:
        start, blocks = given
        stop = min(start + step, expected.rows)
        try:
            meter, buffers = spare.pop()  # memory that is used again costs no page faults
        except IndexError:
            meter, buffers = meter_and_buffers()
        for k, table in enumerate(tables):
            if blocks[k] is None and steps[k] == step:
                blocks[k] = _filled(table, start, buffers[k][: stop - start])
        for low in range(start, stop, piece):
            high = min(low + piece, stop)
            ours, theirs = (
                _filled(table, low, buffer[: high - low]) if block is None else block[low - start : high - start]
                for table, block, buffer in zip(tables, blocks, buffers, strict=True)
            )
            meter.measure(ours.reshape(-1), theirs.reshape(-1), low * expected.width)
        spare.append((meter, buffers))

    def summary() -> ErrorSummary:
        return merged(meter.summary() for meter, _ in spare)

    def measure_mapped(start: int) -> None:
        stop = min(start + step, expected.rows)
        measure((start, [mapped_rows(table, start, stop) for table in tables]))

    starts = range(0, expected.rows if expected.size else 0, step)
    processes = min(thread_count(), expected.nbytes // MIN_SHARE)
    shared = processes > 1 and all(map(lies_in_rows, tables)) and may_fork()
    summaries = work_in_processes(measure_mapped, starts, summary, processes) if shared else None
    if summaries is None:
        work_through(measure, map(read, starts))
        summaries = [summary()]
    return merged(summaries)


def _filled(table: Table, start: int, out: Array) -> Array:
    table.fill(start, out)
    return out


def problems_of(tensors: Sequence[Comparison]) -> tuple[str, ...]:
    """Why tensors cannot be compared, or differ in more than their values."""
    return tuple(f"{tensor.name}: {tensor.problem}" for tensor in tensors if tensor.problem)


def as_json(result: Comparison) -> dict[str, Any]:
    """The comparison as JSON data: numbers that are not finite are null, complex ones are pairs."""
    return {
        "name": result.name,
        "shape": list(result.shape),
        "mismatched": result.mismatched,
        "max_abs_error": _number(result.max_abs_error),
        "max_rel_error": _number(result.max_rel_error),
        "max_ulp_error": result.max_ulp_error,
        "worst_index": None if result.worst_index is None else list(result.worst_index),
        "first_index": None if result.first_index is None else list(result.first_index),
        "expected": _number(result.expected),
        "found": _number(result.found),
    }


def _number(value: Value | None) -> float | list[float | None] | None:
    if isinstance(value, complex):
        return [value.real if math.isfinite(value.real) else None, value.imag if math.isfinite(value.imag) else None]
    return value if value is not None and math.isfinite(value) else None


GLANCE = 1 << 10
"""Elements looked at first where many have differed: if many of these do, equal ones are not sought."""
SPARSE_CHUNK = 1 << 13
"""Elements measured exactly at a time: their temporary arrays stay in the cache, too."""


class ErrorMeter:
    """Measures pieces of one pair of tables, expected and found; not to be shared between threads."""

    def __init__(self, expected: np.dtype[Any], found: np.dtype[Any], tolerance: Tolerance) -> None:
        self._summary, self._tolerance = ErrorSummary(), tolerance
        self._elements = max(1, PIECE_BYTES // max(4, expected.itemsize, found.itemsize))
        self._same_dtype = same = expected == found
        self._word = np.dtype(f"u{min(8, found.itemsize)}")
        self._many = False
        self._flags = aligned_buffer(self._elements * -(-found.itemsize // 8), np.bool_)
        self._aside: list[tuple[Array, Array, Indices]] = []
        narrow = same and dtype_name(found) in SIGNIFICAND_BITS and found.itemsize < 8
        self._ratios = np.dtype(np.float32 if narrow else np.float64)
        self._bulk: BulkErrors | None = None
        if same and dtype_name(found) in ("float32", "float64"):
            self._bulk = BulkErrors(found, self._elements, tolerance, self._summary, self._set_aside)

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        for low in range(0, ours.size, self._elements):
            piece = slice(low, low + self._elements)
            self._piece(ours[piece], theirs[piece], start + low)

    def summary(self) -> ErrorSummary:
        """The errors of all measured elements."""
        self._measure_aside()
        return self._summary

    def _piece(self, ours: Array, theirs: Array, start: int) -> None:
        glance = self._differing(ours[:GLANCE], theirs[:GLANCE])[0] if self._many else 0
        if self._same_dtype and glance <= MAX_SPARSE * min(GLANCE, ours.size):
            count, differ = self._differing(ours, theirs)
            self._many = count > MAX_SPARSE * ours.size
            if not self._many:
                if count:
                    few = np.flatnonzero(differ)
                    self._set_aside(ours[few], theirs[few], few + start)
                return
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            if self._bulk is not None and self._bulk.measure(ours, theirs, start):
                return
        self._measure_exactly(ours, theirs, np.arange(start, start + ours.size))

    def _differing(self, ours: Array, theirs: Array) -> tuple[int, Flags]:
        """How many elements differ in their bits (no NaN is unlike itself), and which."""
        one, other = ours.view(self._word), theirs.view(self._word)
        differ = np.not_equal(one, other, out=self._flags[: one.size])
        differ = differ.reshape(ours.size, -1).any(axis=1) if one.size > ours.size else differ
        return int(np.count_nonzero(differ)), differ

    def _set_aside(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Keep some elements until there are enough to be worth the calls."""
        if places.size:
            self._aside.append((ours, theirs, places))
            if sum(each[2].size for each in self._aside) >= SPARSE_CHUNK:
                self._measure_aside()

    def _measure_aside(self) -> None:
        if self._aside:
            ours, theirs, places = (np.concatenate(each) for each in zip(*self._aside, strict=True))
            self._aside = []
            self._measure_exactly(ours, theirs, places)

    def _measure_exactly(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Add the exact errors of any elements, whatever their order."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for low in range(0, ours.size, SPARSE_CHUNK):
                chunk = slice(low, low + SPARSE_CHUNK)
                self._add_errors(ours[chunk], theirs[chunk], places[chunk])

    def _add_errors(self, ours: Array, theirs: Array, places: Indices) -> None:
        summary, tolerance = self._summary, self._tolerance
        expected, found = widest(ours), widest(theirs)
        alike, error, ulps = errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            passes |= (ulps <= min(tolerance.max_ulp, int(np.iinfo(ulps.dtype).max))) & ~(
                np.isnan(expected) | np.isnan(found)
            )
            summary.ulp = max(summary.ulp, int(ulps.max()))
        if not passes.all():
            summary.fail(int(np.count_nonzero(~passes)), int(places[~passes].min()))
        largest = np.flatnonzero(error == error.max())
        worst = int(largest[places[largest].argmin()])
        ulp = None if ulps is None else int(ulps[worst])
        summary.note(float(error[worst]), int(places[worst]), value_of(ours[worst]), value_of(theirs[worst]), ulp)
        summary.note_ratios(error, size, self._ratios)
        summary.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        summary.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))
