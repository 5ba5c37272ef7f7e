"""What an audit found: how far each recipe drifts, by position and by frequency."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Floats, Indices

if TYPE_CHECKING:
    from pecli.engine.schemes.by_position import ByPosition
    from pecli.engine.schemes.scheme import Scheme


@dataclass(frozen=True)
class Worst:
    """The element that is off by most."""

    position: int
    frequency: int
    part: str
    expected: float
    found: float


@dataclass
class Drift:
    """What one recipe does."""

    recipe: str
    largest: Floats
    """The largest error of each stretch of positions."""
    sums: Floats
    by_frequency: Floats
    worst: Worst | None = None
    first_beyond: int | None = None
    """The first position whose error exceeds the tolerance."""
    first_equal: int | None = None
    """The first position whose row equals the one before, though the exact rows differ."""

    @property
    def max_abs_error(self) -> float:
        return float(self.largest.max())


@dataclass
class Audit:
    """The recipes of a scheme against its exact table, over stretches of positions that end at `edges`."""

    scheme: Scheme
    tolerance: float
    numbers: ByPosition
    edges: Indices
    drifts: list[Drift] = field(default_factory=list)

    @property
    def stop(self) -> int:
        """The position after the last."""
        return self.numbers.first + self.numbers.count

    def kept(self, drift: Drift) -> int:
        """How many positions, from the first on, stay within the tolerance."""
        return (self.stop if drift.first_beyond is None else drift.first_beyond) - self.numbers.first

    def decades(self) -> list[tuple[int, int]]:
        """The positions 0–9, 10–99, 100–999, …, as far as they are there: first and last."""
        starts = [0, *(10**k for k in range(1, 14))]
        spans = ((max(low, self.numbers.first), min(high, self.stop) - 1) for low, high in pairwise(starts))
        return [(first, last) for first, last in spans if first <= last]

    def in_decade(self, drift: Drift, decade: tuple[int, int]) -> tuple[float, float]:
        """The largest and the mean error of a recipe within a decade."""
        inside = (self.edges[:-1] >= decade[0]) & (self.edges[:-1] <= decade[1])
        elements = (decade[1] - decade[0] + 1) * len(self.numbers.groups)
        return float(drift.largest[inside].max()), float(drift.sums[inside].sum()) / elements

    def mean(self, drift: Drift) -> float:
        """The mean error of a recipe over all elements."""
        return float(drift.sums.sum()) / (self.numbers.count * len(self.numbers.groups))

    def curve(self, drift: Drift) -> tuple[list[float], list[float]]:
        """Positions, each in the middle of a stretch, and the largest errors there."""
        middles = np.sqrt(np.maximum(self.edges[:-1], 0.5) * np.maximum(self.edges[1:] - 1, 0.5))
        return middles.tolist(), drift.largest.tolist()

    def as_json(self) -> dict[str, Any]:
        """The whole of it, as plain data."""
        return {
            **self.scheme.spec(),
            "tolerance": self.tolerance,
            "first_position": self.numbers.first,
            "positions": self.numbers.count,
            self.numbers.kind: self.numbers.values,
            "recipes": [self._described(drift) for drift in self.drifts],
        }

    def _described(self, drift: Drift) -> dict[str, Any]:
        decades = []
        for first, last in self.decades():
            largest, mean = self.in_decade(drift, (first, last))
            decades.append(
                {"first": first, "last": last, "max_abs_error": _finite(largest), "mean_abs_error": _finite(mean)}
            )
        worst = drift.worst
        return {
            "recipe": drift.recipe,
            "max_abs_error": _finite(drift.max_abs_error),
            "mean_abs_error": _finite(self.mean(drift)),
            "kept_positions": self.kept(drift),
            "first_beyond_tolerance": drift.first_beyond,
            "first_equal_neighbours": drift.first_equal,
            "worst": worst and {**vars(worst), "found": _finite(worst.found)},
            "by_decade": decades,
            "by_frequency": [_finite(float(error)) for error in drift.by_frequency],
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
