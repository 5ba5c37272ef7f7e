"""The result of comparing a file with what it should be: the answer, why it is no, and what a yes does not prove."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks import Answer, plain_fields
from pecli.compare.comparison import Comparison, compare, compare_arrays, problems_of, where_json
from pecli.compare.problems import CopiesDiffer, LearnedConstant, LearnedNotFinite, Problem
from pecli.compare.reading import Reading
from pecli.compare.tolerance import DRIFT, FREQ_RTOL, Tolerance, is_relative
from pecli.engine.arrays import SIGNIFICAND_BITS, Array, widened
from pecli.engine.schemes.scheme import Scheme, holds_several, named_tensors
from pecli.errors import PecliError, listed
from pecli.files.tensor_roles import LAYER

if TYPE_CHECKING:  # explanations are imported where a check fails, or is weak
    from pecli.explain.edits import Explanation

ADVICE = (
    "reproduce with",
    "apart from",
    "verify with",
    "the last place",
)  #: how lines begin that name no tensor
MAX_COPY_ERROR = 1e-5  #: by which copies of a table may differ that have one reason
MAX_WAVE = 2.0  #: the largest value of cosines and sines, attention factors included
MAX_PROBED = 256  #: rows that are looked at for waves
MAX_WIDTH = 1 << 14  #: columns of a positional table; weights may have a million
MAX_ROUNDING_ULP = 4  #: units of the last place that other programs' sines and powers lose, where all else is right
MAX_ROWS = 1 << 20  #: of the longest table that is tried where this one does not show a mistake
MAX_EXPLAINED = 4  #: groups of layers, each with tables of its own, that are explained
MAX_LISTED = 8  #: tensors, or layers, that a line names
PROBES = 16  #: rows of the second half of a table, which show most mistakes
MAX_ELEMENTS = 1 << 22  #: in one row of all heads of a longer table

Tables = Mapping[
    Scheme, Mapping[str, Array]
]  #: what was found, by the expected scheme and by its name there


@dataclass(frozen=True, repr=False)
class Verification(Answer):
    """The answer, tensor by tensor; what makes it fail beside their values; and why the values may differ."""

    file: str
    scheme: str
    tensors: tuple[Comparison, ...]
    problems: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    readings: Mapping[str, str] = field(
        default_factory=dict
    )  #: by tensor, as which layout, of which layers it is read
    explanations: "tuple[Explanation, ...]" = ()
    weak: tuple[
        str, ...
    ] = ()  #: after a pass, known mistakes that the same data would have passed, too
    unchecked: tuple[str, ...] = ()  #: tensors of the file that belong to no table

    @property
    def passed(self) -> bool:
        return not self.problems and all(tensor.passed for tensor in self.tensors)

    @property
    def diagnosis(self) -> tuple[str, ...]:
        return (*self.reasons, *self.problems)

    def words(self) -> tuple[str, ...]:
        return (self.file, self.scheme, *self.diagnosis)

    def as_json(self) -> dict[str, Any]:
        if self.explanations:
            from pecli.explain.words import sentence
        return {
            **plain_fields(
                self,
                "file",
                "scheme",
                "passed",
                "tensors",
                "readings",
                "weak",
                "unchecked",
                "diagnosis",
            ),
            "explanations": [each.as_json(sentence(each)) for each in self.explanations],
            "where": where_json(self.tensors),
        }


@dataclass(frozen=True)
class Checked:
    """A tensor of a file that was compared with what it should be."""

    tensor: str  #: its name in the file
    result: Comparison
    scheme: Scheme | None = None  #: what makes the expected tables; None where they are learned
    found: Mapping[str, Array] = field(
        default_factory=dict
    )  #: one copy of what was found, by the scheme's names
    words: str = ""
    layers: str = ""  #: the kind of layers that it belongs to, where there are several
    right_for: str = ""  #: other layers whose table it is
    doubtful: str = ""  #: why a pass proves less than it seems to

    @classmethod
    def of(
        cls, tensor: str, label: str, reading: Reading, tolerance: Tolerance, **others: Any
    ) -> "Checked":
        scheme, found = reading.explained()
        result = compared(label, reading, tolerance, any_dtype=others.pop("any_dtype", True))
        swapped = len(reading.target.names) > 1 and reading.target.names[0] == "sin"
        unnamed = swapped and "sin" not in label.lower().partition("cos")[0]
        doubtful = f"{label}: no name says that sines come before cosines" if unnamed else ""
        return cls(
            tensor,
            result,
            scheme,
            found,
            **{"words": reading.note, "doubtful": doubtful, **others},
        )


def compared(
    label: str, reading: Reading, tolerance: Tolerance, *, any_dtype: bool = True
) -> Comparison:
    """The comparison alone; learned values can only be numbers that differ."""
    if reading.is_learned:
        result = Comparison.learned(label, reading.array.shape, _learned_problem(reading.array))
        return result
    result = reading.compared(tolerance, name=label, any_dtype=any_dtype)
    limit = max(tolerance.atol, MAX_COPY_ERROR)
    if (
        result.mismatched
        and result.finding is None
        and not reading.has_equal_copies(limit, doubled=False)
    ):
        result.finding = CopiesDiffer()
    return result


def _learned_problem(values: Array) -> Problem | None:
    low, high = np.inf, -np.inf
    for rows in np.array_split(values, max(1, values.size >> 22)):
        wide = widened(rows)
        if not np.isfinite(wide).all():
            return LearnedNotFinite()
        low, high = min(low, float(wide.min())), max(high, float(wide.max()))
    return LearnedConstant(low) if low == high else None


def conclusion(
    path: str,
    scheme: str,
    checked: Sequence[Checked],
    tolerance: Tolerance,
    problems: Iterable[str],
    reasons: bool,
    present: Mapping[str, Array] | None = None,
) -> Verification:
    """The answer about a file: why tensors failed, layers by layers, or what a pass does not prove of all `present`."""
    why: list[Explanation] = []
    lines: list[str] = []
    for layers, some in _failures(checked):
        if others := some[0].right_for:
            lines.append(
                f"{listed([each.result.name for each in some], MAX_LISTED)}: right for {others} layers"
            )
            continue
        found = _explained(_by_scheme(some), tolerance) if reasons else []
        why += found
        for line in diagnosis(found, [each.result for each in some], tolerance):
            mark = ": " if line.startswith(ADVICE) else " "
            lines.append(f"{layers}{mark}{line}" if layers else line)
    results = tuple(each.result for each in checked)
    readings = {each.result.name: each.words for each in checked if each.words}
    known = {each.tensor for each in checked}
    unchecked = {name: array for name, array in (present or {}).items() if name not in known}
    every = (*problems, *problems_of(results))
    told = tuple(dict.fromkeys(lines))
    answer = Verification(
        path, scheme, results, every, told, readings, tuple(why), unchecked=tuple(unchecked)
    )
    if not answer.passed or present is None:
        return answer
    weak = [
        *weak_checks(_by_scheme(checked), tolerance),
        *(each.doubtful for each in checked if each.doubtful),
    ]
    weak += [
        f"{name} looks like a table, and no name says of what"
        for name in unchecked
        if _is_table(unchecked[name])
    ]
    return replace(answer, weak=tuple(weak))


def _failures(checked: Iterable[Checked]) -> Iterator[tuple[str, list[Checked]]]:
    """Which tensors failed, those of layers with the same tables together, and which layers that are."""
    kinds: dict[tuple[str, str], dict[str, list[Checked]]] = {}
    every: dict[str, set[str]] = {}
    for each in checked:
        layer = LAYER.search(each.tensor)
        every.setdefault(each.layers, set()).add(layer[1] if layer else "")
        if (
            each.result.mismatched != 0
            and each.result.finding != CopiesDiffer()
            and each.result.max_abs_error != 0
        ):
            by_number = kinds.setdefault((each.layers, each.right_for), {})
            by_number.setdefault(layer[1] if layer and not each.right_for else "", []).append(each)
    for (kind, _), by_number in kinds.items():
        groups: list[dict[str, list[Checked]]] = []
        for number, some in by_number.items():
            alike = next(
                (group for group in groups if _are_alike(some, next(iter(group.values())))), None
            )
            groups += [{}] if alike is None else []
            (groups[-1] if alike is None else alike)[number] = some
        for group in groups[:MAX_EXPLAINED]:
            numbers = (
                listed([*filter(None, group)], MAX_LISTED) if len(group) < len(every[kind]) else ""
            )
            of = f"layer{'s' * (len(group) > 1)} {numbers}" if numbers else ""
            yield (
                " ".join(filter(None, (kind, of))),
                [each for some in group.values() for each in some],
            )


def _are_alike(some: Sequence[Checked], others: Sequence[Checked]) -> bool:
    one, other = (
        {(own.scheme, name): own.found[name] for own in of for name in own.found}
        for of in (some, others)
    )
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def _is_table(array: Array) -> bool:
    if (
        array.dtype.kind not in "fcV"
        or array.ndim < 2
        or not 0 < array.shape[-1] <= MAX_WIDTH
        or not array.size
    ):
        return False
    from pecli.checks.wave_columns import has_waves

    rows = widened(array.real[(0,) * (array.ndim - 2)][:MAX_PROBED])
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    return bool(rows.size and np.abs(rows).max() <= MAX_WAVE) and has_waves(rows)


def _by_scheme(checked: Iterable[Checked]) -> Tables:
    found: dict[Scheme, dict[str, Array]] = {}
    for each in checked:
        if each.scheme is not None:
            known = found.setdefault(each.scheme, {})
            known |= {name: part for name, part in each.found.items() if name not in known}
    return found


def _explained(tables: Tables, tolerance: Tolerance) -> "list[Explanation]":
    from pecli.explain.edits import merged
    from pecli.explain.search import explain
    from pecli.explain.time_limit import time_limit

    with time_limit():
        return merged(
            why
            for scheme, found in tables.items()
            for why in explain(scheme, found, tolerance.atol)
        )


def diagnosis(
    found: "Sequence[Explanation]", results: Sequence[Comparison], tolerance: Tolerance
) -> list[str]:
    """Explanations in sentences, each with the command that makes such a table; without any, what rounding says."""
    from pecli.explain.edits import Recipe, Runtime
    from pecli.explain.words import reproduction, sentence

    lines: list[str] = []
    for each in found:
        lines.append(sentence(each))
        alone = not each.beyond and all(
            isinstance(edit, Runtime) for edit in each.mistakes
        )  # else it would fail
        for recipe in (edit.found for edit in each.edits if isinstance(edit, Recipe) and alone):
            decade = math.ceil(math.log10(each.residual)) if each.residual > tolerance.atol else 0
            lines.append(f"verify with --recipe {recipe}" + f" --atol 1e{decade}" * bool(decade))
        lines += reproduction(each)
    failed = [result for result in results if not result.passed]
    steps = {result.dtype: 2.0 ** (1 - SIGNIFICAND_BITS.get(result.dtype, 53)) for result in failed}
    coarse = [dtype for dtype, step in steps.items() if step > tolerance.atol > 0]
    units = max((result.max_ulp_error or 0 for result in failed), default=0)
    if (
        coarse and units > MAX_ROUNDING_ULP
    ):  # perhaps of values near 0, which are within the tolerance
        units = max(result.worst_ulp or 0 for result in failed)
        units = units if all(_is_within(result, units) for result in failed) else 0
    if 0 < units <= MAX_ROUNDING_ULP and not any(result.problem for result in failed):
        advice = f"allow --max-ulp {units}"
        if coarse:
            step = f"near 1 its steps are {steps[coarse[0]]:.2g}"
            lines.insert(0, f"{coarse[0]} cannot hold {tolerance.atol:g}: {step}; {advice}")
        elif not lines:
            lines.append(
                f"the last place differs, as sines and powers of other libraries do; {advice}"
            )
    return list(dict.fromkeys(lines))


def _is_within(result: Comparison, units: int) -> bool:
    """Whether a tensor would pass with so many units of the last place."""
    if units > MAX_ROUNDING_ULP or not result.parts:
        return units <= MAX_ROUNDING_ULP
    tolerance = replace(result.allowed, max_ulp=units)
    return compare(result.parts, tolerance, name=result.name, any_dtype=True).passed


def weak_checks(tables: Tables, tolerance: Tolerance) -> tuple[str, ...]:
    """A sentence for each known mistake that would have passed: «2 rows cannot tell …: compare 4,000 or more»."""
    lines = [line for scheme, found in tables.items() for line in _weak(scheme, found, tolerance)]
    lengths = {
        name: scheme.value_of("seq_len", 0) for scheme, found in tables.items() for name in found
    }
    if len(tables) == 2 and {*lengths} == {"cos", "sin"} and lengths["cos"] != lengths["sin"]:
        lines.append(f"cos has {lengths['cos']:,} rows, and sin has {lengths['sin']:,}")
    for scheme, found in tables.items():  # what no number of rows shows
        positions = scheme.value_of("positions")
        is_first = scheme.value_of("seq_len") == 1 and scheme.first_position == 0
        is_first = {*positions} == {0} if positions else is_first
        if is_first and scheme.applied_as == "rotation" and {*found} & {"cos", "sin", "cos_sin"}:
            lines.append("position 0 alone cannot detect a missing rotation: compare others")
        sections = scheme.value_of("mrope_section") is not None and scheme.value_of("grid") is None
        if {*lengths} == {"inv_freq"}:
            if scheme.attention_factor_value() != 1:
                lines.append(
                    "inv_freq cannot tell the attention factor from none: compare cos or sin, too"
                )
        elif sections and len(getattr(positions, "axes", ())) < 2:
            same = "positions that are the same on all axes"
            lines.append(f"{same} cannot tell M-RoPE sections: compare some of an image")
    return tuple(dict.fromkeys(lines))


def _weak(scheme: Scheme, names: Iterable[str], tolerance: Tolerance) -> Iterator[str]:
    from pecli.explain.edits import said
    from pecli.explain.known_mistakes import neighbours

    tables = {} if holds_several(scheme) else named_tensors(scheme)
    compared = [name for name in names if name in tables]
    count = next((tables[name].shape[-2] for name in compared if len(tables[name].shape) > 1), 0)
    rows = f"{count:,} row{'s' if count != 1 else ''}" if count else ", ".join(compared)
    for neighbour in neighbours(scheme) if compared else ():
        advice = _advice(scheme, neighbour.scheme, compared, tolerance)
        if advice is None:
            continue
        words = []  # «llama3 scaling from none», «base 500000 from 10000»
        for edit in neighbour.edits:
            expected = said(edit.expected)
            found = said(edit.found)
            if edit.subject == "scaling":
                words.append(f"{expected} scaling from {found}")
            else:
                words.append(f"{edit.subject} {expected} from {found}")
        yield f"{rows} cannot tell {' and '.join(words)}{advice}"


def _advice(
    scheme: Scheme, mistake: Scheme, names: Sequence[str], tolerance: Tolerance
) -> str | None:
    """What to do where tables of this length do not show a mistake; None where they do, or where it does no harm."""
    largest = _error(scheme, mistake, names, tolerance, few=True)
    if (
        largest == math.inf
        or (largest := _error(scheme, mistake, names, tolerance, few=False)) == math.inf
    ):
        return None
    is_given = scheme.value_of("positions") is not None
    with suppress(PecliError):  # given positions may go with options of their own
        pair: Any = (scheme, mistake)
        scheme, mistake = (
            (replace(each, positions=None, seq_len=2) for each in pair) if is_given else pair
        )
    length = scheme.value_of("seq_len") or 0
    while "seq_len" in scheme.parameters() and 0 < (length := 2 * length) <= MAX_ROWS:
        changes: dict[str, Any] = {"seq_len": length}
        try:
            one, other = replace(scheme, **changes), replace(mistake, **changes)
        except PecliError:
            break
        if any(
            table.size // table.shape[-2] > MAX_ELEMENTS
            for table in one.tensors()
            if len(table.shape) > 1
        ):
            break
        largest = max(largest, _error(one, other, names, tolerance, few=True))
        if largest == math.inf:
            return (
                f": compare positions up to {length:,}"
                if is_given
                else f": compare {length:,} or more"
            )
    return " within this tolerance, and no number of rows would" if largest > 1 else None


def _error(
    right: Scheme, wrong: Scheme, names: Sequence[str], tolerance: Tolerance, *, few: bool
) -> float:
    """The largest error, as a multiple of one that does no harm; infinite where rows, a few or many, tell of it."""
    tables, others, error = named_tensors(right), named_tensors(wrong), 0.0
    for name in names:
        one, other = tables[name], others.get(name)
        if other is None or one.shape != other.shape:
            return math.inf
        if len(one.shape) > 1:
            from pecli.explain.sample import chosen

            count = one.shape[-2]
            rows = (
                np.linspace(count // 2, count - 1, PROBES)
                if few
                else np.append(chosen(count, one.width), count - 1)
            )
            every = (
                np.arange(0, one.rows, count)[:, None] + np.unique(rows.astype(np.intp))
            ).reshape(-1)
            found = compare_arrays(one.pick(every), other.pick(every), tolerance, name=name)
        else:
            found = compare_arrays(one, other.array(), tolerance, name=name)
        if not found.passed:
            return math.inf
        relative = (found.max_rel_error or 0.0) / FREQ_RTOL
        error = max(error, relative if is_relative(name) else (found.max_abs_error or 0.0) / DRIFT)
    return error
