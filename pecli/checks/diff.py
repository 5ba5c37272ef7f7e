"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pecli.checks.compare import Comparison, as_json, compare, problems_of
from pecli.checks.compare.error_summary import widest
from pecli.checks.same_table import fitted
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.arrays import AnyArray
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.table import Table, rows_of, stacked
from pecli.errors import PecliError
from pecli.files import LoadedFile
from pecli.files.load import opened

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme
    from pecli.explain.edits import Explanation
    from pecli.files.load import Given


MAX_EXPLAINED = 16
"""Tensors of one file that explanations are sought for."""
MIN_ELEMENTS = 8
"""Of a tensor that a scheme is sought for."""
MAX_SEARCHED = 1 << 24
"""Elements of a table up to which every difference is searched for a reason."""
SAMPLED_ROWS = 256
"""From the first on, and as many of all: looked at before a search."""
MAX_SCATTERED = 1 / 8
"""Fraction of every row and column of a sample up to which differing elements are accidents."""
CLOSE = 1e-3
"""Relative difference up to which tables are no two draws."""
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
    fits = [_fit(*each) for each in pairs]
    tensors = tuple(_compared(*each, tolerance) for each in zip(pairs, fits, strict=True))
    schemes = scheme_of(first), scheme_of(second)
    may_miss = frozenset[str]().union(*(scheme.derived_tensors for scheme in schemes if scheme))
    may_miss |= {table.name for file in (first, second) for table in file.tables if is_relative(table.name)}
    problems = [*alone(first.tables, second.tables, pairs, may_miss), *problems_of(tensors)]
    failed = [
        _sought(*each, fit)
        for each, fit, found in zip(pairs, fits, tensors, strict=True)
        if not (found.passed or _known(found) or (found.size > MAX_SEARCHED and _scattered(each)))
    ]
    why = [_as_rounded(found) for found in tensors if _rounded(found)]
    why += _explained(failed[:MAX_EXPLAINED], schemes, tolerance) if failed else []
    problems += map(_comparison, why)
    notes = {found.name: fit.note for found, fit in zip(tensors, fits, strict=True) if fit and fit.note}
    return Difference(a[0], b[0], tensors, tuple(problems), tuple(why), notes)


def aligned(a: LoadedFile, b: LoadedFile) -> list[Pair]:
    """The tensors of two files that belong together, in one shape where they are one table."""
    first, second = alike(a, b)
    pairs = pair(first.tables, second.tables)
    return [each if fit is None else fit.pair for each, fit in ((each, _fit(*each)) for each in pairs)]


@dataclass(frozen=True)
class _PairFit:
    """Two tensors in one shape, and how the one was seen as the other."""

    pair: Pair
    sought: Pair
    """The same without copies and doubled columns."""
    note: str


def _fit(one: Table, other: Table) -> _PairFit | None:
    """Two tensors as one table, whichever has more axes; None where their shapes do not allow it."""
    if (fit := fitted(other, one)) is not None:
        sought = (one, fit.one) if fit.found.size != fit.one.size else (fit.expected, fit.found)
        return _PairFit((fit.expected, fit.found), sought, f"B: {fit.note}" if fit.note else "")
    if (fit := fitted(one, other)) is not None:
        sought = (fit.one, other) if fit.found.size != fit.one.size else (fit.found, fit.expected)
        return _PairFit((fit.found, fit.expected), sought, f"A: {fit.note}" if fit.note else "")
    return None


def _compared(tables: Pair, fit: _PairFit | None, tolerance: Tolerance) -> Comparison:
    """Within a tolerance, another dtype is none of the differences; exactly, it is one."""
    return compare(*(tables if fit is None else fit.pair), tolerance, any_dtype=tolerance != EXACT)


def _sought(one: Table, other: Table, fit: _PairFit | None) -> Pair:
    return (one, other) if fit is None else fit.sought


def _comparison(why: Explanation) -> str:
    from pecli.explain.words import comparison  # equal files need no words

    return comparison(why)


def _as_rounded(found: Comparison) -> Explanation:
    from pecli.explain.edits import Dtype, Explanation

    return Explanation((Dtype(found.dtype),), None, found.max_abs_error or 0.0, 0.0, (found.name,))


