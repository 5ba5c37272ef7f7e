"""What the errors of elements add up to: how many are out of tolerance, the worst, the first; and a coarse map."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.checks.compare.ulp import absolute_errors
from pecli.engine.arrays import Floats, Indices
from pecli.engine.table import Table

Value = float | complex


@dataclass
class ErrorSummary:
    """The errors of some elements. Indices count elements from the start of the table."""

    mismatched: int = 0  #: out of tolerance
    first: int | None = None  #: the first of those
    error: float = 0.0  #: the largest, absolute
    worst: int | None = None  #: where that is; the first place of several
    expected: Value | None = None
    found: Value | None = None
    worst_ulp: int | None = None  #: of that element
    ulp: int = 0  #: the largest error in units of the last place
    relative: float = 0.0  #: the largest relative error, of elements where it has a meaning
    strange_expected: int = 0  #: values that are not finite, where the two differ
    strange_found: int = 0

    def fail(self, count: int, first: int) -> None:
        """Some elements are out of tolerance."""
        self.mismatched += count
        self.first = first if self.first is None else min(self.first, first)

    def beats(self, error: float, place: int) -> bool:
        """Whether an error is larger than the largest so far, or as large and earlier."""
        return error > self.error or (error == self.error > 0 and self.worst is not None and place < self.worst)

    def note(self, error: float, place: int, expected: Value, found: Value, ulp: int | None) -> None:
        """Record an element if it is the worst so far."""
        if self.beats(error, place):
            self.error, self.worst, self.worst_ulp = error, place, ulp
            self.expected, self.found = expected, found

    def note_ratios(self, error: Floats, size: Floats, real: np.dtype[Any]) -> None:
        """Record the largest relative error, rounded to a dtype; where 0 is expected there is none."""
        ratio = error / size
        largest = float(np.max(ratio, initial=0, where=np.isfinite(ratio)))
        rounded = float(real.type(largest))
        self.relative = max(self.relative, rounded if rounded < np.inf else largest)

    def merge(self, other: ErrorSummary) -> None:
        """Add the errors of other elements."""
        if other.first is not None:
            self.fail(other.mismatched, other.first)
        if other.worst is not None and other.expected is not None and other.found is not None:
            self.note(other.error, other.worst, other.expected, other.found, other.worst_ulp)
        self.ulp = max(self.ulp, other.ulp)
        self.relative = max(self.relative, other.relative)
        self.strange_expected += other.strange_expected
        self.strange_found += other.strange_found


def merged(summaries: Iterable[ErrorSummary]) -> ErrorSummary:
    """The errors of all elements."""
    total = ErrorSummary()
    for summary in summaries:
        total.merge(summary)
    return total


MAX_MAP_ROWS, MAX_MAP_COLUMNS = 512, 512


@dataclass(frozen=True)
class ErrorMap:
    """The largest |A − B| by position and channel, over all other axes; a vector is one row."""

    name: str
    positions: int
    channels: int
    cells: Floats


def error_map(one: Table, other: Table) -> ErrorMap:
    """The map of two tables of one shape, read block by block."""
    positions = one.shape[-2] if len(one.shape) > 1 else one.rows
    down, across = min(positions, MAX_MAP_ROWS), min(one.width, MAX_MAP_COLUMNS)
    cells = np.zeros((down, across))
    columns = _starts(one.width, across)
    row, step = 0, max(1, min(one.block_rows(), other.block_rows()) // 4)
    for ours, theirs in zip(one.blocks(step), other.blocks(step), strict=True):
        lines = np.arange(row, row + len(ours)) % positions * down // positions
        error = np.maximum.reduceat(absolute_errors(ours, theirs)[1], columns, axis=1)
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(lines)) + 1])
        np.maximum.at(cells, lines[firsts], np.maximum.reduceat(error, firsts, axis=0))
        row += len(ours)
    if len(one.shape) < 2:
        return ErrorMap(one.name, 1, positions, cells.T)
    return ErrorMap(one.name, positions, one.width, cells)


def _starts(length: int, groups: int) -> Indices:
    """Where each group of elements begins."""
    return np.unique(-(-np.arange(groups) * length // groups))
