"""Tables of the very scheme that was asked for: as a runtime or a recipe computes it, or with one parameter changed.

Nothing here knows what a parameter means: schemes make their tables, and those are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import AnyArray, Complex, Floats, Indices
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.schemes.parameters import Choice, Flag, Real, Whole
from pecli.engine.schemes.recipes import STORED
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.explain.edits import Arithmetic, Edit, Explanation, Parameter, Recipe, Runtime
from pecli.explain.readings import Reading, readings
from pecli.explain.sample import BASES, Sample, plain, plainest, precision, rms, rounding
from pecli.explain.wave_schemes import WaveScheme, rendered
from pecli.explain.waves import Place

BLOCKS, BLOCK_ROWS = 16, 16
FEW_ROWS = 16
GRID, FINER_GRID, GRID_REACH = 61, 21, math.log(30)
"""Values of a parameter that are tried at once, and how many times larger or smaller they are at most."""
UNITS = 4
"""Of the last place of float32, that the sines of other libraries and an attention factor may lose."""
MIN_SHARE = 0.5
"""Of the squared error of one table, that another has to explain. Errors of one library go together, so that a smaller
share means nothing, however many the elements."""


STEPS = ("positions", "frequencies", "phases")
"""What arithmetic may round."""
REACH = {"float32": 8, "float16": 1, "bfloat16": 1}
"""Units of the last place that computed frequencies are off at most."""
MAX_PHASES = 1 << 15
MAX_ROUNDING = 2.0**-6
"""Relative error of phases, beyond which no dtype rounds them."""


class Distance(NamedTuple):
    """How far tables are from a scheme's."""

    root_mean_square: float
    largest: float
    elements: int = 1

    @classmethod
    def of(cls, left: Floats) -> Distance:
        """Of elements that are so far off; infinite where that is no number."""
        if not left.size or not np.isfinite(left).all():
            return NOWHERE
        return cls(rms(left), float(left.max()), left.size)

    def exceeds(self, other: Distance) -> bool:
        """Whether another table is nearer: by most of the squared error, and by more than one element may lose."""
        more = self.root_mean_square**2 - other.root_mean_square**2
        loss = UNITS * precision("float32")
        return more >= MIN_SHARE * self.root_mean_square**2 and self.elements * more > loss**2


NOWHERE = Distance(math.inf, math.inf)


def explain_computed(prior: Scheme, samples: Mapping[str, Sample]) -> Explanation | None:
    """The runtimes and the recipe that make these tables of the prior's parameters, where its own are not they."""
    if "recipe" not in prior.parameters():
        return None
    allowed = max(_allowed(one.values) for one in samples.values())
    ways = {name: partial(prior.computed_as, name) for name in (*prior.runtime_names(), *prior.recipe_names())}
    likely = [name for name, make in ways.items() if _of(make, samples, FEW_ROWS).largest <= allowed]
    if not likely:
        return None
    found = {name: _of(ways[name], samples) for name in likely}
    nearest = min(found.values(), key=lambda each: each.root_mean_square)
    near = [name for name, each in found.items() if not each.exceeds(nearest)]
    left = found[near[0]]
    if left.largest > allowed or not distance(prior, samples).exceeds(nearest):
        return None
    if {*STORED} & {*near}:  # which says no more than the dtype does
        return None
    scheme = prior.computed_as(near[0])
    runtimes = [name for name in near if name in prior.runtime_names()]
    recipes = [Recipe(name) for name in near if name not in runtimes]
    by = [Runtime(runtimes[0], tuple(runtimes[1:]), scheme.runtime_causes())] if runtimes else []
    return Explanation((*by, *recipes[:1]), scheme, left.largest, left.root_mean_square, tuple(samples))


def recognise_narrow(samples: Mapping[str, Sample]) -> list[Explanation]:
    """Rotary tables from position 0 on whose angles went through bfloat16: no law has such frequencies, and the base is
    the plain number that the slowest of them leaves room for.
    """
    if {*samples} != {"cos", "sin"} or len({one.shape for one in samples.values()}) != 1:
        return []
    cos, sin = (samples[name].values for name in ("cos", "sin"))
    if cos.ndim != 2 or min(cos.shape) < 2 or np.iscomplexobj(cos) or not (cos[0] == 1).all():
        return []
    slowest, dim = math.atan2(sin[1, -1], cos[1, -1]), 2 * cos.shape[1]
    if not 1e-12 < slowest < 1:
        return []
    base = slowest ** (-dim / (dim - 2))
    found = explain_computed(Rope(len(cos), dim, plainest(base, base * 2.0**-7)), samples)
    recipes = [edit.found for edit in found.edits if isinstance(edit, Recipe)] if found else []
    return [found] if found and "bfloat16" in "".join(recipes) else []


