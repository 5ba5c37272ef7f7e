"""Schedules that frequencies may follow if nothing is known of them: usual ones, then fitted numbers."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.scalings.linear import Linear, Proportional
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn
from pecli.errors import number
from pecli.explain.catalogue.scalings import USUAL_FACTORS, USUAL_LENGTHS
from pecli.explain.catalogue.schedule_numbers import USUAL_BASES, OtherBase
from pecli.explain.frequency_schedule import NO_SCALING, FrequencySchedule, fitted_parameter
from pecli.explain.measure import (
    SIGMAS,
    Fit,
    MeasuredFrequencies,
    is_noise,
)
from pecli.explain.numbers import digits, plainest_number
from pecli.explain.time_limit import check_time

TIMESTEPS = 1000.0
"""Number by which diffusion models multiply positions from 0 to 1: most pairs then lose whole turns
per row.
"""

COST_PER_UNUSUAL_DIGIT = 0.1
"""Cost of each digit of a number that no model is known to have."""

TIMESTEPS_COST = 2 * COST_PER_UNUSUAL_DIGIT
"""Cost of positions that are multiplied by TIMESTEPS: as much as two digits that no model is known to
have, so that a schedule without a factor is preferred.
"""

NTK_COST = 0.25
"""Cost of NTK scaling by a plain factor: with one digit, less than that of a base of four digits,
which it replaces.
"""

PROPORTIONAL_COST = 0.3
"""Cost of pairs that do not turn: slow ones may only seem to stand still."""

MAX_NTK_DIGITS = 3
"""Digits of a factor of NTK scaling: any base is some usual base, stretched by a factor of nine
digits.
"""

MIN_STRETCH = 1.01
"""Ratio of a measured base to a usual one from which on it may be stretched by NTK scaling: below
it, it is that base.
"""

LONGROPE_COST = 3.0
"""Cost of one divisor per frequency: every other schedule is preferred."""

MIN_PAIRS = 4
"""Frequencies that a schedule with a bend has to explain: it has a base, a factor and a length."""

MAX_BLUR = 0.01
"""Relative error of most frequencies up to which bends are looked for: with larger ones, hundreds
of bends fit.
"""

MIN_DIVISORS = 6
"""Frequencies that have to be sharp enough to show whether LongRoPE's divisors are plain numbers.
"""

FLOAT32_ERROR = 1e-7
"""Relative error of a number in float32."""

FLOAT64_NUMBER_ERROR = 1e-9
"""Relative error of a number that is computed from frequencies in float64, with a wide margin."""

SHARP_DIVISOR = 1e-3
"""Error of a divisor that is known well: it shows two decimals."""

SAME_DIVISOR = 0.005
"""Difference of divisors below which they are one number, written with two decimals."""

HALF_HUNDREDTH = 0.005
"""Distance of any divisor from the nearest number of two decimals, at most."""

SMALLEST_DIVISOR = 0.5
LARGEST_DIVISOR = 2000.0
"""Divisors of LongRoPE: published ones are between 1 and 65, and its search may go beyond."""

RELATIVE_FACTOR_ERROR = 0.02
"""Relative error of a factor that is read off the slowest pair, which may not be divided by all of it."""

MIN_FACTOR = 1.05
"""Smallest factor of llama3 and YaRN scaling: below it, noise looks like one."""

KNOWN_TO = 1e-4
"""Relative standard error of a base from which on an answer states the doubt."""

LARGEST_LOG = 60.0
"""Logarithm of the largest base that is considered."""

UNUSUAL_COST = 4 * COST_PER_UNUSUAL_DIGIT
"""Cost of limits of YaRN that few models have."""

BETA_COSTS = {
    (32.0, 1.0): 0.0,
    (64.0, 1.0): UNUSUAL_COST,
    (16.0, 1.0): UNUSUAL_COST,
    (32.0, 2.0): UNUSUAL_COST,
    (64.0, 2.0): UNUSUAL_COST,
    (16.0, 2.0): UNUSUAL_COST,
    (128.0, 1.0): UNUSUAL_COST,
    (1.0, 1.0): UNUSUAL_COST,
}
"""Values of beta_fast and beta_slow that YaRN is used with, the paper's first and Kimi K2's last, and their costs."""

TRUNCATION_COSTS = {True: 0.0, False: COST_PER_UNUSUAL_DIGIT}
"""Values of YaRN's truncate, and their costs: only gpt-oss and its descendants do not truncate."""

