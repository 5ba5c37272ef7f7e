"""Identification of tables of cosines and sines: frequencies are measured, a scheme is supposed, and rendered again."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.edits import Recipe, Runtime
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.arithmetic import RoundedSteps
from pecli.explain.catalogue.columns import NegatedFunctions, ReversedPairs, SwappedFunctions
from pecli.explain.catalogue.law_numbers import USUAL_BASES
from pecli.explain.catalogue.runtimes import ComputedByRuntime, runtimes_of
from pecli.explain.catalogue.used_rows import ReversedRows, Wrapped
from pecli.explain.explanation import Explanation
from pecli.explain.hypotheses import accepted, explain_cases, located, storages
from pecli.explain.hypothesis import TABLE_RECIPES, Case, Mistake
from pecli.explain.law import Law, waves_of_law
from pecli.explain.law_priors import LawPrior, rotary_laws, sinusoidal_laws
from pecli.explain.making import FLOAT32_FUNCTION, Columns
from pecli.explain.measure import MAX_SIGMAS, Frequencies
from pecli.explain.numbers import plain_numbers
from pecli.explain.storage import half_ulp, rounded_to
from pecli.explain.subject import making_of
from pecli.explain.time_limit import check_time
from pecli.explain.wave_readings import Readings, WaveReading, wave_readings
from pecli.explain.wave_tables import scheme_of_waves

SHIFTS = (0.0, 1.0, 0.5)
"""Numbers that projects take off half the dim in the exponent, the likeliest first: fairseq takes 1."""

MIN_BASE = 1.5
"""The smallest base: below it, all frequencies are nearly the same."""

MAX_LAWS = 8
"""Laws that are tested: those after them have numbers of many digits."""

MAX_MISTAKEN_LAWS = 2
"""Laws that are tested together with a mistake: more would find one for anything."""

PLAIN_COST = 0.5
"""Cost of a law from which on its numbers are fitted: another digit may make the table exact."""

MAX_START = 1 << 16
"""Positions at which a table may start."""

START_SLACK = 0.05
"""Share of the amplitude by which a row may miss its position: float8 rounds to 3 %, float32 phases are nearer."""

EXACT_ROWS = 48
"""First rows of a table, whose angles are right even if positions or phases were rounded to bfloat16."""

SAME_BASE = 1e-5
"""Relative difference of bases that a runtime's rounding of frequencies may make."""

ROUGH_AMPLITUDE = 1e-3
"""Relative error of an amplitude that is measured in coarse numbers, or in only one function."""

SHARP_AMPLITUDE = 1e-6
"""Relative error of an amplitude that is measured in float32 numbers."""

FLOAT32_TABLE = TABLE_RECIPES["float32", "bfloat16"]

GRIDS = ("bfloat16", "float16")
"""Dtypes to which frequencies are rounded before they are multiplied by positions."""

GRID_SIGMAS = 4.0
"""Standard errors in half a step of a grid, so that the plainest number within a step and a half is found."""

ONE_MISTAKE: tuple[type[Mistake], ...] = (
    SwappedFunctions, NegatedFunctions, ReversedRows, Wrapped, ReversedPairs,
)  # fmt: skip
"""Mistakes with which a table is still recognised, one at a time."""


Explain = Callable[[WaveReading, Case], Iterable[Explanation]]
"""Yields explanations of a reading by a case in which it begins at position 0, the best first."""


def recognise_waves(tensors: Mapping[str, Array]) -> Iterator[Explanation]:
    """Yield the schemes that make tables of cosines and sines, by the first way to read them that has any."""
    for readings in wave_readings(tensors):
        subjects = [*_measured(readings)]
        for explain in (_from_any_start, _with_one_mistake, _with_rounded_steps, _with_damage):
            explanations = []
            for subject in subjects:
                check_time()
                explanation = explain(subject)
                if explanation is not None:
                    explanations.append(explanation)
            if explanations:
                yield from explanations
                return


