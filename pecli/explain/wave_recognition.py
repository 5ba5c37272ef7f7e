"""Identification of tables of cosines and sines: frequencies are measured, a scheme is supposed, and rendered again."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, product
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices
from pecli.engine.edits import Recipe, Runtime
from pecli.engine.schemes.positions import Positioned
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.amplitude_priors import possible_amplitudes
from pecli.explain.catalogue.arithmetic import RoundedSteps
from pecli.explain.catalogue.columns import NegatedFunctions, ReversedPairs, SwappedFunctions
from pecli.explain.catalogue.runtimes import ComputedByRuntime, runtimes_of
from pecli.explain.catalogue.schedule_numbers import USUAL_BASES
from pecli.explain.catalogue.used_rows import ReversedRows, Wrapped
from pecli.explain.changed_schemes import permitted, with_parameters
from pecli.explain.computation import FLOAT32_FUNCTION, Columns, WaveComputation
from pecli.explain.explanation import Explanation
from pecli.explain.first_choice import explain_by_first, explain_by_plain_or_exact_schedule
from pecli.explain.frequency_schedule import FrequencySchedule, wave_parameters_of_schedule
from pecli.explain.hypotheses import (
    accepted,
    explain_by_kind,
    explain_by_small_damage,
    explain_cases,
    with_storages,
)
from pecli.explain.hypothesis import TABLE_RECIPES, Case, Mistake
from pecli.explain.measure import MeasuredFrequencies, is_noise
from pecli.explain.numbers import numbers_near
from pecli.explain.schedule_priors import (
    SchedulePrior,
    agreeing_schedules,
    rotary_schedules,
    sinusoidal_schedules,
)
from pecli.explain.storage import half_ulp, rounded_to
from pecli.explain.subject import computation_of, with_parameter
from pecli.explain.wave_readings import Readings, WaveReading, wave_readings
from pecli.explain.wave_tables import scheme_with_wave_parameters

SHIFTS = (0.0, 1.0, 0.5)
"""Numbers that projects take off half the dim in the exponent, the likeliest first: fairseq takes 1."""

MAX_SCHEDULES = 8
"""Schedules that are tested: those after them have numbers of many digits."""

MAX_MISTAKEN_SCHEDULES = 2
"""Schedules that are tested together with a mistake: more would find one for anything."""

MAX_START = 1 << 16
"""Positions at which a table may start."""

START_SLACK = 0.05
"""Share of the amplitude by which a row may miss its position: float8 rounds to 3 %, float32 phases are nearer."""

EXACT_ROWS = 48
"""First rows of a table, whose angles are right even if positions or phases were rounded to bfloat16."""

SAME_ROUNDED_BASE = 1e-5
"""Relative difference of bases that a runtime's rounding of frequencies may make."""

FLOAT32_TABLE = TABLE_RECIPES["float32", "bfloat16"]

GRIDS = ("bfloat16", "float16")
"""Dtypes to which frequencies are rounded before they are multiplied by positions."""

GRID_SIGMAS = 4.0
"""Standard errors in half a step of a grid, so that the plainest number within a step and a half is found."""

ONE_MISTAKE: tuple[type[Mistake], ...] = (
    SwappedFunctions, NegatedFunctions, ReversedRows, Wrapped, ReversedPairs,
)  # fmt: skip
"""Mistakes with which a table is still recognised, one at a time."""


ExplainCase = Callable[[WaveReading, Case], Iterable[Explanation]]
"""Yields explanations of a reading by a case in which it begins at position 0, the best first."""


def recognise_waves(
    tensors: Mapping[str, Array], schedules_in_file: Sequence[SchedulePrior] = ()
) -> list[Explanation]:
    """Return the schemes that make tables of cosines and sines, by the first way to read them that has any.

    Tables that are right are tried first, then those with one mistake, then those computed in 16 bits,
    then those of which a part is wrong.

    Args:
        tensors: One tensor, or cosines and sines.
        schedules_in_file: Schedules of frequencies that the same file holds as a vector.
    """
    return explain_by_first(wave_readings(tensors), partial(_explain_readings, schedules_in_file))


def _explain_readings(
    schedules_in_file: Sequence[SchedulePrior], readings: Readings
) -> list[Explanation]:
    """Return the explanations of a tensor that can be read in several ways, by the first attempt that has any.

    An attempt supposes that the tables are right, or that they have one mistake, and so on. Each one is
    made with all readings before the next: a right table in any reading is likelier than a mistake.
    """
    tables = [*_measured_tables(readings, schedules_in_file)]

    def explanations_by(attempt: "Attempt") -> Iterator[Explanation]:
        return chain.from_iterable(map(attempt.explanations, tables))

    return explain_by_first(ATTEMPTS, explanations_by)