LLAMA3_COSTS = {
    (1.0, 4.0): COST_PER_UNUSUAL_DIGIT,
    (1.0, 2.0): COST_PER_UNUSUAL_DIGIT,
    (1.0, 8.0): COST_PER_UNUSUAL_DIGIT,
    (2.0, 4.0): 2 * COST_PER_UNUSUAL_DIGIT,
    (1.0, 16.0): 2 * COST_PER_UNUSUAL_DIGIT,
    (2.0, 8.0): 2 * COST_PER_UNUSUAL_DIGIT,
}
"""Values of low_freq_factor and high_freq_factor of llama3 scaling, those of Llama 3.1 first, and their costs."""

DOUBT_OF_LLAMA3 = (
    "an original length k times as long, with both freq_factors k times as large, is the same"
)
DOUBT_OF_YARN = "other original lengths, with other beta_fast and beta_slow, give the same table"
DOUBTS_OF_LONGROPE = (
    "the base and the divisors are known only together",
    "short and long divisors are not told apart, nor is the original length",
    "the attention factor is as measured; a factor may have given it",
)


@dataclass(frozen=True)
class SchedulePrior:
    """A schedule to be tried, before the table is compared with it.

    Attributes:
        schedule: The rule for all frequencies, such as base^(−2i/dim) with a base of 10000.
        cost: How unlikely its numbers are; 0 for those of public models.
        doubts: Sentences about what the frequencies do not show.
    """

    schedule: FrequencySchedule
    cost: float = 0.0
    doubts: tuple[str, ...] = ()


def agreeing_schedules(
    candidates: Iterable[SchedulePrior], measured: MeasuredFrequencies
) -> list[SchedulePrior]:
    """Return those of some schedules that have as many pairs as were measured, and their frequencies."""
    pairs = len(measured.values)
    return _agreeing([prior for prior in candidates if prior.schedule.pairs == pairs], measured)


def rotary_schedules(measured: MeasuredFrequencies) -> list[SchedulePrior]:
    """Return the rules that rotary tables may have for their measured frequencies, the plainest first.

    Most have base^(−i/denominator) for pair i, or this with all frequencies divided by one factor. Only if
    none of these agrees, the scalings that bend the frequencies are tried: Llama 3's, YaRN and LongRoPE.
    """
    denominator = float(len(measured.values))
    plain_priors = _agreeing([*_rotary_schedules_of_series(measured, denominator)], measured)
    if plain_priors:
        return plain_priors
    bent_priors = [
        *_llama3_and_yarn_schedules(measured, denominator),
        *_longrope_schedules(measured, denominator),
    ]
    return _agreeing(bent_priors, measured)


def sinusoidal_schedules(
    measured: MeasuredFrequencies, denominators: tuple[float, ...]
) -> list[SchedulePrior]:
    """Return the schedules of sinusoidal tables that agree with measured frequencies, the plainest first.

    A prior is a schedule to be tried, base^(−i/denominator) for pair i, with the cost of its numbers.

    Args:
        measured: The frequencies of a table, one per pair.
        denominators: Denominators of the exponents, the usual one first: 256, 255 and 255.5 for 512 channels.
    """
    priors = []
    for rank, denominator in enumerate(denominators):
        cost_of_denominator = COST_PER_UNUSUAL_DIGIT * rank  # 0 for the usual one
        for prior in _added_schedules(measured, denominator):
            priors.append(replace(prior, cost=prior.cost + cost_of_denominator))
    return _agreeing(priors, measured)


def _agreeing(priors: list[SchedulePrior], measured: MeasuredFrequencies) -> list[SchedulePrior]:
    """Return those of some schedules that have the measured frequencies, the cheapest first."""
    agreeing = [prior for prior in priors if measured.agree_with(prior.schedule.frequencies)]
    return sorted(agreeing, key=lambda prior: prior.cost)


