"""Element against element: the errors of a piece of a table, fast where elements are close, exact everywhere.

Most pieces are equal, or differ in a few elements only: those are set aside and measured one by one, many at a time.
Where many elements of a piece differ, a few passes over arrays that stay in the cache tell all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pecli.checks.compare.bulk_errors import FEW, Crowd
from pecli.checks.compare.error_summary import Tally
from pecli.checks.compare.ulp import errors, value_of, widest
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.aligned_buffer import room_for
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name

PIECE_BYTES = 1 << 18
"""How much of a table is measured at once: with its scratch arrays it stays in a core's own cache."""
GLANCE = 1 << 10
"""Elements that are looked at first where many have differed: if these do, equal ones are not looked for."""
ONE_BY_ONE = 1 << 13
"""Elements that are measured one by one at a time: their temporary arrays stay in the cache, too."""


class Ruler:
    """Measures pieces of one pair of tables, expected and found; not to be shared between threads."""

    def __init__(self, expected: np.dtype[Any], found: np.dtype[Any], tolerance: Tolerance) -> None:
        self._tally, self._tolerance = Tally(), tolerance
        self._elements = max(1, PIECE_BYTES // max(4, expected.itemsize, found.itemsize))
        self._alike = expected == found
        self._aside: list[tuple[Array, Array, Indices]] = []
        self._waiting, self._enough = 0, 64
        self._crowded = False
        self._flags = room_for(2 * self._elements, np.bool_)
        self._crowd: Crowd | None = None
        if self._alike and dtype_name(found) in SIGNIFICAND_BITS:
            self._crowd = Crowd(found, self._elements, tolerance, self._tally, self._set_aside)

    def measure(self, ours: Array, theirs: Array, start: int) -> None:
        """Compare flat arrays, whose first element is number `start` of the table."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            for low in range(0, ours.size, self._elements):
                piece = slice(low, low + self._elements)
                self._piece(ours[piece], theirs[piece], start + low)

    def tally(self) -> Tally:
        """The errors of all that was measured."""
        with np.errstate(invalid="ignore", over="ignore", divide="ignore", under="ignore"):
            self._measure_aside()
        return self._tally

    def _piece(self, ours: Array, theirs: Array, start: int) -> None:
        if self._alike and not (self._crowded and self._few(ours[:GLANCE], theirs[:GLANCE]) is None):
            few = self._few(ours, theirs)
            if few is not None:
                self._crowded = False
                if few.size:
                    self._set_aside(ours[few], theirs[few], few + start)
                return
        self._crowded = True
        if self._crowd is not None:
            self._crowd.measure(ours, theirs, start)
            return
        for low in range(0, ours.size, ONE_BY_ONE):
            piece = slice(low, low + ONE_BY_ONE)
            self._one_by_one(ours[piece], theirs[piece], np.arange(start + low, start + min(ours.size, piece.stop)))

    def _few(self, ours: Array, theirs: Array) -> Indices | None:
        """The elements whose bits may differ, if they are few. Words of eight bytes are compared, or elements."""
        word = "u8" if ours.nbytes % 8 == 0 else f"u{ours.itemsize}"
        words = ours.view(word), theirs.view(word)
        flags = np.not_equal(*words, out=self._flags[: words[0].size])
        count = np.count_nonzero(flags)
        if count > FEW * flags.size:
            return None
        return _elements_of(np.flatnonzero(flags), flags.size, ours.size) if count else np.empty(0, np.intp)

    def _set_aside(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Keep some elements until there are enough to be worth the calls. The first are measured soon: large errors
        that are known spare looking for smaller ones.
        """
        self._aside.append((ours, theirs, places))
        self._waiting += ours.size
        if self._waiting >= self._enough:
            self._enough = min(4 * self._enough, ONE_BY_ONE)
            self._measure_aside()

    def _measure_aside(self) -> None:
        if self._aside:
            ours, theirs, places = (np.concatenate(each) for each in zip(*self._aside, strict=True))
            self._aside, self._waiting = [], 0
            for low in range(0, ours.size, ONE_BY_ONE):
                piece = slice(low, low + ONE_BY_ONE)
                self._one_by_one(ours[piece], theirs[piece], places[piece])

    def _one_by_one(self, ours: Array, theirs: Array, places: Indices) -> None:
        """Any elements, in the order of their places or not."""
        if not ours.size:
            return
        tally, tolerance = self._tally, self._tolerance
        expected, found = widest(ours), widest(theirs)
        alike, error, ulps = errors(ours, theirs)
        size = np.abs(expected)
        passes = alike | (np.isfinite(error) & (error <= tolerance.atol + tolerance.rtol * size))
        if ulps is not None:
            passes |= (ulps <= min(tolerance.max_ulp, int(np.iinfo(ulps.dtype).max))) & ~(
                np.isnan(expected) | np.isnan(found)
            )
            tally.ulp = max(tally.ulp, int(ulps.max()))
        if not passes.all():
            tally.fail(int(np.count_nonzero(~passes)), int(places[~passes].min()))
        largest = np.flatnonzero(error == error.max())
        worst = int(largest[places[largest].argmin()])
        ulp = None if ulps is None else int(ulps[worst])
        tally.note(float(error[worst]), int(places[worst]), value_of(ours[worst]), value_of(theirs[worst]), ulp)
        tally.note_ratios(error, size, self._crowd.real if self._crowd else np.dtype(np.float64))
        tally.strange_expected += int(np.count_nonzero(~(alike | np.isfinite(expected))))
        tally.strange_found += int(np.count_nonzero(~(alike | np.isfinite(found))))


def _elements_of(words: Indices, count: int, elements: int) -> Indices:
    """The elements that lie in some of so many words, several in a word, or each in several."""
    if count > elements:
        return np.unique(words // (count // elements))
    each = elements // count
    return words if each == 1 else (words[:, None] * each + np.arange(each)).reshape(-1)