def _measured_tables(
    readings: Readings, schedules_in_file: Sequence[SchedulePrior]
) -> Iterator["MeasuredTable"]:
    """Yield each way to read a tensor as cosines and sines, with the frequencies of its columns.

    Args:
        readings: Ways to read the same tensor: as a table of both functions in each row and as a cache of
            two tables, or as only cosines and as only sines.
        schedules_in_file: Schedules of frequencies that the same file holds as a vector.
    """
    frequencies: tuple[MeasuredFrequencies, ...] = ()
    for number, reading in enumerate(readings):
        # Columns turn equally fast whether they are read as cosines or as sines: they are measured once.
        is_measured_already = number > 0 and reading.has_only_one_function
        if not is_measured_already:
            frequencies = reading.measured_frequencies()
        yield MeasuredTable(reading, frequencies, schedules_in_file)


@dataclass(frozen=True)
class MeasuredTable:
    """A table of cosines and sines, as a reading has them, with the frequencies of its pairs."""

    reading: WaveReading
    frequencies: tuple[MeasuredFrequencies, ...]  # empty if the columns are not waves
    schedules_in_file: Sequence[SchedulePrior]  # those of vectors in the same file

    @cached_property
    def oriented(self) -> "list[OrientedTable]":
        """The table with the frequencies that were measured, turned so that most are positive."""
        return [*self._turning_forwards(self.frequencies)]

    def _turning_forwards(
        self, candidates: Iterable[MeasuredFrequencies]
    ) -> "Iterator[OrientedTable]":
        """Yield this table with each of some lists of frequencies, made positive if they are not.

        The frequencies of all schemes are positive. They are measured as negative if the table has a
        mistake that makes angles run backwards, such as negated sines. The mistake itself is found later.

        Args:
            candidates: Frequencies that the table may have, one per pair.
        """
        for frequencies in candidates:
            if _are_positive(frequencies):
                yield OrientedTable(self.reading, frequencies, self.schedules_in_file)
            else:
                yield from self._with_other_signs(frequencies)

    def _with_other_signs(self, frequencies: MeasuredFrequencies) -> "Iterator[OrientedTable]":
        """Yield this table with frequencies times −1, once for each possible reason.

        Frequencies are measured as negative if cosines and sines are taken for each other. So in an added
        table, the other function may come first; otherwise sines are negated or rows are reversed.
        """
        positive = frequencies._replace(values=-frequencies.values)
        if self.reading.is_added:
            yield OrientedTable(self.reading.flipped, positive, self.schedules_in_file)
        yield OrientedTable(self.reading, positive, self.schedules_in_file)

    @property
    def before_rounded_steps(self) -> "Iterator[OrientedTable]":
        """The table with frequencies that it may have had before a step was rounded to 16 bits.

        If all measured ones are bfloat16 (or float16) numbers, each may have been anywhere within half a step
        of them. If positions or angles were rounded, the first rows still show the frequencies: in
        bfloat16, whole numbers up to 256 are exact.
        """
        candidates = []
        for frequencies, dtype in product(self.frequencies, GRIDS):
            if _may_have_dtype(frequencies, dtype):
                candidates.append(_before_rounding(frequencies, dtype))
        if self.reading.rows > EXACT_ROWS:
            for exact in self.reading.first_rows(EXACT_ROWS).measured_frequencies():
                candidates += (exact, _before_rounding(exact, "bfloat16"))
        return self._turning_forwards(candidates)


def _are_positive(frequencies: MeasuredFrequencies) -> bool:
    """Return True if most of the slower half of frequencies are 0 or more.

    The sign of fast ones is no evidence: 6 radians per row look like −0.28, since a whole turn, 6.28, does
    not show. The second half of the pairs are the slow ones.
    """
    first_slow = len(frequencies.values) // 2
    return bool(np.median(frequencies.values[first_slow:]) >= 0)


def _may_have_dtype(measured: MeasuredFrequencies, dtype: str) -> bool:
    """Return True if all frequencies are numbers of a dtype, within their errors."""
    distances = np.abs(rounded_to(measured.values, dtype) - measured.values)
    return bool(is_noise(distances, measured.errors).all())


def _before_rounding(measured: MeasuredFrequencies, dtype: str) -> MeasuredFrequencies:
    """Return frequencies with larger errors, since they may have been rounded to a dtype.

    In bfloat16, 0.7513 becomes 0.75: it may have been anywhere within half a step, 0.0020.
    """
    errors = measured.errors + half_ulp(measured.values, dtype) / GRID_SIGMAS
    return measured._replace(errors=errors)