@dataclass(frozen=True)
class GeometricSeries:
    """Frequencies first · exp(−step · i) of pairs i, and the measured ones that belong to this series.

    The frequencies 0.25, 0.025 and 0.0025 are one, with first = 0.25 and step = ln(10).
    """

    first_frequency: Fit  # 1 for an unscaled schedule, 0.25 if all frequencies are divided by 4
    step: float
    members: MeasuredFrequencies  # with 0 for frequencies that do not belong to the series

    def unscaled_schedule(self, denominator: float) -> FrequencySchedule:
        """Return the schedule base^(−i/denominator) with the step of this series, whose first frequency is 1."""
        base = math.exp(self.step * denominator)
        return FrequencySchedule(len(self.members.values), denominator, base)

    @property
    def plainest_divisor(self) -> float:
        """The plainest number by which all frequencies may be divided: 4 if the first is 0.2499 ± 0.0002."""
        first, error = self.first_frequency
        return plainest_number(1 / first, error / first**2)


class LogLine(NamedTuple):
    """The line ln f = level − step · i, and the standard error of the level."""

    step: float
    level: float
    level_error: float

    @classmethod
    def fitted(cls, index: Indices, logs: Floats, errors: Floats) -> Self:
        """Return the line of weighted least squares."""
        weights = 1 / np.maximum(errors, 1e-15)
        (slope, level), covariance = np.polyfit(index, logs, 1, w=weights, cov="unscaled")
        return cls(-float(slope), float(level), math.sqrt(covariance[1, 1]))

    @property
    def scale(self) -> Fit:
        """The frequency of pair 0 on the line, exp(level). Its relative error is that of the level."""
        scale = math.exp(min(self.level, LARGEST_LOG))
        relative_error = SIGMAS * self.level_error + FLOAT32_ERROR
        return Fit(scale, relative_error * scale)

    def holds(self, index: Indices, logs: Floats, errors: Floats) -> Flags:
        """Return which logarithms of frequencies lie on the line."""
        distances = np.abs(logs - self.level + self.step * index)
        return is_noise(distances, np.hypot(errors, self.level_error))


def _possible_series(
    measured: MeasuredFrequencies, denominator: float
) -> Iterator[GeometricSeries]:
    """Yield the geometric series first · exp(−step · i) that is nearest to frequencies, if it may be a schedule's.

    It is a straight line in logarithms: 1, 0.1, 0.01 are 0, −2.3, −4.6. Some frequencies may not lie on
    this line: they are 0 among the members of the series. Nothing is yielded if fewer than two
    frequencies are known, or if they do not fall as those of any base in use do.
    """
    known_pairs = np.flatnonzero(measured.is_known & (measured.values > 0))
    if len(known_pairs) < 2:
        return
    logs = np.log(measured.values[known_pairs])
    errors = measured.errors[known_pairs] / measured.values[known_pairs]
    line = _fit_logarithms(known_pairs, logs, errors)
    if not 0 < line.step * denominator < LARGEST_LOG:
        return
    pairs_on_line = known_pairs[line.holds(known_pairs, logs, errors)]
    values_on_line = np.zeros_like(measured.values)
    values_on_line[pairs_on_line] = measured.values[pairs_on_line]
    yield GeometricSeries(
        first_frequency=line.scale,
        step=line.step,
        members=measured._replace(values=values_on_line),
    )


def _fit_logarithms(pairs: Indices, logs: Floats, errors: Floats) -> LogLine:
    """Return the line on which most logarithms of frequencies lie.

    The slow half is fitted first, since it never loses whole turns: a pair that turns by 6 radians per
    row looks as if it turned by −0.28. Then the line is fitted twice again, to all that lie on it.

    Args:
        pairs: The indices of the frequencies, in ascending order: later ones are slower.
        logs: Their logarithms.
        errors: The errors of these.
    """
    first_slow = (len(pairs) - 1) // 2  # At least two pairs are slow.
    is_on_line: Flags = np.arange(len(pairs)) >= first_slow
    for _ in range(3):
        line = LogLine.fitted(pairs[is_on_line], logs[is_on_line], errors[is_on_line])
        is_on_line = line.holds(pairs, logs, errors)
        if np.count_nonzero(is_on_line) < 2:
            return line
    return line


