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
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative
from pecli.engine.arrays import Array, Indices, aligned_buffer
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name, numpy_dtype
from pecli.engine.numerics.threads import work_through
from pecli.engine.table import Table, cast
from pecli.engine.text import bracketed

READ_BYTES = 1 << 22
"""Of a table, made or read at once: fewer calls than one for each measured piece."""


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
    another floating dtype is no finding.

    Values of unlike dtypes are compared as float64, and units of the last place are those of the dtype found, into
    which the expected value is rounded once. Frequencies and slopes are never rounded to half precision for that.
    """
    names = expected.name, found.name
    tolerance, both = tolerance.for_tensor(*names), {expected.dtype, found.dtype}
    any_dtype = (any_dtype or "inv_freq" in map(role_of, names)) and both <= {*SIGNIFICAND_BITS}
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
    """The errors of all elements, block by block in threads; what must be read in order is read here."""
    step = min(expected.block_rows(), found.block_rows())
    starts = range(0, expected.rows if expected.size else 0, step)
    reader = _PairReader(expected, found, tolerance)

    def block(start: int) -> tuple[int, int, Array | None, Array | None]:
        stop = min(start + step, expected.rows)
        ours, theirs = (table.read(start, stop) if table.in_order else None for table in (expected, found))
        return start, stop, ours, theirs

    work_through(lambda given: reader.measure(*given), map(block, starts))
    return reader.summary()


class _PairReader:
    """Reads both tables and measures them; meters and buffers are reused, each by one thread at a time."""

    def __init__(self, expected: Table, found: Table, tolerance: Tolerance) -> None:
        self._tables, self._tolerance = (expected, found), tolerance
        self._dtypes = numpy_dtype(expected.dtype), numpy_dtype(found.dtype)
        self._rows = max(1, READ_BYTES // max(1, expected.width * max(dtype.itemsize for dtype in self._dtypes)))
        self._spare: list[tuple[ErrorMeter, list[Array]]] = []

    def measure(self, start: int, stop: int, *given: Array | None) -> None:
        """Measure rows start … stop − 1; a table's block that is given is not read."""
        meter, buffers = self._spare.pop() if self._spare else self._new(stop - start)
        for row in range(start, stop, self._rows):
            count = min(self._rows, stop - row)
            pieces = []
            for table, block, buffer in zip(self._tables, given, buffers, strict=True):
                if block is None:
                    piece = buffer[:count]
                    table.fill(row, piece)
                else:
                    piece = block[row - start : row - start + count]
                pieces.append(piece.reshape(-1))
            meter.measure(pieces[0], pieces[1], row * self._tables[0].width)
        self._spare.append((meter, buffers))

    def _new(self, rows: int) -> tuple[ErrorMeter, list[Array]]:
        shape = min(rows, self._rows), self._tables[0].width
        return ErrorMeter(*self._dtypes, self._tolerance), [
            aligned_buffer(math.prod(shape), dtype).reshape(shape) for dtype in self._dtypes
        ]

    def summary(self) -> ErrorSummary:
        """The errors of all measured rows; the same however the threads shared the work."""
        return merged(meter.summary() for meter, _ in self._spare)


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


PIECE_BYTES = 1 << 18
"""Of a table, measured at once: with its scratch arrays it stays in a core's own cache."""
PROBE = 1 << 10
"""Elements compared first where many differed in the last piece: if many of these do, the rest is not searched."""
SPARSE_CHUNK = 1 << 13
"""Elements measured exactly at a time: their temporary arrays stay in the cache, too."""


class ErrorMeter:
    """Measures pieces of one pair of tables, expected and found; not to be shared between threads."""

    def __init__(self, expected: np.dtype[Any], found: np.dtype[Any], tolerance: Tolerance) -> None:
        self._summary, self._tolerance = ErrorSummary(), tolerance
        self._elements = max(1, PIECE_BYTES // max(4, expected.itemsize, found.itemsize))
        self._same_dtype = expected == found
        self._aside: list[tuple[Array, Array, Indices]] = []
        self._waiting, self._batch = 0, 64
        self._many_differ = False
        self._flags = aligned_buffer(2 * self._elements, np.bool_)
        narrow = self._same_dtype and dtype_name(found) in SIGNIFICAND_BITS and found.itemsize < 8
        self._ratios = np.dtype(np.float32 if narrow else np.float64)
        self._bulk: BulkErrors | None = None
        if self._same_dtype and dtype_name(found) in ("float32", "float64"):
            self._bulk = BulkErrors(found, self._elements, tolerance, self._summary, self._set_aside)

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for low in range(0, ours.size, self._elements):
                piece = slice(low, low + self._elements)
                self._piece(ours[piece], theirs[piece], start + low)

    def summary(self) -> ErrorSummary:
        """The errors of all measured elements."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            self._measure_aside()
        return self._summary

    def _piece(self, ours: Array, theirs: Array, start: int) -> None:
        if self._same_dtype and not (self._many_differ and self._sparse(ours[:PROBE], theirs[:PROBE]) is None):
            few = self._sparse(ours, theirs)
            if few is not None:
                self._many_differ = False
                if few.size:
                    self._set_aside(ours[few], theirs[few], few + start)
                return
        self._many_differ = True
        if self._bulk is not None and self._bulk.measure(ours, theirs, start):
            return
        for low in range(0, ours.size, SPARSE_CHUNK):
            piece = slice(low, low + SPARSE_CHUNK)
            self._measure_exactly(
                ours[piece], theirs[piece], np.arange(start + low, start + min(ours.size, piece.stop))
            )

    def _sparse(self, ours: Array, theirs: Array) -> Indices | None:
        """The elements whose bits may differ, unless they are many; compared as words of eight bytes where they fit."""
        word = "u8" if ours.nbytes % 8 == 0 else f"u{ours.itemsize}"
        words = ours.view(word), theirs.view(word)
        flags = np.not_equal(*words, out=self._flags[: words[0].size])
        count = np.count_nonzero(flags)
        if count > MAX_SPARSE * flags.size:
            return None
        return _elements_of(np.flatnonzero(flags), flags.size, ours.size) if count else np.empty(0, np.intp)

    def _set_aside(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Keep some elements until there are enough to be worth the calls. The first batches are small: large errors
        that are known early spare the search for smaller ones.
        """
        self._aside.append((ours, theirs, places))
        self._waiting += ours.size
        if self._waiting >= self._batch:
            self._batch = min(4 * self._batch, SPARSE_CHUNK)
            self._measure_aside()

    def _measure_aside(self) -> None:
        if self._aside:
            ours, theirs, places = (np.concatenate(each) for each in zip(*self._aside, strict=True))
            self._aside, self._waiting = [], 0
            for low in range(0, ours.size, SPARSE_CHUNK):
                piece = slice(low, low + SPARSE_CHUNK)
                self._measure_exactly(ours[piece], theirs[piece], places[piece])

    def _measure_exactly(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Add the exact errors of any elements, whatever their order."""
        if not ours.size:
            return
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


def _elements_of(words: Indices, count: int, elements: int) -> Indices:
    """The elements in some of `count` words: several in a word, or each in several."""
    if count > elements:
        return np.unique(words // (count // elements))
    each = elements // count
    return words if each == 1 else (words[:, None] * each + np.arange(each)).reshape(-1)
