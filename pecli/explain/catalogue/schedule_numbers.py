"""Other values of the parameters from which frequencies and amplitudes follow."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.edits import Edit, Parameter, Scaled
from pecli.engine.schemes.scheme import Scheme
from pecli.explain.catalogue.kinds import (
    ScheduleMistake,
    WaveMistake,
    schedule_of_waves,
    waves_of,
)
from pecli.explain.catalogue.needs import has_schedule, show_frequencies
from pecli.explain.changed_schemes import permitted
from pecli.explain.computation import Computation, FrequencyComputation, WaveComputation
from pecli.explain.frequency_schedule import NO_SCALING, FrequencySchedule, fit_parameter
from pecli.explain.hypothesis import Case, Stage
from pecli.explain.measure import Fit, MeasuredFrequencies, fit_number
from pecli.explain.numbers import digits, numbers_near, plain_numbers
from pecli.explain.wave_tables import wave_edit

USUAL_BASES = (
    10000.0, 500000.0, 1e6, 150000.0, 1000.0, 100.0, 1e5, 5e6, 1e7, 160000.0, 2e6, 8e6, 1e8, 25000.0, 40000.0, 32000.0,
    50000.0, 1e9, 1.2e7,
)  # fmt: skip
"""Bases that public models have, the likeliest first."""

HIDDEN_SIZES = (512, 768, 1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192)
"""Hidden sizes of public models: a port may divide the exponent by one instead of by the head size.
"""

DEGREES = 180 / math.pi

NO_FIT = Fit(math.nan, 0.0)
"""The fit of a number that explains no frequencies: no other number is near it."""


def fitted_number(
    frequencies: Callable[[float], Floats], measured: MeasuredFrequencies, starts: Sequence[float]
) -> Fit:
    """Return the number that gives the measured frequencies; NO_FIT if none does.

    Args:
        frequencies: Returns the frequencies of all pairs for a number, such as a base.
        measured: The frequencies of a table.
        starts: Numbers to begin with, such as usual bases.
    """
    return fit_number(frequencies, measured, starts) or NO_FIT


def fitted_parameter(
    schedule: FrequencySchedule, name: str, measured: MeasuredFrequencies, starts: Sequence[float]
) -> Fit:
    """Return the value of a schedule's number that gives the measured frequencies, or NO_FIT."""
    return fit_parameter(schedule, name, measured, starts) or NO_FIT


