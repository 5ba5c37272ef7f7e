"""Scalings of rotary frequencies that are missing, others, applied twice, or with other numbers."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self, cast

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Parameter, applied_twice
from pecli.engine.scalings import SCALINGS
from pecli.engine.scalings.linear import Linear
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.kinds import ScheduleMistake, schedule_of_waves, waves_of
from pecli.explain.catalogue.needs import has_scaling, has_schedule, is_rotary, show_frequencies
from pecli.explain.catalogue.schedule_numbers import (
    OtherBase,
    OtherScale,
    ParameterMistake,
    fitted_parameter,
)
from pecli.explain.computation import WaveComputation
from pecli.explain.frequency_schedule import NO_SCALING, FrequencySchedule
from pecli.explain.hypothesis import Case
from pecli.explain.measure import Fit, MeasuredFrequencies, fit_several_numbers
from pecli.explain.numbers import plain_numbers

COMMON_FACTORS = (2.0, 4.0, 8.0, 16.0, 32.0, 40.0)
"""Factors that many models have: one is easily taken for the next."""

USUAL_FACTORS = (*COMMON_FACTORS, 64.0, 10.0, 2.5, 3.0)
"""Factors that some public model has: they cost no digits."""

MAX_FACTOR = 1000.0
"""Factor from which on none is meant: no model extends its context so far."""

LINEAR_WEIGHT = 1.05
"""Cost of linear scaling by a usual factor: less than that of `OtherScale`, with which it shares
its tables.
"""

USUAL_LENGTHS = (*(float(1 << k) for k in range(8, 21)), 1e6, 128000.0, 100000.0, 32000.0, 40960.0)
"""Lengths that public models have: Qwen3 writes 40,960, of which it was trained on 32,768."""

YARN_LENGTHS = (32768, 4096, 8192, 2048, 16384, 65536, 131072)
"""Trained lengths of models that YaRN is applied to, the likeliest first."""

TURN = 2 * math.pi
"""Radians of a turn."""

LLAMA3_BLEND = {"original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0}  # fmt: skip
"""The numbers of Llama 3.1, which all models with its scaling have."""

PROBABLE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("linear", {"factor": 4.0}),
    ("ntk", {"factor": 4.0}),
    ("ntk-fixed", {"factor": 4.0}),
    ("llama3", {"factor": 8.0, **LLAMA3_BLEND}),
    *(("yarn", {"factor": 4.0, "original_max_position_embeddings": length}) for length in YARN_LENGTHS),
    # gpt-oss and its descendants do not round the limits between which YaRN blends.
    ("yarn", {"factor": 4.0, "original_max_position_embeddings": 4096, "truncate": False}),
)  # fmt: skip
"""Scalings that are applied by mistake; the factor is solved."""


class OtherFactor(ParameterMistake):
    """The model's scaling with another factor."""

    name = "factor"
    summary = "the model's scaling with another factor"
    seen_in = ("llama.cpp --rope-freq-scale 8 for 0.125", "vLLM --rope-scaling overrides")
    smallest = 0.009
    largest = 1e4
    usual_values = USUAL_FACTORS

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the usual factors next to the model's: 4 and 16 for 8."""
        factors = np.array(COMMON_FACTORS)
        factor = schedule.value("factor")
        smaller = factors[factors < factor]
        larger = factors[factors > factor]
        yield from map(cls, (*smaller[-1:].tolist(), *larger[:1].tolist()))


class OtherOriginalLength(ParameterMistake):
    """The model's scaling with another original length."""

    name = "original_max_position_embeddings"
    summary = "another original length: max_position_embeddings for the original one"
    smallest = 63.0
    largest = 2.0**22
    is_whole = True
    usual_values = USUAL_LENGTHS

    @classmethod
    def suggested_values(cls, schedule: FrequencySchedule) -> Iterator[float]:
        """Yield the extended length, which configurations give beside the original one."""
        factor = schedule.number("factor")
        if factor is not None:
            yield schedule.value(cls.name) * factor