def _rotary_schedules_of_series(
    measured: MeasuredFrequencies, denominator: float
) -> Iterator[SchedulePrior]:
    """Yield rotary schedules whose frequencies are a geometric series: 1, 0.1, 0.01, 0.001.

    Pair i has the frequency base^(−i/denominator), here with the base 10000 and the denominator 4. All
    frequencies may be divided by one factor. Or the last ones are 0, since only the first pairs rotate.

    Args:
        measured: The frequencies of a table.
        denominator: The number of pairs, by which exponents are divided.
    """
    rotating_pairs = _count_rotating_pairs(measured)
    for series in _possible_series(measured, denominator):
        unscaled = series.unscaled_schedule(denominator)
        # If the frequencies show the base 499998 ± 5, somebody may have written 500000, or 499998.
        yield from _with_each_possible_base(_unscaled_or_linear(unscaled, series), series.members)
        if rotating_pairs < unscaled.pairs:
            proportional = _with_proportional_scaling(unscaled, series, rotating_pairs)
            yield from _with_each_possible_base(proportional, series.members)


def _added_schedules(measured: MeasuredFrequencies, denominator: float) -> Iterator[SchedulePrior]:
    """Yield schedules of a table that is added to embeddings: those of timesteps, then the fitted ones.

    Pair i has the frequency scale · base^(−i/denominator), where the scale is what positions are
    multiplied by: 1000 for the timesteps of diffusion models. These are tried with each usual base and
    without a look at the frequencies, which cannot be measured: pair 0 turns by 1000 radians from row
    to row, and whole turns do not show.
    """
    for base in USUAL_BASES:
        timesteps = FrequencySchedule(len(measured.values), denominator, base, TIMESTEPS)
        yield SchedulePrior(timesteps, TIMESTEPS_COST)
    for series in _possible_series(measured, denominator):
        with_scale = _with_scale_of_positions(series.unscaled_schedule(denominator), series)
        yield from _with_each_possible_base(with_scale, series.members)


def _with_proportional_scaling(
    schedule: FrequencySchedule, series: GeometricSeries, rotating_pairs: int
) -> SchedulePrior:
    """Return a schedule by which only the first pairs rotate, as proportional scaling has it.

    Proportional scaling may divide all frequencies by a factor as well: by 4 if that of pair 0 is 0.25. The
    schedule costs more than one in which all pairs rotate, so that it is tried later.

    Args:
        schedule: The schedule without a scaling.
        series: The fitted frequencies of the pairs that rotate.
        rotating_pairs: The number of pairs that rotate.
    """
    factor = series.plainest_divisor
    proportional = replace(schedule, scaling=Proportional(factor), rotating=rotating_pairs)
    return SchedulePrior(proportional, PROPORTIONAL_COST + _cost_of_factor(factor))


def _unscaled_or_linear(unscaled: FrequencySchedule, series: GeometricSeries) -> SchedulePrior:
    """Return a schedule without a scaling if the first frequency is 1, or else with linear scaling.

    Linear scaling divides all frequencies by one factor: by 4 if the first is 0.25.
    """
    factor = series.plainest_divisor
    if factor == 1:
        return SchedulePrior(unscaled)
    return SchedulePrior(replace(unscaled, scaling=Linear(factor)), _cost_of_factor(factor))


def _with_scale_of_positions(unscaled: FrequencySchedule, series: GeometricSeries) -> SchedulePrior:
    """Return a schedule with a scale: a number by which all positions are multiplied, such as 0.5 or 1/3.

    The scale is the frequency of pair 0, which is 1 without a scale. A number of many digits makes a
    schedule unlikely, so that each digit has a cost.

    Args:
        unscaled: The schedule without a scale.
        series: The fitted frequencies.
    """
    factor = plainest_number(*series.first_frequency)  # 0.333333
    divisor = series.plainest_divisor  # 3
    if digits(divisor) < digits(factor):
        return SchedulePrior(replace(unscaled, scale=1 / divisor), _cost_of_factor(divisor))
    return SchedulePrior(replace(unscaled, scale=factor), _cost_of_factor(factor))


def _count_rotating_pairs(measured: MeasuredFrequencies) -> int:
    """Return the number of pairs up to the last one that certainly turns; 0 if none does."""
    rotating_pairs = np.flatnonzero(measured.moving)
    last_rotating = int(rotating_pairs.max(initial=-1))
    return last_rotating + 1


