"""Which mistake of a port turns one table into the other: the transforms are tried on a sample, one and two at a time.

A transform is claimed only if it explains the table: what is left is within the tolerance or a few units of the last
place, or a hundredth of the difference at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.diff import values
from pecli.checks.diff.channels import ANOTHER_ORDER, permutation
from pecli.checks.diff.layouts import Rearranged, layouts
from pecli.checks.diff.rows import shifts
from pecli.checks.tolerance import Tolerance
from pecli.engine.dtypes import KINDS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.arrays import Places

SHARE = 0.01
"""Of the difference, that may be left by a transform which explains it."""
UNITS = 4
"""Of the last place, at the largest value: left by a transform which explains all."""
QUICK = 48
"""Positions that are looked at first."""


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
    places: Places
    dtypes: tuple[str, str]
    tolerance: Tolerance

    @cached_property
    def limits(self) -> tuple[float, float]:
        """What may be left: where all is explained, and where it is worth saying."""
        scale = _scale(self.b)
        precision = min(KINDS.get(name, 24) for name in self.dtypes)
        all_of_it = max(self.tolerance.atol, self.tolerance.rtol * scale, UNITS * scale * 2.0 ** (1 - precision))
        gap = values.distance(self.a, self.b) if self.a.shape == self.b.shape else scale
        return all_of_it, max(all_of_it, SHARE * min(gap, scale))


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
    best: Route | None = None
    for steps, residual in _tried(sides, most):
        if residual > most:
            continue
        found = Route(steps, residual, residual <= full, steps[-1].startswith(ANOTHER_ORDER))
        if best is None or _rank(found) < _rank(best):
            best = found
        if best.full and len(best.steps) == 1 and not best.general:
            break
    return best


def _rank(found: Route) -> tuple[bool, bool, int]:
    return not found.full, found.general, len(found.steps)


def _tried(sides: Sides, most: float) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every transform with what it leaves; single ones first."""
    same = [Rearranged((), sides.a)] if sides.a.shape == sides.b.shape else []
    changed = list(layouts(sides.a, sides.b))
    for candidate in changed:
        yield candidate.steps, _residual(candidate.array, sides, most)
    for words, residual in values.softmax_ignores(sides.a, sides.b, sides.places):
        yield (words,), residual
    for candidate in [*same, *(each for each in changed if len(each.steps) == 1)]:
        for change in _changes(candidate.array, sides.b, sides, most):
            yield (*candidate.steps, change.words), change.residual
    yield from _shifted(sides, [*same, *changed], most)
    for candidate in [*same, *(each for each in changed if each.steps == ("axes of length 1 differ",))]:
        yield from _permuted(candidate, sides)


def _residual(array: NDArray[Any], sides: Sides, most: float) -> float:
    """What is left, or infinity as soon as it is too much."""
    if array.ndim > 1 and array.shape[-2] > QUICK:
        start = values.distance(array[..., :QUICK, :], sides.b[..., :QUICK, :])
        if start > most:
            return math.inf
    return values.distance(array, sides.b)


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
            residual = values.distance(ours, theirs)
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
