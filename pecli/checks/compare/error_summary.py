"""The errors of elements: ULPs by their bits, absolute errors for any pair of dtypes, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import SIGNIFICAND_BITS, Array, Flags, Floats, Indices, dtype_name, round_to, widened
from pecli.engine.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray


def ulps_apart(a: Array, b: Array) -> NDArray[Any]:
    """The distance of two arrays in floats of their dtype, element by element; the two zeros are one.

    >>> ulps_apart(np.array([1, -0.0], np.float16), np.array([1 + 2**-10, 0.0], np.float16)).tolist()
    [1, 0]
    """
    first, second = _ordinals(a), _ordinals(b)
    unsigned = f"u{a.dtype.itemsize}"  # the difference has one bit more than its signed parts
    return np.asarray(np.maximum(first, second).view(unsigned) - np.minimum(first, second).view(unsigned))


def _ordinals(a: Array) -> NDArray[Any]:
    """Floats numbered from zero, negative below; without branches, which random signs would make slow."""
    bits = a.view(f"i{a.dtype.itemsize}")
    below = bits >> (8 * a.dtype.itemsize - 1)  # −1 where negative, or else 0
    size = bits & np.iinfo(bits.dtype).max
    size ^= below
    size -= below
    return np.asarray(size)


def errors(ours: Array, theirs: Array) -> tuple[Flags, Floats, NDArray[Any] | None]:
    """Which elements are alike, their absolute errors, and the units of the last place between them, for floats."""
    if ours.dtype == theirs.dtype and ours.dtype.kind in "iub":
        return _integers_apart(ours, theirs)
    alike, error = absolute_errors(ours, theirs)
    units = _units(ours, theirs)
    if units is not None:
        units[alike] = 0
    return alike, error, units


def absolute_errors(ours: Array, theirs: Array) -> tuple[Flags, Floats]:
    """Which elements are alike, and absolute errors: infinite where only one side is finite, or is a number."""
    expected, found = widest(ours), widest(theirs)
    alike = np.asarray((expected == found) | (np.isnan(expected) & np.isnan(found)))  # one NaN is as good as another
    with np.errstate(invalid="ignore", over="ignore"):
        error: Floats = np.abs(expected - found)
    error[alike] = 0
    error[np.isnan(error)] = np.inf
    return alike, error


def _units(ours: Array, theirs: Array) -> NDArray[Any] | None:
    """Units of the last place of the dtype that was found, into which the expected value is rounded once."""
    if theirs.dtype.kind == "c":
        both = [np.asarray(part).astype(theirs.dtype) for part in (ours, theirs)]
        parts = [(each.real.copy(), each.imag.copy()) for each in both]
        return np.asarray(np.maximum(ulps_apart(parts[0][0], parts[1][0]), ulps_apart(parts[0][1], parts[1][1])))
    if theirs.dtype.kind in "iub" or ours.dtype.kind == "c":
        return None
    if ours.dtype != theirs.dtype:
        name = dtype_name(theirs.dtype)
        ours = round_to(widened(ours), name) if name in SIGNIFICAND_BITS else widened(ours).astype(theirs.dtype)
    return ulps_apart(ours, theirs)


def _integers_apart(ours: Array, theirs: Array) -> tuple[Flags, Floats, None]:
    a, b = (each.view(np.uint8) if each.dtype.kind == "b" else each for each in (ours, theirs))
    unsigned = f"u{a.dtype.itemsize}"
    larger, smaller = np.maximum(a, b).view(unsigned), np.minimum(a, b).view(unsigned)
    return np.asarray(a == b), (larger - smaller).astype(np.float64), None


def widest(values: Array) -> NDArray[Any]:
    """Numbers as float64, or as complex128."""
    return values.astype(np.complex128) if values.dtype.kind == "c" else widened(values)


def value_of(element: Any) -> float | complex:
    """An element as a Python number."""
    kind = element.dtype.kind
    return int(element) if kind in "iub" else complex(element) if kind == "c" else float(element)


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