def _with_each_possible_base(
    candidate: SchedulePrior, measured: MeasuredFrequencies
) -> Iterator[SchedulePrior]:
    """Yield a schedule with each base that somebody may have written for the one that frequencies show.

    If they show 499,998 ± 5, somebody may have written 500,000. If they show 40889.94, it may be the
    base 10000 with NTK scaling, which replaces the base.

    Args:
        candidate: A schedule with a first guess of its base, how unlikely its other numbers are (its
            cost), and what the frequencies do not show (its doubts).
        measured: The frequencies of a table.
    """
    schedule = candidate.schedule
    measured_base = _fit_base(schedule, measured)
    doubts = (*candidate.doubts, *_doubts_of_base(measured_base))
    for base in _possible_bases(schedule, measured_base, measured):
        cost = candidate.cost + _cost_of_base(base)
        yield SchedulePrior(schedule.having("base", base), cost, doubts)
    is_unscaled = schedule.scaling == NO_SCALING and schedule.scale == 1
    if is_unscaled:  # NTK schedules have costs and doubts of their own.
        yield from _ntk_schedules(schedule, measured_base)


def _doubts_of_base(base_fit: Fit) -> Iterator[str]:
    """Yield a doubt if a base is measured vaguely: 10000 ± 500, with an error of 5 %."""
    is_vague = base_fit.error > SIGMAS * KNOWN_TO * base_fit.value
    if is_vague:
        yield f"the base is known within {number(base_fit.error, 1)}"


def _possible_bases(
    schedule: FrequencySchedule, base_fit: Fit, measured: MeasuredFrequencies
) -> list[float]:
    """Return the bases that somebody may have written for the measured one, each once.

    Frequencies that were computed in float32 are off by 1e-6, which hides later digits of the base. So the
    base is fitted once more, with the smaller errors of frequencies that were computed in float64.
    """
    bases = [*OtherBase.plain_values_near(base_fit.value, base_fit.error)]
    sharp_fit = _fit_base(
        schedule, measured.sharpened
    )  # NaN, which gives no frequencies, if none fits
    bases += [plainest_number(*sharp_fit), sharp_fit.value]
    return list(dict.fromkeys(bases))


def _fit_base(schedule: FrequencySchedule, measured: MeasuredFrequencies) -> Fit:
    """Return the base with which a schedule gives measured frequencies, from its own base on; or NO_FIT.

    A second start shows which frequencies depend on the base: all but that of pair 0, which is 1.
    """
    return fitted_parameter(schedule, "base", measured, (schedule.base, 2 * schedule.base))


def _cost_of_base(base: float) -> float:
    """Return how unlikely a base is: 0 for those of public models, 0.1 per digit for others."""
    return _cost_of_number(base, usual=USUAL_BASES)


def _cost_of_factor(factor: float) -> float:
    """Return how unlikely a factor of all frequencies is: 0 for 1, which changes none, 0.1 per digit for others."""
    return _cost_of_number(factor, usual=(1.0,))


def _cost_of_number(value: float, usual: tuple[float, ...] = ()) -> float:
    """Return how unlikely a number is, 0 for usual ones: else 0.1 per digit, 0.3 for 1.25."""
    return 0.0 if value in usual else COST_PER_UNUSUAL_DIGIT * digits(value)


def _ntk_schedules(unscaled: FrequencySchedule, measured_base: Fit) -> Iterator[SchedulePrior]:
    """Yield usual bases with NTK scaling, if they give the frequencies of a measured, unusual base.

    NTK scaling by a factor s replaces the base b by b · s^(d/(d − 2)), for d channels. So the base
    40889.94, which nobody writes, may be 10000 with the factor 4, if d = 128.

    Args:
        unscaled: The schedule without a scaling, whose `denominator` is d/2.
        measured_base: The base that the frequencies show, and its error.
    """
    for usual_base in USUAL_BASES:
        is_stretched = (
            measured_base.value > MIN_STRETCH * usual_base
        )  # NTK only makes bases larger.
        factor = plainest_number(*_ntk_factor(measured_base, usual_base, unscaled.denominator))
        # Some factor of many digits leads from any usual base to any other base, by chance.
        if is_stretched and digits(factor) <= MAX_NTK_DIGITS:
            yield SchedulePrior(
                schedule=replace(unscaled, base=usual_base, scaling=Ntk(factor)),
                cost=NTK_COST + _cost_of_number(factor),
                doubts=(_doubt_of_ntk(measured_base),),
            )


