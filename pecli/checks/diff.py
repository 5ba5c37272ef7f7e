"""Two files, tensor by tensor: which belong together, how one is read as the other, and what turns one into it."""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.compare.comparison import Comparison, problems_of, where_json
from pecli.compare.forms import columns, halved
from pecli.compare.reading import Doubling, Reading, best_reading, doubling_problems
from pecli.compare.target import PLURALS, Target, fixed
from pecli.compare.tolerance import EXACT, Tolerance, is_relative, tolerance_of
from pecli.compare.waves import wave_readings
from pecli.engine.arrays import SIGNIFICAND_BITS, AnyArray, Array, dtype_name
from pecli.engine.schemes.scheme import Scheme
from pecli.errors import FileError, PecliError, bracketed
from pecli.files.contents import LoadedFile, carried_spec
from pecli.files.load import Given, opened
from pecli.files.tensor_roles import ANYTHING, role_of

if TYPE_CHECKING:  # explanations are imported where files differ
    from pecli.explain.edits import Explanation

MATCHED_ROLES = (
    "cos",
    "sin",
    "inv_freq",
    "slopes",
    "bias",
)  #: of tensors that belong together under other names
WAVE_ROLES = (
    "cos",
    "sin",
    "both",
    ANYTHING,
    None,
)  #: what tensors hold whose columns may belong to frequencies
MODELS = (
    ".gguf",
    ".json",
    ".safetensors",
    ".bin",
    ".pth",
    ".pt",
)  #: how files may end that a model has
_SIDES = (("expected", "found"), ("expected_dtype", "dtype"), ("strange_expected", "strange_found"))
MASK = -6e4  #: what only a mask is below; the most negative number of float16 is −65504


