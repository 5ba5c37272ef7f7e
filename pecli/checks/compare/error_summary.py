"""What comparing elements adds up to: how many are off, the worst, the first; in any order of the pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats

Value = float | complex


@dataclass
class Tally:
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
        """Whether an error is worse than what is known, or as bad and earlier."""
        return error > self.error or (error == self.error > 0 and self.worst is not None and place < self.worst)

    def note(self, error: float, place: int, expected: Value, found: Value, ulp: int | None) -> None:
        """Keep an element if it is the worst so far."""
        if self.beats(error, place):
            self.error, self.worst, self.worst_ulp = error, place, ulp
            self.expected, self.found = expected, found

    def note_ratios(self, error: Floats, size: Floats, real: np.dtype[Any]) -> None:
        """Keep the largest relative error, rounded to a dtype; where 0 is expected there is none."""
        ratio = error / size
        largest = float(np.max(ratio, initial=0, where=np.isfinite(ratio)))
        rounded = float(real.type(largest))
        self.relative = max(self.relative, rounded if rounded < np.inf else largest)

    def merge(self, other: Tally) -> None:
        """Add the errors of other elements."""
        if other.first is not None:
            self.fail(other.mismatched, other.first)
        if other.worst is not None and other.expected is not None and other.found is not None:
            self.note(other.error, other.worst, other.expected, other.found, other.worst_ulp)
        self.ulp = max(self.ulp, other.ulp)
        self.relative = max(self.relative, other.relative)
        self.strange_expected += other.strange_expected
        self.strange_found += other.strange_found


def merged(tallies: Iterable[Tally]) -> Tally:
    """The errors of all elements."""
    total = Tally()
    for tally in tallies:
        total.merge(tally)
    return total
