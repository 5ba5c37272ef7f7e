"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import Comparison, as_json, compare, problems_of
from pecli.checks.compare.error_summary import widest
from pecli.checks.same_table import fitted
from pecli.checks.statistics import has_waves
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.arrays import SIGNIFICAND_BITS
from pecli.engine.table import Table, stacked
from pecli.errors import PecliError
from pecli.files import LoadedFile
from pecli.files.load import opened

if TYPE_CHECKING:  # schemes and explanations are imported where files differ
    from pecli.engine.schemes.scheme import Scheme
    from pecli.explain.edits import Explanation
    from pecli.files.load import Given


MAX_EXPLAINED = 16
"""Tensors of one file whose differences are explained."""
MIN_ELEMENTS = 8
"""Of a tensor whose scheme is searched for."""
MAX_SEARCHED = 1 << 24
"""Elements of a table up to which every difference is searched for a reason."""
SAMPLED_ROWS = 128
"""Looked at before the search of a larger table."""
CLOSE = 1e-3
"""The median difference, relative to the largest element, up to which tables are no two draws."""
MAX_NOISE_ULP = 8
"""Units of the last place that no transform would leave."""
MATCHED_ROLES = ("cos", "sin", "inv_freq", "slopes", "bias")
"""What tensors hold that belong together under unlike names."""

Pair = tuple[Table, Table]


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
    weak: tuple[str, ...] = ()
    """Where the values agree within a tolerance, known mistakes in B that would have done so, too."""

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
            "weak": list(self.weak),
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
    first, second = _with_dtypes(a[1], b[1])
    fits = _fits(first, second)
    loose = tolerance != EXACT  # within a tolerance, another dtype is none of the differences
    tensors = tuple(compare(*fit.pair, tolerance, any_dtype=loose) for fit in fits)
    schemes = [_scheme_of(first), _scheme_of(second)]
    may_miss = {name for scheme in schemes if scheme for name in scheme.derived_tensors}
    problems = [*_alone(first.tables, second.tables, fits, may_miss), *problems_of(tensors)]
    changed = [(fit, found) for fit, found in zip(fits, tensors, strict=True) if not found.passed]
    why = _explained(changed, schemes[0], tolerance) if changed else []
    problems += map(_comparison, why)
    notes = {found.name: fit.note for found, fit in zip(tensors, fits, strict=True) if fit.note}
    answer = Difference(a[0], b[0], tensors, tuple(problems), tuple(why), notes)
    if not (answer.passed and loose and schemes[0]):
        return answer
    from pecli.checks.verify.verification import weak_checks

    return replace(answer, weak=weak_checks({schemes[0]: {fit.pair[0].name: fit.pair[0] for fit in fits}}, tolerance))


def _comparison(why: Explanation) -> str:
    from pecli.explain.words import comparison

    return comparison(why)


def aligned(a: LoadedFile, b: LoadedFile) -> list[Pair]:
    """The tensors of two files that belong together, in one shape where they are one table."""
    return [fit.pair for fit in _fits(*_with_dtypes(a, b))]


def _with_dtypes(a: LoadedFile, b: LoadedFile) -> tuple[LoadedFile, LoadedFile]:
    """Two files, one that has no dtypes (.csv) read with those of the other."""
    one, other = (
        next((table.dtype for table in file.tables if table.dtype in SIGNIFICAND_BITS), "float64") for file in (a, b)
    )
    return a.read_as(other), b.read_as(one)


@dataclass(frozen=True)
class _PairFit:
    """Two tensors that belong together, in one shape if they can be, and how the one was read as the other."""

    given: Pair
    pair: Pair
    searched: Pair
    """The same without copies and doubled columns."""
    note: str | None = None
    """None where their shapes do not allow it."""


def _fits(a: LoadedFile, b: LoadedFile) -> list[_PairFit]:
    """The tensors that belong together: the only ones; cos and sin with both in one array, as files of one array have
    them; or those of one name, and of the others those that alone hold the same by their names.
    """
    lines = "csv" in (a.format, b.format)
    if len(a.tables) == len(b.tables) == 1:
        return [_fit((a.tables[0], b.tables[0]), lines)]
    for ours, theirs in ((a.tables, _stacked(b.tables)), (_stacked(a.tables), b.tables)):
        if len(ours) == len(theirs) == 1 and (fit := _fit((ours[0], theirs[0]), lines)).note is not None:
            return [fit]
    pairs: list[Pair] = []
    for key in (lambda table: table.name, _role):
        one, other = (_by_key(side, key, pairs) for side in (a.tables, b.tables))
        pairs += [(one[name], other[name]) for name in one if name in other]
    return [_fit(each, lines) for each in pairs]


def _stacked(tables: Sequence[Table]) -> tuple[Table, ...]:
    named = {table.name: table for table in tables}
    if not {"cos", "sin"} <= {*named} or named["cos"].shape != named["sin"].shape:
        return ()
    return (stacked("cos_sin", [named["cos"], named["sin"]]),)


def _role(table: Table) -> str | None:
    role = role_of(table.name)
    return role if role in MATCHED_ROLES else None


