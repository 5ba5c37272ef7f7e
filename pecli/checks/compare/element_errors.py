"""The errors of elements: ULPs by their bits, absolute errors for any pair of dtypes, and what they add up to.

Most tables are equal, or differ in a few elements only: bits are compared first, and only what differs is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Flags,
    Floats,
    Indices,
    dtype_name,
    round_to,
    widened,
)

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


class Misses:
    """Rows and columns in which elements are out of tolerance; threads share it, and only ever set flags."""

    def __init__(self, rows: int, width: int) -> None:
        self.width, self.size = width, rows * width
        self.rows, self.columns = np.zeros(rows, bool), np.zeros(width, bool)


PIECE_BYTES = 1 << 18
"""Of a table, whose bits are compared at once: with its scratch arrays it stays in a core's own cache."""
MEASURED = 1 << 13
"""Elements measured at a time: their temporary arrays stay in the cache, too."""


@dataclass
class ErrorSummary:
    """The errors of some elements, not to be shared between threads. A place counts elements of what is expected, copy
    by copy.
    """

    misses: Misses
    tolerance: Tolerance
    mismatched: int = 0  #: out of tolerance
    firsts: dict[int, int] = field(default_factory=dict)  #: the first place of those, by copy
    error: float = 0.0  #: the largest, absolute
    worst: int | None = None  #: where that is; the first place of several
    expected: Value | None = None
    found: Value | None = None
    worst_ulp: int | None = None  #: of that element
    ulp: int = 0  #: the largest error in units of the last place
    relative: float = 0.0  #: the largest relative error, of elements where it has a meaning
    strange_expected: int = 0  #: values that are not finite, where the two differ
    strange_found: int = 0

    def measure(self, ours: AnyArray, theirs: AnyArray, start: int) -> None:
        """Add the errors of contiguous arrays, the first of whose elements has the place `start`."""
        ours, theirs = ours.reshape(-1), theirs.reshape(-1)
        step = max(1, PIECE_BYTES // max(4, ours.itemsize, theirs.itemsize))
        for low in range(0, ours.size, step):
            differing = _differing(ours[low : low + step], theirs[low : low + step])
            for chunk in range(0, differing.size, MEASURED):
                places = differing[chunk : chunk + MEASURED] + low
                with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
                    self._add(ours[places], theirs[places], places + start)

    def _add(self, ours: Array, theirs: Array, places: Indices) -> None:
        tolerance = self.tolerance
        expected, found = widest(ours), widest(theirs)
        alike, error, ulps = errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            within = ulps <= min(tolerance.max_ulp, int(np.iinfo(ulps.dtype).max))
            passes |= within & ~(np.isnan(expected) | np.isnan(found))
            self.ulp = max(self.ulp, int(ulps.max()))
        if not passes.all():
            self._fail(places[~passes])
        worst = int(error.argmax())
        ulp = None if ulps is None else int(ulps[worst])
        self._note(float(error[worst]), int(places[worst]), value_of(ours[worst]), value_of(theirs[worst]), ulp)
        ratio = error / size  # where 0 is expected there is none
        self.relative = max(self.relative, float(np.max(ratio, initial=0, where=np.isfinite(ratio))))
        self.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        self.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))

    def _fail(self, places: Indices) -> None:
        """Elements at these places, in order, are out of tolerance."""
        misses = self.misses
        self.mismatched += places.size
        copies, first = np.unique(places // misses.size, return_index=True)
        for copy, place in zip(copies.tolist(), places[first].tolist(), strict=True):
            self._first(copy, place)
        within = places % misses.size
        misses.rows[within // misses.width] = True
        misses.columns[within % misses.width] = True

    def _first(self, copy: int, place: int) -> None:
        self.firsts[copy] = min(place, self.firsts.get(copy, place))

    def _note(self, error: float, place: int, expected: Value, found: Value, ulp: int | None) -> None:
        """Record an element if its error is the largest so far, or as large and earlier."""
        if error > self.error or (error == self.error > 0 and self.worst is not None and place < self.worst):
            self.error, self.worst, self.worst_ulp = error, place, ulp
            self.expected, self.found = expected, found

    def merge(self, other: ErrorSummary) -> None:
        """Add the errors of other elements."""
        self.mismatched += other.mismatched
        for copy, place in other.firsts.items():
            self._first(copy, place)
        if other.worst is not None and other.expected is not None and other.found is not None:
            self._note(other.error, other.worst, other.expected, other.found, other.worst_ulp)
        self.ulp = max(self.ulp, other.ulp)
        self.relative = max(self.relative, other.relative)
        self.strange_expected += other.strange_expected
        self.strange_found += other.strange_found


def _differing(ours: Array, theirs: Array) -> Indices:
    """The elements whose bits differ (no NaN is unlike itself); all of them where the dtypes do."""
    if ours.dtype != theirs.dtype:
        return np.arange(ours.size)
    word = np.dtype(f"u{min(8, ours.itemsize)}")
    differ = ours.view(word) != theirs.view(word)
    return np.flatnonzero(differ.reshape(ours.size, -1).any(axis=1) if differ.size > ours.size else differ)