@dataclass(frozen=True)
class ParameterMistake(ScheduleMistake):
    """Another value of one number of the schedule, solved from the measured frequencies."""

    value: float
    is_suggested: bool = False
    """True if other numbers of the model suggest the value: then it costs no digits."""
    name: ClassVar[str]
    """The name of the number, such as `base`, in the schedule or in its scaling."""
    smallest: ClassVar[float] = 0.0
    """Fitted values are above it."""
    largest: ClassVar[float] = math.inf
    """Fitted values are below it."""
    is_whole: ClassVar[bool] = False
    """True if the number is an integer, such as a length."""
    usual_values: ClassVar[tuple[float, ...]] = ()
    """Values that public models have: they cost no digits."""
    fitted = ("value",)
    rank = 4

    @classmethod
    def is_possible(cls, computation: Computation, scheme: Scheme) -> bool:
        """Return True if the schedule, or its scaling, has the number."""
        if not super().is_possible(computation, scheme):
            return False
        assert isinstance(computation, WaveComputation)
        return schedule_of_waves(computation).number(cls.name) is not None

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return schedule.having(self.name, self.value)

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the mistake with each value that the number, such as the base, may have in the data.

        Each is tested in every element afterwards.

        Args:
            case: The data, in which the frequencies are measured.
            schedule: The rule that the frequencies should follow, with the expected number.
        """
        measured = case.measured_frequencies
        if measured is None:
            # Rows 3, 70 and 911 are too far apart to measure a frequency. So the usual values are
            # tried as they are: the test in every element rejects the wrong ones.
            yield from map(cls, cls.usual_values)
        else:
            yield from cls._proposals_near_measured(schedule, measured)

    @classmethod
    def _proposals_near_measured(
        cls, schedule: FrequencySchedule, measured: MeasuredFrequencies
    ) -> Iterator[Self]:
        """Yield the mistake with each plain value with which the schedule has the measured frequencies.

        If the base is measured as 499,998 ± 5, 500,000 is yielded. Values that other numbers of the
        model suggest come first: they need no digits of their own.
        """
        first_guesses = (schedule.value(cls.name), *cls.usual_values)
        fit = fitted_parameter(schedule, cls.name, measured, first_guesses)
        suggested = numbers_near(cls.suggested_values(schedule), fit.value, fit.error)
        plain = cls.plain_values_near(fit.value, fit.error)
        for value in dict.fromkeys((*suggested, *plain)):
            yield cls(value, is_suggested=value in suggested)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield typical wrong values, which need no data: for a base of 10000, 500000 and 1e6.

        A number without examples of its own gets the first other value that the model or other
        models have.
        """
        schedule = schedule_of_waves(waves)
        examples = list(cls.examples_for_schedule(schedule))
        if not examples:
            expected = schedule.value(cls.name)
            likely = (*cls.suggested_values(schedule), *cls.usual_values)
            wrong_values = [value for value in likely if value != expected]
            examples = list(map(cls, wrong_values[:1]))
        yield from examples

    @classmethod
    def suggested_values(cls, schedule: FrequencySchedule) -> Iterator[float]:
        """Yield values that other numbers of the same model suggest."""
        yield from ()

    @classmethod
    def plain_values_near(cls, value: float, error: float) -> Iterator[float]:
        """Yield the numbers that somebody may have written for a fitted one.

        For the base 9999.7, which may be off by 1, these are the usual 10000, and then the plainest
        numbers within the error, those with few digits first.
        """
        usual = numbers_near(cls.usual_values, value, error)
        for candidate in dict.fromkeys((*usual, *plain_numbers(value, error))):
            if cls._may_be(candidate):
                yield candidate

    @classmethod
    def plainest(cls, fit: Fit) -> Self:
        """Return the value that was probably written for a fitted one: 10000 for 9999.8 ± 0.5."""
        return cls(next(cls.plain_values_near(fit.value, fit.error), fit.value))

    @classmethod
    def _may_be(cls, candidate: float) -> bool:
        """Return True if a value is in range, and whole if it has to be."""
        is_in_range = cls.smallest < candidate < cls.largest
        has_right_kind = not cls.is_whole or candidate == round(candidate)
        return is_in_range and has_right_kind

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter(self.name, case.expected_schedule.value(self.name), self.value),)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The value; nothing if it is a usual or a suggested one: then it was not solved from the
        data.
        """
        if self.value in self.usual_values or self.is_suggested:
            return ()
        return (self.value,)

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        # Schemes refuse a length of 131072.0.
        value = int(self.value) if self.is_whole else self.value
        return permitted(scheme, **{self.name: value})


class OtherBase(ParameterMistake):
    """The base of another model, or the default of 10000."""

    name = "base"
    summary = "the base (theta) of another model, or the default of 10000"
    seen_in = ("llama.cpp with Code Llama's theta of 1e6", "candle and MLX ports of Llama 3")
    smallest = 1.5
    largest = 1e12
    usual_values = USUAL_BASES
    rank = 0

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        for base in (10000.0, 500000.0, 1e6):
            if base != schedule.base:
                yield cls(base)


class OtherScale(ParameterMistake):
    """Positions multiplied by a number: a stride, seconds, degrees, a second rotation."""

    name = "scale"
    summary = "positions multiplied by a number: a stride, seconds, degrees, a second rotation"
    seen_in = ("timesteps of diffusion models (1000)", "caches that are rotated twice")
    smallest = 1e-4
    largest = 1e4
    usual_values = (2.0, 0.5, DEGREES, 1 / DEGREES, 2 * math.pi, 1000.0)
    weight = 1.1
    rank = 2

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield fitted scales and the usual ones: rows of a large scale lose whole turns, so that
        none is measured. Pairs that are counted from 1 also have all frequencies times one number.
        """
        yield cls(_scale_of_pairs_from_1(schedule), is_suggested=True)
        yield from super().proposals_for_schedule(case, schedule)
        for usual in cls.usual_values:
            yield cls(schedule.scale * usual)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        if self.value == _scale_of_pairs_from_1(case.expected_schedule):
            return (Parameter("first pair", 0, 1),)
        return super().edits(case)


def _scale_of_pairs_from_1(schedule: FrequencySchedule) -> float:
    """Return the scale that makes the frequencies of pairs 1, 2, 3, … from those of pairs 0, 1, 2, ….

    Pair i has the frequency base^(−i/denominator), so that all are multiplied by base^(−1/denominator):
    0.1 for the base 10000 and 4 pairs.
    """
    return schedule.scale * math.pow(schedule.base, -1 / schedule.denominator)


