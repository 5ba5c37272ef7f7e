"""Measuring errors: fast where elements are close, exact everywhere.

Most pieces are equal, or differ in a few elements only: those are set aside and measured exactly, many at a time.
Where many elements of a piece differ, a few passes over arrays that stay in the cache are enough.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pecli.checks.compare.bulk_errors import MAX_SPARSE, BulkErrors
from pecli.checks.compare.error_summary import ErrorSummary, Misses, errors, value_of, widest
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, Flags, Indices, aligned_buffer, dtype_name

PIECE_BYTES = 1 << 18
"""Of a table, measured at once: with its scratch arrays it stays in a core's own cache."""


GLANCE = 1 << 10
"""Elements looked at first where many have differed: if many of these do, equal ones are not sought."""
SPARSE_CHUNK = 1 << 13
"""Elements measured exactly at a time: their temporary arrays stay in the cache, too."""


class ErrorMeter:
    """Measures pieces of one pair of tables, expected and found; not to be shared between threads."""

    def __init__(self, expected: np.dtype[Any], found: np.dtype[Any], tolerance: Tolerance, misses: Misses) -> None:
        self._summary, self._tolerance = ErrorSummary(misses), tolerance
        elements = max(1, PIECE_BYTES // max(4, expected.itemsize, found.itemsize))
        self._elements = max(1, elements // misses.width) * misses.width if misses.width <= elements else elements
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

    def measure(self, ours: AnyArray, theirs: AnyArray, start: int) -> None:
        """Compare contiguous arrays, the first of whose elements has the place `start`."""
        ours, theirs = ours.reshape(-1), theirs.reshape(-1)
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
            summary.fail(places[~passes])
        largest = np.flatnonzero(error == error.max())
        worst = int(largest[places[largest].argmin()])
        ulp = None if ulps is None else int(ulps[worst])
        summary.note(float(error[worst]), int(places[worst]), value_of(ours[worst]), value_of(theirs[worst]), ulp)
        summary.note_ratios(error, size, self._ratios)
        summary.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        summary.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))