class OtherTrainedLength(ParameterMistake):
    """Dynamic scaling with another trained length."""

    name = "max_position_embeddings"
    summary = "dynamic scaling over another trained length"
    smallest = 63.0
    largest = 2.0**22
    is_whole = True
    usual_values = USUAL_LENGTHS


class OtherLength(ParameterMistake):
    """Dynamic scaling evaluated at another length: a cache that was built once and is not renewed."""

    name = "length"
    summary = "dynamic scaling evaluated at another length than the sequence has"
    seen_in = ("transformers before 4.39 (dynamic NTK kept the longest)",)
    smallest = 1.0
    largest = 2.0**22
    is_whole = True
    usual_values = USUAL_LENGTHS
    weight = 0.95


class OtherBetaFast(ParameterMistake):
    """YaRN with another beta_fast."""

    name = "beta_fast"
    summary = "YaRN with another beta_fast"
    smallest = 0.2
    largest = 4096.0
    usual_values = (32.0, 64.0, 16.0, 128.0, 8.0)


class OtherBetaSlow(ParameterMistake):
    """YaRN with another beta_slow."""

    name = "beta_slow"
    summary = "YaRN with another beta_slow"
    smallest = 0.005
    largest = 512.0
    usual_values = (1.0, 2.0, 4.0, 0.5)


class OtherLowFactor(ParameterMistake):
    """llama3 scaling with another low_freq_factor."""

    name = "low_freq_factor"
    summary = "llama3 scaling with another low_freq_factor"
    smallest = 0.02
    largest = 128.0
    usual_values = (1.0, 2.0, 4.0, 0.5)


class OtherHighFactor(ParameterMistake):
    """llama3 scaling with another high_freq_factor."""

    name = "high_freq_factor"
    summary = "llama3 scaling with another high_freq_factor"
    smallest = 0.05
    largest = 512.0
    usual_values = (4.0, 8.0, 2.0, 16.0)


def _fit_two_numbers(
    schedule: FrequencySchedule, first_name: str, second_name: str, measured: MeasuredFrequencies
) -> list[Fit] | None:
    """Return the values of two numbers with which a schedule has the measured frequencies; None if none do.

    A wrong base and a wrong factor of YaRN bend the frequencies together: neither can be measured
    before the other is known. So both are fitted at once.

    Args:
        schedule: The rule for the frequencies, with the expected numbers.
        first_name: One of the numbers, such as «base».
        second_name: The other one, such as «factor».
        measured: The frequencies of the table, and how far each may be off.
    """

    def frequencies_with(values: Sequence[float]) -> Floats:
        first_value, second_value = values
        changed = schedule.having(first_name, first_value).having(second_name, second_value)
        return changed.frequencies

    expected = [float(schedule.value(first_name)), float(schedule.value(second_name))]
    fits = fit_several_numbers(frequencies_with, measured, start=expected)
    if fits is None:
        return None
    fitted_frequencies = frequencies_with([fit.value for fit in fits])
    return fits if measured.agree_with(fitted_frequencies) else None