@dataclass(frozen=True)
class OrientedTable:
    """A table of cosines and sines with the frequencies of its pairs, most of which are positive."""

    reading: WaveReading
    measured: MeasuredFrequencies
    schedules_in_file: Sequence[SchedulePrior]  # those of vectors in the same file

    @cached_property
    def schedules(self) -> list[SchedulePrior]:
        """The schedules, such as base 10000, that the measured frequencies may follow, the plainest first.

        Tables that are added to embeddings are sinusoidal: their frequencies are base^(−i/denominator) with
        one of several denominators. All other tables are rotary: their schedules may have a scaling.
        """
        if self.reading.is_added:
            return sinusoidal_schedules(self.measured, self._denominators())
        # A schedule that the same file holds as a vector is likelier than any other.
        in_file = agreeing_schedules(self.schedules_in_file, self.measured)
        return [*in_file, *rotary_schedules(self.measured)]

    def _denominators(self) -> tuple[float, ...]:
        """Return the denominators that the exponents of a sinusoidal table may have, the likeliest first.

        The frequency of pair i is base^(−i/denominator). Of 512 columns, most programs divide by 256, which
        is half of them, and some by 255 or 255.5. A denominator of 0, 1 − 1 for 2 columns, is left out.
        """
        half_dim = float(self.reading.pairs)
        if self.reading.layout == "interleaved":
            # 2.5 for the 5 columns s0 c0 s1 c1 s2, whose last sine has no cosine.
            half_dim = self.reading.width / 2
        return tuple(half_dim - shift for shift in SHIFTS if half_dim > shift)

    def schemes_with_frequencies_of(self, schedule: FrequencySchedule) -> Iterator[Positioned]:
        """Yield schemes that may make this table from position 0 on, with frequencies such as 10000^(−i/32).

        They differ in their amplitude: cosines from −1.1 to 1.1 have the amplitude 1.1, as far as it can be
        measured. There is a scheme for each usual amplitude near the measured one.

        Args:
            schedule: The formula of the frequencies.
        """
        reading = self.reading
        usual_parameters = wave_parameters_of_schedule(schedule, self._dim, reading.rows)
        for amplitude in self._amplitudes(schedule):
            parameters = usual_parameters._replace(
                amplitude=amplitude,
                layout=reading.layout,
                cos_first=reading.cos_first,
                separate=not reading.is_added,  # Rotary cosines and sines are two tensors.
            )
            scheme = scheme_with_wave_parameters(parameters, dtype=reading.dtype)
            if scheme is not None:
                yield scheme

    @property
    def _dim(self) -> int:
        """The channels that the table encodes: all columns of an added one, or else two per pair."""
        return self.reading.width if self.reading.is_added else 2 * self.reading.pairs

    def _amplitudes(self, schedule: FrequencySchedule) -> Iterator[float]:
        """Yield the amplitudes that the table may have, the usual ones first.

        These are the attention factor of the scaling, 1, and the √(2/dim) and 1/√dim of normalised
        tables.
        """
        reading = self.reading
        of_normalised = (math.sqrt(2 / self._dim), 1 / math.sqrt(self._dim))
        usual = (schedule.scaling.attention_value, 1.0, *of_normalised)
        numbers = len(reading.observations.sampled_rows) * reading.pairs
        # Embeddings are multiplied by √dim, sometimes after the table was added to them.
        of_scaled_embeddings = (math.sqrt(self._dim),)
        yield from possible_amplitudes(self.measured, numbers, usual, of_scaled_embeddings)


def _case(reading: WaveReading, scheme: Positioned) -> Case:
    """Return the case to be tested: the tensors as they are read, and the scheme that may have made them."""
    computation = computation_of(scheme, tuple(reading.tensors))
    case = Case.of(scheme, computation, reading.observations)
    return replace(case, measured=reading.measurements)


