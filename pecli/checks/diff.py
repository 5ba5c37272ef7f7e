"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pecli.checks import Answer
from pecli.checks.compare import (
    Comparison,
    ErrorMap,
    as_json,
    error_map,
    problems_of,
    where_json,
)
from pecli.checks.pairing import Fit, Pair, fits_of, with_dtypes
from pecli.checks.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.arrays import Array
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
MAX_NOISE_ULP = 8
"""Units of the last place that no transform would leave."""


@dataclass(frozen=True, repr=False)
class Difference(Answer):
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

    def words(self) -> tuple[str, ...]:
        different = tuple(f"{tensor.name} differs" for tensor in self.tensors if not tensor.passed)
        return (" and ".join(filter(None, (self.a, self.b))), *self.diagnosis, *different)

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
            "where": where_json(self.tensors),
        }


def diff(
    a: Given,
    b: Given,
    tolerance: Tolerance | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    max_ulp: int | None = None,
    reasons: bool = True,
) -> Difference:
    """Compare two files, or one tensor of each with `FILE:NAME`, or arrays, alone or by name; where they differ, say
    which transform explains it, unless no `reasons` are asked for.
    """
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    first = opened(a)
    with first[1]:
        second = opened(b)
        with second[1]:
            return diff_open(first, second, allowed, reasons=reasons)


def diff_open(
    a: tuple[str, LoadedFile], b: tuple[str, LoadedFile], tolerance: Tolerance, *, reasons: bool = True
) -> Difference:
    """The same for files that are open already, each with the name it was asked for by."""
    for _, file in (a, b):
        file.check()
    fits = fits_of(*with_dtypes(a[1], b[1]))
    loose = tolerance != EXACT  # within a tolerance, another dtype is none of the differences
    tensors = tuple(fit.compared(tolerance, any_dtype=loose) for fit in fits)
    schemes = [_scheme_of(a[1]), _scheme_of(b[1])]
    may_miss = {name for scheme in schemes if scheme for name in scheme.derived_tensors}
    problems = [*_alone(a[1].tensors, b[1].tensors, fits, may_miss), *problems_of(tensors)]
    changed = [(fit, found) for fit, found in zip(fits, tensors, strict=True) if not found.passed]
    why = _explained(changed, schemes[0], tolerance) if changed and reasons else []
    problems += map(_comparison, why)
    notes = {found.name: fit.note for found, fit in zip(tensors, fits, strict=True) if fit.note}
    answer = Difference(a[0], b[0], tensors, tuple(problems), tuple(why), notes)
    if not (answer.passed and loose and schemes[0]):
        return answer
    from pecli.checks.verify.verification import weak_checks

    compared = {name: array for fit in fits for name, array, _ in fit.searched()}
    return replace(answer, weak=weak_checks({schemes[0]: compared}, tolerance))


def _comparison(why: Explanation) -> str:
    from pecli.explain.words import comparison

    return comparison(why)


def error_maps(a: LoadedFile, b: LoadedFile, result: Difference, most: int) -> list[ErrorMap]:
    """The errors of the tensors that can be drawn, the worst first."""
    if not most:
        return []
    pairs = zip(result.tensors, fits_of(*with_dtypes(a, b)), strict=True)
    off = [(found, fit) for found, fit in pairs if found.worst_index is not None]
    off.sort(key=lambda each: -(each[0].max_abs_error or 0.0))
    return [error_map(found.name, part) for found, fit in off[:most] for part in fit.parts[:1]]


def _alone(a: Mapping[str, Array], b: Mapping[str, Array], fits: Sequence[Fit], may_miss: set[str]) -> list[str]:
    """What only one of the files has, in words; what follows from other tensors may be absent."""
    paired = {name for fit in fits for name in fit.ours}, {name for fit in fits for name in fit.theirs}
    return [
        f"{name}: only {here} has it, {there} does not"
        for tensors, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A"))
        for name in tensors
        if name not in known and not (fits and (name in may_miss or is_relative(name)))
    ]


def _explained(
    changed: Sequence[tuple[Fit, Comparison]], scheme: Scheme | None, tolerance: Tolerance
) -> list[Explanation]:
    """What makes B of A: another dtype; a transform; or other parameters of the scheme that A carries, or turns out to
    be. Last places that are off have no reason.
    """
    found: list[Explanation] = []
    pairs: list[Pair] = []
    for fit, result in changed:
        if result.problem and result.mismatched == 0 and result.max_abs_error:  # only rounded to another dtype
            from pecli.explain.edits import Dtype, Explanation

            off = result.max_abs_error
            found.append(Explanation((Dtype(result.dtype),), None, (result.name,), residual=off))
            continue
        is_noise = not result.problem and result.max_ulp_error is not None and result.max_ulp_error <= MAX_NOISE_ULP
        if not is_noise:
            pairs += fit.searched()
    if pairs:
        from pecli.explain.time_limit import time_limit

        with time_limit():
            found += _searched(pairs[:MAX_EXPLAINED], scheme, tolerance)
    return found


def _searched(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.edits import ColumnsWrong, Scaled
    from pecli.explain.search import explain_pair, explain_swapped

    found = explain_swapped({name: (one, other) for name, one, other in pairs}, tolerance.atol)
    swapped = {name for each in found for name in each.tensors}
    unknown = []
    for name, one, other in (pair for pair in pairs if pair[0] not in swapped):
        why = explain_pair(name, one, other, tolerance.atol)
        if why is None or any(isinstance(edit, (Scaled, ColumnsWrong)) for edit in why.edits):
            unknown.append(((name, one, other), why))
        else:
            found.append(why)
    better = _by_parameters([pair for pair, _ in unknown], scheme, tolerance)
    named = {name for each in better for name in each.tensors}
    return [*found, *better, *(why for pair, why in unknown if why is not None and pair[0] not in named)]


def _by_parameters(pairs: Sequence[Pair], scheme: Scheme | None, tolerance: Tolerance) -> list[Explanation]:
    from pecli.explain.search import explain, recognise

    pairs = [pair for pair in pairs if min(pair[1].size, pair[2].size) >= MIN_ELEMENTS]
    if pairs and scheme is None:
        found = recognise({name: one for name, one, _ in pairs})
        scheme = next((each.scheme for each in found if not each.mistakes), None)
    if not pairs or scheme is None or scheme.holds_several:
        return []
    single, known = scheme.single_array().name, {table.name for table in scheme.tensors()}
    named = {(name if name in known else single): (name, other) for name, _, other in pairs}
    found = explain(scheme, {name: other for name, (_, other) in named.items()}, tolerance.atol)
    return [replace(each, tensors=tuple(named[name][0] for name in each.tensors)) for each in found]


def _scheme_of(file: LoadedFile) -> Scheme | None:
    """The scheme of the spec that a file carries; None where it carries none that makes a table."""
    from pecli.files.contents import carried_spec

    try:
        spec = carried_spec(file.path, file.metadata)
        if spec is None:
            return None
        from pecli.engine.schemes.scheme import Scheme

        return Scheme.from_spec(spec)
    except PecliError:
        return None