@dataclass(frozen=True)
class OtherTwoNumbers(ScheduleMistake):
    """Other values of two numbers of the schedule at once, which cannot be measured one after the other."""

    first: ParameterMistake
    second: ParameterMistake
    summary = "two numbers of a scaling, or the base and one of them, are others"
    counts_as = 2
    weight = 2.0
    rank = 4
    data_needs = (show_frequencies,)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return self.second.plant_in_schedule(self.first.plant_in_schedule(schedule))

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield every two numbers of the schedule that are both wrong, with the values that explain the data.

        With base 10000 and YaRN's factor 4 expected, these may be base 500000 and factor 8.
        """
        for first_kind, second_kind in combinations(_kinds_of_numbers(schedule), 2):
            fits = _fit_two_numbers(schedule, first_kind.name, second_kind.name, case.frequencies)
            if fits is None:
                continue
            first_fit, second_fit = fits
            both = cls(first_kind.plainest(first_fit), second_kind.plainest(second_fit))
            if both.are_both_wrong(schedule):
                yield both

    def are_both_wrong(self, schedule: FrequencySchedule) -> bool:
        """Return True if neither is the number of a schedule; a single wrong one has a kind of its own."""
        is_first_wrong = self.first.value != schedule.number(self.first.name)
        is_second_wrong = self.second.value != schedule.number(self.second.name)
        return is_first_wrong and is_second_wrong

    @property
    def numbers(self) -> tuple[float, ...]:
        """The values, except those that public models have: they were not solved from the data."""
        return (*self.first.numbers, *self.second.numbers)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (*self.first.edits(case), *self.second.edits(case))


KINDS: dict[str, type[ParameterMistake]] = {
    kind.name: kind
    for kind in (
        OtherBase, OtherScale, OtherFactor, OtherOriginalLength, OtherTrainedLength, OtherLength, OtherBetaFast, OtherBetaSlow,
        OtherLowFactor, OtherHighFactor,
    )
}  # fmt: skip
"""Mistakes in one number, by its name."""


def _kinds_of_numbers(schedule: FrequencySchedule) -> list[type[ParameterMistake]]:
    """Return the kinds of mistakes in one number for all numbers that a schedule has: base, scale, factor, …."""
    names = ("base", "scale", *schedule.scaling.frequency_parameters())
    return [KINDS[name] for name in names if name in KINDS and schedule.number(name) is not None]


@dataclass(frozen=True)
class OtherScalingNumber(ScheduleMistake):
    """Another value of a number that only this scaling has."""

    name: str
    value: float
    summary = "another value of a number that only one scaling has"
    fitted = ("value",)
    rank = 4
    data_needs = (show_frequencies,)
    usual_values: ClassVar[tuple[float, ...]] = (0.5, 1.0, 2.0, 4.0)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return schedule.having(self.name, self.value)

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Fit each number that has no kind of its own; yield the plain values within its error."""
        for name, expected in cls._numbers_without_kind(schedule).items():
            starts = (expected, *cls.usual_values)
            fit = fitted_parameter(schedule, name, case.frequencies, starts)
            for value in plain_numbers(fit.value, fit.error):
                yield cls(name, value)

    @staticmethod
    def _numbers_without_kind(schedule: FrequencySchedule) -> dict[str, float]:
        """Return the numbers of a scaling for which the catalogue has no mistake of their own, by name."""
        numbers: dict[str, float] = {}
        for name in schedule.scaling.frequency_parameters():
            value = schedule.number(name)
            if value is not None and name not in KINDS:
                numbers[name] = value
        return numbers

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield twice the value of each such number, unless it is 0."""
        for name, expected in cls._numbers_without_kind(schedule_of_waves(waves)).items():
            if expected:
                yield cls(name, 2 * expected)

    @property
    def cost(self) -> float:
        return self.weight if self.value in self.usual_values else super().cost

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter(self.name, case.expected_schedule.value(self.name), self.value),)


@dataclass(frozen=True)
class MissingScaling(ScheduleMistake):
    """The model's scaling was not applied."""

    summary = "the model's scaling was not applied"
    seen_in = (
        "llama.cpp and ExLlamaV2 before they read Llama 3.1's scaling",
        "candle's first Llama 3.1",
    )
    weight = 0.9
    rank = 3
    computation_needs = (has_schedule, has_scaling)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return schedule.unscaled()

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("scaling", case.expected_schedule.scaling_name, "none"),)


@dataclass(frozen=True)
class ScalingTwice(ScheduleMistake):
    """The scaling applied to its own result, or with its ratios squared."""

    applied: str  # again, or squared
    summary = "the model's scaling is applied twice: by the config and by a flag"
    seen_in = ("llama.cpp --rope-scaling beside a GGUF that has one",)
    rank = 3
    computation_needs = (has_schedule, has_scaling)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return replace(schedule, applied=self.applied)

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        yield cls("squared")
        yield cls("again")

    def edits(self, case: Case) -> tuple[Edit, ...]:
        name = case.expected_schedule.scaling_name
        return (Parameter("scaling", name, applied_twice(name)),)