def _of(make: Callable[[], Scheme], samples: Mapping[str, Sample], rows_from_start: int = 0) -> Distance:
    try:
        return distance(make(), samples, rows_from_start)
    except ParameterError:  # there is no such scheme
        return NOWHERE


def tables_of(scheme: Scheme) -> dict[str, Table]:
    """All that a scheme makes, by name."""
    return {table.name: table for table in (scheme.single_array(), *scheme.tensors())}


def rows_in_blocks(count: int) -> Indices:
    """Some of so many rows, from the first to the last, in blocks: rows that follow each other are made at once."""
    starts = np.linspace(0, max(0, count - BLOCK_ROWS), BLOCKS).astype(np.intp)
    return np.unique(np.minimum(starts[:, None] + np.arange(BLOCK_ROWS), count - 1))


def distance(scheme: Scheme, samples: Mapping[str, Sample], rows_from_start: int = 0) -> Distance:
    """How far tables are from a scheme's, by its names for them; frequencies relatively. Rows are taken from the whole
    table, or so many from its beginning.
    """
    made, errors = tables_of(scheme), []
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
    return Distance.of(np.concatenate(errors))


def _allowed(values: AnyArray) -> float:
    """What rounding may leave: of float32 arithmetic, and of how the values were kept."""
    size = max(1.0, float(np.abs(values).max(initial=0)))
    relative, absolute = rounding(values)
    return (UNITS * precision("float32") + relative) * size + absolute


def explain_parameter(prior: Scheme, samples: Mapping[str, Sample], atol: float) -> Explanation | None:
    """The one parameter that makes the tables with another value, in any scheme."""
    other: Any = prior
    allowed = max(atol, *(_allowed(one.values) for one in samples.values()))
    if distance(prior, samples).largest <= allowed:
        return None
    for name, parameter in prior.parameters().items():
        if name in {"dtype", "recipe", "runtime", *prior.inert_parameters}:
            continue
        given = getattr(prior, name)

        def left(value: Any, rows: int = 0, name: str = name) -> Distance:
            return _of(lambda: replace(other, **{name: value}), samples, rows)

        for value in _values(given, parameter, prior.default_of(name), samples, left):
            if value != given and left(value, FEW_ROWS).largest <= allowed and (off := left(value)).largest <= allowed:
                edit = Parameter(name, given, value)
                scheme = replace(other, **{name: value})
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
    """The value near the given one that leaves least: on ever finer grids, with more and more rows, since errors grow
    along them.
    """
    if given <= 0:
        return None
    at, reach, count = math.log(given), GRID_REACH, GRID
    for rows in (FEW_ROWS, FEW_ROWS, FEW_ROWS, 4 * FEW_ROWS, 4 * FEW_ROWS, 16 * FEW_ROWS, 16 * FEW_ROWS, 0):
        off = {log: left(kind(round(math.exp(log), 12)), rows) for log in np.linspace(at - reach, at + reach, count)}
        at = float(min(off, key=lambda log: off[log].root_mean_square))
        reach, count = 2 * reach / (count - 1), FINER_GRID
    return math.exp(at)


def recipe_edit(
    scheme: Scheme | None, whole: Reading, prior: WaveScheme | None, wrong: Indices, waves: tuple[Floats, Place, float]
) -> tuple[tuple[Edit, ...], float]:
    """The recipe that comes nearest, if it is much nearer than the scheme's own, or the arithmetic of waves with these
    frequencies; and what is left at most.
    """
    rows = np.unique(np.concatenate([rows_in_blocks(len(whole.rows)), wrong[:32]])).astype(np.intp)
    found = np.stack([part[rows] for part in whole.parts])
    left = {}
    for recipe in ("exact", *scheme.recipe_names()) if scheme is not None else ():
        assert scheme is not None
        parts = rendered(scheme, recipe, whole.rows[rows], whole.form, prior)
        if parts is not None and parts.shape == found.shape:
            left[recipe] = Distance.of(np.abs(parts - found))
    own = getattr(prior.scheme, "recipe", "exact") if prior else "exact"
    if left and own in left:
        nearest = min(left, key=lambda name: left[name].root_mean_square)
        if nearest != own and left[nearest].root_mean_square < 0.5 * left[own].root_mean_square:
            return (Recipe(nearest),), left[nearest].largest
    rounded = arithmetic(whole, *waves, prior.cos_first if prior else True) if own == "exact" else None
    return ((), math.inf) if rounded is None else ((rounded[0],), rounded[1].largest)