def _explained(
    pairs: Sequence[Pair], schemes: tuple[Scheme | None, Scheme | None], tolerance: Tolerance
) -> list[Explanation]:
    """What makes B of A: a transform; or other parameters of the scheme that A carries, or turns out to be."""
    from pecli.explain.edits import ColumnsWrong, Scaled
    from pecli.explain.search import explain_pair, explain_swapped

    found = explain_swapped(pairs, tolerance.atol)
    left = [each for each in pairs if not any(each[0].name in one.tensors for one in found)]
    unknown = []
    for one, other in left:
        why = explain_pair(one, other, tolerance.atol)
        if why is None or any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in why.edits):
            unknown.append((one, other, why))
        else:
            found.append(why)
    better = _by_parameters([(one, other) for one, other, _ in unknown], schemes, tolerance) if unknown else []
    named = {name for each in better for name in each.tensors}
    return [*found, *better, *(why for one, _, why in unknown if why is not None and one.name not in named)]


def _sampled(one: Table, other: Table) -> tuple[AnyArray, AnyArray] | None:
    """Some rows of both, as they are looked at before a search; None where they have no rows in common."""
    import numpy as np

    if one.shape != other.shape or len(one.shape) < 2:
        return None
    spread = np.linspace(0, one.rows - 1, SAMPLED_ROWS).astype(np.intp)
    rows = np.unique([*range(min(one.rows, SAMPLED_ROWS)), *spread])
    return widest(one.pick(rows)), widest(other.pick(rows))


def _scattered(tables: Pair) -> bool:
    """Whether so few elements differ that no parameter is the reason: one changes rows, columns, or more."""
    sides = _sampled(*tables)
    if sides is None:
        return False
    unlike = sides[0] != sides[1]
    return bool(max(unlike.mean(axis=0).max(), unlike.mean(axis=1).max()) < MAX_SCATTERED)


def _is_close(tables: Pair) -> bool:
    """Whether tables are so close that they are no two draws."""
    import numpy as np

    sides = _sampled(*tables)
    if sides is None:
        return False
    with np.errstate(all="ignore"):
        return bool(np.linalg.norm(sides[0] - sides[1]) <= CLOSE * np.linalg.norm(sides[0]))


def _by_parameters(
    pairs: Sequence[Pair], schemes: tuple[Scheme | None, Scheme | None], tolerance: Tolerance
) -> list[Explanation]:
    from pecli.explain.search import explain, recognise

    scheme = schemes[0]
    pairs = [each for each in pairs if min(table.size for table in each) >= MIN_ELEMENTS]
    if not pairs:
        return []
    if scheme is None:
        tables = {one.name: one for one, _ in pairs}
        draws = not all(map(_is_close, pairs))
        scheme = next((each.scheme for each in recognise(tables, draws=draws) if not each.mistakes), None)
    if scheme is None or scheme.holds_several:
        return []
    known = {table.name for table in (scheme.single_array(), *scheme.tensors())}
    single = next(iter(known & {scheme.single_array().name}))
    named = {(one.name if one.name in known else single): (one.name, other) for one, other in pairs}
    found = explain(scheme, {name: other for name, (_, other) in named.items()}, tolerance.atol)
    return [replace(each, tensors=tuple(named[name][0] for name in each.tensors)) for each in found if _tells(each)]


def _tells(why: Explanation) -> bool:
    """Whether it says more than how values were kept."""
    from pecli.explain.edits import Arithmetic, Recipe

    return bool(why.mistakes) or any(isinstance(edit, (Arithmetic, Recipe)) for edit in why.edits)


def scheme_of(file: LoadedFile) -> Scheme | None:
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


def _rounded(found: Comparison) -> bool:
    """Whether only the dtype differs, and every value is the nearest that the other dtype has."""
    return bool(found.problem) and found.mismatched == 0 and bool(found.max_abs_error) and bool(found.dtype)


def _known(found: Comparison) -> bool:
    """Whether there is nothing to seek: rounding to another dtype, or so little that it is rounding within one."""
    return _rounded(found) or (not found.problem and found.max_ulp_error is not None and found.max_ulp_error <= NOISE)


Pair = tuple[Table, Table]


def pair(a: Sequence[Table], b: Sequence[Table]) -> list[Pair]:
    """Which tensors belong together: those of one name, or the only ones; cos and sin with both in one array."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    for alone, others in ((a, b), (b, a)):
        both = stacked_tables(others)
        if len(alone) == 1 and both is not None and fitted(alone[0], both) is not None:
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


def alone(a: Sequence[Table], b: Sequence[Table], pairs: Sequence[Pair], may_miss: frozenset[str]) -> list[str]:
    """What only one of the files has, in words; of schemes, what follows from the others may be absent."""
    if any(table.name == "cos_sin" for each in pairs for table in each):
        return []  # what follows from them may be absent
    paired = [{id(one[side]) for one in pairs} for side in (0, 1)]
    lines = []
    for tables, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A")):
        left = [table.name for table in tables if id(table) not in known and not (pairs and table.name in may_miss)]
        lines += [f"{name}: only {here} has it, {there} does not" for name in left]
    return lines
