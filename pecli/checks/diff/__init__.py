"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, as_json, compare
from pecli.checks.diff import samples, values
from pecli.checks.diff.explain import Explanation, Sides, explain
from pecli.checks.diff.heads import moved_in_heads
from pecli.checks.reshape import rows_of
from pecli.checks.tolerance import EXACT, Tolerance
from pecli.engine.dtypes import KINDS
from pecli.engine.rounding import round_to, widened
from pecli.engine.table import Table
from pecli.errors import KindError
from pecli.files import LoadedFile
from pecli.files.at_hand import opened

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pecli.engine.arrays import Array
    from pecli.files.at_hand import Given

MOST_EXPLAINED = 16
"""Tensors of one file that transforms are sought for."""
LARGEST_SAMPLE = 1 << 21
"""Elements; where rows are so long that a few of them have more, nothing is sought."""

NOISE = 8
"""Units of the last place that no transform would leave."""

ROUNDED = "B is A rounded to "
TRANSPOSED = "B is transposed"

Pair = tuple[Table, Table]


@dataclass(frozen=True)
class Transform:
    """What makes a tensor of the second file of the first one's, and the largest difference left in a sample."""

    tensor: str
    transform: str
    max_abs_error: float

    def as_json(self) -> dict[str, Any]:
        return {"tensor": self.tensor, "transform": self.transform, "max_abs_error": self.max_abs_error}


@dataclass(frozen=True)
class Difference:
    """How two files differ: tensor by tensor, in words, and by which transforms."""

    a: str
    b: str
    tensors: tuple[Comparison, ...]
    diagnosis: tuple[str, ...] = ()
    transforms: tuple[Transform, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.diagnosis and all(tensor.passed for tensor in self.tensors)

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "a": self.a,
            "b": self.b,
            "tensors": [as_json(tensor) for tensor in self.tensors],
            "diagnosis": list(self.diagnosis),
            "transforms": [transform.as_json() for transform in self.transforms],
        }


def diff(a: Given, b: Given, tolerance: Tolerance = EXACT) -> Difference:
    """Compare two files, or one tensor of each with `FILE:NAME`, or arrays, alone or by name; where they differ, say
    which transform explains it.
    """
    if not isinstance(tolerance, Tolerance):
        raise KindError("tolerance", repr(tolerance), "it must be a Tolerance", "such as Tolerance(atol=1e-6)")
    first = opened(a)
    with first[1]:
        second = opened(b)
        with second[1]:
            return diff_open(first, second, tolerance)


def diff_open(a: tuple[str, LoadedFile], b: tuple[str, LoadedFile], tolerance: Tolerance) -> Difference:
    """The same for files that are open already, each with the name it was asked for by."""
    for _, file in (a, b):
        file.check()
    first, second = _alike(a[1], b[1])
    pairs = pair(first.tables, second.tables)
    tensors = tuple(compare(*each, tolerance) for each in pairs)
    problems = [
        *_alone(first.tables, second.tables, pairs),
        *(f"{each.name}: {each.problem}" for each in tensors if each.problem),
    ]
    failed = [each for each, found in zip(pairs, tensors, strict=True) if not (found.passed or _known(found))]
    explained = _explained(failed[:MOST_EXPLAINED], tolerance)
    transforms = [Transform(found.name, f"{ROUNDED}{found.dtype}", 0.0) for found in tensors if _rounded(found)]
    transforms += [Transform(table.name, why.words(), why.max_abs_error) for table, why in explained]
    problems += [_sentence(each, pairs) for each in transforms]
    return Difference(a[0], b[0], tensors, tuple(problems), tuple(transforms))


def _alike(a: LoadedFile, b: LoadedFile) -> tuple[LoadedFile, LoadedFile]:
    """Two files, one that has neither dtypes nor axes (.csv) read with those of the other."""
    dtypes = [next((table.dtype for table in file.tables if table.dtype in KINDS), "float64") for file in (a, b)]
    a, b = a.read_as(dtypes[1]), b.read_as(dtypes[0])
    return _in_lines(a, b), _in_lines(b, a)


def _in_lines(file: LoadedFile, other: LoadedFile) -> LoadedFile:
    both = _stacked(other.tables)
    expected = both if both is not None else other.tables[0] if len(other.tables) == 1 else None
    if file.format != "csv" or other.format == "csv" or expected is None:
        return file
    return replace(file, tables=tuple(rows_of(table, expected) for table in file.tables))


