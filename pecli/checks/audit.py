"""How far the tables of a recipe drift from the exact one, by position and by frequency, block by block in flat memory.
Errors are absolute, against the exact values rounded to float32 (float64 where the tables are float64)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from pecli.checks import plain, plain_fields
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.display import Printed
from pecli.engine.arrays import Array, Floats, Indices, Positions, as_dtype, widened
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import ByPosition, results_in_order
from pecli.errors import KindError

BLOCK_ELEMENTS = 1 << 19  #: a few megabytes in every thread
PER_DECADE = 24  #: points of the curve of errors over positions


@dataclass
class Drift:
    """What one recipe does, over stretches of positions and by frequency."""

    recipe: str
    largest: Floats  #: the largest error of each stretch of positions
    sums: Floats
    by_frequency: Floats
    first_beyond: int | None = None  #: the first position whose error exceeds the tolerance
    first_equal: int | None = (
        None  #: the first position whose row equals the one before, though the exact rows differ
    )

    @property
    def max_abs_error(self) -> float:
        return float(self.largest.max())


@dataclass(repr=False)
class Audit(Printed):
    """The recipes of a scheme against its exact table, over stretches of positions that end at `edges`."""

    scheme: Scheme
    tolerance: float
    numbers: ByPosition
    edges: Indices
    drifts: list[Drift]

    def __repr__(self) -> str:
        return f"<Audit of {self.scheme!r}: {', '.join(drift.recipe for drift in self.drifts)}>"

    def kept_positions(self, drift: Drift) -> int:
        """How many positions, from the first on, stay within the tolerance."""
        return (
            self.numbers.count
            if drift.first_beyond is None
            else drift.first_beyond - self.numbers.first
        )

    def decades(self) -> list[tuple[int, int]]:
        """The positions 0–9, 10–99, 100–999, …, as far as the context reaches: first and last."""
        start, stop = self.numbers.first, self.numbers.first + self.numbers.count
        powers = [0, *(10**k for k in range(1, 14))]
        spans = ((max(low, start), min(high, stop) - 1) for low, high in pairwise(powers))
        return [(first, last) for first, last in spans if first <= last]

    def in_decade(self, drift: Drift, decade: tuple[int, int]) -> tuple[float, float]:
        """The largest and the mean error of a recipe within a decade."""
        inside = (self.edges[:-1] >= decade[0]) & (self.edges[:-1] <= decade[1])
        elements = (decade[1] - decade[0] + 1) * len(self.numbers.groups)
        return float(drift.largest[inside].max()), float(drift.sums[inside].sum()) / elements

    def mean(self, drift: Drift) -> float:
        return float(drift.sums.sum()) / (self.numbers.count * len(self.numbers.groups))

    def curve(self, drift: Drift) -> tuple[Floats, Floats]:
        """Positions from 1 on, each in the middle of a stretch, and the largest errors there; NaN for none."""
        middles = np.sqrt(np.maximum(self.edges[:-1], 0.5) * np.maximum(self.edges[1:] - 1, 0.5))
        errors = np.where((drift.largest > 0) & np.isfinite(drift.largest), drift.largest, np.nan)
        return middles[middles >= 1], errors[middles >= 1]

    def as_json(self) -> dict[str, Any]:
        recipes = []
        for drift in self.drifts:
            spans = [
                (first, last, *self.in_decade(drift, (first, last)))
                for first, last in self.decades()
            ]
            keys = ("first", "last", "max_abs_error", "mean_abs_error")
            described = {
                **plain_fields(drift, "recipe", "max_abs_error"),
                "mean_abs_error": self.mean(drift),
                "kept_positions": self.kept_positions(drift),
                "first_beyond_tolerance": drift.first_beyond,
                "first_equal_neighbours": drift.first_equal,
                "by_decade": [dict(zip(keys, span, strict=True)) for span in spans],
                "by_frequency": drift.by_frequency.tolist(),
            }
            recipes.append(plain(described))
        numbers = self.numbers
        about = {
            "first_position": numbers.first,
            "positions": numbers.count,
            numbers.kind: numbers.values,
        }
        return {**self.scheme.spec(), "tolerance": self.tolerance, **about, "recipes": recipes}


def audit(
    scheme: Scheme,
    recipes: Sequence[str] | str | None = None,
    tolerance: float = DRIFT,
    on_block: Callable[[int], None] | None = None,
) -> Audit:
    """Compare what the recipes (all but exact) or runtimes make of a scheme with its exact table.

    `on_block` gets the number of positions that were done since its last call.
    """
    if not isinstance(scheme, Scheme):
        raise KindError(
            "scheme", repr(scheme), "it must be a scheme", "such as Rope(seq_len=4096, dim=128)"
        )
    scheme.by_position()  # refuses what has no recipes
    runtime = scheme.value_of("runtime", "none")
    every = scheme.recipe_names() if runtime == "none" else (runtime,)
    chosen = every if recipes is None else (recipes,) if isinstance(recipes, str) else recipes
    if not isinstance(chosen, Iterable):
        raise KindError("recipes", repr(recipes), "it must be the name of a recipe, or several")
    exact = _computed(scheme, "exact", "float64" if scheme.dtype == "float64" else "float32")
    tables = {recipe: _computed(scheme, recipe, scheme.dtype) for recipe in chosen}
    return measure(scheme, exact, tables, ERROR.check("tolerance", tolerance), on_block=on_block)


def _computed(scheme: Scheme, recipe: str, dtype: str) -> ByPosition:
    """The numbers of a scheme as a recipe makes them; of one that knows no recipes, as the recipe keeps them."""
    found = scheme.in_dtype(dtype).computed_as(recipe).by_position()
    return replace(found, read=lambda start, stop: as_dtype(found.read(start, stop), dtype))


def measure(
    scheme: Scheme,
    exact: ByPosition,
    tables: Mapping[str, ByPosition],
    tolerance: float,
    places: Sequence[int] | Positions = (),
    on_block: Callable[[int], None] | None = None,
) -> Audit:
    """The errors of tables against an exact one, block by block. Rows are at these places, or from the first on."""
    places = places if len(places) else range(exact.first, exact.first + exact.count)
    stop = int(places[-1]) + 1
    powers = 10.0 ** (np.arange(13 * PER_DECADE + 1) / PER_DECADE)
    inner = np.unique(
        np.rint(powers).astype(np.int64)
    )  # even on a logarithmic scale, decades among them
    edges = np.concatenate([[exact.first], inner[(inner > exact.first) & (inner < stop)], [stop]])
    zeros, frequencies = np.zeros(len(edges) - 1), np.zeros(len(exact.values))
    drifts = [Drift(name, zeros.copy(), zeros.copy(), frequencies.copy()) for name in tables]
    step = max(2, BLOCK_ELEMENTS // max(1, len(exact.groups)))

    def errors_from(start: int) -> list[tuple[Floats, Floats, Floats, int | None]]:
        before = max(start - 1, 0)  # with the row before, which may be equal
        end = min(start + step, exact.count)
        expected = exact.read(before, end)
        return [
            _errors(table.read(before, end), expected, start - before) for table in tables.values()
        ]

    starts = range(0, exact.count, step)
    for start, measured in zip(starts, results_in_order(errors_from, starts), strict=True):
        positions = np.asarray(places[start : start + step])
        stretches = np.searchsorted(edges, positions, side="right") - 1
        for drift, (largest, sums, by_column, equal) in zip(drifts, measured, strict=True):
            np.maximum.at(drift.largest, stretches, largest)
            np.add.at(drift.sums, stretches, sums)
            np.maximum.at(drift.by_frequency, exact.groups, by_column)
            beyond = np.flatnonzero(largest > tolerance)
            if drift.first_beyond is None and beyond.size:
                drift.first_beyond = int(positions[beyond[0]])
            if drift.first_equal is None and equal is not None:
                drift.first_equal = int(positions[equal])
        if on_block is not None:
            on_block(len(positions))
    return Audit(scheme, tolerance, exact, edges, drifts)


def _errors(table: Array, exact: Array, before: int) -> tuple[Floats, Floats, Floats, int | None]:
    """|table − exact| after that many rows: the largest and the sum of each row, the largest of each column, and the
    first row that equals the one before; in float32 where both are, as the difference of close floats has no error."""
    rows = np.flatnonzero(table[1:, 0] == table[:-1, 0])  # most rows differ in their first number
    rows = rows[(table[rows + 1] == table[rows]).all(axis=1)]
    rows = rows[(exact[rows + 1] != exact[rows]).any(axis=1)]
    equal = int(rows[0]) + 1 - before if rows.size else None
    table, exact = table[before:], exact[before:]
    single = table.dtype == exact.dtype == np.float32
    error: Any = np.subtract(table, exact) if single else widened(table) - widened(exact)
    np.abs(error, out=error)
    return (
        error.max(axis=1).astype(np.float64),
        error.sum(axis=1, dtype=np.float64),
        error.max(axis=0),
        equal,
    )