def _measured(readings: Readings) -> Iterator["MeasuredReading"]:
    """Yield readings with their frequencies; cosines and sines of one column have the same."""
    measured = readings[0].measured_frequencies()
    for reading in readings:
        if reading is not readings[0] and not reading.is_alone:
            measured = reading.measured_frequencies()
        yield MeasuredReading(reading, measured)


@dataclass(frozen=True)
class MeasuredReading:
    """A reading of tensors, and the frequencies of its pairs; None if the columns are not waves."""

    reading: WaveReading
    measured: Frequencies | None

    @cached_property
    def oriented(self) -> "list[OrientedReading]":
        return [*_oriented(self.reading, self.measured)]


@dataclass(frozen=True)
class OrientedReading:
    """A reading of tensors, and the frequencies of its pairs, most of which are positive."""

    reading: WaveReading
    measured: Frequencies

    @cached_property
    def laws(self) -> list[LawPrior]:
        """The laws that such frequencies may follow, the plainest first."""
        reading = self.reading
        if not reading.is_added:
            return rotary_laws(self.measured)
        half = reading.width / 2 if reading.layout == "interleaved" else float(reading.pairs)
        halves = tuple(half - shift for shift in SHIFTS if half - shift > 0.4)
        return sinusoidal_laws(self.measured, halves)

    def schemes(self, law: Law) -> Iterator[Scheme]:
        """Yield schemes with the frequencies of a law, by the amplitudes they may have, from position 0 on."""
        reading = self.reading
        for amplitude in self._amplitudes(law):
            table = waves_of_law(law, 2 * reading.pairs, reading.rows)._replace(
                amplitude=amplitude,
                layout=reading.layout,
                cos_first=reading.cos_first,
                separate=not reading.is_added,
            )
            if reading.is_added:
                table = table._replace(dim=reading.width)
            scheme = scheme_of_waves(table, dtype=reading.dtype)
            if scheme is not None:
                yield scheme

    def _amplitudes(self, law: Law) -> Iterator[float]:
        """Yield the usual amplitudes near the measured one; if there is none, the plainest numbers near it."""
        measured = self.measured.amplitude
        dim = 2 * self.reading.pairs
        usual = (law.scaling.attention_value, 1.0, math.sqrt(2 / dim), 1 / math.sqrt(dim))
        rough = ROUGH_AMPLITUDE * measured
        near = [value for value in dict.fromkeys(usual) if abs(value - measured) <= rough]
        yield from near
        if not near:
            plain = next(plain_numbers(measured, rough), measured)
            sharp = plain_numbers(measured, SHARP_AMPLITUDE * measured)
            yield from dict.fromkeys((plain, *islice(sharp, 1)))