def has_decreasing_frequencies(waves: WaveComputation) -> bool:
    """Return False for a base of 1, with which all frequencies are 1, whatever the dimension is."""
    return schedule_of_waves(waves).base > 1


@dataclass(frozen=True)
class OtherExponentDim(ScheduleMistake):
    """Another dimension in the exponent: the head's for the rotary one, D − 2 for D, the hidden
    size.
    """

    dim: float
    summary = "another dimension in the exponent: head size for rotary size, D − 2 for D"
    seen_in = (
        "Phi-2 ports (rotary 32 of 80)",
        "fairseq's tables (D/2 − 1)",
        "GPT-NeoX's rotary_pct",
    )
    weight = 0.95
    rank = 1
    computation_needs = (has_schedule, has_decreasing_frequencies)
    data_needs = (show_frequencies,)

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        """Return the schedule with another exponent; its scaling goes on using the right one."""
        denominator = self.dim / 2
        if schedule.scaling == NO_SCALING:
            return replace(schedule, denominator=denominator)
        return replace(schedule, denominator=denominator, scaling_denominator=schedule.denominator)

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Fit the d of base^(−2i/d) to the measured frequencies; yield the usual sizes near it.

        A port of Phi-2 divides by the head size of 80, where its rotary part has d = 32.
        """

        def frequencies(dim: float) -> Floats:
            return cls(dim).plant_in_schedule(schedule).frequencies

        head_dim = case.scheme.value_of("dim", 2 * schedule.denominator)
        sizes = (*cls.sizes(schedule), head_dim)
        fit = fitted_number(frequencies, case.frequencies, sizes)
        yield from map(cls, numbers_near(sizes, fit.value, fit.error))

    @staticmethod
    def sizes(schedule: FrequencySchedule) -> Iterator[float]:
        """Yield the sizes at hand: multiples and halves of the dimension, one pair less, hidden
        sizes.
        """
        dim = 2 * schedule.denominator
        near = (dim - 2, dim + 2, dim - 1, dim + 1, dim / 2, 2 * dim, 4 * dim, 8 * dim, dim / 4)
        for size in dict.fromkeys((*near, *HIDDEN_SIZES)):
            if size > 1:
                yield size

    @classmethod
    def examples_for_schedule(cls, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield the dimension less 2, as fairseq has it, and twice the dimension."""
        dim = 2 * schedule.denominator
        for size in (dim - 2, 2 * dim):
            if size > 1:
                yield cls(size)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        edit = wave_edit(
            case.scheme, "denominator", case.expected_schedule.denominator, self.dim / 2
        )
        return (Parameter(edit.parameter, _as_integer(edit.expected), _as_integer(edit.found)),)


def _as_integer(value: float) -> float:
    """Return a whole number as an integer, and any other as it is: 128 for 128.0."""
    return round(value) if math.isclose(value, round(value)) else value


def has_several_pairs(waves: WaveComputation) -> bool:
    """Return True if only some pairs could rotate."""
    return schedule_of_waves(waves).pairs > 1


