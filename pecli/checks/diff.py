"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, as_json, compare, problems_of
from pecli.checks.compare.error_summary import widest
from pecli.checks.same_table import fitted
from pecli.checks.statistics import has_waves
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.table import Table, rows_of, stacked
from pecli.errors import PecliError
from pecli.files import LoadedFile
from pecli.files.load import opened

if TYPE_CHECKING:  # schemes and explanations are imported where files differ
    from pecli.engine.schemes.scheme import Scheme
    from pecli.explain.edits import Explanation
    from pecli.files.load import Given


MAX_EXPLAINED = 16
"""Tensors of one file that explanations are sought for."""
MIN_ELEMENTS = 8
"""Of a tensor that a scheme is sought for."""
MAX_SEARCHED = 1 << 24
"""Elements of a table up to which every difference is searched for a reason."""
SAMPLED_ROWS = 128
"""From the first on, and as many of all: looked at before a search."""
MAX_SCATTERED = 1 / 8
"""Fraction of every row and column of a sample up to which differing elements are accidents."""
CLOSE = 1e-3
"""The largest difference, relative to the largest element, up to which tables are no two draws."""
NOISE = 8
"""Units of the last place that no transform would leave."""


@dataclass(frozen=True)
class Difference:
    """How two files differ: tensor by tensor, in words, and by which edits."""

    a: str
    b: str
    tensors: tuple[Comparison, ...]
    diagnosis: tuple[str, ...] = ()
    explanations: tuple[Explanation, ...] = ()
    readings: Mapping[str, str] = field(default_factory=dict)
    """By tensor, how its axes were read where they differ."""

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
            "explanations": [each.as_json(_comparison(each)) for each in self.explanations],
            "readings": dict(self.readings),
        }