def _by_key(tables: Sequence[Table], key: Callable[[Table], str | None], known: Sequence[Pair]) -> dict[str, Table]:
    """The tensors beside those known that are the only ones of their file with such a key."""
    names = {table.name for each in known for table in each}
    others = [(name, table) for table in tables if table.name not in names and (name := key(table))]
    counts = Counter(name for name, _ in others)
    return {name: table for name, table in others if counts[name] == 1}


def _fit(tables: Pair, lines: bool) -> _PairFit:
    """Two tensors as one table, whichever has more axes; as they are where their shapes do not allow it."""
    for label, one, other in (("B", *tables), ("A", *tables[::-1])):
        if (fit := fitted(other, [one], lines=lines)) is not None:
            (part,) = fit.parts.values()
            pair = fit.expected, fit.found
            searched = (one, part) if fit.found.size != part.size else pair
            if label == "A":
                pair, searched = pair[::-1], searched[::-1]
            return _PairFit(tables, pair, searched, f"{label}: {fit.words}" if fit.words else "")
    return _PairFit(tables, tables, tables)


def _alone(a: Sequence[Table], b: Sequence[Table], fits: Sequence[_PairFit], may_miss: set[str]) -> list[str]:
    """What only one of the files has, in words; what follows from other tensors may be absent."""
    paired = {id(table) for fit in fits for table in fit.given}
    if any(table.name == "cos_sin" for fit in fits for table in fit.given):
        return []
    return [
        f"{table.name}: only {here} has it, {there} does not"
        for tables, here, there in ((a, "A", "B"), (b, "B", "A"))
        for table in tables
        if id(table) not in paired and not (fits and (table.name in may_miss or is_relative(table.name)))
    ]


def _explained(
    changed: Sequence[tuple[_PairFit, Comparison]], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """What makes B of A: another dtype; a transform; or other parameters of the scheme that A carries, or turns out to
    be. Last places that are off, and changes of large draws, have no reason.
    """
    found: list[Explanation] = []
    pairs: list[Pair] = []
    for fit, result in changed:
        if result.problem and result.mismatched == 0 and result.max_abs_error:  # only rounded to another dtype
            from pecli.explain.edits import Dtype, Explanation

            found.append(Explanation((Dtype(result.dtype),), None, result.max_abs_error, 0.0, (result.name,)))
            continue
        is_noise = not result.problem and result.max_ulp_error is not None and result.max_ulp_error <= MAX_NOISE_ULP
        if not is_noise and (result.size <= MAX_SEARCHED or not _are_close_draws(*fit.pair)):
            pairs.append(fit.searched)
    return found + (_searched(pairs[:MAX_EXPLAINED], scheme, tolerance) if pairs else [])


def _are_close_draws(one: Table, other: Table) -> bool:
    """Whether tables are draws, or learned, and too close for other draws, going by some of the rows."""
    if one.shape != other.shape or len(one.shape) < 2:
        return False
    rows = np.unique([*range(min(one.rows, SAMPLED_ROWS)), *np.linspace(0, one.rows - 1, SAMPLED_ROWS).astype(np.intp)])
    ours, theirs = widest(one.pick(rows)), widest(other.pick(rows))
    with np.errstate(all="ignore"):
        close = np.median(np.abs(ours - theirs)) <= CLOSE * np.abs(ours).max()
    first = ours[:SAMPLED_ROWS]
    return bool(close) and not (has_waves(first) or has_waves(first.T))


def _searched(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.edits import ColumnsWrong, Scaled
    from pecli.explain.search import explain_pair, explain_swapped

    arrays = {one.name: (one.array(), other.array()) for one, other in pairs}
    found = explain_swapped(arrays, tolerance.atol)
    swapped = {name for each in found for name in each.tensors}
    unknown = []
    for one, other in (each for each in pairs if each[0].name not in swapped):
        why = explain_pair(one.name, *arrays[one.name], tolerance.atol)
        if why is None or any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in why.edits):
            unknown.append((one, other, why))
        else:
            found.append(why)
    better = _by_parameters([(one, other) for one, other, _ in unknown], scheme, tolerance)
    named = {name for each in better for name in each.tensors}
    return [*found, *better, *(why for one, _, why in unknown if why is not None and one.name not in named)]


def _by_parameters(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.search import explain, recognise

    pairs = [each for each in pairs if min(table.size for table in each) >= MIN_ELEMENTS]
    if pairs and scheme is None:
        found = recognise({one.name: one.array() for one, _ in pairs})
        scheme = next((each.scheme for each in found if not each.mistakes), None)
    if not pairs or scheme is None or scheme.holds_several:
        return []
    single, known = scheme.single_array().name, {table.name for table in scheme.tensors()}
    named = {(one.name if one.name in known else single): (one.name, other) for one, other in pairs}
    found = explain(scheme, {name: other.array() for name, (_, other) in named.items()}, tolerance.atol)
    return [replace(each, tensors=tuple(named[name][0] for name in each.tensors)) for each in found]


def _scheme_of(file: LoadedFile) -> Scheme | None:
    """The scheme of the spec that a file carries; None where it carries none that makes a table."""
    from pecli.files.provenance import carried_spec

    try:
        spec = carried_spec(file.path, file.metadata)
        if spec is None:
            return None
        from pecli.engine.schemes.scheme import Scheme

        return Scheme.from_spec(spec)
    except PecliError:
        return None