def _doubt_of_ntk(measured_base: Fit) -> str:
    """Return the sentence that warns of NTK scaling: other settings make the very same frequencies.

    Dynamic scaling by a factor f stretches a context of M positions to L as NTK by f · L/M − (f − 1).
    For NTK by 3 and twice the context, f is 2.
    """
    return (
        f"base {measured_base.value:.6g} without scaling is the same table, "
        "and so is dynamic scaling with the factor that its lengths require"
    )


def _ntk_factor(measured_base: Fit, usual_base: float, half_dim: float) -> Fit:
    """Return the factor s by which NTK scaling stretches a usual base b to a measured one, b · s^(d/(d − 2)).

    It is s = (measured / b)^e with e = (d − 2)/d. A relative error of the base is e times as large in s.

    Args:
        measured_base: The measured base, and its error.
        usual_base: The base b.
        half_dim: d/2.
    """
    exponent = 1 - 1 / half_dim  # (d − 2)/d
    factor = (measured_base.value / usual_base) ** exponent
    error = factor * exponent * measured_base.error / measured_base.value
    return Fit(factor, error + FLOAT64_NUMBER_ERROR)


@dataclass(frozen=True)
class ScalingPrior:
    """A llama3 or YaRN scaling to be tried.

    Attributes:
        scaling: The scaling, with some original length. Usual ones are tried in its place.
        cost: How unlikely its settings are; 0 for the usual ones.
        doubt: A sentence about what the frequencies do not show.
    """

    scaling: Scaling
    cost: float
    doubt: str


def _llama3_and_yarn_scalings(factor: float) -> Iterator[ScalingPrior]:
    """Yield llama3 and YaRN scalings by a factor, with all settings that models are known to have.

    A setting that fewer models have costs more, so that it is preferred only if the usual ones fail.
    """
    any_length = 8192  # The caller tries all usual lengths in its place.
    for (low, high), cost in LLAMA3_COSTS.items():
        yield ScalingPrior(Llama3(factor, any_length, low, high), cost, DOUBT_OF_LLAMA3)
    limits = product(TRUNCATION_COSTS.items(), BETA_COSTS.items())
    for (truncate, cost_of_truncation), ((fast, slow), cost_of_betas) in limits:
        scaling = Yarn(any_length, factor, beta_fast=fast, beta_slow=slow, truncate=truncate)
        yield ScalingPrior(scaling, cost_of_truncation + cost_of_betas, DOUBT_OF_YARN)


def _llama3_and_yarn_schedules(
    measured: MeasuredFrequencies, denominator: float
) -> Iterator[SchedulePrior]:
    """Yield llama3 and YaRN schedules, which divide slow frequencies by a factor, and not fast ones.

    Llama 3.1 (base 500000, factor 8, 64 pairs) has the frequencies of its base in pairs 0 to 28,
    and an eighth of them in pairs 35 to 63. So the first pairs give the base, and the last one the
    factor.

    Args:
        measured: The frequencies of a table, one per pair.
        denominator: Half of the channels: without a scaling, pair i has the frequency base^(−i/denominator).
    """
    known_pairs = np.flatnonzero(measured.is_known & (measured.values > 0))
    if not _may_show_a_bend(measured, known_pairs):
        return
    for base in _bases_of_fast_pairs(measured, known_pairs, denominator):
        unscaled = FrequencySchedule(pairs=len(measured.values), denominator=denominator, base=base)
        fitted_factor = _factor_of_slowest_pair(unscaled, measured, int(known_pairs[-1]))
        for factor in dict.fromkeys((fitted_factor, *USUAL_FACTORS)):  # each once
            # No pair is divided by more than the factor. The slowest may be known to 25 % only.
            if factor >= fitted_factor / 2:
                yield from _schedules_of_factor(unscaled, factor, measured)


