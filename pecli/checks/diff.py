"""Two files, tensor by tensor, and what turns one into the other where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.compare import (
    Comparison,
    ErrorMap,
    Part,
    as_json,
    compare,
    compare_arrays,
    error_map,
    numbered,
    problems_of,
    where_json,
)
from pecli.checks.compare.error_summary import widest
from pecli.checks.reading import PLURALS, Making, Reading, Target, always, best_reading, fixed, misaligned, readings
from pecli.checks.statistics import has_waves
from pecli.checks.tensor_roles import ANYTHING, role_of
from pecli.checks.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, dtype_name
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

WAVE_ROLES = ("cos", "sin", "both", ANYTHING, None)
"""What tensors hold whose columns may belong to frequencies."""

Pair = tuple[str, Array, Array]
"""A name, and one table as A and as B have it."""


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
    fits = _fits(*_with_dtypes(a[1], b[1]))
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
    pairs = zip(result.tensors, _fits(*_with_dtypes(a, b)), strict=True)
    off = [(found, fit) for found, fit in pairs if found.worst_index is not None]
    off.sort(key=lambda each: -(each[0].max_abs_error or 0.0))
    return [error_map(found.name, part) for found, fit in off[:most] for part in fit.parts[:1]]


def _with_dtypes(a: LoadedFile, b: LoadedFile) -> tuple[LoadedFile, LoadedFile]:
    """Two files, one that has no dtypes (.csv) read with those of the other."""
    kinds = [[dtype_name(array.dtype) for array in file.tensors.values()] for file in (a, b)]
    one, other = (next((kind for kind in some if kind in SIGNIFICAND_BITS), "float64") for some in kinds)
    return a.read_as(other), b.read_as(one)


@dataclass(frozen=True)
class _Fit:
    """Two tensors, or more, that belong together, and how the one is read as the other, if it can be."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]
    """The names that they have in A and in B."""
    arrays: tuple[Array, Array]
    reading: Reading | None = None
    reads_a: bool = False
    """Whether it is A that was read as B has it."""

    @property
    def parts(self) -> Sequence[Part]:
        one, other = self.arrays
        if self.reading is not None:
            return self.reading.parts
        return (Part(one, other, numbered(other.shape)),) if one.shape == other.shape else ()

    @property
    def note(self) -> str:
        words = self.reading.words if self.reading else ""
        return f"{'A' if self.reads_a else 'B'}: {words}" if words else ""

    def compared(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        if self.reading is None:
            return compare_arrays(*self.arrays, tolerance, name=self.name, any_dtype=any_dtype)
        shape = self.reading.array.shape
        role = self.reading.name
        result = compare(self.reading.parts, shape, tolerance, name=self.name, role=role, any_dtype=any_dtype)
        if self.reading.is_misaligned and not result.problem:
            result.problem = misaligned(self.reading)
        if self.reads_a:
            result.expected, result.found = result.found, result.expected
            result.expected_dtype, result.dtype = result.dtype, result.expected_dtype
            result.strange_expected, result.strange_found = result.strange_found, result.strange_expected
        return result

    def searched(self) -> list[Pair]:
        """What is searched for reasons: without copies and doubled columns."""
        if self.reading is None:
            return [(self.name, *self.arrays)]
        found: dict[str, Pair] = {}
        for number, part in zip(self.reading.numbers, self.reading.parts, strict=True):
            name = self.reading.target.names[number] if len(self.reading.target.names) > 1 else self.name
            pair = np.asarray(part.expected), part.found[(0,) * len(part.copies)]
            found.setdefault(name, (name, *(pair[::-1] if self.reads_a else pair)))
        return [*found.values()]


def _fits(a: LoadedFile, b: LoadedFile) -> list[_Fit]:
    """The tensors that belong together: the only ones; cos and sin with both in one array, as files of one array have
    them; or those of one name, and of the others those that alone hold the same by their names.
    """
    lines = "csv" in (a.format, b.format)
    ours, theirs = a.tensors, b.tensors
    if len(ours) == len(theirs) == 1:
        (one,), (other,) = ours, theirs
        return [_fit(one, other, ours[one], theirs[other], lines)]
    for whole, parts, reads_a in ((theirs, ours, False), (ours, theirs, True)):
        if (fit := _as_both(whole, parts, lines, reads_a)) is not None:
            return [fit]
    pairs: list[tuple[str, str]] = []
    for key in (lambda name: name, _role):
        taken = [{pair[side] for pair in pairs} for side in (0, 1)]
        one_side, other_side = _by_key(ours, key, taken[0]), _by_key(theirs, key, taken[1])
        pairs += [(one_side[name], other_side[name]) for name in one_side if name in other_side]
    return [_fit(one, other, ours[one], theirs[other], lines) for one, other in pairs]


def _as_both(whole: Mapping[str, Array], parts: Mapping[str, Array], lines: bool, reads_a: bool) -> _Fit | None:
    """One array that holds the cosines and sines which the other file has apart."""
    tables = {role: name for name in parts if (role := role_of(name)) in PLURALS}
    if len(whole) != 1 or len(tables) != 2 or len({parts[name].shape for name in tables.values()}) > 1:
        return None
    ((name, array),) = whole.items()
    named = {role: parts[tables[role]] for role in PLURALS}
    reading = best_reading(array, _both(named), lines=lines)
    if reading is None:
        return None
    sides = ([name], list(parts))
    ours, theirs = sides if reads_a else sides[::-1]
    return _Fit("cos_sin", ours, theirs, (array, array), reading, reads_a)


def _both(parts: Mapping[str, Array]) -> Iterator[Target]:
    """Cosines and sines in one array, each column once."""
    for doubled in ("", "halves", "interleaved"):
        single = {name: _undoubled(array, doubled) for name, array in parts.items()}
        if all(array is not None for array in single.values()):
            tables: Any = single
            yield Target(
                (*parts,), tables["cos"].shape, always(None, tables), waves=True, layout=doubled, quantised=True
            )


def _undoubled(array: AnyArray, doubled: str) -> AnyArray | None:
    """One of the two columns of each frequency; None where they are not the same."""
    if not doubled or array.ndim < 1 or array.shape[-1] % 2:
        return None if doubled else array
    half = array.shape[-1] // 2
    pairs = (array[..., :half], array[..., half:]) if doubled == "halves" else (array[..., ::2], array[..., 1::2])
    return pairs[0] if np.array_equal(*pairs, equal_nan=True) else None


def _role(name: str) -> str | None:
    role = role_of(name)
    return role if role in MATCHED_ROLES else None


def _by_key(names: Mapping[str, Array], key: Callable[[str], str | None], taken: set[str]) -> dict[str, str]:
    """The tensors beside those known that are the only ones of their file with such a key."""
    others = [(found, name) for name in names if name not in taken and (found := key(name))]
    counts = Counter(found for found, _ in others)
    return {found: name for found, name in others if counts[found] == 1}


def _fit(one: str, other: str, ours: Array, theirs: Array, lines: bool) -> _Fit:
    """Two tensors as one table, whichever has more axes; as they are where their shapes do not allow it."""
    fit = _Fit(one, [one], [other], (ours, theirs))
    waves = role_of(one) in WAVE_ROLES and role_of(other) in WAVE_ROLES
    if ours.shape == theirs.shape and (not waves or (ours.dtype.kind in "iu") == (theirs.dtype.kind in "iu")):
        return fit
    sides = [(False, ours, theirs), (True, theirs, ours)]
    for reads_a, expected, found in sorted(sides, key=lambda side: side[1].dtype.kind in "iu"):
        targets = list(_targets(one, expected, waves, lines))
        if (reading := best_reading(found, targets, lines=lines)) is not None:
            return replace(fit, reading=reading, reads_a=reads_a)
    if waves and (reading := _arranged(ours, theirs, lines)) is not None:
        return replace(fit, reading=reading)
    return fit


def _targets(name: str, expected: AnyArray, waves: bool, lines: bool) -> Iterator[Target]:
    """An array as it is, without axes of length 1, and with one of two columns per frequency."""
    rotary = waves and role_of(name) in MATCHED_ROLES
    for shape in dict.fromkeys([expected.shape, _squeezed(expected.shape, lines)]):
        table = expected.reshape(shape)
        common: dict[str, Any] = {"waves": waves and table.ndim > 1, "transposable": rotary, "quantised": waves}
        yield fixed(name, table, **common)
        for doubled in ("halves", "interleaved") if waves and table.ndim > 1 else ():
            if (single := _undoubled(table, doubled)) is not None:
                yield fixed(name, single, layout=doubled, **common)


def _squeezed(shape: tuple[int, ...], lines: bool) -> tuple[int, ...]:
    """Without axes of length 1; but one row stays a row, unless it is a line of text."""
    plain = tuple(length for length in shape if length != 1)
    return plain if len(plain) > 1 or (lines and shape[-1:] == (1,) and plain) else shape


def _arranged(ours: AnyArray, theirs: AnyArray, lines: bool) -> Reading | None:
    """The second array as cosines and sines that the first holds, both in one array each, however arranged."""
    widths = {size // times for size in ours.shape[-3:] for times in (1, 2, 4) if size and not size % times}
    for width in sorted(widths, reverse=True):
        for found in readings(ours, Target((*PLURALS,), (None, width), partial(_zeros, width), waves=True)):
            parts = {name: part.found for name, part in zip(PLURALS, found.parts, strict=False) if not part.copies}
            if len(parts) == 2 and not found.is_near and found.is_plausible:
                reading = best_reading(theirs, _both(parts), lines=lines)
                if reading is not None and reading.is_near:
                    return reading
    return None


def _zeros(width: int, rows: int) -> Making:
    """Tables of so many rows, whatever their values."""
    return None, dict.fromkeys(PLURALS, np.broadcast_to(np.zeros(()), (rows, width)))


def _alone(a: Mapping[str, Array], b: Mapping[str, Array], fits: Sequence[_Fit], may_miss: set[str]) -> list[str]:
    """What only one of the files has, in words; what follows from other tensors may be absent."""
    paired = {name for fit in fits for name in fit.ours}, {name for fit in fits for name in fit.theirs}
    return [
        f"{name}: only {here} has it, {there} does not"
        for tensors, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A"))
        for name in tensors
        if name not in known and not (fits and (name in may_miss or is_relative(name)))
    ]


def _explained(
    changed: Sequence[tuple[_Fit, Comparison]], scheme: Scheme | None, tolerance: Tolerance
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
        if not is_noise and (result.size <= MAX_SEARCHED or not _are_close_draws(*fit.arrays)):
            pairs += fit.searched()
    return found + (_searched(pairs[:MAX_EXPLAINED], scheme, tolerance) if pairs else [])


def _are_close_draws(one: Array, other: Array) -> bool:
    """Whether tables are draws, or learned, and too close for other draws, going by some of the rows."""
    if one.shape != other.shape or one.ndim < 2:
        return False
    count = one.size // one.shape[-1]
    rows = np.unique([*range(min(count, SAMPLED_ROWS)), *np.linspace(0, count - 1, SAMPLED_ROWS).astype(np.intp)])
    ours, theirs = (widest(each.reshape(count, -1)[rows]) for each in (one, other))
    with np.errstate(all="ignore"):
        close = np.median(np.abs(ours - theirs)) <= CLOSE * np.abs(ours).max()
    first = ours[:SAMPLED_ROWS]
    return bool(close) and not (has_waves(first) or has_waves(first.T))


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
    from pecli.files.provenance import carried_spec

    try:
        spec = carried_spec(file.path, file.metadata)
        if spec is None:
            return None
        from pecli.engine.schemes.scheme import Scheme

        return Scheme.from_spec(spec)
    except PecliError:
        return None
