"""Hypotheses: some mistakes, by which a table is made and compared in every element."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np

from pecli.engine.arrays import Complex, Flags, Floats, Indices, widened
from pecli.engine.edits import Dtype, Edit, Recipe, Runtime
from pecli.engine.schemes.scheme import Scheme, named_tensors
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import (
    EXACT,
    FLOAT32,
    FLOAT32_FUNCTION,
    Computation,
    WaveComputation,
)
from pecli.explain.explanation import ARRANGED_COST, ComparedRows, Explanation
from pecli.explain.frequency_schedule import FrequencySchedule
from pecli.explain.measure import SIGMAS, Fit, MeasuredFrequencies
from pecli.explain.numbers import digits
from pecli.explain.observations import TESTED_ROWS, Observations
from pecli.explain.recipe_difference import difference_from_recipe
from pecli.explain.storage import TruncatedStorage, half_ulp
from pecli.explain.subject import scheme_of
from pecli.explain.time_limit import OutOfTimeError, check_time

VALUES_PER_NUMBER = 8
"""Different stored values that every fitted number has to explain: fewer would fit by chance."""

MIN_VALUES = 2
"""Different values that data must have more than: a constant is explained by too many things."""

FAR_OFF = 0.5
"""Share of the largest value by which no float32 arithmetic and no storage moves an element."""

EXACT_POSITIONS = 32
"""Positions up to which steps in 16 bits move no cosine by more than a fifth."""

MAX_LOST = 0.5
"""Share of rows that may be at no position: if more are, the table does not consist of such rows.
"""

READ_AMPLITUDE_ERROR = 1e-6
"""Relative error of an amplitude that is read off float32 values."""

FITTED_AMPLITUDE_ERROR = 1e-3
"""Relative error of an amplitude that is fitted to only cosines or only sines."""

TABLE_RECIPES: Mapping[tuple[str | None, str], str] = {
    ("float32", "bfloat16"): "float32-bfloat16-table",
    ("bfloat16-inv-freq", "bfloat16"): "bfloat16-module",
}
"""Recipes of a computation and a dtype of storage, by the recipe of the computation and that dtype."""

MAX_EXACT_SHARE = 0.5
"""Share of the columns that float32 arithmetic changes which may be exact in a table computed in it.
All steps in float32 leave none exact, and float32 frequencies with exact phases up to a third.
"""

FLOAT32_COST = 0.3
"""Cost of float32 arithmetic as a reason of its own: values that were only rounded need none."""

COST_PER_DIGIT = 0.2
"""Cost of each digit of a fitted number, where a mistake costs about 1: five digits are as dear as
another mistake.
"""

MAX_RECIPE_RATIO = 2.0
"""Ratio of the distances from a float32 recipe's table and from the exact one, up to which the recipe
is stated: of two programs in float32, each may be as far from the exact table as the other.
"""

T = TypeVar("T")

Needs = tuple[Callable[[Any], bool], ...]
"""Conditions that all have to hold, of a computation, a scheme or a case."""


class Stage(IntEnum):
    """The order in which the steps of a computation are taken: later ones work on the results of earlier
    ones.
    """

    PARAMETERS = 1
    FREQUENCIES = 2
    POSITIONS = 3
    ARITHMETIC = 4
    FORM = 5
    DAMAGE = 6
    STORAGE = 7


def _all_hold(needs: Needs, subject: object) -> bool:
    """Return True if a computation, a scheme or a case meets all conditions, tested in their order."""
    return all(need(subject) for need in needs)


@dataclass(frozen=True, eq=False)  # Kinds that hold arrays are equal only to themselves.
class Mistake(ABC):
    """One known way to get a positional encoding wrong; its fields are its numbers."""

    summary: ClassVar[str]
    """A line for the field guide."""
    seen_in: ClassVar[tuple[str, ...]] = ()
    """Public projects that had it."""
    stage: ClassVar[Stage]
    fitted: ClassVar[tuple[str, ...]] = ()
    """Fields whose numbers are solved from the data: each is paid for with evidence and digits."""
    rank: ClassVar[int] = 9
    """Order among mistakes of one stage: explanations state the base before the scaling."""
    counts_as: ClassVar[int] = 1
    """Mistakes that it stands for: two numbers that are wrong at once are two."""
    changes_reading: ClassVar[bool] = False
    """True if frequencies are measured differently after it, and it needs no measurement itself: it
    is supposed first.
    """
    shows_in_few_values: ClassVar[bool] = False
    """True if tables with this mistake have few different values, which are no evidence against it.
    """
    weight: ClassVar[float] = 1.0
    """Cost without the fitted numbers: the more unusual a mistake, the more it has to explain."""

    computation_type: ClassVar[type[Any]] = Computation
    """The kind of computation that can have it."""
    computation_needs: ClassVar[Needs] = ()
    """Conditions on such a computation: exchanged columns need a table, a vector has none."""
    scheme_needs: ClassVar[Needs] = ()
    """Conditions on the scheme: slopes of another shard need a scheme of a shard."""
    data_needs: ClassVar[Needs] = ()
    """Conditions on the data, without which its numbers cannot be measured."""
    example_needs: ClassVar[Needs] = ()
    """Conditions on a computation for examples: the first 8 rows do not show where a cache wraps."""
    is_found_last: ClassVar[bool] = False
    """True if it is never supposed before another mistake is measured."""

    @abstractmethod
    def plant(self, computation: Computation) -> Computation:
        """Return a computation with this mistake in it."""

    @classmethod
    def is_possible(cls, computation: Computation, scheme: Scheme) -> bool:
        """Return True if a computation has what this is a mistake of."""
        if not isinstance(computation, cls.computation_type):
            return False
        return _all_hold(cls.computation_needs, computation) and _all_hold(cls.scheme_needs, scheme)

    @classmethod
    def proposals(cls, case: "Case") -> Iterator[Self]:
        """Yield this mistake with each number that the data suggest: another base with the base 10000.

        A search tests each by making the table with it. Nothing is yielded if the mistake is not
        possible, as exchanged columns in a vector, or if the data do not show its numbers.
        """
        is_possible = cls.is_possible(case.computation, case.scheme)
        if is_possible and _all_hold(cls.data_needs, case):
            yield from cls.proposals_for_case(case)

    @classmethod
    def proposals_for_case(cls, case: "Case") -> Iterator[Self]:
        """Yield the proposals for a case that has all that the mistake needs; by default the
        typical instances, which need no measurement.
        """
        yield from cls.examples_for(case.computation, case.scheme)

    @classmethod
    def suppositions(cls, case: "Case") -> Iterator[Self]:
        """Yield this mistake with each number that it may have if it is one of several.

        Exchanged columns alone do not explain a table that also has another base. They are supposed
        all the same, since only then the base can be measured.
        """
        if not cls.is_found_last and cls.is_possible(case.computation, case.scheme):
            yield from cls.suppositions_for_case(case)

    @classmethod
    def suppositions_for_case(cls, case: "Case") -> Iterator[Self]:
        """Yield the suppositions for a case in which the mistake is possible."""
        yield from cls.proposals(case)

    @classmethod
    def examples(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield typical versions of this mistake: another base with 500000 and others, for 10000.

        They are planted in right tables, as test data for programs and to see whether a check notices
        them. The smallest deviations come first.

        Args:
            computation: The right computation, in which they can be planted.
            scheme: The scheme whose tensors it makes.
        """
        is_possible = cls.is_possible(computation, scheme)
        if is_possible and _all_hold(cls.example_needs, computation):
            yield from cls.examples_for(computation, scheme)

    @classmethod
    def examples_for(cls, computation: Computation, scheme: Scheme) -> Iterator[Self]:
        """Yield typical instances for a computation in which the mistake is possible."""
        yield from ()

    @abstractmethod
    def edits(self, case: "Case") -> tuple[Edit, ...]:
        """Return the mistake in the vocabulary of results."""

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme with this mistake, if it is one of parameters; else the scheme as it
        is.
        """
        return scheme

    def affected(self, case: "Case") -> tuple[str, ...]:
        """Return the tensors in which the mistake shows."""
        return tuple(case.observations.tensors)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The numbers that were solved from the data."""
        return tuple(float(getattr(self, name)) for name in self.fitted)

    @property
    def cost(self) -> float:
        """The weight, and the digits of the fitted numbers: of two explanations the shorter one is
        preferred.
        """
        return self.weight + COST_PER_DIGIT * sum(map(digits, self.numbers))