def _may_show_a_bend(measured: MeasuredFrequencies, known_pairs: Indices) -> bool:
    """Return True if frequencies are so many and so sharp that few llama3 or YaRN scalings agree by chance."""
    if len(known_pairs) < MIN_PAIRS:
        return False
    relative_errors = measured.errors[known_pairs] / measured.values[known_pairs]
    return bool(np.median(relative_errors) <= MAX_BLUR)


def _factor_of_slowest_pair(
    unscaled: FrequencySchedule, measured: MeasuredFrequencies, slowest: int
) -> float:
    """Return the plainest factor by which the slowest frequency may have been divided: 8 for a ratio of 0.1249.

    The slowest pair shows the factor of the scaling best, since it is divided by all of it.
    """
    factor = float(unscaled.frequencies[slowest] / measured.values[slowest])
    return max(MIN_FACTOR, plainest_number(factor, RELATIVE_FACTOR_ERROR * factor))


def _bases_of_fast_pairs(
    measured: MeasuredFrequencies, known_pairs: Indices, denominator: float
) -> Iterator[float]:
    """Yield the usual bases with which the two fastest pairs have their measured frequencies.

    Without a scaling, pair i has the frequency base^(−i/denominator). Llama3 and YaRN scaling change only
    slow pairs, so that the fastest ones still show the base. Pair 0 has the frequency 1 with every base,
    so that the pair after it is needed as well.

    Args:
        measured: The frequencies, with their errors.
        known_pairs: The pairs whose frequencies could be measured, in ascending order.
        denominator: Half of the channels.
    """
    fast_pairs = known_pairs[:2]
    for base in USUAL_BASES:
        expected = base ** (-fast_pairs / denominator)
        distances = np.abs(measured.values[fast_pairs] - expected)
        if is_noise(distances, measured.errors[fast_pairs]).all():
            yield base


def _schedules_of_factor(
    unscaled: FrequencySchedule, factor: float, measured: MeasuredFrequencies
) -> Iterator[SchedulePrior]:
    """Yield the llama3 and YaRN schedules that have one factor and give the measured frequencies.

    Both scalings divide slow frequencies by the factor. A pair of Llama 3.1 counts as slow if it turns less
    than once in the original length, 8192. Models have other lengths and other such settings, and all of
    them are tried.

    Args:
        unscaled: The schedule without scaling.
        factor: The number by which slow frequencies are divided.
        measured: The frequencies that the schedules have to give.
    """
    cost_of_factor_and_base = _cost_of_number(factor) + _cost_of_base(unscaled.base)
    for prior in _llama3_and_yarn_scalings(factor):
        check_time()  # It raises an error if the time limit of the search is over.
        scaled = replace(unscaled, scaling=prior.scaling)
        for length in _usual_lengths_that_agree(scaled, measured):
            yield SchedulePrior(
                schedule=scaled.having("original_max_position_embeddings", length),
                cost=prior.cost + cost_of_factor_and_base,
                doubts=(prior.doubt,),
            )


def _usual_lengths_that_agree(
    schedule: FrequencySchedule, measured: MeasuredFrequencies
) -> list[int]:
    """Return the usual original lengths with which a schedule has the measured frequencies.

    All lengths are tried at once, one per row: the frequencies are then (lengths, pairs).
    """
    lengths = np.array(USUAL_LENGTHS)
    one_per_row: Any = {"original_max_position_embeddings": lengths[:, None]}
    scaling = replace(schedule.scaling, **one_per_row)
    frequencies = replace(schedule, scaling=scaling).frequencies
    return [int(length) for length in lengths[measured.agreeing(frequencies)]]


def _longrope_schedules(
    measured: MeasuredFrequencies, denominator: float
) -> Iterator[SchedulePrior]:
    """Yield the schedule of LongRoPE, which divides each frequency by a number of its own, or nothing.

    Phi-3 divides 10000^(−i/48) by 1.05, 1.1, … 64.5. With a wrong base the divisors would have many
    decimals. So the first usual base is taken with which they have few.

    Args:
        measured: The frequencies of a table, one per pair.
        denominator: Half of the channels: without a scaling, pair i has the frequency base^(−i/denominator).
    """
    has_only_one_function = measured.is_folded
    if has_only_one_function:
        return  # So many divisors are supposed only if cosines and sines show them together.
    for base in USUAL_BASES:
        unscaled = FrequencySchedule(len(measured.values), denominator, base)
        divisors = MeasuredDivisors.of(unscaled, measured)
        if divisors.are_of_longrope(measured.is_known):
            yield SchedulePrior(
                schedule=replace(unscaled, scaling=_longrope_with_divisors(divisors.plainest())),
                cost=LONGROPE_COST,
                doubts=DOUBTS_OF_LONGROPE,
            )
            return


