"""`pecli.audit`: how far the tables of precision recipes drift from the exact one.

Errors are absolute, against the exact values rounded to float32, or to float64 if the tables are
float64.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from pecli.checks import plain
from pecli.checks.position_errors import Drift, Drifts, ErrorCurve, measure_drifts
from pecli.compare.tolerance import DRIFT, ERROR
from pecli.display import Printed
from pecli.engine.arguments import function_of, texts_of, within_limits
from pecli.engine.arrays import as_dtype
from pecli.engine.named_values import JsonObject
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import ByPosition
from pecli.errors import KindError, quoted

DECADES = (0, *(10**power for power in range(1, 14)))
"""The first positions of decades: 0–9, 10–99, 100–999, …"""


class Decade(NamedTuple):
    """The first and the last position of a decade."""

    first: int
    last: int


class DecadeErrors(NamedTuple):
    """The largest and the mean error within a decade."""

    max_abs_error: float
    mean_abs_error: float


@dataclass(repr=False)
class Audit(Printed):
    """The tables of several recipes against the exact one.

    Attributes:
        scheme: The scheme whose tables these are.
        tolerance: The largest error that a position may have.
        numbers: The exact numbers, with the frequencies or slopes of the columns.
        measured: The errors of each recipe.
    """

    scheme: Scheme
    tolerance: float
    numbers: ByPosition
    measured: Drifts

    def __repr__(self) -> str:
        recipes = ", ".join(drift.recipe for drift in self.drifts)
        return f"<Audit of {self.scheme!r}: {recipes}>"

    @property
    def drifts(self) -> list[Drift]:
        """The errors of each recipe."""
        return self.measured.tables

    def kept_positions(self, drift: Drift) -> int:
        """Return how many positions, from the first on, stay within the tolerance."""
        if drift.first_beyond is None:
            return self.numbers.count
        return drift.first_beyond - self.numbers.first

    def decades(self) -> list[Decade]:
        """Return the decades of the positions that were compared, cut at both ends.

        Of the positions 5 to 1,199 they are 5–9, 10–99, 100–999 and 1,000–1,199.
        """
        start = self.numbers.first
        stop = start + self.numbers.count
        decades = []
        for low, high in pairwise(DECADES):
            decade = Decade(max(low, start), min(high, stop) - 1)
            if decade.first <= decade.last:
                decades.append(decade)
        return decades

    def in_decade(self, drift: Drift, decade: Decade) -> DecadeErrors:
        """Return the errors of a recipe at the positions of a decade, such as 100 to 999.

        They were measured for stretches of positions, each of which lies within one decade.
        """
        starts = self.measured.edges[:-1]
        is_inside = (starts >= decade.first) & (starts <= decade.last)
        elements = (decade.last - decade.first + 1) * len(self.numbers.groups)
        mean = float(drift.sums[is_inside].sum()) / elements
        return DecadeErrors(float(drift.largest[is_inside].max()), mean)

    def mean(self, drift: Drift) -> float:
        """Return the mean error over all positions and columns."""
        elements = self.numbers.count * len(self.numbers.groups)
        return float(drift.sums.sum()) / elements

    def curve(self, drift: Drift) -> ErrorCurve:
        return self.measured.curve(drift)

    def as_json(self) -> JsonObject:
        return {
            **self.scheme.spec(),
            "tolerance": self.tolerance,
            "first_position": self.numbers.first,
            "positions": self.numbers.count,
            self.numbers.kind: self.numbers.values,
            "recipes": [plain(self._recipe_as_json(drift)) for drift in self.drifts],
        }

    def _recipe_as_json(self, drift: Drift) -> dict[str, object]:
        """Return the errors of one recipe, one of `recipes` that `pecli audit --json` prints."""
        by_decade = [
            {**decade._asdict(), **self.in_decade(drift, decade)._asdict()}
            for decade in self.decades()
        ]
        return {
            "recipe": drift.recipe,
            "max_abs_error": drift.max_abs_error,
            "mean_abs_error": self.mean(drift),
            "kept_positions": self.kept_positions(drift),
            "first_beyond_tolerance": drift.first_beyond,
            "first_equal_neighbours": drift.first_equal,
            "by_decade": by_decade,
            "by_frequency": drift.by_frequency.tolist(),
        }


@within_limits
def audit(
    scheme: Scheme,
    recipes: Sequence[str] | str | None = None,
    tolerance: float = DRIFT,
    on_block: Callable[[int], None] = lambda count: None,
) -> Audit:
    """Measure how far a scheme's table is off if it is computed with the rounding of a runtime.

    A recipe names the precision of each step: `bfloat16-positions` rounds positions to bfloat16
    before they are multiplied by frequencies, as some programs do.

    Args:
        scheme: The scheme, such as `Rope(seq_len=4096, dim=128)`.
        recipes: Names of recipes or runtimes; by default all recipes, or the scheme's own runtime.
        tolerance: The largest absolute error that a position may have.
        on_block: Called with the number of positions that were done since its last call.

    Returns:
        An `Audit`: printed, it shows how many positions each recipe keeps within the tolerance.

    Raises:
        KindError: The scheme is not a scheme, or `recipes` are not names.
        ParameterError: The scheme has no recipes, or a recipe is unknown.

    >>> import pecli
    >>> found = pecli.audit(pecli.Rope(512, 64), "bfloat16-positions")
    >>> found.drifts[0].first_equal  # bfloat16 cannot hold 257
    257
    """
    if not isinstance(scheme, Scheme):
        example = "such as Rope(seq_len=4096, dim=128)"
        raise KindError("scheme", quoted(scheme), "it must be a scheme", example)
    scheme.audited_rows()  # Raises ParameterError for a scheme without recipes.
    names = _check_recipe_names(scheme, recipes)
    exact_dtype = "float64" if scheme.dtype == "float64" else "float32"
    exact = _compute_curves(scheme, "exact", exact_dtype)
    tables = {name: _compute_curves(scheme, name, scheme.dtype) for name in names}
    limit = ERROR.check("tolerance", tolerance)
    positions = range(exact.first, exact.first + exact.count)
    drifts = measure_drifts(
        exact, tables, limit, positions, on_block=function_of("on_block", on_block)
    )
    return Audit(scheme, limit, exact, drifts)


def _check_recipe_names(scheme: Scheme, recipes: Sequence[str] | str | None) -> Sequence[str]:
    """Return the recipes to measure; by default all, or the runtime that the scheme names itself."""
    if recipes is not None:
        return texts_of("recipes", recipes, "it must be the name of a recipe, or several")
    runtime = scheme.value_of("runtime", "none")
    if runtime != "none":
        return (runtime,)
    return scheme.recipe_names()


def _compute_curves(scheme: Scheme, recipe: str, dtype: str) -> ByPosition:
    """Return the numbers of a scheme as a recipe computes them, in a dtype."""
    numbers = scheme.in_dtype(dtype).computed_as(recipe).audited_rows()
    return replace(numbers, read=lambda start, stop: as_dtype(numbers.read(start, stop), dtype))