def _explain_from_any_start(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations of a table that is right, whatever the position of its first row is.

    They have no mistakes, but may state how the table was stored or computed.
    """
    yield from _explain_by_runtimes_with_usual_base(reading, _positioned(case))
    for scheme in _placed_schemes(reading, case):
        explanations = explain_cases([_case(reading, scheme)], tolerance=0.0, most_mistakes=0)
        yield from _with_nearest_command([_made_by_scheme(each, scheme) for each in explanations])


def _explain_by_runtimes_with_usual_base(
    reading: WaveReading, scheme: Positioned
) -> Iterator[Explanation]:
    """Yield explanations of a table by runtimes that compute it from a usual base near the fitted one.

    llama.cpp multiplies frequencies by a rounded ratio again and again: those of base 1000000 are nearer
    to base 1000002, which is then what was fitted.

    Args:
        reading: The table.
        scheme: The scheme with the fitted base.
    """
    for base in numbers_near(USUAL_BASES, scheme.base, error=SAME_ROUNDED_BASE * scheme.base):
        if base != scheme.base:
            case = _case(reading, with_parameters(scheme, base=base))
            for name, computed in runtimes_of(case.scheme):
                runtime = ComputedByRuntime((name,), computed, tuple(reading.tensors))
                yield from accepted([case.supposing(runtime)])


def _with_nearest_command(explanations: list[Explanation]) -> Iterator[Explanation]:
    """Yield the first of some explanations, with a command with `--recipe` instead of `--runtime` if it can.

    A recipe states the dtype of each step. A runtime such as vLLM may compute the table of the recipe
    float32-bfloat16-table. The answer names the runtime, but the recipe makes the table on every machine,
    unless the runtime makes it more closely.
    """
    by_recipe = [each for each in explanations if not each.has_edit(Runtime)]
    for first in explanations[:1]:
        nearest = min((*by_recipe, first), key=lambda explanation: explanation.residual)
        yield first.with_scheme_of_command(nearest.scheme)


def _placed_schemes(reading: WaveReading, case: Case) -> Iterator[Positioned]:
    """Yield the scheme of a case with each position that its first row may have: 0, 1, or a measured one.

    Last comes the scheme with relative positions, 3 2 1 0 −1 −2 −3, as Transformer-XL has them.
    """
    scheme = _positioned(case)
    for start in _possible_starts(case):
        yield from _with_padding_row(reading, scheme, start)
    # An odd number of rows may be at relative positions, of which the middle one is 0.
    length, is_even = divmod(reading.rows + 1, 2)
    relative = permitted(scheme, seq_len=length, relative=True)
    if relative is not None and not is_even:
        yield relative


def _explain_by_one_mistake(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations with one mistake that is none of parameters, such as rows in reverse order.

    Each mistake is supposed in the table as it is, and in numbers rounded to 4 decimals, if it lies on them.
    """
    for stored, kind in product(with_storages(case), ONE_MISTAKE):
        for explanation in explain_by_kind(stored, kind):
            yield _made_by_scheme(explanation, case.scheme)


def _explain_by_damage(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations of a table of which a small part is wrong, whatever the position of its first row is."""
    for start in _possible_starts(case):
        scheme_from_start = with_parameter(_positioned(case), "offset", start)
        case_from_start = _case(reading, scheme_from_start)
        yield from explain_by_small_damage([*with_storages(case_from_start)])


def _explain_by_rounded_steps(reading: WaveReading, case: Case) -> Iterator[Explanation]:
    """Yield explanations in which one step of the computation was rounded to 16 bits."""
    for stored in with_storages(case):
        yield from explain_by_kind(stored, RoundedSteps)


def _made_by_scheme(explanation: Explanation, scheme: Scheme) -> Explanation:
    """Return an explanation with the scheme that was supposed, and with the recipe that was found.

    The command for it then is `pecli rope … --recipe float32`, for example. An explanation that names a
    runtime has the scheme of the runtime already.

    Args:
        explanation: The explanation of a table, without mistakes in the scheme's parameters.
        scheme: The scheme that was supposed to have made the table.
    """
    if explanation.has_edit(Runtime):
        return explanation
    recipe = next((edit.found for edit in explanation.edits if isinstance(edit, Recipe)), None)
    if recipe is None:
        return explanation.with_scheme_of_command(scheme)
    if recipe == FLOAT32_TABLE and scheme.dtype == "bfloat16":
        recipe = "float32"  # Rounding the table to bfloat16 is stated by the dtype.
    return explanation.with_scheme_of_command(scheme.computed_as(recipe))


def _possible_starts(case: Case) -> Iterator[int]:
    """Yield the positions at which the first row may be: 0, then the one that a row in the middle shows.

    If row 50 is at position 4050, the first row is at position 4000.
    """
    yield 0
    for row in case.observations.probed_rows.tolist():
        for position in _matching_positions(case, row):
            if position > row:
                yield position - row
                return


def _matching_positions(case: Case, row: int) -> list[int]:
    """Return the position whose row in the right table is nearest to a row of the data; nothing if none is near.

    This finds the offset of a table that starts at position 4,000, say. All positions up to 65,536 are
    candidates. Each column rules most of them out, so that few are left after the first columns.
    """
    waves = case.waves
    assert waves is not None
    values = case.observations.matrix(np.array([row]))[0]
    positions = np.arange(MAX_START)  # those that are left
    total_errors = np.zeros(MAX_START)  # of each of them, over the columns so far
    for column, value in enumerate(values):
        errors = np.abs(_values_of_column(waves, column, positions) - value)
        is_near = errors <= START_SLACK * waves.amplitude
        positions = positions[is_near]
        total_errors = total_errors[is_near] + errors[is_near]
    nearest_first: list[int] = positions[np.argsort(total_errors)].tolist()
    return nearest_first[:1]


def _values_of_column(waves: WaveComputation, column: int, positions: Indices) -> Floats:
    """Return what one column of a table holds at some positions: cos(f · position), say, of its pair."""
    assert isinstance(waves.form, Columns)
    columns = waves.form.columns
    function = np.sin if columns.is_sine[column] else np.cos
    frequency = waves.frequencies[columns.pair[column]]
    return np.asarray(columns.sign[column] * waves.amplitude * function(frequency * positions))


def _positioned(case: Case) -> Positioned:
    """Return the scheme of a case, which is that of a table of cosines and sines."""
    assert isinstance(case.scheme, Positioned)
    return case.scheme


def _with_padding_row(reading: WaveReading, scheme: Positioned, start: int) -> Iterator[Positioned]:
    """Yield a scheme whose first row is at some position, at first with a row of padding if there is one.

    Tables that are added to embeddings may have one row of zeros for padding. If only row 1 of a table from
    position 2 on is zeros, position 3 may be `padding_idx`.
    """
    from_start = with_parameter(scheme, "offset", start)
    if reading.is_added:
        observed = reading.observations
        is_empty = ~observed.sample.any(axis=1)
        if np.count_nonzero(is_empty) == 1:
            empty_row = int(observed.sampled_rows[is_empty][0])
            yield with_parameter(from_start, "padding_idx", start + empty_row)
    yield from_start


class Attempt(NamedTuple):
    """A way to identify a table: by a schedule, and by what may be wrong with the table beside it."""

    orient: Callable[[MeasuredTable], Iterable[OrientedTable]]
    """Yields the table with frequencies that it may have."""
    most_schedules: int
    """The number of schedules that are tested, the plainest ones."""
    explain: ExplainCase

    def explanations(self, table: MeasuredTable) -> list[Explanation]:
        """Return the explanation of a table by the first of its frequencies that lead to one."""
        return explain_by_first(self.orient(table), self._explain_oriented)

    def _explain_oriented(self, table: OrientedTable) -> list[Explanation]:
        """Return the explanation by one of the plainest schedules that the frequencies may follow."""
        float32_error = FLOAT32_FUNCTION * max(1.0, table.measured.amplitude)
        plainest = table.schedules[: self.most_schedules]
        return explain_by_plain_or_exact_schedule(
            plainest, partial(self._explain_by_schedule, table), float32_error
        )

    def _explain_by_schedule(
        self, table: OrientedTable, prior: SchedulePrior
    ) -> Iterator[Explanation]:
        """Yield explanations of a table by schemes whose frequencies follow one schedule.

        A schedule is a formula of frequencies, such as base^(−i/32) with the base 10000. Then the schemes
        are `pecli rope --base 10000` with each usual amplitude near the measured one.

        Args:
            table: The cosines and sines of a file, and their measured frequencies.
            prior: The schedule, which gives these frequencies.
        """
        for scheme in table.schemes_with_frequencies_of(prior.schedule):
            yield from self._explain_by_scheme(table.reading, scheme)

    def _explain_by_scheme(self, reading: WaveReading, scheme: Positioned) -> Iterator[Explanation]:
        """Yield explanations of a table by one scheme, with the mistakes that this attempt supposes.

        Each also states how the tensors of the file were read as such a table, for example «transposed».
        """
        for explanation in self.explain(reading, _case(reading, scheme)):
            yield explanation.with_suppositions(reading.edits, cost=0.0, doubts=())


ATTEMPTS = (
    Attempt(lambda table: table.oriented, MAX_SCHEDULES, _explain_from_any_start),
    Attempt(lambda table: table.oriented, MAX_MISTAKEN_SCHEDULES, _explain_by_one_mistake),
    Attempt(lambda table: table.before_rounded_steps, MAX_SCHEDULES, _explain_by_rounded_steps),
    Attempt(lambda table: table.oriented, MAX_MISTAKEN_SCHEDULES, _explain_by_damage),
)
"""Ways to identify a table, in the order in which they are tried: right, with a mistake, in 16 bits, damaged."""