@dataclass(frozen=True, repr=False)
class Difference(Answer):
    """How two files differ: tensor by tensor, in words, and by which edits."""

    a: str
    b: str
    tensors: tuple[Comparison, ...]
    diagnosis: tuple[str, ...] = ()
    explanations: "tuple[Explanation, ...]" = ()
    readings: Mapping[str, str] = field(
        default_factory=dict
    )  #: by tensor, how its axes were read where they differ
    weak: tuple[
        str, ...
    ] = ()  #: where values agree within a tolerance, known mistakes in B that would have, too
    forms: str = (
        ""  #: of two forms of a model, what was compared; `tensors` are then those that differ
    )

    @property
    def passed(self) -> bool:
        return not self.diagnosis and all(tensor.passed for tensor in self.tensors)

    def words(self) -> tuple[str, ...]:
        different = tuple(f"{tensor.name} differs" for tensor in self.tensors if not tensor.passed)
        return (" and ".join(filter(None, (self.a, self.b))), *self.diagnosis, *different)

    def as_json(self) -> dict[str, Any]:
        if self.explanations:
            from pecli.explain.words import comparison
        return {
            **plain_fields(self, "passed", "a", "b", "tensors", "diagnosis", "readings", "weak"),
            **({"forms": self.forms} if self.forms else {}),
            "explanations": [each.as_json(comparison(each)) for each in self.explanations],
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
    which transform explains it, unless no `reasons` are asked for."""
    allowed = tolerance_of(tolerance, max_ulp, atol, rtol)
    if (found := _as_models(a, b, allowed)) is not None:
        return found
    try:
        one, ours = opened(a)
    except FileError as problem:  # which the other file may have, too
        try:
            opened(b)
        except FileError as second:
            raise FileError(problem.path, f"{problem.problem}; {second}") from None
        raise
    other, theirs = opened(b)
    fits = _fits(ours, theirs)
    loose = allowed != EXACT  # within a tolerance, another dtype is none of the differences
    tensors = tuple(fit.compared(allowed, any_dtype=loose) for fit in fits)
    schemes = [_scheme_of(ours), _scheme_of(theirs)]
    may_be_absent = {
        name for scheme in schemes if scheme and fits for name in scheme.derived_tensors
    }
    problems = []
    for sides, file, names in (
        ("AB", ours, [fit.ours for fit in fits]),
        ("BA", theirs, [fit.theirs for fit in fits]),
    ):
        known = may_be_absent.union(*names)
        alone = [
            name for name in file.tensors if name not in known and not (fits and is_relative(name))
        ]
        problems += [f"{name}: only {sides[0]} has it, {sides[1]} does not" for name in alone]
    problems += problems_of(tensors)
    read = [(fit.name.rpartition(".")[0], fit.reading) for fit in fits if fit.reading]
    problems += doubling_problems(
        Doubling(layers, each, each.form.doubled or each.target.layout) for layers, each in read
    )
    why: list[Explanation] = []
    if changed := [
        (found, fit.pairs) for fit, found in zip(fits, tensors, strict=True) if not found.passed
    ]:
        from pecli.checks import diff_reasons
        from pecli.explain.words import comparison

        layers = diff_reasons.first_departure(
            ours.tensors, theirs.tensors, tensors, diff if reasons else None
        )
        why = (
            diff_reasons.reasons(changed, schemes[0], allowed)
            if reasons and len(layers) < 2
            else []
        )
        problems += [*layers, *map(comparison, why)]
    notes = {found.name: fit.note for found, fit in zip(tensors, fits, strict=True) if fit.note}
    answer = Difference(one, other, tensors, tuple(problems), tuple(why), notes)
    if not (answer.passed and loose and schemes[0]):
        return answer
    from pecli.checks.weak_checks import weak_checks

    compared = {name: array for fit in fits for name, array, _ in fit.pairs()}
    return replace(answer, weak=weak_checks({schemes[0]: compared}, allowed))


def _as_models(a: Given, b: Given, allowed: Tolerance) -> Difference | None:
    """Two folders, or files that models have, as two forms of one; what reads models is imported for them alone."""
    for given in (a, b):
        path = os.fspath(given) if isinstance(given, (str, os.PathLike)) else ""
        if not (path.endswith(MODELS) or os.path.isdir(path)):
            return None
    from pecli.checks.model_forms import diff_forms

    forms = diff_forms(a, b, allowed)
    return None if forms is None else Difference(str(a), str(b), **forms)


def _scheme_of(file: LoadedFile) -> Scheme | None:
    """The scheme of the spec that a file carries; None where it carries none that makes a table."""
    try:
        spec = carried_spec(file.path, file.metadata)
        return None if spec is None else Scheme.from_spec(spec)
    except PecliError:
        return None


@dataclass(frozen=True)
class Fit:
    """Two tensors, or more, that belong together, and how the one is read as the other, if it can be."""

    name: str
    ours: Sequence[str]
    theirs: Sequence[str]  #: the names that they have in A and in B
    arrays: tuple[Array, Array]
    reading: Reading | None
    reads_a: bool = False  #: whether it is A that was read as B has it

    @property
    def note(self) -> str:
        if self.reading is None:
            return ""
        sides = ("A", "B") if self.reads_a else ("B", "A")
        doubled = "" if self.reading.form.doubled else self.reading.target.layout
        words = (
            self.reading.note,
            columns(doubled) if doubled else "",
        )  # of what was read, and of the other
        return "; ".join(f"{side}: {said}" for side, said in zip(sides, words, strict=True) if said)

    def compared(self, tolerance: Tolerance, *, any_dtype: bool) -> Comparison:
        if self.reading is None:
            return Comparison.of_shape(
                self.name, self.arrays[1].shape, bracketed(self.arrays[0].shape)
            )
        result = self.reading.compared(tolerance, name=self.name, any_dtype=any_dtype)
        for one, other in _SIDES if self.reads_a else ():
            sides = vars(result)
            sides[one], sides[other] = sides[other], sides[one]
        result.sides_swapped = self.reads_a
        return result

    def pairs(self) -> list[tuple[str, Array, Array]]:
        """What is searched for reasons: without copies and doubled columns."""
        if self.reading is None:
            return [(self.name, *self.arrays)]
        pairs = [
            (name, np.asarray(one), other) for name, (one, other) in self.reading.pairs().items()
        ]
        return [(name, other, one) for name, one, other in pairs] if self.reads_a else pairs


def _fits(a: LoadedFile, b: LoadedFile) -> list[Fit]:
    """The tensors that belong together: the only ones; cos and sin with both in one array, as files of one array have
    them; or those of one name, and of the others those that alone hold the same by their names."""
    kinds = [[dtype_name(array.dtype) for array in file.tensors.values()] for file in (a, b)]
    one_kind, other_kind = (
        next((kind for kind in some if kind in SIGNIFICAND_BITS), "float64") for some in kinds
    )
    ours, theirs = (
        a.read_as(other_kind).tensors,
        b.read_as(one_kind).tensors,
    )  # a .csv has no dtypes of its own
    lines = "csv" in (a.format, b.format)
    if len(ours) == len(theirs) == 1:
        (one,), (other,) = ours.items(), theirs.items()
        return [_fit(one, other, lines)]
    for whole, parts, reads_a in ((theirs, ours, False), (ours, theirs, True)):
        if (fit := _as_both(whole, parts, lines, reads_a)) is not None:
            return [fit]
    names = {name: name for name in ours if name in theirs}
    one_of, other_of = (
        _by_role([name for name in tensors if name not in names]) for tensors in (ours, theirs)
    )
    names |= {name: other_of[role] for role, name in one_of.items() if role in other_of}
    return [_fit((one, ours[one]), (other, theirs[other]), lines) for one, other in names.items()]


def _by_role(names: Sequence[str]) -> dict[str, str]:
    """Those tensors that are the only ones of their file with such a role."""
    roles = {name: role for name in names if (role := role_of(name)) in MATCHED_ROLES}
    counts = Counter(roles.values())
    return {role: name for name, role in roles.items() if counts[role] == 1}


def _as_both(
    whole: Mapping[str, Array], parts: Mapping[str, Array], lines: bool, reads_a: bool
) -> Fit | None:
    """One array that holds the cosines and sines which the other file has apart."""
    tables = {role: name for name in parts if (role := role_of(name)) in PLURALS}
    if (
        len(whole) != 1
        or len(tables) != 2
        or len({parts[name].shape for name in tables.values()}) > 1
    ):
        return None
    ((name, array),) = whole.items()
    reading = best_reading(
        array, _both({role: parts[tables[role]] for role in PLURALS}), is_text=lines
    )
    if reading is None:
        return None
    sides = ([name], list(parts))
    ours, theirs = sides if reads_a else sides[::-1]
    return Fit("cos_sin", ours, theirs, (array, array), reading, reads_a)


def _both(parts: Mapping[str, Array]) -> Iterator[Target]:
    """Cosines and sines in one array."""
    cos, sin = (_single_columns(parts[name]) for name in PLURALS)
    for doubled in [way for way in cos if way in sin]:
        yield fixed(
            {"cos": cos[doubled], "sin": sin[doubled]}, waves=True, layout=doubled, quantised=True
        )


def _single_columns(array: AnyArray) -> dict[str, AnyArray]:
    """An array as it is, and with one of two columns per frequency where they are the same, by how they are doubled."""
    found = {"": array}
    for doubled in ("halves", "interleaved") if array.ndim and array.shape[-1] % 2 == 0 else ():
        one, other = halved(array, doubled)
        if np.array_equal(one, other, equal_nan=True):
            found[doubled] = one
    return found


def _fit(a: tuple[str, Array], b: tuple[str, Array], lines: bool) -> Fit:
    """Two tensors as one table, whichever has more axes; as they are where their shapes do not allow it."""
    (name, ours), (other, theirs) = a, b
    fit = Fit(name, [name], [other], (ours, theirs), None)
    waves = role_of(name) in WAVE_ROLES and role_of(other) in WAVE_ROLES
    if ours.shape == theirs.shape and (
        not waves or (ours.dtype.kind in "iu") == (theirs.dtype.kind in "iu")
    ):
        theirs = np.asarray(theirs, order="C")
        masked = _is_masked(ours) and _is_masked(theirs)
        straight = Reading.straight(name, ours, theirs, masked=masked)
        if (
            role_of(name) in PLURALS and ours.ndim > 1 and not straight.is_near
        ):  # frequencies, then positions?
            turned = best_reading(theirs, _targets(name, ours, waves, lines), is_text=lines)
            if turned is not None and turned.transposed and turned.is_near:
                return replace(fit, reading=turned)
        return replace(fit, reading=straight)
    sides = [(False, ours, theirs), (True, theirs, ours)]
    for reads_a, expected, found in sorted(sides, key=lambda side: side[1].dtype.kind in "iu"):
        reading = best_reading(found, _targets(name, expected, waves, lines), is_text=lines)
        if reading is not None:
            fit = replace(fit, reading=reading, reads_a=reads_a)
            break
    for reads_a, expected, found in (
        sides if waves and not (fit.reading and fit.reading.is_near) else ()
    ):
        if (reading := _arranged(expected, found, lines)) is not None:
            return replace(fit, reading=reading, reads_a=reads_a)
    return fit


def _targets(name: str, expected: AnyArray, waves: bool, lines: bool) -> Iterator[Target]:
    """An array as it is, without axes of length 1, and with one of two columns per frequency; a number as a vector."""
    expected = np.atleast_1d(expected)
    plain = tuple(length for length in expected.shape if length != 1)
    one_line = (
        lines and expected.shape[-1:] == (1,) and plain
    )  # one row stays a row, unless it is a line of text
    common: dict[str, Any] = {"quantised": waves, "masked": _is_masked(expected)}
    common["transposable"] = waves and role_of(name) in MATCHED_ROLES
    for shape in dict.fromkeys(
        [expected.shape, plain if len(plain) > 1 or one_line else expected.shape]
    ):
        table = expected.reshape(shape)
        has_columns = waves and table.ndim > 1
        for doubled, single in (_single_columns(table) if has_columns else {"": table}).items():
            yield fixed({name: single}, waves=has_columns, layout=doubled, **common)


def _is_masked(array: AnyArray) -> bool:
    """Whether the last key is hidden from the first query: by −∞, or by a dtype's most negative number."""
    is_square = array.ndim > 1 and array.shape[-1] == array.shape[-2] > 1 and array.size > 0
    return (
        is_square and array.dtype.kind in "fV" and bool(array[(0,) * (array.ndim - 1)][-1] <= MASK)
    )


def _arranged(expected: AnyArray, array: AnyArray, lines: bool) -> Reading | None:
    """An array as cosines and sines that another holds, both in one array each, however arranged."""
    for both in wave_readings(expected):
        parts = {part.name: part.first_copy for part in both.parts if not part.negated}
        reading = (
            best_reading(array, _both(parts), is_text=lines) if both.has_equal_copies() else None
        )
        if reading is not None and reading.is_near:
            return reading
    return None