def diff(
    a: Given,
    b: Given,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
) -> Difference:
    """Compare two files, or one tensor of each with `FILE:NAME`, or arrays, alone or by name; where they differ, say
    which transform explains it.
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    first = opened(a)
    with first[1]:
        second = opened(b)
        with second[1]:
            return diff_open(first, second, allowed)


def diff_open(a: tuple[str, LoadedFile], b: tuple[str, LoadedFile], tolerance: Tolerance) -> Difference:
    """The same for files that are open already, each with the name it was asked for by."""
    for _, file in (a, b):
        file.check()
    first, second = alike(a[1], b[1])
    pairs = pair(first.tables, second.tables)
    fits = [_fit(each) for each in pairs]
    loose = tolerance != EXACT  # within a tolerance, another dtype is none of the differences
    tensors = tuple(compare(*fit.pair, tolerance, any_dtype=loose) for fit in fits)
    schemes = [_scheme_of(first), _scheme_of(second)]
    may_miss = {name for scheme in schemes if scheme for name in scheme.derived_tensors}
    may_miss |= {table.name for file in (first, second) for table in file.tables if is_relative(table.name)}
    problems = [*_alone(first.tables, second.tables, pairs, may_miss), *problems_of(tensors)]
    changed = [(fit, found) for fit, found in zip(fits, tensors, strict=True) if not found.passed]
    why = _explained(changed, schemes[0], tolerance) if changed else []
    problems += map(_comparison, why)
    notes = {found.name: fit.note for found, fit in zip(tensors, fits, strict=True) if fit.note}
    return Difference(a[0], b[0], tensors, tuple(problems), tuple(why), notes)


def _comparison(why: Explanation) -> str:
    from pecli.explain.words import comparison

    return comparison(why)


def aligned(a: LoadedFile, b: LoadedFile) -> list[Pair]:
    """The tensors of two files that belong together, in one shape where they are one table."""
    first, second = alike(a, b)
    return [_fit(each).pair for each in pair(first.tables, second.tables)]


@dataclass(frozen=True)
class _PairFit:
    """Two tensors in one shape if they can be, and how the one was seen as the other."""

    pair: Pair
    sought: Pair
    """The same without copies and doubled columns."""
    note: str = ""


def _fit(tables: Pair) -> _PairFit:
    """Two tensors as one table, whichever has more axes; as they are where their shapes do not allow it."""
    for label, one, other in (("B", *tables), ("A", *tables[::-1])):
        if (fit := fitted(other, [one])) is not None:
            (part,) = fit.parts.values()
            whole = fit.expected, fit.found
            sought = (one, part) if fit.found.size != part.size else whole
            if label == "A":
                whole, sought = (whole[1], whole[0]), (sought[1], sought[0])
            return _PairFit(whole, sought, f"{label}: {fit.words}" if fit.words else "")
    return _PairFit(tables, tables)


def _explained(
    changed: Sequence[tuple[_PairFit, Comparison]], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """What makes B of A: another dtype; a transform; or other parameters of the scheme that A carries, or turns out to
    be. Last places that are off, elements scattered over a large table, and noise on large draws have no reason.
    """
    found: list[Explanation] = []
    pairs: list[Pair] = []
    for fit, result in changed:
        if result.problem and result.mismatched == 0 and result.max_abs_error:  # only rounded to another dtype
            from pecli.explain.edits import Dtype, Explanation

            found.append(Explanation((Dtype(result.dtype),), None, result.max_abs_error, 0.0, (result.name,)))
        elif not (_is_noise(result) or (result.size > MAX_SEARCHED and _hopeless(*fit.pair))):
            pairs.append(fit.sought)
    return found + (_searched(pairs[:MAX_EXPLAINED], scheme, tolerance) if pairs else [])


def _is_noise(result: Comparison) -> bool:
    return not result.problem and result.max_ulp_error is not None and result.max_ulp_error <= NOISE


def _searched(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.edits import ColumnsWrong, Scaled
    from pecli.explain.search import explain_pair, explain_swapped

    found = explain_swapped(pairs, tolerance.atol)
    swapped = {name for each in found for name in each.tensors}
    unknown = []
    for one, other in (each for each in pairs if each[0].name not in swapped):
        why = explain_pair(one, other, tolerance.atol)
        if why is None or any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in why.edits):
            unknown.append((one, other, why))
        else:
            found.append(why)
    better = _by_parameters([(one, other) for one, other, _ in unknown], scheme, tolerance)
    named = {name for each in better for name in each.tensors}
    return [*found, *better, *(why for one, _, why in unknown if why is not None and one.name not in named)]


def _hopeless(one: Table, other: Table) -> bool:
    """Whether no parameter makes the difference, by some of the rows: too few elements of every row and column differ;
    or the tables are too close for other draws, and the first is nothing but draws, or learned.
    """
    if one.shape != other.shape or len(one.shape) < 2:
        return False
    spread = np.linspace(0, one.rows - 1, SAMPLED_ROWS).astype(np.intp)
    rows = np.unique([*range(min(one.rows, SAMPLED_ROWS)), *spread])
    ours, theirs = widest(one.pick(rows)), widest(other.pick(rows))
    unlike = ours != theirs
    if max(unlike.mean(axis=0).max(), unlike.mean(axis=1).max()) < MAX_SCATTERED:
        return True
    with np.errstate(all="ignore"):
        close = np.abs(ours - theirs).max() <= CLOSE * np.abs(ours).max()
    some = ours[:SAMPLED_ROWS]
    return bool(close) and not (has_waves(some) or has_waves(some.T))


def _by_parameters(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.search import explain, recognise

    pairs = [each for each in pairs if min(table.size for table in each) >= MIN_ELEMENTS]
    if pairs and scheme is None:
        found = recognise({one.name: one for one, _ in pairs})
        scheme = next((each.scheme for each in found if not each.mistakes), None)
    if not pairs or scheme is None or scheme.holds_several:
        return []
    single, known = scheme.single_array().name, {table.name for table in scheme.tensors()}
    named = {(one.name if one.name in known else single): (one.name, other) for one, other in pairs}
    found = explain(scheme, {name: other for name, (_, other) in named.items()}, tolerance.atol)
    return [replace(each, tensors=tuple(named[name][0] for name in each.tensors)) for each in found if _tells(each)]


def _tells(why: Explanation) -> bool:
    """Whether it says more than how values were kept."""
    from pecli.explain.edits import Recipe

    return bool(why.mistakes) or any(isinstance(edit, Recipe) for edit in why.edits)


def _scheme_of(file: LoadedFile) -> Scheme | None:
    """The scheme that a file says it holds; None where it says nothing that makes a table."""
    from pecli.files.provenance import carried_spec

    try:
        spec = carried_spec(file.path, file.metadata)
        if spec is None:
            return None
        from pecli.engine.schemes.scheme import Scheme

        return Scheme.from_spec(spec)
    except PecliError:
        return None


def alike(a: LoadedFile, b: LoadedFile) -> tuple[LoadedFile, LoadedFile]:
    """Two files, one that has neither dtypes nor axes (.csv) read with those of the other."""
    dtypes = [
        next((table.dtype for table in file.tables if table.dtype in SIGNIFICAND_BITS), "float64") for file in (a, b)
    ]
    a, b = a.read_as(dtypes[1]), b.read_as(dtypes[0])
    return _in_lines(a, b), _in_lines(b, a)


def _in_lines(file: LoadedFile, other: LoadedFile) -> LoadedFile:
    both = stacked_tables(other.tables)
    expected = both if both is not None else other.tables[0] if len(other.tables) == 1 else None
    if file.format != "csv" or other.format == "csv" or expected is None:
        return file
    return replace(file, tables=tuple(rows_of(table, expected) for table in file.tables))


Pair = tuple[Table, Table]


def pair(a: Sequence[Table], b: Sequence[Table]) -> list[Pair]:
    """Which tensors belong together: those of one name, or the only ones; cos and sin with both in one array."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    for alone, others in ((a, b), (b, a)):
        both = stacked_tables(others)
        if len(alone) == 1 and both is not None and fitted(alone[0], [both]) is not None:
            return [(alone[0], both) if alone is a else (both, alone[0])]
    named = {table.name: table for table in b}
    pairs = [(table, named[table.name]) for table in a if table.name in named]
    known = {table.name for each in pairs for table in each}
    ours, theirs = (_by_role(table for table in side if table.name not in known) for side in (a, b))
    return pairs + [(ours[role], theirs[role]) for role in ours if role in theirs]