@dataclass(frozen=True)
class FewerPairs(ScheduleMistake):
    """Fewer or more pairs rotate than the model says; the others have angle 0."""

    pairs: int
    summary = "another number of pairs rotates (a partial rotary factor that is ignored)"
    seen_in = ("Gemma 4 ports (proportional RoPE)",)
    fitted = ("pairs",)
    data_needs = (show_frequencies,)
    example_needs = (has_several_pairs,)
    changes_reading = True  # Pairs that do not move show whatever frequencies the others have.

    def plant_in_schedule(self, schedule: FrequencySchedule) -> FrequencySchedule:
        return replace(schedule, rotating=self.pairs)

    @classmethod
    def proposals_for_schedule(cls, case: Case, schedule: FrequencySchedule) -> Iterator[Self]:
        """Yield how many pairs move, if these are the first ones and not as many as expected."""
        is_moving = case.frequencies.moving
        pairs = int(np.count_nonzero(is_moving))
        are_the_first = bool(is_moving[:pairs].all())
        if are_the_first and pairs != schedule.rotating_pairs:
            yield cls(pairs)

    @classmethod
    def suppositions_for_case(cls, case: Case) -> Iterator[Self]:
        """Yield how many pairs move, whatever their frequencies are: another mistake may have
        changed these.
        """
        if show_frequencies(case):
            yield from cls.proposals_for_schedule(case, schedule_of_waves(waves_of(case)))

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield half of the pairs, as a partial rotary factor of 0.5 that the model does not have."""
        yield cls(schedule_of_waves(waves).pairs // 2)

    def edits(self, case: Case) -> tuple[Edit, ...]:
        return (Parameter("rotating_pairs", case.expected_schedule.rotating_pairs, self.pairs),)


def _plain_amplitudes(measured: Fit, expected: float) -> Iterator[float]:
    """Yield the amplitudes near a measured one that are plain multiples of the expected amplitude,
    or plain numbers themselves.
    """
    for ratio in plain_numbers(measured.value / expected, measured.error / expected):
        yield expected * ratio
    yield from plain_numbers(measured.value, measured.error)


@dataclass(frozen=True)
class OtherAmplitude(WaveMistake):
    """Values scaled: an attention factor that is missing, applied twice, or another one."""

    value: float
    """The amplitude by which cosines and sines are multiplied."""
    expected: float
    """The amplitude that they should have, given the mistakes that are supposed already."""
    specified: float
    """The specified amplitude, which supposed mistakes may have changed.

    A supposed YaRN scaling expects its own 1.139; the amplitude may still be the specified 1.
    """
    summary = "an attention factor (mscale) that is missing or applied twice, or scaled values"
    seen_in = ("YaRN in early llama.cpp", "MLX-LM's YaRN", "Phi-3 ports without LongRoPE's factor")
    stage = Stage.FREQUENCIES
    weight = 1.1

    def plant_in_waves(self, waves: WaveComputation) -> WaveComputation:
        return replace(waves, amplitude=self.value)

    @classmethod
    def proposals_for_waves(cls, case: Case, waves: WaveComputation) -> Iterator[Self]:
        """Yield amplitudes for which there is a reason, then plain numbers near the measured one.

        With YaRN's factor of 1.139 expected, 1 is a missing factor and 1.139² one that is applied
        twice. A measured 2.278 is no plain number, but twice the expected 1.139. If another scaling
        is supposed, with another attention factor, a port may still multiply tables by the specified
        one, which is in the config.
        """
        expected = waves.amplitude
        specified = case.expected_waves.amplitude
        values = [1.0, expected**2, specified, specified**2]
        if case.measured_amplitude is not None:
            values += _plain_amplitudes(case.measured_amplitude, expected)
        yield from cls._except_expected(values, expected, specified)

    @classmethod
    def examples_for_waves(cls, waves: WaveComputation) -> Iterator[Self]:
        """Yield an attention factor that is missing, and one that is applied twice."""
        expected = waves.amplitude
        yield from cls._except_expected((1.0, expected**2), expected, specified=expected)

    @classmethod
    def _except_expected(
        cls, values: Iterable[float], expected: float, specified: float
    ) -> Iterator[Self]:
        """Yield the mistake with each value, once; the expected value is no mistake."""
        for value in dict.fromkeys(values):
            if value != expected:
                yield cls(value=value, expected=expected, specified=specified)

    @property
    def numbers(self) -> tuple[float, ...]:
        """The amplitude, or its ratio to the expected one, whichever is plainer.

        An amplitude for which there is a reason was not solved from the data.
        """
        reasons = (1.0, self.expected**2, self.specified, self.specified**2)
        if self.value in reasons:
            return ()
        return (min(self.value, self.value / self.expected, key=digits),)

    def scheme_after(self, scheme: Scheme) -> Scheme | None:
        """Return the scheme with the amplitude; as it is, if it has no parameter for it."""
        name = wave_edit(scheme, "amplitude", self.specified, self.value).parameter
        if not name:
            return scheme
        return permitted(scheme, **{name: self.value})

    def edits(self, case: Case) -> tuple[Edit, ...]:
        """Return the amplitude as a parameter of the scheme; as a factor, if it has none for it."""
        if isinstance(case.specification, FrequencyComputation):
            return (Parameter("scale", 1.0, self.value),)
        specified = case.expected_waves.amplitude
        edit = wave_edit(case.scheme, "amplitude", specified, self.value)
        if edit.parameter:
            return (Parameter(edit.parameter, edit.expected, edit.found),)
        return (Scaled(self.value / specified),)
