"""The errors of a piece of a table: fast where elements are close, exact everywhere.

Most pieces are equal, or differ in a few elements only: those are set aside and measured exactly, many at a time. Where
many elements of a piece differ, a few passes over arrays that stay in the cache are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pecli.checks.compare.bulk_errors import MAX_SPARSE, BulkErrors
from pecli.checks.compare.error_summary import ErrorSummary
from pecli.checks.compare.ulp import errors, value_of, widest
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Indices, aligned_buffer
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name

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
        self._bulk: BulkErrors | None = None
        if self._same_dtype and dtype_name(found) in SIGNIFICAND_BITS:
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
        if self._bulk is not None:
            self._bulk.measure(ours, theirs, start)
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
        summary.note_ratios(error, size, self._bulk.real if self._bulk else np.dtype(np.float64))
        summary.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        summary.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))


def _elements_of(words: Indices, count: int, elements: int) -> Indices:
    """The elements in some of `count` words: several in a word, or each in several."""
    if count > elements:
        return np.unique(words // (count // elements))
    each = elements // count
    return words if each == 1 else (words[:, None] * each + np.arange(each)).reshape(-1)