def _by_role(tables: Iterable[Table]) -> dict[str, Table]:
    """The tensors that are the only ones of their file whose names mean the same."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        if (role := role_of(table.name)) in ("cos", "sin", "inv_freq", "slopes", "bias"):
            found.setdefault(role, []).append(table)
    return {role: each[0] for role, each in found.items() if len(each) == 1}


def stacked_tables(tables: Sequence[Table]) -> Table | None:
    """cos and sin, one after the other, as files that hold one array have them."""
    named = {table.name: table for table in tables}
    if not {"cos", "sin"} <= {*named} or named["cos"].shape != named["sin"].shape:
        return None
    return stacked("cos_sin", [named["cos"], named["sin"]])


def _alone(a: Sequence[Table], b: Sequence[Table], pairs: Sequence[Pair], may_miss: set[str]) -> list[str]:
    """What only one of the files has, in words; of schemes, what follows from the others may be absent."""
    if any(table.name == "cos_sin" for each in pairs for table in each):
        return []  # what follows from them may be absent
    paired = [{id(one[side]) for one in pairs} for side in (0, 1)]
    lines = []
    for tables, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A")):
        left = [table.name for table in tables if id(table) not in known and not (pairs and table.name in may_miss)]
        lines += [f"{name}: only {here} has it, {there} does not" for name in left]
    return lines
