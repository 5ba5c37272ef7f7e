"""Which mistake of a port turns one table into the other: the transforms are tried on a sample, one and two at a time.

A transform is claimed only if it explains the table: what is left is within the tolerance or a few units of the last
place, or a hundredth of the difference at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.diff import values
from pecli.checks.diff.channels import ANOTHER_ORDER, permutation
from pecli.checks.diff.layouts import Rearranged, layouts
from pecli.checks.diff.rows import shifts
from pecli.checks.diff.samples import run
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Indices
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray


SHARE = 0.01
"""Of the difference, that may be left by a transform which explains it."""
UNITS = 4
"""Of the last place, at the largest value: left by a transform which explains all."""
QUICK = 48
"""Positions that are looked at first: in a sample, those that differ most."""


@dataclass(frozen=True)
class Route:
    """Transforms that make the second table of the first, and the largest difference that is left."""

    steps: tuple[str, ...]
    max_abs_error: float
    full: bool  #: nothing is left beyond the tolerance and rounding
    general: bool = False  #: an order of channels that has no name

    def words(self) -> str:
        return ", and ".join(self.steps)


@dataclass(frozen=True)
class Sides:
    """Two samples of the same positions, with what the search has to know of the tables."""

    a: NDArray[Any]
    b: NDArray[Any]
    places: Indices
    dtypes: tuple[str, str]
    tolerance: Tolerance

    @cached_property
    def limits(self) -> tuple[float, float]:
        """What may be left: where all is explained, and where it is worth saying."""
        scale = _scale(self.b)
        precision = min(SIGNIFICAND_BITS.get(name, 24) for name in self.dtypes)
        all_of_it = max(self.tolerance.atol, self.tolerance.rtol * scale, UNITS * scale * 2.0 ** (1 - precision))
        return all_of_it, max(all_of_it, SHARE * min(self.gap, scale))

    @cached_property
    def gap(self) -> float:
        """How far the samples are apart; infinite if that is not to say."""
        return values.distance(self.a, self.b) if self.a.shape == self.b.shape else math.inf

    def at(self, places: Indices) -> Sides:
        """Only some of the positions, out of two samples of one shape."""
        return replace(self, a=self.a[..., places, :], b=self.b[..., places, :], places=self.places[places])

    def where_most_differs(self) -> Sides | None:
        """The few positions that differ most, in order; None if there are no more, or none can be taken out."""
        if self.a.shape != self.b.shape or self.a.ndim < 2 or self.a.shape[-1] < 3 or len(self.places) < 2 * QUICK:
            return None
        apart = np.nan_to_num(np.abs(self.a - self.b), nan=0.0).max(axis=(*range(self.a.ndim - 2), -1))
        return self.at(np.sort(np.argsort(apart)[-QUICK:]))


def _scale(array: NDArray[Any]) -> float:
    """How large values are, but for a few that stand out."""
    sizes = np.sort(np.abs(array[np.isfinite(array)]))
    usual = float(sizes[int(0.9 * (len(sizes) - 1))]) if sizes.size else 0.0
    return usual or (float(sizes[-1]) if sizes.size else 0.0)


def explain(sides: Sides) -> Route | None:
    """The simplest explanation of the difference; None if there is none."""
    if min(sides.a.size, sides.b.size) < 8:
        return None
    with np.errstate(all="ignore"):
        return _best(sides)


def _best(sides: Sides) -> Route | None:
    full, most = sides.limits
    if sides.gap <= full:  # the difference is elsewhere
        return None
    best: Route | None = None
    for steps, residual in _likely(sides, most):
        if residual > most:
            continue
        found = Route(steps, residual, residual <= full, ANOTHER_ORDER in steps[-1])
        if best is None or _rank(found) < _rank(best):
            best = found
        if best.full and len(best.steps) == 1 and not best.general:
            break
    return best


def _likely(sides: Sides, most: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """All transforms, or only shifts of rows where no other one explains even the rows that differ most."""
    quick = sides.where_most_differs()
    if quick is None or any(residual <= most for _, residual in _in_place(quick, _candidates(quick), most)):
        candidates = _candidates(sides)
        yield from _in_place(sides, candidates, most)
        yield from _shifted(sides, candidates, most)
    else:
        begin = sides.at(np.arange(run(sides.places)))
        yield from _shifted(begin, _candidates(begin, 1), most)
    yield from _rows_elsewhere(sides)


def _rows_elsewhere(sides: Sides) -> Iterator[tuple[tuple[str, ...], float]]:
    """Rows in another order, where all of them are at hand: claimed only if every row finds its partner."""
    if sides.a.ndim != 2 or sides.a.shape != sides.b.shape or run(sides.places) < len(sides.a):
        return
    found = permutation(sides.a.T, sides.b.T, "row")
    if found is not None and found[1] <= sides.limits[0]:
        yield (found[0],), found[1]


def _rank(found: Route) -> tuple[bool, bool, int]:
    return not found.full, found.general, len(found.steps)


def _candidates(sides: Sides, most_steps: int = 2) -> list[Rearranged]:
    """The first array as it is, if it has the shape of the second, and in all other layouts."""
    same = [Rearranged((), sides.a)] if sides.a.shape == sides.b.shape else []
    return [*same, *layouts(sides.a, sides.b, most_steps)]


def _in_place(sides: Sides, candidates: list[Rearranged], most: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every transform that leaves rows where they are, with what it leaves of the difference; single ones first."""
    for candidate in candidates:
        if candidate.steps:
            yield candidate.steps, _residual(candidate.array, sides.b, most)
    for words, residual in values.softmax_ignores(sides.a, sides.b, sides.places):
        yield (words,), residual
    for candidate in candidates:
        if len(candidate.steps) < 2:
            for change in _changes(candidate.array, sides.b, sides, most):
                yield (*candidate.steps, change.words), change.residual
    for candidate in candidates:
        if candidate.steps in ((), ("axes of length 1 differ",)):
            yield from _permuted(candidate, sides)