def has_factors_in_gguf(waves: WaveComputation) -> bool:
    """Return True for llama3 scaling, whose factors are the tensor rope_freqs.weight of a .gguf."""
    return schedule_of_waves(waves).scaling_name == "llama3"


@dataclass(frozen=True)
class MultipliedByFactors(ScheduleMistake):
    """Frequencies multiplied by llama3's factors, which divide: rope_freqs.weight of a .gguf.

    LongRoPE's lists of factors are read in that way by `ScalingReadDifferently`.
    """

    summary = "frequencies are multiplied by the factors of a .gguf's rope_freqs, which divide"
    seen_in = ("ports that read rope_freqs.weight",)
    rank = 3
    computation_needs = (has_schedule, has_factors_in_gguf)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return replace(schedule, applied="multiplied")

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        name = case.expected_schedule.scaling_name
        return (Parameter("divisors", f"the {name} factors", "multiplied"),)


def has_ntk_scaling(waves: WaveComputation) -> bool:
    """Return True for NTK and dynamic scaling, which replace the base b by b · s^(d/(d − 2))."""
    return isinstance(schedule_of_waves(waves).scaling, Ntk)


@dataclass(frozen=True)
class NtkWithoutExponent(ScheduleMistake):
    """NTK's or dynamic scaling with the base b · s, not b · s^(d/(d − 2))."""

    summary = (
        "NTK or dynamic scaling multiplies the base by its factor, without the exponent d/(d − 2)"
    )
    rank = 3
    computation_needs = (has_schedule, has_ntk_scaling)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        """Return the schedule in which pair i is divided by s^(2i/d), not by s^(2i/(d − 2)).

        The scaling computes the second one for its own d, which is 2 more here.
        """
        return replace(schedule, scaling_denominator=schedule.denominator + 1)

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        yield cls()

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("ntk exponent", "d/(d − 2)", "1"),)


def have_specified_scaling(case: Case) -> bool:
    """Return True unless a supposed mistake has another scaling, or none.

    «The scaling is missing, and another one is there» is one mistake: another scaling.
    """
    supposed = schedule_of_waves(waves_of(case))
    return supposed.scaling_name == case.expected_schedule.scaling_name