def _oriented(reading: WaveReading, measured: Frequencies | None) -> Iterator[OrientedReading]:
    """Yield a reading so that most slow pairs turn forwards.

    If they turn backwards, the other function comes first in an added table, sines are negated, or rows are reversed.
    """
    if measured is None:
        return
    slow = measured.values[len(measured.values) // 2 :]
    if np.median(slow) >= 0:
        yield OrientedReading(reading, measured)
        return
    forwards = measured._replace(values=-measured.values)
    if reading.is_added:
        yield OrientedReading(reading.flipped, forwards)
    yield OrientedReading(reading, forwards)


def _rounded(reading: WaveReading, measured: Frequencies | None) -> Iterator[OrientedReading]:
    """Yield frequencies as they were before a step of the computation was rounded to 16 bits.

    Frequencies that lie on a grid of 16 bits may have been anywhere within half a step. Rounded positions and phases
    are right in the first rows.
    """
    for dtype in GRIDS:
        if measured is None:
            break
        off = np.abs(rounded_to(measured.values, dtype) - measured.values)
        if (off <= MAX_SIGMAS * measured.errors).all():
            yield from _oriented(reading, _before_rounding(measured, dtype))
    if reading.rows > EXACT_ROWS:
        first = reading.first_rows(EXACT_ROWS).measured_frequencies()
        if first is not None:
            yield from _oriented(reading, first)
            yield from _oriented(reading, _before_rounding(first, "bfloat16"))


def _before_rounding(measured: Frequencies, dtype: str) -> Frequencies:
    """Return frequencies with the errors of a grid."""
    errors = measured.errors + half_ulp(measured.values, dtype) / GRID_SIGMAS
    return measured._replace(errors=errors)


def _by_laws(
    subject: OrientedReading, priors: Iterable[LawPrior], explain: Explain
) -> Explanation | None:
    """Return the explanation by the first law that explains the table; the plainest ones come first.

    A law with fitted numbers, such as base 10123.4, may only come near: another digit may make the table exactly. So it
    is the answer only if it is exact, or if no later law explains the table better.
    """
    first_fitted: Explanation | None = None
    for prior in priors:
        check_time()
        explanation = _by_law(subject, prior, explain)
        if explanation is None:
            continue
        if prior.cost < PLAIN_COST:
            return explanation
        explanation = _at_usual_base(subject, prior, explanation)
        if explanation.residual <= FLOAT32_FUNCTION * max(1.0, subject.measured.amplitude):
            return explanation
        if first_fitted is None:
            first_fitted = explanation
    return first_fitted


def _by_law(subject: OrientedReading, prior: LawPrior, explain: Explain) -> Explanation | None:
    """Return the explanation by one law, with the first amplitude that explains the table."""
    if prior.law.base < MIN_BASE:
        return None
    for scheme in subject.schemes(prior.law):
        case = _case(subject.reading, scheme)
        if case is None:
            continue
        for explanation in explain(subject.reading, case):
            return explanation.supposing(subject.reading.edits, prior.cost, prior.open)
    return None


def _case(reading: WaveReading, scheme: Scheme) -> Case | None:
    making = making_of(scheme, tuple(reading.tensors))
    if making is None:
        return None
    case = Case.of(scheme, making, reading.observations)
    return replace(case, measured=reading.kept)


def _from_any_start(subject: MeasuredReading) -> Explanation | None:
    """Return the explanation by the plainest law, from the position on that the first row has."""
    return _first(subject.oriented, MAX_LAWS, _moved)


def _with_one_mistake(subject: MeasuredReading) -> Explanation | None:
    """Return the explanation by a law and one mistake."""
    return _first(subject.oriented, MAX_MISTAKEN_LAWS, _mistaken)


def _with_rounded_steps(subject: MeasuredReading) -> Explanation | None:
    """Return the explanation by a law if one step of the computation was rounded to 16 bits."""
    return _first(_rounded(subject.reading, subject.measured), MAX_LAWS, _narrow)


def _with_damage(subject: MeasuredReading) -> Explanation | None:
    """Return the explanation by a law if a small part of the table is wrong."""
    return _first(subject.oriented, MAX_MISTAKEN_LAWS, _damaged)


def _first(
    subjects: Iterable[OrientedReading], most_laws: int, explain: Explain
) -> Explanation | None:
    for subject in subjects:
        explanation = _by_laws(subject, subject.laws[:most_laws], explain)
        if explanation is not None:
            return explanation
    return None


def _moved(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations by the scheme of a case, from the position on that the first row has."""
    for start in _starts(case):
        for scheme in _padded(reading, case.scheme, start):
            moved = _case(reading, scheme)
            if moved is not None:
                explanations = explain_cases([moved], 0.0, most=0)
                yield from _by_recipe([_keeping_scheme(each, scheme) for each in explanations])


def _mistaken(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations with one mistake that is none of parameters."""
    for stored in storages(case):
        for kind in ONE_MISTAKE:
            is_reading = kind is SwappedFunctions and tuple(reading.tensors) != ("cos", "sin")
            if not is_reading:
                for explanation in accepted(map(stored.given, kind.proposals(stored))):
                    yield _keeping_scheme(explanation, case.scheme)


def _damaged(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations in which a small part of the table is wrong."""
    for start in _starts(case):
        moved = _case(reading, _from(case.scheme, start))
        if moved is not None:
            yield from located([*storages(moved)])


def _narrow(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations in which one step of the computation was rounded to 16 bits."""
    for stored in storages(case):
        yield from accepted(map(stored.given, RoundedSteps.proposals(stored)))


def _keeping_scheme(explanation: Explanation, scheme: Scheme) -> Explanation:
    """Return an explanation by a scheme, with its recipe, if the mistakes are none of parameters."""
    recipes = [edit.found for edit in explanation.edits if isinstance(edit, Recipe)]
    if any(isinstance(edit, Runtime) for edit in explanation.edits):
        return explanation
    if recipes == [FLOAT32_TABLE] and scheme.dtype == "bfloat16":
        recipes = ["float32"]  # The dtype says the rest.
    if recipes:
        scheme = scheme.computed_as(recipes[0])
    return explanation.made_by(scheme)


def _by_recipe(explanations: list[Explanation]) -> list[Explanation]:
    """Return explanations, with a recipe as the scheme of the first if it makes a runtime's table as closely."""
    recipes = [
        each for each in explanations if not any(isinstance(edit, Runtime) for edit in each.edits)
    ]
    if not recipes or recipes[0].residual > explanations[0].residual:
        return explanations
    return [explanations[0].made_by(recipes[0].scheme), *explanations[1:]]


def _starts(case: Case) -> Iterator[int]:
    """Yield the positions at which the first row may be: 0, and the one that two rows agree with best."""
    yield 0
    for row in case.observations.probed_rows:
        position = _matching_position(case, int(row))
        if position is not None and position > row:
            yield position - int(row)
            return


def _matching_position(case: Case, row: int) -> int | None:
    """Return the position whose row is nearest to a row of the data; None if none is near.

    Columns rule positions out one after the other, so that few are left after the first ones.
    """
    waves = case.waves
    assert waves is not None
    form = waves.form
    assert isinstance(form, Columns)
    values = case.observations.matrix(np.array([row]))[0]
    positions = np.arange(MAX_START)
    left = np.zeros(MAX_START)
    for value, pair, is_sine, sign in zip(values, *form.columns, strict=True):
        angles = waves.frequencies[pair] * positions
        expected = sign * waves.amplitude * (np.sin(angles) if is_sine else np.cos(angles))
        off = np.abs(expected - value)
        is_near = off <= START_SLACK * waves.amplitude
        positions = positions[is_near]
        left = left[is_near] + off[is_near]
    return int(positions[left.argmin()]) if len(positions) else None


def _padded(reading: WaveReading, scheme: Scheme, start: int) -> Iterator[Scheme]:
    """Yield a scheme from some position on, with the padding row that an added table has."""
    moved = _from(scheme, start)
    if reading.is_added:
        observed = reading.observations
        is_empty = ~observed.sample.any(axis=1)
        if np.count_nonzero(is_empty) == 1:
            padding: Any = {"padding_idx": start + int(observed.sampled_rows[is_empty][0])}
            yield replace(moved, **padding)
    yield moved


def _from(scheme: Scheme, start: int) -> Scheme:
    changes: Any = {"offset": start}
    return replace(scheme, **changes)


def _at_usual_base(
    subject: OrientedReading, prior: LawPrior, explanation: Explanation
) -> Explanation:
    """Return the runtime that computes a table from the usual base next to a fitted one, if there is one.

    llama.cpp multiplies frequencies by a rounded ratio again and again: those of base 1000000 are nearer to 1000002.
    """
    if not any(isinstance(edit, Runtime) for edit in explanation.edits):
        return explanation
    fitted = prior.law.base
    usual = [base for base in USUAL_BASES if abs(base - fitted) <= SAME_BASE * fitted]
    tensors = tuple(subject.reading.tensors)
    for base in usual:
        for scheme in subject.schemes(prior.law.having("base", base)):
            case = _case(subject.reading, scheme)
            if case is not None:
                mistakes = [
                    ComputedByRuntime((name,), computed, tensors)
                    for name, computed in runtimes_of(scheme)
                ]
                return next(accepted(map(case.given, mistakes)), explanation)
    return explanation