def _residual(a: NDArray[Any], b: NDArray[Any], most: float) -> float:
    """What is left, or infinity as soon as it is too much."""
    if a.ndim > 1 and a.shape[-2] > QUICK and values.distance(a[..., :QUICK, :], b[..., :QUICK, :]) > most:
        return math.inf
    return values.distance(a, b)


def _changes(a: NDArray[Any], b: NDArray[Any], sides: Sides, most: float) -> Iterator[values.Change]:
    """Changes of values, if one of them fits the first positions."""
    if a.ndim > 1 and a.shape[-2] > QUICK:
        start = values.changes(a[..., :QUICK, :], b[..., :QUICK, :], sides.dtypes)
        if all(change.residual > most for change in start):
            return
    yield from values.changes(a, b, sides.dtypes)


def _shifted(sides: Sides, candidates: list[Rearranged], most: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """Rows that stand some positions further up or down, or of which one table has more."""
    lengths = [Rearranged((), sides.a)] if sides.a.shape != sides.b.shape else []
    for candidate in [*lengths, *candidates]:
        if len(candidate.steps) > 1:
            continue
        for words, ours, theirs in shifts(candidate.array, sides.b, sides.places):
            residual = _residual(ours, theirs, most)
            yield (*candidate.steps, words), residual
            if not candidate.steps and residual > most:
                for change in _changes(ours, theirs, sides, most):
                    yield (words, change.words), change.residual


def _permuted(candidate: Rearranged, sides: Sides) -> Iterator[tuple[tuple[str, ...], float]]:
    """Channels in another order: claimed only if every channel finds its partner."""
    full, _ = sides.limits
    for sign, prefix in ((1, ()), (-1, (values.FLIPPED,))):
        found = permutation(sign * candidate.array, sides.b)
        if found is not None and found[1] <= full:
            yield (*candidate.steps, *prefix, found[0]), found[1]
