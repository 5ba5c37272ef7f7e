"""What turns tensors into their partners: samples of both are taken, and every transform is tried on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pecli.checks.compare.ulp import widest
from pecli.checks.diff import values
from pecli.checks.diff.explain import Route, Sides, explain
from pecli.checks.diff.heads import moved_in_heads
from pecli.checks.diff.pairing import Pair
from pecli.checks.diff.samples import length_of, positions_of, take, take_across
from pecli.checks.tolerance import Tolerance
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.table import Table

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST_SAMPLE = 1 << 21
"""Elements; where rows are so long that a few of them have more, nothing is sought."""

TRANSPOSED = "B is transposed"


def routes(pairs: Sequence[Pair], tolerance: Tolerance) -> list[tuple[Table, Route]]:
    """Tensors that changed places first, then each by itself."""
    found = _exchanged(pairs, tolerance)
    known = {table.name for table, _ in found}
    for one, other in pairs:
        if one.name not in known and (why := _explain(one, other, tolerance)):
            found.append((one, why))
    return found


def _exchanged(pairs: Sequence[Pair], tolerance: Tolerance) -> list[tuple[Table, Route]]:
    found: list[tuple[Table, Route]] = []
    for (one, its), (two, others) in combinations(pairs, 2):
        if not one.shape == its.shape == two.shape == others.shape or any(table in (one, two) for table, _ in found):
            continue
        crossed = [_sides(one, others, tolerance), _sides(two, its, tolerance)]
        if None in crossed:
            continue
        left = [values.distance(sides.a, sides.b) for sides in crossed if sides]
        if all(gap <= sides.limits[0] for gap, sides in zip(left, crossed, strict=True) if sides):
            words = f"the tensors {one.name} and {two.name} are exchanged"
            found += [(table, Route((words,), max(left), True)) for table in (one, two)]
    return found


def _explain(one: Table, other: Table, tolerance: Tolerance) -> Route | None:
    """A transform of one tensor into the other, perhaps transposed."""
    best, sides = None, _sides(one, other, tolerance)
    if moved := moved_in_heads(one, other, sides.limits[0] if sides else tolerance.atol):
        return Route((moved[0],), moved[1], True)
    if sides is not None:
        best = explain(sides)
    if best is None and len(one.shape) == 2 and one.shape == other.shape[::-1] and min(one.shape) > 1:
        sides = _sides(one, other, tolerance, across=True)
        if sides is None:
            return None
        left = values.distance(sides.a, sides.b)
        if left <= sides.limits[0]:
            return Route((TRANSPOSED,), left, True)
        further = explain(sides)
        if further and len(further.steps) == 1:
            return replace(further, steps=(TRANSPOSED, *further.steps))
    return best


def _sides(one: Table, other: Table, tolerance: Tolerance, across: bool = False) -> Sides | None:
    """Samples of both at the same positions; None if there is nothing to look at, or too much."""
    places = [positions_of(table.shape) for table in (one, other)]
    if one.shape == other.shape or across:
        places[1] = places[0]
    sizes = [
        len(places[0]) * (one.size // max(1, length_of(one))),
        len(places[1]) * (other.size // max(1, length_of(other))),
    ]
    if not (one.size and other.size) or max(sizes[: 1 if across else 2]) > LARGEST_SAMPLE:
        return None
    taken = take(one, places[0]), (take_across if across else take)(other, places[1])
    wide: list[NDArray[Any]] = [widest(each) for each in taken]
    dtypes = one.dtype, other.dtype
    if one.dtype != other.dtype and {*dtypes} <= {
        *SIGNIFICAND_BITS
    }:  # seen in the shorter one, the dtype is no difference
        short = min(dtypes, key=lambda name: SIGNIFICAND_BITS[name])
        wide, dtypes = [widened(round_to(each, short)) for each in wide], (short, short)
    return Sides(wide[0], wide[1], max(places, key=len), dtypes, tolerance.for_tensor(one.name, other.name))