@dataclass(frozen=True, eq=False)
class Case:
    """A case to explain: the numbers of a file, and the mistakes that are supposed in them.

    An example: `cos` and `sin` of a file, which should be `pecli rope --base 500000`, supposed to
    have the base 10000. Then `specification` makes the tables of base 500000 and `computation`
    those of base 10000, which are compared with the `observations`.

    The supposition includes float32 arithmetic, since nearly all projects compute tables in it. A
    search drops it if the data refute it (see `with_exact_angles_if_shown`).
    """

    scheme: Scheme
    specification: Computation
    """The steps by which the scheme makes the tensors, without a mistake."""
    observations: Observations
    computation: Computation
    """The same steps with the supposed mistakes."""
    tolerance: float = 0.0
    """How far numbers may be off as they are stored."""
    granted: float = 0.0
    """The largest tolerance of the search, which first tests each case without one."""
    computing_error: float = 0.0
    """How far numbers may be off before they are stored, beside the bound of the computation."""
    arranged: tuple[Edit, ...] = ()
    """Edits of the shape that the tensors are supposed to have, such as transposed."""
    mistakes: tuple[Mistake, ...] = ()
    """The supposed mistakes, in the order in which an implementation makes them."""
    measured: dict[tuple[object, ...], object] = field(default_factory=dict, repr=False)
    """Measurements by what they depend on; all cases of the same numbers share them."""
    computations: tuple[Computation, ...] = field(default=(), repr=False)
    """The specification, then the computation after each mistake was planted; empty if not kept."""

    @classmethod
    def of(
        cls,
        scheme: Scheme,
        computation: Computation,
        observations: Observations,
        arranged: tuple[Edit, ...] = (),
    ) -> "Case":
        """Return the comparison of a file's numbers with those that a scheme makes without a mistake.

        A search for mistakes begins with it. `supposing` then returns the comparison with a mistake.

        Args:
            scheme: The scheme, such as `pecli rope --base 500000`.
            computation: The steps by which it makes its tensors: frequencies, angles, cosines.
            observations: The numbers that the file holds.
            arranged: Changes of shape, such as a transposition, that lead from the tensors of the scheme
                to those of the file.
        """
        # Nearly all projects compute in float32, so this is tried first (see `with_exact_angles_if_shown`).
        in_float32 = replace(computation, arithmetic=FLOAT32)
        return cls(
            scheme=scheme,
            specification=in_float32,  # the steps without a mistake
            computation=in_float32,  # the steps with the supposed mistakes: there are none yet
            observations=observations,
            arranged=arranged,
        )

    def supposing(self, mistake: Mistake) -> "Case":
        """Return the case with one more supposed mistake.

        Others are then measured in what is left: once exchanged columns are supposed, the base
        follows from the frequencies of the right columns.
        """
        return self._with_mistakes((*self.mistakes, mistake))

    def without(self, mistake: Mistake) -> "Case":
        """Return the case without one of its supposed mistakes."""
        return self._with_mistakes(other for other in self.mistakes if other is not mistake)

    def _with_mistakes(self, mistakes: Iterable[Mistake]) -> "Case":
        """Return the case with some mistakes in its computation, instead of those that it has.

        The computation without a mistake is changed step by step. `mistake.plant` returns a computation
        with one more mistake, such as another base.

        Args:
            mistakes: All mistakes of the new case, in any order.
        """
        ordered = _in_order_of_steps(mistakes)
        # Without a mistake, with the first one, with the first two, and so on.
        computations = self._computations_to_reuse(ordered)
        planted_mistakes = len(computations) - 1  # The first computation has no mistake.
        for mistake in ordered[planted_mistakes:]:
            with_one_more = mistake.plant(computations[-1])
            computations.append(with_one_more)
        return replace(
            self,
            computation=computations[-1],
            mistakes=ordered,
            computations=tuple(computations),
        )

    def _computations_to_reuse(self, mistakes: tuple[Mistake, ...]) -> list[Computation]:
        """Return the computations of this case with which a case with some other mistakes begins.

        If this case has the mistakes A, B and C, and A, B and D are given, they are three: without a
        mistake, with A, and with A and B. To make them again would take most of the time of a search.
        """
        shared_mistakes = 0
        for mistake, planted in zip(mistakes, self.mistakes, strict=False):
            if mistake is not planted:
                break
            shared_mistakes += 1
        return [*self.computations[: shared_mistakes + 1]] or [self.specification]

    def within(self, tolerance: float) -> "Case":
        """Return the case with another tolerance: how far numbers may be off, 0 for none."""
        return replace(self, tolerance=tolerance, granted=max(self.granted, tolerance))

    def once(self, key: tuple[object, ...], compute: Callable[[], T]) -> T:
        """Return a measurement, computed only if no case of the same numbers has made it already.

        Args:
            key: Everything that the measurement depends on beside the numbers, such as the layout.
            compute: Makes the measurement.
        """
        if key not in self.measured:
            self.measured[key] = compute()
        return self.measured[key]  # type: ignore[return-value]

    def with_exact_angles_if_shown(self) -> "Case":
        """Return the case with exact angles if the file shows such; else as it is, with float32 angles.

        An angle is position · frequency. Float32 rounds 4000 radians by up to 1.2e-4, which moves
        cosines by as much. If a file has exact angles, this tolerance would hide small mistakes.
        """
        if not self._shows_exact_angles:
            return self
        exact_without_mistakes = replace(
            self,
            specification=self.specification.exactly(),
            mistakes=(),
            computations=(),
            # The cosines of exact angles may still be computed in float32.
            computing_error=self.error_of_cosines,
        )
        # A mistake changes the computation, so that the supposed ones are made in the exact one again.
        return exact_without_mistakes._with_mistakes(self.mistakes)

    @property
    def _shows_exact_angles(self) -> bool:
        """True if the sampled rows show that angles were not rounded to float32.

        A few of these rows are compared first: they already show that most files do not have them,
        and rows of a large table take much memory.
        """
        observed = self.observations
        if not self._do_rows_show_exact_angles(observed.tested_rows):
            return False
        return self._do_rows_show_exact_angles(observed.sampled_rows)

    def _do_rows_show_exact_angles(self, rows: Indices) -> bool:
        """Return True if these rows of the file show that its angles were exact, not rounded to float32.

        Only columns that differ between both can show it: small angles of slow pairs are the same
        either way. Most of the columns that differ must hold the numbers of exact angles.
        """
        data = self.observations.matrix(rows)
        with np.errstate(all="ignore"):  # The file may hold anything.
            by_float32 = self.computation.rendered(rows)
            by_exact_angles = self.computation.exactly().rendered(rows)
            rounding = self._rounding_of_exact(data)
            # Each number is rounded once more in the file, so that nearer ones may become the same.
            differs = np.abs(by_float32 - by_exact_angles) > 2 * rounding
            is_exact = np.abs(data - by_exact_angles) <= rounding
        differing_columns = differs.any(axis=0)
        exact_columns = differing_columns & is_exact.all(axis=0)
        return bool(exact_columns.sum() > MAX_EXACT_SHARE * differing_columns.sum())

    def _rounding_of_exact(self, data: Floats) -> Floats:
        """Return how far each number of the data may be from the exact one.

        It may be rounded to the file's dtype and to the supposed storage, such as four decimals, and its
        cosine may be computed in float32.
        """
        by_dtype = half_ulp(data, self.observations.dtype)
        by_storage = self.computation.storage.half_unit(data)
        return by_dtype + by_storage + self.error_of_cosines

    @property
    def error_of_cosines(self) -> float:
        """The largest error of a cosine of an exact angle if it is computed in float32."""
        return FLOAT32_FUNCTION * max(1.0, self.observations.size)

    @property
    def waves(self) -> WaveComputation | None:
        """The computation, if it is one of cosines and sines or of their frequencies."""
        return self.computation if isinstance(self.computation, WaveComputation) else None

    @property
    def is_made_by_recipe(self) -> bool:
        """True if the numbers are made as a recipe makes them, not as any library may."""
        return self.computation.arithmetic.has_given_frequencies

    @cached_property
    def mistakes_beside_storage(self) -> list[Mistake]:
        """The supposed mistakes, without the grid on which the numbers are stored."""
        return [mistake for mistake in self.mistakes if mistake.stage != Stage.STORAGE]

    @property
    def has_other_parameters(self) -> bool:
        """True if a supposed mistake is one of the parameters, so that the scheme is no longer that
        of the computation.
        """
        return any(mistake.stage == Stage.PARAMETERS for mistake in self.mistakes)

    @property
    def expected_waves(self) -> WaveComputation:
        """The specification of cosines and sines, for mistakes that were proposed for such."""
        assert isinstance(self.specification, WaveComputation)
        return self.specification

    @property
    def expected_schedule(self) -> FrequencySchedule:
        """The schedule of the specification, for mistakes that were proposed because it has one."""
        schedule = self.expected_waves.schedule
        assert schedule is not None
        return schedule

    @cached_property
    def measured_phasors(self) -> Complex | None:
        """Phasors (cos + i·sin) of the sampled rows, if the data hold both cosines and sines."""
        waves = self.waves
        assert waves is not None  # Only mistakes of cosines and sines ask for them.
        observed = self.observations
        return self.once(
            ("phasors", waves.form),
            lambda: waves.form.phasors(observed.sample, observed.sampled_rows),
        )

    @cached_property
    def measured_frequencies(self) -> MeasuredFrequencies | None:
        """The frequencies measured in the data, with their errors; None if there are too few rows.

        If frequencies are supposed to be rounded to bfloat16, the rounding is added to the errors:
        the 0.5 that was measured then agrees with the exact 0.5003.
        """
        measured = self._frequencies_as_read
        rounded_to_dtype = self.computation.arithmetic.frequencies
        if measured is None or rounded_to_dtype is None:
            return measured
        rounding = half_ulp(measured.values, rounded_to_dtype)
        return measured._replace(errors=measured.errors + rounding)

    @property
    def _frequencies_as_read(self) -> MeasuredFrequencies | None:
        """The measured frequencies, without errors of a supposed rounding.

        They do not depend on the supposed frequencies, but on how columns and rows are read: cases
        with the same `reading` share one measurement.
        """
        observed = self.observations
        return self.once(
            ("frequencies", *self.computation.reading),
            lambda: self.computation.measured_frequencies(observed.sample, observed.sampled_rows),
        )

    @cached_property
    def _judging_frequencies(self) -> MeasuredFrequencies | None:
        """The measured frequencies, if they show whether the supposed ones are right; else None.

        A measured 0.3 shows that a supposed 0.5 is wrong, unless something is supposed that moves what
        is measured: damaged elements, angles rounded to 16 bits, or numbers that were cut off.
        """
        computation = self.computation
        # Numbers that are cut off are all off to one side, by which frequencies seem to move.
        is_cut_off = isinstance(computation.storage, TruncatedStorage)
        is_damaged = computation.damaged is not None  # Some elements may hold anything.
        if is_damaged or is_cut_off or not computation.arithmetic.turns_evenly:
            return None
        return self.measured_frequencies

    def may_have(self, frequencies: Floats) -> bool:
        """Return True if the data may have some frequencies: these are as measured, or the measured
        ones show nothing.
        """
        measured = self._judging_frequencies
        return measured is None or measured.agree_with(frequencies)

    @cached_property
    def frequencies_are_refuted(self) -> bool:
        """True if the computation has other frequencies than those that were measured."""
        return self.waves is not None and not self.may_have(self.waves.frequencies)

    @property
    def frequencies_are_confirmed(self) -> bool:
        """True if the computation has the frequencies that were measured."""
        return self._judging_frequencies is not None and not self.frequencies_are_refuted

    @property
    def has_other_frequencies(self) -> bool:
        """True if the data are waves with other frequencies than the supposed ones, nearly without noise.

        Other positions or another amplitude do not explain such data: a mistake of the frequencies must
        be supposed.
        """
        if not self.frequencies_are_refuted:
            return False
        # If no column changes from row to row, all rows may be at one position.
        is_some_frequency_known = bool(self.frequencies.is_known.any())
        return self.frequencies.are_clean and is_some_frequency_known

    @property
    def frequencies(self) -> MeasuredFrequencies:
        """The measured frequencies, for mistakes that need data which show them."""
        assert self.measured_frequencies is not None
        return self.measured_frequencies

    @property
    def phasors(self) -> Complex:
        """The measured phasors, for mistakes that need both cosines and sines."""
        assert self.measured_phasors is not None
        return self.measured_phasors

    @property
    def positions(self) -> Floats:
        """The measured positions, for mistakes that need rows which are at some."""
        assert self.measured_positions is not None
        return self.measured_positions

    @cached_property
    def measured_positions(self) -> Floats | None:
        """The position of each row in the data (axes, rows), if the supposed frequencies are right.

        They are those of `located_rows`: of all rows, unless there are very many. A row that is at no
        position has NaN.
        """
        waves = self.waves
        assert waves is not None  # Only mistakes of cosines and sines ask for them.
        axes = waves.axes.tobytes(), len(waves.positions)
        key = ("positions", waves.form, waves.frequencies.tobytes(), axes)
        return self.once(key, lambda: self._solve_positions(waves))

    def _solve_positions(self, waves: WaveComputation) -> Floats | None:
        """Return the positions (axes, rows) of the located rows; None if most of a few rows are at none.

        Solving all rows takes long, so that a few are solved first: they show that noise, or waves
        of other frequencies, are at no positions.
        """
        observed = self.observations
        rows = observed.located_rows
        stride = max(1, len(rows) // TESTED_ROWS)
        few_rows = rows[::stride]
        few_positions = waves.measured_positions(observed.measured(few_rows), few_rows)
        if few_positions is None or np.isnan(few_positions).mean() > MAX_LOST:
            return None
        return waves.measured_positions(observed.measured(rows), rows)

    @cached_property
    def measured_amplitude(self) -> Fit | None:
        """The measured amplitude of the cosines and sines, and how far it may be off.

        It is √(cos² + sin²), 1 unless an attention factor multiplies the table, as YaRN's does. If
        only cosines or only sines are there, it is the amplitude that was fitted with the
        frequencies.
        """
        if self.measured_phasors is not None:
            sizes = np.abs(self.measured_phasors)
            # Medians, since some elements may have been overwritten.
            amplitude = float(np.median(sizes))
            spread = float(np.median(np.abs(sizes - amplitude)))
            return Fit(amplitude, SIGMAS * spread + READ_AMPLITUDE_ERROR * amplitude)
        if self.measured_frequencies is not None:
            amplitude = self.measured_frequencies.amplitude
            return Fit(amplitude, FITTED_AMPLITUDE_ERROR * amplitude)
        return None

    def errors(self, rows: Indices) -> "Errors":
        """Return how far some rows of the data are from what the supposed mistakes make."""
        return self._compare_with_prediction(self.observations.matrix(rows), rows)

    def _compare_with_prediction(self, data: Floats, rows: Indices) -> "Errors":
        """Compare some rows of the file with the numbers that the computation predicts for them.

        If 0.54 is predicted within 1e-6 and the file holds 0.5402, the residual is 0.0002 and the element
        is wrong. It is right if two decimals are supposed, of which half a unit is 0.005.

        Args:
            data: The numbers of the file, (rows, columns).
            rows: The indices of these rows.

        Returns:
            The residual of each element, and whether it is wrong.
        """
        with np.errstate(all="ignore"):  # The file may hold anything.
            predicted = self.computation.rendered(rows)
            residual = self._residual(data, predicted)
            is_near = np.abs(residual) <= self._allowed_residual(data, rows)  # False for NaN
        is_damaged = self.computation.damage_in(rows)  # Such elements may hold anything.
        return Errors(residual, is_wrong=~(is_near | is_damaged))

    def _residual(self, data: Floats, predicted: Floats) -> Floats:
        """Return by how much each number of the file is larger than the predicted one.

        If numbers were cut off, all from 0.30 to 0.40 are stored as 0.3. Such a 0.3 counts as 0.35.
        """
        before_storage = self.computation.storage.middle(data)
        # Equal masks of −∞ have no residual, although −∞ − (−∞) is NaN.
        return np.where(data == predicted, 0.0, before_storage - predicted)

    def _allowed_residual(self, data: Floats, rows: Indices) -> Floats:
        """Return how far each element may be from the predicted one: the sum of independent causes.

        - half a ULP, since the file's dtype rounds;
        - the bound of the computation, since other libraries compute sines and powers differently;
        - half a unit of the supposed storage, such as 0.05 for one decimal, or the tolerance of the
          check if that is larger. The check compares numbers as they are stored, so that its
          tolerance covers the storage: numbers that were printed with four decimals are compared
          within 5e-5, and «rounded to four decimals» explains no more than that.
        """
        rounding = half_ulp(data, self.observations.dtype)
        computing = self.computation.bound(rows) + self.computing_error
        storing = np.maximum(self.tolerance, self.computation.storage.half_unit(data))
        return rounding + computing + storing

    def remainders(self, rows: Indices) -> "Remainders":
        """Return how far each element of some rows is from its prediction, if that is unexplained.

        Of several cases that are all within their bounds, the one with the smallest sizes is
        preferred. A table may have been computed in float32 or exactly, so that both are predicted.
        """
        sizes_by_precision = [
            self.remainders_of(computation, rows) for computation in self._possible_precisions
        ]
        nearest = min(sizes_by_precision, key=lambda sizes: float(np.nansum(sizes)))
        *_, exact = sizes_by_precision
        return Remainders(nearest, exact)

    def remainders_of(self, computation: Computation, rows: Indices) -> Floats:
        """Return how far each element of some rows is from what one computation makes, if that is unexplained.

        Args:
            computation: The supposed computation, or the same in another precision.
            rows: The indices of the rows.
        """
        data = self.observations.matrix(rows)
        with np.errstate(all="ignore"):  # The file may hold anything.
            return self._unexplained_differences(data, computation.rendered(rows), rows)

    @property
    def _possible_precisions(self) -> tuple[Computation, ...]:
        """The supposed computation, and if it has steps in float32, then the one with these steps exact.

        Nearly all tables are computed in float32, but not all: the nearer of both counts.
        """
        arithmetic = self.computation.arithmetic
        uses_float32 = arithmetic != arithmetic.without_float32()
        if uses_float32:
            return (self.computation, self.computation.exactly())
        return (self.computation,)

    def _unexplained_differences(self, data: Floats, predicted: Floats, rows: Indices) -> Floats:
        """Return how far observed numbers are from the predicted ones, and 0 where that is explained.

        A difference is explained if both are the same, infinite masks included; if rounding to the
        file's dtype can cause it; or if the element is damaged, and may hold anything. 0.30004 in a
        file of four decimals is compared with 0.3 as stored, too: the smaller difference counts.
        """
        dtype = self.observations.held_dtype
        stored = self.computation.storage.stored(predicted, dtype)
        differences = np.abs(data - predicted)
        is_rounded = differences <= half_ulp(data, dtype) + self.computation.float64_error
        is_explained = (data == predicted) | is_rounded | self.computation.damage_in(rows)
        return np.where(is_explained, 0.0, np.fmin(np.abs(data - stored), differences))

    @property
    def is_far_off(self) -> bool:
        """True if two rows are so wrong that no rounding explains it: the cheapest way to reject.

        Most wrong cases predict a cosine of −0.9 where the file has 0.8. Elements that may hold
        anything, or that are computed in 16 bits, cannot be judged like this.
        """
        computation = self.computation
        if computation.damaged is not None or computation.arithmetic not in (EXACT, FLOAT32):
            return False
        return self._are_far_off(self.observations.probed, self.observations.probed_rows)

    def _are_far_off(self, data: Floats, rows: Indices) -> bool:
        """Return True if some element of these rows is farther off than rounding could move it."""
        with np.errstate(all="ignore"):
            residual = data - self.computation.rendered(rows)
            largest = np.nanmax(np.abs(residual), initial=0.0)
        return bool(largest > FAR_OFF * self.observations.size + self.tolerance)

    @property
    def is_refuted_by_few_rows(self) -> bool:
        """True if a few rows of the data are wrong, or so far off that no rounding explains it."""
        return self.is_far_off or self.fails_in_few_rows

    @property
    def fails_in_few_rows(self) -> bool:
        """True if a few rows of the data have a wrong element, as nearly all wrong cases have."""
        return bool(self.wrong_in_few_rows.any())

    @cached_property
    def is_far_off_near_zero(self) -> bool:
        """True if rows near position 0 are so wrong that no rounding of steps explains it.

        Phases of 32 radians are off by 0.06 in bfloat16, those of 4000 by any angle. So whatever is
        rounded, two rows at positions up to 32 show whether the rest of the case is right.
        """
        waves = self.waves
        assert waves is not None  # Only mistakes of cosines and sines ask for it.
        distance_from_zero = np.abs(waves.positions).max(axis=0)  # (rows,), along any axis
        is_near_zero = (distance_from_zero > 0) & (distance_from_zero <= EXACT_POSITIONS)
        two_rows = np.flatnonzero(is_near_zero)[-2:]
        if not len(two_rows):
            return False
        return self._are_far_off(self.observations.matrix(two_rows), two_rows)

    @cached_property
    def wrong_in_few_rows(self) -> Flags:
        """True for each wrong element of the tested rows, (rows, columns)."""
        observed = self.observations
        return self._compare_with_prediction(observed.tested, observed.tested_rows).is_wrong

    @cached_property
    def wrong_elements(self) -> Flags:
        """True for each wrong element of all rows, (rows, columns); computed in blocks."""
        blocks = []
        for rows in self.observations.blocks():
            check_time()
            blocks.append(self.errors(rows).is_wrong)
        return np.concatenate(blocks)

    @property
    def cost(self) -> float:
        arranged = ARRANGED_COST * len(self.arranged)
        return arranged + sum(mistake.cost for mistake in self.mistakes)


def _in_order_of_steps(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    """Return mistakes in the order in which an implementation takes the steps that they change.

    A wrong base comes before exchanged columns: frequencies are computed before columns are filled.
    """
    return tuple(sorted(mistakes, key=lambda mistake: (mistake.stage, mistake.rank)))


class Errors(NamedTuple):
    """Differences of some rows (rows, columns), and the elements at which they are more than is
    allowed.
    """

    residual: Floats
    is_wrong: Flags


def accept(case: Case) -> Explanation | None:
    """Return the explanation of a file by some mistakes; None if they do not make all of its numbers.

    A table with these mistakes is computed. It must have every number of the file, up to rounding.

    Args:
        case: The numbers of the file, the scheme that should have made them, and the mistakes, such as
            «the base is 10000 instead of 500000».
    """
    differences = _differences_if_accepted(case)
    if differences is None:
        return None
    unexplained = differences.nearest
    edits, cost = _edits_and_cost(case)
    difference_from_recipe = 0.0  # It is not measured if there is a mistake.
    if _is_right_but_for_rounding(edits):
        difference_from_recipe = unexplained.largest
        if not case.is_made_by_recipe:
            # A search computes its tables fast; `pecli rope --recipe float32` repeats PyTorch's
            # steps. So the file may be nearer to the table of the recipe. Without a recipe, this is
            # infinity.
            difference_from_recipe = _largest_difference_from_recipe(case, edits)
        nearest = min(unexplained.largest, difference_from_recipe)
        unexplained = unexplained._replace(largest=nearest)
    elif case.computation.arithmetic == FLOAT32:
        edits, unexplained = _with_stated_arithmetic(case, edits, differences.exact)
    return Explanation(
        edits=edits,
        scheme=_scheme_with_mistakes(case, edits),
        tensors=_affected_tensors(case),
        cost=cost,
        residual=unexplained.largest,
        recipe_residual=difference_from_recipe,
        noise=unexplained.noise,  # the root mean square of the differences
        compared=_compared_rows(case, unexplained),
    )


def _differences_if_accepted(case: Case) -> "ComparedPrecisions | None":
    """Return the differences that the mistakes of a case leave unexplained; None if it is rejected.

    The table with the mistakes is computed and compared with the data, a few rows first. A case is
    also rejected if the data are too few to show the numbers of its mistakes, or do not show one of them.
    """
    if _is_refuted_soon(case):
        return None
    differences = _compare_all_rows(case)
    if differences is None:
        return None  # An element is wrong.
    if not _has_evidence(case) or _has_superfluous_mistake(case):
        return None
    return differences


def _is_right_but_for_rounding(edits: tuple[Edit, ...]) -> bool:
    """Return True if edits only state how a right table was computed, by a runtime or not, and stored."""
    return all(edit.storage or isinstance(edit, Runtime) for edit in edits)


def _is_refuted_soon(case: Case) -> bool:
    """Return True if a few rows or the frequencies already reject a case, or if no data could
    reject it.
    """
    if case.tolerance >= case.observations.size > 0:
        return True  # Within such a tolerance anything explains the data.
    return case.is_refuted_by_few_rows or case.frequencies_are_refuted


class EditsAndCost(NamedTuple):
    """The edits of an explanation, and their cost."""

    edits: tuple[Edit, ...]
    cost: float


def _edits_and_cost(case: Case) -> EditsAndCost:
    """Return the edits that name the mistakes of a case, such as «base is 10000», and their cost."""
    edits = (*case.arranged, *_named_edits(case))
    cost = case.cost
    is_only_precision = all(edit.storage for edit in edits)
    # «Computed in float32» goes without saying if exact numbers fit as well. Beside a mistake, it is
    # stated if they do not fit within the tolerance (see `_with_stated_arithmetic`).
    if is_only_precision and _shows_float32(case):
        edits = (Recipe("float32"), *edits)
        cost += FLOAT32_COST
    return EditsAndCost(_with_recipe_of_table(case, edits), cost)


def _with_recipe_of_table(case: Case, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return edits in which a recipe and a 16-bit table are one recipe, if the file holds a table.

    Queries in bfloat16 do not show the dtype of the tables by which they were rotated.
    """
    if case.computation.are_rows_tokens:
        return edits
    return _with_recipe(edits, case.observations.dtype)


class _StatedArithmetic(NamedTuple):
    """Edits that state the arithmetic if that is needed, and the differences from what they make."""

    edits: tuple[Edit, ...]
    differences: "UnexplainedDifferences"


def _with_stated_arithmetic(
    case: Case, edits: tuple[Edit, ...], from_exact: "UnexplainedDifferences"
) -> _StatedArithmetic:
    """Return mistakes with the recipe float32 beside them, if the table has them only in float32.

    Angles of 60000 radians are off by up to 0.002 in float32. «Base is 500000» is enough for a table
    that is within the tolerance of the exact one with this base. Otherwise the recipe is stated too,
    unless the table is much farther from the one that the recipe makes.

    Args:
        case: The mistakes, which explain all elements if angles are supposed to be in float32.
        edits: The edits that name them.
        from_exact: The differences from the table with these mistakes and exact angles.
    """
    without_recipe = _StatedArithmetic(edits, from_exact)
    if _is_explained_exactly(case, from_exact):
        return without_recipe
    edits_with_recipe = _with_recipe_of_table(case, (*edits, Recipe("float32")))
    computation_by_recipe = _computation_by_recipe(case, edits_with_recipe)
    if computation_by_recipe is None:
        return without_recipe
    from_recipe = _measure_differences(case, computation_by_recipe, from_exact.rows)
    is_much_farther = from_recipe.largest > MAX_RECIPE_RATIO * from_exact.largest
    return without_recipe if is_much_farther else _StatedArithmetic(edits_with_recipe, from_recipe)


def _is_explained_exactly(case: Case, from_exact: "UnexplainedDifferences") -> bool:
    """Return True if every element is explained with exact angles, within the tolerance of the check.

    `granted` is that tolerance. It is enough by itself if no difference is larger; else the rounding
    of each element counts as well.
    """
    if from_exact.largest <= case.granted:
        return True
    return _explains_every_element(_with_exact_angles(case.within(case.granted)))


def _computation_by_recipe(case: Case, edits: tuple[Edit, ...]) -> Computation | None:
    """Return the computation of a case with the frequencies that the engine has by the stated recipe.

    The recipe float32 computes powers in float32, so that its frequencies may differ in the last places
    from the exact ones, rounded. Programs differ in these.

    Returns:
        The computation; None if no scheme has the mistakes, or if the scheme has no frequencies to take.
    """
    scheme = _scheme_with_mistakes(case, edits)
    if scheme is None or case.waves is None:
        return None
    frequencies = named_tensors(scheme).get("inv_freq")
    if frequencies is None or frequencies.shape != case.waves.frequencies.shape:
        return None
    return replace(case.waves, frequencies=widened(frequencies.array()))


def _named_edits(case: Case) -> list[Edit]:
    edits: list[Edit] = []
    for mistake in case.mistakes:
        edits += mistake.edits(case)
    return edits


def _affected_tensors(case: Case) -> tuple[str, ...]:
    """Return the tensors in which mistakes show; all of them if there is none."""
    tensors = tuple(case.observations.tensors)
    if not _named_edits(case):
        return tensors
    affected = set[str]().union(*(mistake.affected(case) for mistake in case.mistakes))
    return tuple(name for name in tensors if name in affected)


def _compared_rows(case: Case, differences: "UnexplainedDifferences") -> ComparedRows | None:
    """Return how many of the rows there was time to compare; None if it was all of them."""
    total = case.observations.rows
    if differences.rows == total:
        return None
    return ComparedRows(differences.rows, total)


def _scheme_with_mistakes(case: Case, edits: tuple[Edit, ...]) -> Scheme | None:
    """Return the scheme that makes the table with its mistakes, for the command that reproduces it.

    None is returned if no scheme has them: rows that were overwritten are no parameter. If the
    edits name a recipe, such as bfloat16-table, the scheme has that recipe.
    """
    with_other_parameters = _scheme_after_mistakes(case)
    if with_other_parameters is None:
        return None
    scheme = scheme_of(case.computation, with_other_parameters)
    recipe = _recipe_of(edits)
    if scheme is None or recipe is None:
        return scheme
    return _computed_by_recipe(scheme, recipe)


def _scheme_after_mistakes(case: Case) -> Scheme | None:
    """Return the specified scheme with those mistakes that are other parameters of it.

    None is returned as soon as no scheme can have a mistake.
    """
    scheme: Scheme | None = case.scheme
    for mistake in case.mistakes:
        if scheme is None:
            return None
        scheme = mistake.scheme_after(scheme)
    return scheme


def _computed_by_recipe(scheme: Scheme, recipe: str) -> Scheme:
    """Return the scheme with a recipe; as it is, if it has no recipe or one that cannot change."""
    # `--runtime vllm` already says by which recipe, and refuses another one.
    return permitted(scheme, recipe=recipe) or scheme


def _recipe_of(edits: tuple[Edit, ...]) -> str | None:
    """Return the recipe that edits name; None if they name none."""
    return _first_found(Recipe, edits)


def _first_found(kind: type[Recipe] | type[Dtype], edits: tuple[Edit, ...]) -> str | None:
    """Return what the first edit of a kind names: «bfloat16» of Dtype("bfloat16"); None if there is none."""
    for edit in edits:
        if isinstance(edit, kind):
            return edit.found
    return None


def _with_recipe(edits: tuple[Edit, ...], dtype: str) -> tuple[Edit, ...]:
    """Return edits in which a recipe and a 16-bit table are one recipe, if there is one for both.

    «Computed in float32» and «stored in bfloat16» become «float32-bfloat16-table».

    Args:
        edits: All edits of a case.
        dtype: The dtype of the file, in which the table is stored unless an edit names another one.
    """
    stored_dtype = _first_found(Dtype, edits) or dtype
    recipe_of_both = TABLE_RECIPES.get((_recipe_of(edits), stored_dtype))
    if recipe_of_both is None:
        return edits
    others = [edit for edit in edits if not isinstance(edit, (Recipe, Dtype))]
    return Recipe(recipe_of_both), *others


def _largest_difference_from_recipe(case: Case, edits: tuple[Edit, ...]) -> float:
    """Return the largest difference of a file from the tables that a recipe makes.

    A recipe such as «float32» states how each step is rounded; `pecli rope --recipe float32` follows it.

    Args:
        case: The numbers of the file, and the scheme that should have made them.
        edits: The edits of an explanation, such as Recipe("float32").

    Returns:
        The difference; infinity if the edits name no recipe, or if the scheme makes no such tables.
    """
    recipe = _recipe_of(edits)
    if recipe is None:
        return math.inf
    observations = case.observations
    return difference_from_recipe(case.scheme, observations.tensors, recipe)


class Remainders(NamedTuple):
    """The distances of elements from their prediction: 0 for those that rounding or damage explains.

    Attributes:
        nearest: The distances from the nearer of the predictions in float32 and exact ones.
        exact: The distances from the exact one.
    """

    nearest: Floats
    exact: Floats


class UnexplainedDifferences(NamedTuple):
    """The differences between data and prediction that rounding does not explain.

    Attributes:
        largest: The largest one.
        noise: Their root mean square.
        rows: The rows that there was time to compare.
    """

    largest: float
    noise: float
    rows: int


class _SumOfDifferences:
    """The differences of blocks of rows, added up."""

    def __init__(self) -> None:
        self._largest = 0.0
        self._squares = 0.0
        self._count = 0
        self._rows = 0

    def add(self, sizes: Floats) -> None:
        """Add the differences of some rows, (rows, columns)."""
        self._largest = max(self._largest, float(sizes.max(initial=0.0)))
        self._squares += float((sizes**2).sum())
        self._count += sizes.size
        self._rows += len(sizes)

    def total(self) -> UnexplainedDifferences:
        noise = math.sqrt(self._squares / max(1, self._count))
        return UnexplainedDifferences(self._largest, noise, self._rows)


class ComparedPrecisions(NamedTuple):
    """The unexplained differences of all rows from the nearest prediction, and from the exact one."""

    nearest: UnexplainedDifferences
    exact: UnexplainedDifferences


def _compare_all_rows(case: Case) -> ComparedPrecisions | None:
    """Compare all rows with those that the supposed mistakes make; None if an element is wrong.

    Rows are compared block by block, until an element is wrong. If the time is up, the rows
    compared so far count; None is returned if there are none.
    """
    from_nearest = _SumOfDifferences()
    from_exact = _SumOfDifferences()
    try:
        for rows in case.observations.blocks():
            check_time()
            if case.errors(rows).is_wrong.any():
                return None
            remainders = case.remainders(rows)
            from_nearest.add(remainders.nearest)
            from_exact.add(remainders.exact)
    except OutOfTimeError:
        if not from_nearest.total().rows:
            return None
    return ComparedPrecisions(from_nearest.total(), from_exact.total())


def _measure_differences(
    case: Case, computation: Computation, row_count: int
) -> UnexplainedDifferences:
    """Return the differences between data and one computation, however large they are.

    Args:
        case: The data, and how they were stored.
        computation: The computation whose numbers are compared with them.
        row_count: The number of rows to compare: those that there was time for.
    """
    differences = _SumOfDifferences()
    for rows in case.observations.blocks():
        if differences.total().rows >= row_count:
            break
        differences.add(case.remainders_of(computation, rows))
    return differences.total()


def _has_evidence(case: Case) -> bool:
    """Return True if the data have enough different values for the numbers that were fitted.

    With a base and an offset, more than 16 different values are required: four would fit by chance.
    A mistake such as «all rows at one position» leaves few different values, and is accepted with them.
    """
    mistakes = case.mistakes_beside_storage
    if len(mistakes) == 1 and mistakes[0].shows_in_few_values:
        return True
    fitted_numbers = sum(len(mistake.numbers) for mistake in mistakes)
    required_values = max(MIN_VALUES, VALUES_PER_NUMBER * fitted_numbers)
    return len(_different_values(case)) > required_values


def _different_values(case: Case) -> Floats:
    """Return each value once that the sampled rows have outside of damage."""
    sample = case.observations.sample
    damaged = case.computation.damage_in(case.observations.sampled_rows)
    # Of rotated queries, the sample has only the columns of the first few heads.
    is_damaged = np.broadcast_to(damaged[:, : sample.shape[1]], sample.shape)
    return np.unique(sample[~is_damaged])


def _has_superfluous_mistake(case: Case) -> bool:
    """Return True if the data are explained as well without one of several mistakes.

    Rounding angles by π = 3.14159 does not show in four decimals of sixteen rows. Since nothing
    else in the data speaks against it either, it would be named beside any other mistake.
    """
    mistakes = case.mistakes_beside_storage
    if len(mistakes) < 2:
        return False
    return any(_makes_no_difference(case, mistake) for mistake in mistakes)


def _makes_no_difference(case: Case, mistake: Mistake) -> bool:
    """Return True if neither the elements nor the measured frequencies need a mistake."""
    without = case.without(mistake)
    if case.frequencies_are_confirmed and without.frequencies_are_refuted:
        return False
    return _explains_every_element(without)


def _explains_every_element(case: Case) -> bool:
    """Return True if no element is wrong; a few rows are looked at before all are."""
    return not case.fails_in_few_rows and _compare_all_rows(case) is not None


def _shows_float32(case: Case) -> bool:
    """Return True if a file has numbers of angles in float32 that exact angles do not give.

    An angle is position · frequency. In float32, one of 4000 radians is off by up to 1.2e-4, as are
    its cosine and sine. A table of few rows has only small angles, which are equal either way.
    """
    if case.computation.arithmetic != FLOAT32:
        return False
    may_have_exact_angles = _explains_every_element(_with_exact_angles(case))
    return not may_have_exact_angles


def _with_exact_angles(case: Case) -> Case:
    """Return a case with exact angles, whose cosines may still have been computed in float32."""
    return replace(
        case,
        computation=replace(case.computation, arithmetic=EXACT),
        computing_error=case.error_of_cosines,  # The bound of exact arithmetic leaves it out.
    )