def _longrope_with_divisors(divisors: tuple[float, ...]) -> LongRope:
    """Return LongRoPE with the same divisors for short and for long prompts.

    Which of its two lists was used depends on the original length, which nothing in a table shows.
    """
    return LongRope(
        original_max_position_embeddings=4096,
        short_factor=divisors,
        long_factor=divisors,
        attention_factor=1.0,
    )


class MeasuredDivisors(NamedTuple):
    """The number by which each frequency was divided, and its standard error."""

    values: Floats
    errors: Floats
    is_sharp: Flags  # whether it is known so well that it shows two decimals

    @classmethod
    def of(cls, unscaled: FrequencySchedule, measured: MeasuredFrequencies) -> Self:
        """Return the numbers by which unscaled frequencies were divided to give the measured ones.

        A pair that hardly turns must have a divisor as well, though its frequency may be measured as 0.
        The frequency is taken to be half of its error at least, and the divisor to be known to 1 %:
        whatever it is, it changes nothing in the table.
        """
        is_known = measured.is_known
        frequencies_above_0 = np.maximum(measured.values, np.maximum(measured.errors / 2, 1e-30))
        divisors = unscaled.frequencies / np.where(is_known, measured.values, frequencies_above_0)
        relative_errors = np.where(is_known, measured.errors / frequencies_above_0, 0.01)
        errors = np.abs(divisors) * relative_errors
        return cls(divisors, errors, (errors < SHARP_DIVISOR) & is_known)

    def are_of_longrope(self, is_known: Flags) -> bool:
        """Return True if the divisors are different numbers with two or three decimals: 1.05, 1.1, … 64.5 in Phi-3.

        Only divisors that are measured sharply, such as 1.0501 ± 0.0002, can show so few decimals. Linear
        scaling has one divisor for all pairs, and YaRN's have many decimals.

        Args:
            is_known: True for pairs whose frequencies are known.
        """
        sharp = self.values[self.is_sharp]
        known = self.values[is_known]
        are_enough = len(sharp) >= MIN_DIVISORS
        are_of_usual_size = bool(((known >= SMALLEST_DIVISOR) & (known <= LARGEST_DIVISOR)).all())
        are_different = float(sharp.max(initial=0.0) - sharp.min(initial=0.0)) >= SAME_DIVISOR
        if not (are_enough and are_of_usual_size and are_different):
            return False
        return self._have_few_decimals

    @property
    def _have_few_decimals(self) -> bool:
        """True if each sharp divisor may be a number of two decimals.

        1.0803 ± 0.0001 may be 1.08, but near 1.0853 ± 0.0001 there is no number of two decimals. Divisors
        that are known to half of the fourth decimal may have three.
        """
        errors = self.errors[self.is_sharp]
        # 1.0803 · 100 = 108.03 is 0.03 from a whole number, so that 1.0803 is 0.0003 from 1.08.
        units_per_number = np.where(errors < 5e-5, 1000.0, 100.0)  # thousandths or hundredths
        in_units = self.values[self.is_sharp] * units_per_number
        distances = np.abs(in_units - np.rint(in_units)) / units_per_number
        return bool((distances <= 4 * errors + FLOAT64_NUMBER_ERROR).all())

    def plainest(self) -> tuple[float, ...]:
        """Return the plainest number near each divisor: 1.08 for 1.0803 ± 0.0001.

        Divisors that are known well get the plainest number within four errors, and others the nearest one
        of two decimals. Those of pairs that hardly turn change nothing, so that any number nearby is as
        good.
        """
        allowed_errors_of_others = np.maximum(self.errors / 16, HALF_HUNDREDTH)
        allowed_errors = np.where(self.is_sharp, 4 * self.errors, allowed_errors_of_others)
        return tuple(map(plainest_number, self.values.tolist(), allowed_errors.tolist()))