@dataclass(frozen=True)
class Phases:
    """Waves of a reading at some rows, with the place and the height that were found for them."""

    values: Complex | Floats
    rows: Floats
    frequency: Floats
    place: Place
    height: float

    def left(self, positions: Floats, frequency: Floats, dtype: str = "") -> Floats:
        """How far the values are from waves whose phases were rounded to a dtype, or not."""
        phases = np.multiply.outer(positions, frequency)
        phases = widened(round_to(phases, dtype)) if dtype else phases
        angles = self.place.direction * phases + self.place.quarter * math.pi / 2
        if not np.iscomplexobj(self.values):
            return np.asarray(np.abs(self.values - self.height * np.cos(angles)))
        off = self.values - self.height * np.exp(1j * angles)
        return np.asarray(np.maximum(np.abs(off.real), np.abs(off.imag)))

    def nearest(self, dtype: str, which: tuple[str, ...]) -> tuple[Floats, Indices, Floats]:
        """What the best frequencies leave, how many units these are off, and the frequencies."""
        positions = widened(round_to(self.rows, dtype)) if "positions" in which else self.rows
        in_phases, in_frequencies = (dtype if name in which else "float32" for name in ("phases", "frequencies"))
        reach = REACH[in_frequencies]
        units = np.array(sorted(range(-reach, reach + 1), key=abs))
        rounded = round_to(self.frequency, in_frequencies)
        bits = rounded.view(np.int32 if in_frequencies == "float32" else np.int16)
        tried = [widened((bits + unit).astype(bits.dtype).view(rounded.dtype)) for unit in units]
        tried = [np.where(widened(rounded) > 0, each, 0.0) for each in tried]
        left = np.stack([self.left(positions, each, in_phases) for each in tried])
        squares = (left**2).mean(axis=1)
        best = np.argmax(squares <= 1.5 * squares.min(axis=0) + (self.height * 2.0**-25) ** 2, axis=0)  # the nearest
        every = np.arange(len(best))
        return left[best, :, every].T, units[best], np.stack(tried)[best, every]


def arithmetic(
    whole: Reading, frequency: Floats, place: Place, height: float, cos_first: bool
) -> tuple[Arithmetic, Distance] | None:
    """The dtype that positions, frequencies and phases were rounded to on the way, each frequency being one that such
    arithmetic may have made; None where the values do not follow.
    """
    rows = rows_in_blocks(len(whole.rows))
    rows = rows[~whole.is_padding[rows]][:: max(1, len(rows) * whole.channels // MAX_PHASES)]
    values = whole.values(cos_first)[rows]
    seen = Phases(values, (whole.rows[rows] + place.start).astype(np.float64), frequency, place, height)
    if seen.rows.min(initial=0) < 0 or not len(rows):
        return None
    coarse = max(map(_allowed, whole.parts))
    left = seen.left(seen.rows, frequency)
    if not (left <= coarse + height * MAX_ROUNDING * np.abs(np.multiply.outer(seen.rows, frequency))).all():
        return None
    own = Distance.of(left)
    found: list[tuple[Arithmetic, Distance]] = []
    for dtype in REACH if own.largest > coarse else ():
        wide = dtype == "float32"
        for which in (STEPS,) if wide else (each for count in (3, 1, 2) for each in combinations(STEPS, count)):
            left, units, near = seen.nearest(dtype, which)
            rounding = height * precision(dtype) * np.abs(np.multiply.outer(seen.rows, near)) if wide else 0.0
            if (left <= coarse + rounding).all() and own.exceeds(Distance.of(left)):
                pairs = tuple(np.flatnonzero(units).tolist())
                found.append((Arithmetic(dtype, which, pairs, int(np.abs(units).max())), Distance.of(left)))
        if found:
            return min(found, key=lambda each: each[1].root_mean_square)
    return None


def explain_arithmetic(prior: WaveScheme, samples: Mapping[str, Sample]) -> Explanation | None:
    """The prior's own waves with phases that were rounded on the way."""
    if getattr(prior.scheme, "recipe", "exact") != "exact":  # which rounds them, too
        return None
    for whole in readings(samples, prior.form):
        if whole.channels == prior.law.count and not whole.edits and whole.form == prior.form:
            place = Place(1, 3 if prior.one == "sin" else 0, prior.offset)
            found = arithmetic(whole, prior.law.frequencies(), place, prior.height, prior.cos_first)
            if found is not None:
                edit, left = found
                return Explanation((edit,), prior.scheme, left.largest, left.root_mean_square, whole.tensors)
    return None
