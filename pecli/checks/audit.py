"""How far the tables of a recipe drift from the exact one: by position, by frequency, and where positions collide.

Both are made block by block, in threads, and only sums and maxima are kept, so memory stays flat however long the
context. Errors are absolute, against the exact values rounded to float32 (float64 where the tables are float64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pecli.checks.tolerance import DRIFT
from pecli.engine.arrays import Array, Floats, Indices
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.numerics.rounding import as_dtype, widened
from pecli.engine.numerics.threads import results_in_order
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import ByPosition

_BLOCK_ELEMENTS = 1 << 19
"""A few megabytes in every thread."""
_COLLISION_ROWS = 256
"""Rows compared at once in the search for equal neighbours."""
_PER_DECADE = 24
"""Points of the curve of errors over positions."""


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

    def kept_positions(self, drift: Drift) -> int:
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
            "kept_positions": self.kept_positions(drift),
            "first_beyond_tolerance": drift.first_beyond,
            "first_equal_neighbours": drift.first_equal,
            "worst": worst and {**vars(worst), "found": _finite(worst.found)},
            "by_decade": decades,
            "by_frequency": [_finite(float(error)) for error in drift.by_frequency],
        }


@dataclass(frozen=True)
class _Seen:
    """What a block of one recipe shows; rows are counted from the start of the table."""

    largest: Floats
    sums: Floats
    columns: Floats
    worst: tuple[int, int, float, float]
    beyond: int | None
    equal: int | None


def audit(
    scheme: Scheme,
    recipes: Sequence[str] | None = None,
    tolerance: float = DRIFT,
    on_block: Callable[[int], None] | None = None,
) -> Audit:
    """Compare what the recipes (all but exact) or runtimes make of a scheme with its exact table.

    `on_block` is told how many bytes are done, of `work(scheme, recipes)`.
    """
    scheme.by_position()  # refuses what has no recipes
    chosen = _chosen(scheme, recipes)
    reference = _computed(scheme, "exact", "float64" if scheme.dtype == "float64" else "float32")
    tables = [_computed(scheme, recipe, scheme.dtype) for recipe in chosen]
    edges = _edges(reference.first, reference.first + reference.count)
    result = Audit(scheme, tolerance, reference, edges)
    width = len(reference.groups)
    frequencies, stretches = len(reference.values), len(edges) - 1
    result.drifts = [Drift(name, np.zeros(stretches), np.zeros(stretches), np.zeros(frequencies)) for name in chosen]
    step = max(2, _BLOCK_ELEMENTS // max(1, width))

    def look(start: int) -> list[_Seen]:
        stop = min(start + step, reference.count)
        before = min(start, 1)  # the last row of the block before, to see whether the next one equals it
        exact = reference.read(start - before, stop)
        cuts = _cuts(edges, reference.first + start, reference.first + stop)
        return [
            _seen(table.read(start - before, stop), exact, before, start, cuts, tolerance, drift.first_equal is None)
            for table, drift in zip(tables, result.drifts, strict=True)
        ]

    starts = range(0, reference.count, step)
    for start, seen in zip(starts, results_in_order(look, starts), strict=True):
        for drift, each in zip(result.drifts, seen, strict=True):
            _take(result, drift, start, each)
        if on_block is not None:
            on_block(_bytes(scheme, min(step, reference.count - start) * width * len(chosen)))
    return result


def work(scheme: Scheme, recipes: Sequence[str] | None = None) -> int:
    """How many bytes of tables an audit looks at."""
    numbers = scheme.by_position()
    return _bytes(scheme, numbers.count * len(numbers.groups) * len(_chosen(scheme, recipes)))


def _bytes(scheme: Scheme, elements: int) -> int:
    return elements * numpy_dtype(scheme.dtype).itemsize


def _chosen(scheme: Scheme, recipes: Sequence[str] | None) -> list[str]:
    """The recipes asked for; else the runtime that the scheme names, or all recipes."""
    runtime = getattr(scheme, "runtime", "none")
    every = scheme.recipe_names() if runtime == "none" else (runtime,)
    return list(dict.fromkeys(every if recipes is None else recipes))


def _computed(scheme: Scheme, recipe: str, dtype: str) -> ByPosition:
    """The numbers of a scheme as a recipe makes them; of one that knows no recipes, as the recipe keeps them."""
    if "recipe" in scheme.parameters():
        return scheme.in_dtype(dtype).computed_as(recipe).by_position()
    found = scheme.in_dtype(dtype).computed_as(recipe).by_position()
    return replace(found, read=lambda start, stop: as_dtype(found.read(start, stop), dtype))


def _edges(first: int, stop: int) -> Indices:
    """Where stretches of positions begin, evenly on a logarithmic scale; decades begin there, too."""
    powers = 10.0 ** (np.arange(13 * _PER_DECADE + 1) / _PER_DECADE)
    inner = np.unique(np.rint(powers).astype(np.int64))
    return np.concatenate([[first], inner[(inner > first) & (inner < stop)], [stop]])


def _cuts(edges: Indices, first: int, stop: int) -> Indices:
    """Where stretches begin within the positions of a block, as rows of it."""
    inside = edges[(edges > first) & (edges < stop)]
    return np.concatenate([[first], inside]) - first


def _seen(table: Array, exact: Array, before: int, start: int, cuts: Indices, tolerance: float, wanted: bool) -> _Seen:
    error = _errors(table[before:], exact[before:])
    rows = error.max(axis=1)
    row = int(rows.argmax())
    column = int(error[row].argmax())
    beyond = np.flatnonzero(rows > np.float64(tolerance))  # not rounded to float32, which it may exceed
    equal = _collision(table, exact) if wanted else None
    return _Seen(
        largest=np.maximum.reduceat(rows, cuts).astype(np.float64),
        sums=np.add.reduceat(error.sum(axis=1, dtype=np.float64), cuts),
        columns=error.max(axis=0).astype(np.float64),
        worst=(start + row, column, float(exact[before + row, column]), float(table[before + row, column])),
        beyond=start + int(beyond[0]) if beyond.size else None,
        equal=None if equal is None else start - before + 1 + equal,
    )


def _errors(table: Array, exact: Array) -> Any:
    """|table − exact|, in float32 where both are: the difference of two close floats has no error of its own."""
    single = table.dtype == exact.dtype == np.float32
    error: Any = np.subtract(table, exact) if single else widened(table) - widened(exact)
    return np.abs(error, out=error)


def _collision(table: Array, exact: Array) -> int | None:
    """The first row that equals the next one, though the exact rows differ. Most rows differ in their first number."""
    candidates = np.flatnonzero(table[1:, 0] == table[:-1, 0])
    for k in range(0, len(candidates), _COLLISION_ROWS):
        rows = candidates[k : k + _COLLISION_ROWS]
        rows = rows[(table[rows + 1] == table[rows]).all(axis=1)]
        rows = rows[(exact[rows + 1] != exact[rows]).any(axis=1)]
        if rows.size:
            return int(rows[0])
    return None


def _take(result: Audit, drift: Drift, start: int, seen: _Seen) -> None:
    """Add what a block shows."""
    numbers, first = result.numbers, result.numbers.first
    stretch = int(np.searchsorted(result.edges, first + start, side="right")) - 1
    span = slice(stretch, stretch + len(seen.largest))
    row, column, expected, found = seen.worst
    if drift.worst is None or seen.largest.max() > drift.max_abs_error:
        frequency = int(numbers.groups[column])
        drift.worst = Worst(first + row, frequency, numbers.names[column], expected, found)
    np.maximum(drift.largest[span], seen.largest, out=drift.largest[span])
    drift.sums[span] += seen.sums
    np.maximum.at(drift.by_frequency, numbers.groups, seen.columns)
    if drift.first_beyond is None and seen.beyond is not None:
        drift.first_beyond = first + seen.beyond
    if drift.first_equal is None and seen.equal is not None:
        drift.first_equal = first + seen.equal


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