@dataclass(frozen=True)
class OtherScaling(ScheduleMistake):
    """A scaling of another kind than the model's, with a factor solved from the frequencies."""

    scaling: Scaling
    factor: float
    summary = "a scaling of another kind, or one where the model has none"
    seen_in = ("--rope-scaling flags for models that have none",)
    fitted = ("factor",)
    weight = 1.3
    rank = 3
    scheme_needs = (is_rotary,)
    data_needs = (show_frequencies, have_specified_scaling)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        scaled = replace(schedule.unscaled(), scaling=self.scaling).having("factor", self.factor)
        return replace(scaled, scaling=scaled.scaling.with_defaults())

    @property
    def cost(self) -> float:
        """Linear scaling by a usual factor is more likely than positions that are multiplied."""
        if self.factor not in USUAL_FACTORS:
            return super().cost
        return LINEAR_WEIGHT if isinstance(self.scaling, Linear) else self.weight

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        for name, parameters in PROBABLE:
            if name != schedule.scaling_name:
                scaling = SCALINGS[name](**parameters)
                yield from cls._with_fitted_factor(scaling, case.frequencies, schedule)

    @classmethod
    def _with_fitted_factor(
        cls, scaling: Scaling, measured: MeasuredFrequencies, schedule: FrequencySchedule
    ) -> Iterator[Self]:
        """Yield this mistake with each plain factor that gives the measured frequencies.

        Linear scaling by 4 divides all frequencies by 4. If they are measured as a fourth of the
        expected ones, the fitted factor may be 4.0003 ± 0.001. Then 4 is yielded first.

        Args:
            scaling: The scaling; only its factor is replaced.
            measured: The frequencies of the table, and how far each may be off.
            schedule: The formula of the expected frequencies, whose own scaling is replaced.
        """
        # The fit tries hundreds of factors. Numbers that were not given get their defaults here, once.
        with_this_scaling = replace(schedule.unscaled(), scaling=scaling.with_defaults())
        fit = fitted_parameter(with_this_scaling, "factor", measured, USUAL_FACTORS)
        # Scalings extend the context, so that a factor is above 1; it is NaN if none fits.
        is_possible = 1 < fit.value < MAX_FACTOR
        if not is_possible:
            return
        for factor in plain_numbers(fit.value, fit.error):
            if factor > 1:
                yield cls(scaling=scaling, factor=factor)

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        if schedule.scaling == NO_SCALING:
            yield cls(scaling=Linear(2.0), factor=2.0)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the name of the scaling, and its numbers, none of which the specification has.

        «scaling is linear (the spec says none)» is followed by «factor is 4». Numbers at their
        defaults are left out.
        """
        expected = case.expected_schedule
        found = self.plant_in_schedule(expected)
        without_defaults = found.scaling.brief()
        edits = [Parameter("scaling", expected.scaling_name, found.scaling_name)]
        for name in found.scaling.frequency_parameters():
            value = getattr(without_defaults, name)
            if value is not None:
                edits.append(Parameter(name, None, value))
        return tuple(edits)


@dataclass(frozen=True)
class ScalingReadDifferently(ScheduleMistake):
    """The model's scaling read in another way: YaRN's limits not rounded or exchanged, LongRoPE's
    other divisors.
    """

    scaling: Scaling
    summary = "the same scaling read in another way: YaRN's limits, LongRoPE's lists"
    seen_in = (
        "llama.cpp rounds YaRN's limits for gpt-oss",
        "litgpt exchanges beta_fast and beta_slow",
    )
    rank = 4
    weight = 0.9

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return replace(schedule, scaling=self.scaling.with_defaults())

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        yield from map(cls, schedule.scaling.known_mistakes())

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the numbers of the scaling that differ, as «beta_fast is 1 (the spec says 32)»."""
        expected = case.expected_schedule.scaling
        found = self.scaling.with_defaults()  # as the expected one is
        if isinstance(found, LongRope):
            return (divisors_edit(case.scheme, cast(LongRope, expected).divisors, found.divisors),)
        edits = []
        for name in expected.frequency_parameters():
            expected_value = getattr(expected, name)
            found_value = getattr(found, name)
            if found_value != expected_value:
                edits.append(Parameter(name, expected_value, found_value))
        if all(map(_lacks_a_turn, edits)):
            return (Parameter("wavelengths", "2π/f", "1/f"),)
        return tuple(edits)


def _lacks_a_turn(edit: Parameter) -> bool:
    """Return True if a limit of a scaling is divided by 2π: it counts radians as if they were turns."""
    is_number = isinstance(edit.expected, (int, float))
    return is_number and math.isclose(edit.found, edit.expected / TURN)


def divisors_edit(
    scheme: Scheme, expected: tuple[float, ...], found: tuple[float, ...]
) -> Parameter:
    """Return how LongRoPE's divisors differ: the other list, reversed, multiplied, or other
    numbers.

    LongRoPE divides each frequency by a number of its own, and configurations have two lists of
    them: `long_factor` for long prompts and `short_factor` for short ones.

    Args:
        scheme: The specification, which has both lists.
        expected: The divisors that should have been used.
        found: The divisors that were used.
    """
    name_of_list = {scheme.value_of(name): name for name in ("long_factor", "short_factor")}
    reversed_list = tuple(reversed(expected))
    inverses = tuple(1 / divisor for divisor in expected)  # Dividing by them multiplies.
    change_to_list = {reversed_list: "reversed", inverses: "multiplied"}
    description = name_of_list.get(found) or change_to_list.get(found, "other")
    return Parameter("divisors", name_of_list.get(expected, "factor"), description)
