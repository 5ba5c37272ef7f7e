"""Tables of the very scheme that was asked for: as a runtime or a recipe computes it, or with one parameter changed.

Nothing here knows what a parameter means: schemes make their tables, and those are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.recipes import STORED
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import ParameterError
from pecli.explain.edits import Decimals, Dtype, Edit, Explanation, FixedPoint, Parameter, Recipe, Runtime
from pecli.explain.readings import Reading
from pecli.explain.sample import BASES, Sample, grain, plain, plainest, precision
from pecli.explain.wave_schemes import WaveScheme, rendered

BLOCKS, BLOCK_ROWS = 16, 16
FEW_ROWS = 16
GRID, GRID_REACH = 61, math.log(30)
"""Values of a parameter that a search starts from, and how many times larger or smaller they are at most."""
UNITS = 4
"""Of the last place of float32, that the sines of other libraries and an attention factor may lose."""
MIN_SHARE = 0.5
"""Of the squared error of one table, that another has to explain. Errors of one library go together, so that a smaller
share means nothing, however many the elements."""


class Distance(NamedTuple):
    """How far tables are from a scheme's."""

    root_mean_square: float
    largest: float
    elements: int = 1

    def exceeds(self, other: Distance) -> bool:
        """Whether another table is nearer: by most of the squared error, and by more than one element may lose."""
        more = self.root_mean_square**2 - other.root_mean_square**2
        loss = UNITS * precision("float32")
        return more >= MIN_SHARE * self.root_mean_square**2 and self.elements * more > loss**2


NOWHERE = Distance(math.inf, math.inf)


def explain_computed(prior: Scheme, samples: Mapping[str, Sample]) -> Explanation | None:
    """The runtimes and the recipe that make these tables of the prior's parameters, where its own are not they."""
    if "recipe" not in prior.parameters() or not samples or prior.holds_several:
        return None
    allowed = max(map(_allowed, samples.values()))
    ways = (*prior.runtime_names(), *prior.recipe_names())
    likely = [name for name in ways if _of(prior, name, samples, FEW_ROWS).largest <= allowed]
    if not likely:
        return None
    own = distance(prior, samples)
    found = {name: _of(prior, name, samples) for name in likely}
    nearest = min(found.values(), key=lambda each: each.root_mean_square)
    near = [name for name, each in found.items() if not each.exceeds(nearest)]
    if (
        not found[near[0]].largest <= allowed
        or not own.exceeds(nearest)
        or {*STORED} & {*near}  # which says no more than the dtype does
    ):
        return None
    scheme, left = prior.computed_as(near[0]), found[near[0]]
    runtimes = [name for name in near if name in prior.runtime_names()]
    recipes = [name for name in near if name not in runtimes]
    edits: list[Edit] = [Recipe(name) for name in recipes[:1]]
    if runtimes:
        edits.insert(0, Runtime(runtimes[0], tuple(runtimes[1:]), scheme.runtime_causes()))
    return Explanation(tuple(edits), scheme, left.largest, left.root_mean_square, tuple(samples))


def recognise_narrow(samples: Mapping[str, Sample]) -> Explanation | None:
    """Rotary tables from position 0 on whose angles went through bfloat16: no law has such frequencies, and the base is
    the plain number that the slowest of them leaves room for.
    """
    if {*samples} != {"cos", "sin"} or len({one.shape for one in samples.values()}) != 1:
        return None
    cos, sin = (np.asarray(samples[name].values) for name in ("cos", "sin"))
    if cos.ndim != 2 or len(cos) < 2 or cos.shape[1] < 2 or np.iscomplexobj(cos) or not (cos[0] == 1).all():
        return None
    slowest, dim = math.atan2(sin[1, -1], cos[1, -1]), 2 * cos.shape[1]
    if not 0 < slowest < 1:
        return None
    base = slowest ** (-dim / (dim - 2))
    plain_base = plainest(base, base * 2.0**-7)
    try:
        prior = Rope(cos.shape[0], dim, plain_base)
        found = explain_computed(prior, samples)
    except ParameterError:
        return None
    narrow = found is not None and any(isinstance(edit, Recipe) and "bfloat16" in edit.found for edit in found.edits)
    return found if narrow else None


def _of(scheme: Scheme, way: str, samples: Mapping[str, Sample], rows_from_start: int = 0) -> Distance:
    try:
        return distance(scheme.computed_as(way), samples, rows_from_start)
    except ParameterError:  # which that runtime does not have
        return NOWHERE


def rows_in_blocks(count: int) -> Indices:
    """Some of so many rows, from the first to the last, in blocks: rows that follow each other are made at once."""
    starts = np.linspace(0, max(0, count - BLOCK_ROWS), BLOCKS).astype(np.intp)
    return np.unique(np.minimum(starts[:, None] + np.arange(BLOCK_ROWS), count - 1))


def distance(scheme: Scheme, samples: Mapping[str, Sample], rows_from_start: int = 0) -> Distance:
    """How far tables are from a scheme's, by its names for them; frequencies relatively. Rows are taken from the whole
    table, or so many from its beginning.
    """
    made = {table.name: table for table in (*scheme.tensors(), scheme.single_array())}
    errors = []
    for name, one in samples.items():
        if name not in made or made[name].shape != one.shape or np.iscomplexobj(one.values):
            return NOWHERE
        if len(one.shape) == 1:
            expected = widened(made[name].array())
            errors.append(np.abs(one.values / np.where(expected == 0, 1, expected) - 1)[expected != 0])
            continue
        chosen = rows_in_blocks(len(one.rows))[: rows_from_start or None]
        leading = math.prod(one.shape[:-2])
        rows = (np.arange(leading)[:, None] * one.shape[-2] + one.rows[chosen]).reshape(-1)
        expected = widened(made[name].pick(rows)).reshape(*one.shape[:-2], len(chosen), one.shape[-1])
        errors.append(np.abs(one.values[..., chosen, :] - expected).reshape(-1))
    every: Floats = np.concatenate(errors)
    if not every.size or not np.isfinite(every).all():
        return NOWHERE
    return Distance(float(np.sqrt(np.mean(every**2))), float(every.max()), every.size)