def pair(a: Sequence[Table], b: Sequence[Table]) -> list[Pair]:
    """Which tensors belong together: those of one name, or the only ones; cos and sin with both in one array."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    for alone, others in ((a, b), (b, a)):
        both = _stacked(others)
        if len(alone) == 1 and both is not None and alone[0].shape == both.shape:
            return [(alone[0], both) if alone is a else (both, alone[0])]
    named = {table.name: table for table in b}
    return [(table, named[table.name]) for table in a if table.name in named]


def _stacked(tables: Sequence[Table]) -> Table | None:
    """cos and sin, one after the other, as files that hold one array have them."""
    named = {table.name: table for table in tables}
    if not {"cos", "sin"} <= {*named} or named["cos"].shape != named["sin"].shape:
        return None
    cosines, sines = named["cos"], named["sin"]

    def fill(start: int, out: Array) -> None:
        first = max(0, min(len(out), cosines.rows - start))
        if first:
            cosines.fill(start, out[:first])
        if first < len(out):
            sines.fill(start + first - cosines.rows, out[first:])

    return Table("cos_sin", cosines.dtype, (2, *cosines.shape), fill, cosines.in_order or sines.in_order)


def _alone(a: Sequence[Table], b: Sequence[Table], pairs: Sequence[Pair]) -> list[str]:
    if any(table.name == "cos_sin" for each in pairs for table in each):
        return []  # what follows from them may be absent
    paired = [{id(one[side]) for one in pairs} for side in (0, 1)]
    lines = []
    for tables, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A")):
        lines += [f"{table.name}: only {here} has it, {there} does not" for table in tables if id(table) not in known]
    return lines


def _rounded(found: Comparison) -> bool:
    """Whether only the dtype differs, and every value is the nearest that the other dtype has."""
    return bool(found.problem) and found.mismatched == 0 and bool(found.max_abs_error) and bool(found.dtype)


def _known(found: Comparison) -> bool:
    """Whether there is nothing to seek: rounding to another dtype, or so little that it is rounding within one."""
    return _rounded(found) or (not found.problem and found.max_ulp_error is not None and found.max_ulp_error <= NOISE)


def _sentence(found: Transform, pairs: Sequence[Pair]) -> str:
    (one, other), *_ = [each for each in pairs if each[0].name == found.tensor]
    looked, length = len(samples.positions_of(one.shape)), _length(one)
    where = f" in {looked:,} of {length:,} rows" if looked < length else ""
    if one.dtype != other.dtype and {one.dtype, other.dtype} <= {*KINDS} and not found.transform.startswith(ROUNDED):
        where += f", in {min(one.dtype, other.dtype, key=lambda name: KINDS[name])}"
    left = f"{found.max_abs_error:.3g} is left at most" if found.max_abs_error else "nothing is left"
    return f"{found.tensor}: {found.transform}; {left}{where}"


def _explained(pairs: Sequence[Pair], tolerance: Tolerance) -> list[tuple[Table, Explanation]]:
    """Tensors that changed places first, then each by itself."""
    found = _exchanged(pairs, tolerance)
    known = {table.name for table, _ in found}
    for one, other in pairs:
        if one.name not in known and (why := _explain(one, other, tolerance)):
            found.append((one, why))
    return found


def _exchanged(pairs: Sequence[Pair], tolerance: Tolerance) -> list[tuple[Table, Explanation]]:
    found: list[tuple[Table, Explanation]] = []
    for (one, its), (two, others) in combinations(pairs, 2):
        if not one.shape == its.shape == two.shape == others.shape or any(table in (one, two) for table, _ in found):
            continue
        crossed = [_sides(one, others, tolerance), _sides(two, its, tolerance)]
        if None in crossed:
            continue
        left = [values.distance(sides.a, sides.b) for sides in crossed if sides]
        if all(gap <= sides.limits[0] for gap, sides in zip(left, crossed, strict=True) if sides):
            words = f"the tensors {one.name} and {two.name} are exchanged"
            found += [(table, Explanation((words,), max(left), True)) for table in (one, two)]
    return found


def _explain(one: Table, other: Table, tolerance: Tolerance) -> Explanation | None:
    """A transform of one tensor into the other, perhaps transposed."""
    best, sides = None, _sides(one, other, tolerance)
    if moved := moved_in_heads(one, other, sides.limits[0] if sides else tolerance.atol):
        return Explanation((moved[0],), moved[1], True)
    if sides is not None:
        best = explain(sides)
    if best is None and len(one.shape) == 2 and one.shape == other.shape[::-1] and min(one.shape) > 1:
        sides = _sides(one, other, tolerance, across=True)
        if sides is None:
            return None
        left = values.distance(sides.a, sides.b)
        if left <= sides.limits[0]:
            return Explanation((TRANSPOSED,), left, True)
        further = explain(sides)
        if further and len(further.steps) == 1:
            return replace(further, steps=(TRANSPOSED, *further.steps))
    return best


def _sides(one: Table, other: Table, tolerance: Tolerance, across: bool = False) -> Sides | None:
    """Samples of both at the same positions; None if there is nothing to look at, or too much."""
    places = [samples.positions_of(table.shape) for table in (one, other)]
    if one.shape == other.shape or across:
        places[1] = places[0]
    sizes = [
        len(places[0]) * (one.size // max(1, _length(one))),
        len(places[1]) * (other.size // max(1, _length(other))),
    ]
    if not (one.size and other.size) or max(sizes[: 1 if across else 2]) > LARGEST_SAMPLE:
        return None
    taken = samples.take(one, places[0]), (samples.take_across if across else samples.take)(other, places[1])
    wide: list[NDArray[Any]] = [
        each.astype(np.complex128) if each.dtype.kind == "c" else widened(each) for each in taken
    ]
    dtypes = one.dtype, other.dtype
    if one.dtype != other.dtype and {*dtypes} <= {*KINDS}:  # seen in the shorter one, the dtype is no difference
        short = min(dtypes, key=lambda name: KINDS[name])
        wide, dtypes = [widened(round_to(each, short)) for each in wide], (short, short)
    return Sides(wide[0], wide[1], max(places, key=len), dtypes, tolerance)


def _length(table: Table) -> int:
    return table.shape[-2] if len(table.shape) > 1 else table.size