def _allowed(one: Sample) -> float:
    """What rounding may leave: of float32 arithmetic, and of how the values were kept."""
    size = max(1.0, float(np.abs(one.values).max(initial=0)))
    kept = grain(np.asarray(one.values)) if not np.iscomplexobj(one.values) else None
    coarse = 0.0
    if isinstance(kept, Dtype):
        coarse = precision(kept.found) * size
    elif isinstance(kept, Decimals):
        coarse = 0.5 * 10.0**-kept.digits
    elif isinstance(kept, FixedPoint):
        coarse = kept.step / 2
    return UNITS * precision("float32") * size + coarse


def explain_parameter(prior: Scheme, samples: Mapping[str, Sample], atol: float) -> Explanation | None:
    """The one parameter that makes the tables with another value, in any scheme."""
    allowed = max(atol, *map(_allowed, samples.values()))
    if distance(prior, samples).largest <= allowed:
        return None
    for name, parameter in prior.parameters().items():
        if name in {"dtype", "recipe", "runtime", *prior.inert_parameters}:
            continue

        def left(value: Any, rows: int = 0, name: str = name) -> Distance:
            other: Any = prior
            try:
                return distance(replace(other, **{name: value}), samples, rows)
            except ParameterError:
                return NOWHERE

        for value in _values(getattr(prior, name), parameter, prior.default_of(name), samples, left):
            if value != getattr(prior, name) and left(value, FEW_ROWS).largest <= allowed >= left(value).largest:
                scheme: Any = replace(prior, **{name: value})
                off, edit = left(value), Parameter(name, getattr(prior, name), getattr(scheme, name))
                return Explanation((edit,), scheme, off.largest, off.root_mean_square, tuple(samples))
    return None


def _values(
    given: Any, parameter: Any, default: Any, samples: Mapping[str, Sample], left: Callable[..., Distance]
) -> Iterator[Any]:
    """Values that a parameter may have instead: the default, other options; usual numbers, then the one that comes
    nearest, as somebody would have written it.
    """
    if isinstance(parameter, Flag):
        yield not given
    elif isinstance(parameter, Choice):
        yield from parameter.options
    elif isinstance(parameter, (Whole, Real)) and given is not None:
        near = (2 * given, given / 2, given + 1, given - 1, 10 * given, given / 10)
        sizes = [float(size) for one in samples.values() for size in one.shape]
        numbers = [*([default] if isinstance(default, (int, float)) else []), *near, *sizes, *range(33), *BASES]
        kind = int if isinstance(parameter, Whole) else float
        yield from (kind(each) for each in dict.fromkeys(numbers) if kind(each) == each)
        if (nearest := _nearest(float(given), left, kind)) is not None:
            yield from (kind(each) for each in plain(nearest, 0.05 * nearest) if kind(each) == each)


def _nearest(given: float, left: Callable[..., Distance], kind: Callable[[float], float]) -> float | None:
    """The value near the given one that leaves least: on a grid by a few rows, then with more rows each time, since
    errors grow along them.
    """

    def off(log: float, rows: int) -> float:
        return left(kind(round(math.exp(log), 12)), rows).root_mean_square

    if given <= 0:
        return None
    grid = math.log(given) + np.linspace(-GRID_REACH, GRID_REACH, GRID)
    at = min(grid.tolist(), key=lambda log: off(log, FEW_ROWS))
    reach = 2 * GRID_REACH / (GRID - 1)
    for rows in (FEW_ROWS, 4 * FEW_ROWS, 16 * FEW_ROWS, 0):
        at, reach = _golden_section(partial(off, rows=rows), at - reach, at + reach), reach / 4
    return math.exp(at)


def recipe_edit(scheme: Scheme | None, whole: Reading, prior: WaveScheme | None, wrong: Indices) -> tuple[Edit, ...]:
    """The recipe that comes nearest, if it is much nearer than the scheme's own."""
    if scheme is None:
        return ()
    rows = np.unique(np.concatenate([rows_in_blocks(len(whole.rows)), wrong[:32]])).astype(np.intp)
    found = np.stack([part[rows] for part in whole.parts])
    left = {}
    for recipe in ("exact", *scheme.recipe_names()):
        parts = rendered(scheme, recipe, whole.rows[rows], whole.form, prior)
        if parts is not None and parts.shape == found.shape:
            left[recipe] = float(np.sqrt(np.mean((parts - found) ** 2)))
    own = getattr(prior.scheme, "recipe", "exact") if prior else "exact"
    if not left or own not in left:
        return ()
    nearest = min(left, key=lambda name: left[name])
    return (Recipe(nearest),) if nearest != own and left[nearest] < 0.5 * left[own] else ()


def _golden_section(of: Callable[[float], float], low: float, high: float) -> float:
    """The smallest value between two limits, by golden section, for functions with one valley."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    one, two = of(left), of(right)
    for _ in range(32):
        if one <= two:
            high, right, two = right, left, one
            left = high - share * (high - low)
            one = of(left)
        else:
            low, left, one = left, right, two
            right = low + share * (high - low)
            two = of(right)
    return (low + high) / 2
