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
from pecli.explain.frequency_schedule import NO_SCALING, FrequencySchedule, fit_parameter
from pecli.explain.measure import (
    FLOAT32_POWER_ERROR,
    MAX_SIGMAS,
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

SMALLEST_RATIO = 1e-9
"""Share of its frequency that the slowest pair is taken to have at least, so that it can be divided by."""

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
    priors = [prior for prior in candidates if prior.schedule.pairs == pairs]
    return _agreeing(priors, measured)


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

    def has_possible_base(self, denominator: float) -> bool:
        """Return True if frequencies fall, and their base is not larger than any in use."""
        return 0 < self.step * denominator < LARGEST_LOG

    def unscaled_schedule(self, denominator: float) -> FrequencySchedule:
        """Return the schedule base^(−i/denominator) with the step of this series, whose first frequency is 1."""
        base = math.exp(self.step * denominator)
        return FrequencySchedule(len(self.members.values), denominator, base)

    @property
    def plainest_divisor(self) -> float:
        """The plainest number by which all frequencies may be divided: 4 if the first is 0.2499 ± 0.0002."""
        return _with_fewest_digits(_inverse(self.first_frequency))


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
        relative_error = SIGMAS * self.level_error + FLOAT64_NUMBER_ERROR
        return Fit(scale, relative_error * scale)

    def holds(self, index: Indices, logs: Floats, errors: Floats) -> Flags:
        """Return which logarithms of frequencies lie on the line."""
        distances = np.abs(logs - self.level + self.step * index)
        return is_noise(distances, np.hypot(errors, self.level_error))


def fit_geometric_series(measured: MeasuredFrequencies) -> GeometricSeries | None:
    """Fit a geometric series, first · exp(−step · i), to frequencies; None if fewer than two are known.

    It is a straight line in logarithms: 1, 0.1, 0.01 are 0, −2.3, −4.6. Some frequencies may not lie on
    this line: they are 0 among the members of the series.
    """
    known_pairs = np.flatnonzero(measured.is_known & (measured.values > 0))
    if len(known_pairs) < 2:
        return None
    logs = np.log(measured.values[known_pairs])
    errors = measured.errors[known_pairs] / measured.values[known_pairs]
    line = _fit_logarithms(known_pairs, logs, errors)
    pairs_on_line = known_pairs[line.holds(known_pairs, logs, errors)]
    values_on_line = np.zeros_like(measured.values)
    values_on_line[pairs_on_line] = measured.values[pairs_on_line]
    return GeometricSeries(
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
    has_slow_half = len(pairs) > MIN_PAIRS
    first_slow = len(pairs) // 2 if has_slow_half else 0
    line = LogLine.fitted(pairs[first_slow:], logs[first_slow:], errors[first_slow:])
    for _ in range(2):
        is_on_line = line.holds(pairs, logs, errors)
        if np.count_nonzero(is_on_line) < 2:
            return line
        line = LogLine.fitted(pairs[is_on_line], logs[is_on_line], errors[is_on_line])
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
    series = fit_geometric_series(measured)
    if series is None or not series.has_possible_base(denominator):
        return
    unscaled = series.unscaled_schedule(denominator)
    # If the frequencies show the base 499998 ± 5, somebody may have written 500000, or 499998.
    unscaled_or_linear = _unscaled_or_linear(unscaled, series)
    yield from _with_each_possible_base(unscaled_or_linear, series.members)
    rotating_pairs = _count_rotating_pairs(measured)
    if rotating_pairs < unscaled.pairs:
        proportional = _with_proportional_scaling(unscaled, series, rotating_pairs)
        yield from _with_each_possible_base(proportional, series.members)


def _added_schedules(measured: MeasuredFrequencies, denominator: float) -> Iterator[SchedulePrior]:
    """Yield schedules of a table that is added to embeddings: those of timesteps, then the fitted ones.

    Pair i has the frequency scale · base^(−i/denominator), where the scale is what positions are
    multiplied by.
    """
    yield from _schedules_of_timesteps(len(measured.values), denominator)
    yield from _added_schedules_of_series(measured, denominator)


def _schedules_of_timesteps(pairs: int, denominator: float) -> Iterator[SchedulePrior]:
    """Yield the schedules of diffusion timesteps, 1000 · base^(−i/denominator), with each usual base.

    They are tried without a look at the frequencies, which cannot be measured: pair 0 turns by 1000
    radians from row to row, and whole turns do not show.
    """
    for base in USUAL_BASES:
        timesteps = FrequencySchedule(pairs, denominator, base, TIMESTEPS)
        yield SchedulePrior(timesteps, TIMESTEPS_COST)


def _added_schedules_of_series(
    measured: MeasuredFrequencies, denominator: float
) -> Iterator[SchedulePrior]:
    """Yield schedules of added tables whose frequencies are a geometric series: 0.5, 0.05, 0.005, 0.0005.

    These are 0.5 · base^(−i/denominator) with the base 10000 and the denominator 4.
    """
    series = fit_geometric_series(measured)
    if series is not None and series.has_possible_base(denominator):
        unscaled = series.unscaled_schedule(denominator)
        with_scale = _with_scale_of_positions(unscaled, series)
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
    cost = PROPORTIONAL_COST
    if factor != 1:
        cost += _cost_of_number(factor)
    return SchedulePrior(proportional, cost)


def _is_unscaled(series: GeometricSeries) -> bool:
    """Return True if the first frequency is 1, as it is unless something multiplies all of them."""
    first_frequency, error = series.first_frequency
    return math.isclose(first_frequency, 1, rel_tol=0, abs_tol=max(error, FLOAT32_ERROR))


def _unscaled_or_linear(unscaled: FrequencySchedule, series: GeometricSeries) -> SchedulePrior:
    """Return a schedule without a scaling if the first frequency is 1, or else with linear scaling.

    Linear scaling divides all frequencies by one factor: by 4 if the first is 0.25.
    """
    if _is_unscaled(series):
        return SchedulePrior(unscaled)
    factor = series.plainest_divisor
    return SchedulePrior(replace(unscaled, scaling=Linear(factor)), _cost_of_number(factor))


def _with_scale_of_positions(unscaled: FrequencySchedule, series: GeometricSeries) -> SchedulePrior:
    """Return a schedule with a scale: a number by which all positions are multiplied, such as 0.5 or 1/3.

    The scale is the frequency of pair 0, which is 1 without a scale. A number of many digits makes a
    schedule unlikely, so that each digit has a cost.

    Args:
        unscaled: The schedule without a scale.
        series: The fitted frequencies.
    """
    if _is_unscaled(series):
        return SchedulePrior(unscaled)
    factor = _with_fewest_digits(series.first_frequency)  # 0.333333
    divisor = series.plainest_divisor  # 3
    if digits(divisor) < digits(factor):
        divided = replace(unscaled, scale=1 / divisor)
        return SchedulePrior(divided, _cost_of_number(divisor))
    multiplied = replace(unscaled, scale=factor)
    return SchedulePrior(multiplied, _cost_of_number(factor))


def _inverse(fit: Fit) -> Fit:
    """Return 1/x for a number x, with its error: 0.25 ± 0.01 for 4 ± 0.16."""
    return Fit(1 / fit.value, fit.error / fit.value**2)


def _with_fewest_digits(fit: Fit) -> float:
    """Return the number with the fewest digits within the error of a fitted one: 500000 for 499998 ± 5."""
    return plainest_number(fit.value, fit.error)


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
    if measured_base is None:
        return
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
    sharp_fit = _fit_base(schedule.having("base", base_fit.value), measured.sharpened)
    if sharp_fit is not None:
        bases += [_with_fewest_digits(sharp_fit), sharp_fit.value]
    return list(dict.fromkeys(bases))


def _fit_base(schedule: FrequencySchedule, measured: MeasuredFrequencies) -> Fit | None:
    """Return the base with which a schedule gives measured frequencies, from its own base on.

    A second start shows which frequencies depend on the base: all but that of pair 0, which is 1.
    """
    return fit_parameter(schedule, "base", measured, (schedule.base, 2 * schedule.base))


def _cost_of_base(base: float) -> float:
    """Return how unlikely a base is: 0 for those of public models, 0.1 per digit for others."""
    return 0.0 if base in USUAL_BASES else _cost_of_number(base)


def _cost_of_number(value: float) -> float:
    """Return how unlikely a number is that no model is known to have: 0.1 per digit, 0.3 for 1.25."""
    return COST_PER_UNUSUAL_DIGIT * digits(value)


def _ntk_schedules(unscaled: FrequencySchedule, measured_base: Fit) -> Iterator[SchedulePrior]:
    """Yield usual bases with NTK scaling, if they give the frequencies of a measured, unusual base.

    NTK scaling by a factor s replaces the base b by b · s^(d/(d − 2)), for d channels. So the base
    40889.94, which nobody writes, may be 10000 with the factor 4, if d = 128.

    Args:
        unscaled: The schedule without a scaling, whose `denominator` is d/2.
        measured_base: The base that the frequencies show, and its error.
    """
    for usual_base in USUAL_BASES:
        if measured_base.value / usual_base <= MIN_STRETCH:
            continue  # It is the usual base, or smaller: NTK scaling only makes bases larger.
        fitted_factor = _ntk_factor(measured_base, usual_base, unscaled.denominator)
        factor = _with_fewest_digits(fitted_factor)
        # Some factor of many digits leads from any usual base to any other base, by chance.
        if digits(factor) <= MAX_NTK_DIGITS:
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
        for factor in _possible_factors(unscaled, measured, known_pairs):
            yield from _schedules_of_factor(unscaled, factor, measured)


def _may_show_a_bend(measured: MeasuredFrequencies, known_pairs: Indices) -> bool:
    """Return True if frequencies are so many and so sharp that few llama3 or YaRN scalings agree by chance."""
    if len(known_pairs) < MIN_PAIRS:
        return False
    relative_errors = measured.errors[known_pairs] / measured.values[known_pairs]
    return bool(np.median(relative_errors) <= MAX_BLUR)


def _possible_factors(
    unscaled: FrequencySchedule, measured: MeasuredFrequencies, known_pairs: Indices
) -> Iterator[float]:
    """Yield factors by which llama3 or YaRN scaling may have divided frequencies, the fitted one first.

    A factor of 8 divides fast frequencies by 1, slow ones by 8, and those between by 1 to 8. So the
    ratios of scaled to unscaled frequencies are 1 1 0.7 0.125 0.125, never above 1 or below 1/8.

    Args:
        unscaled: The schedule without scaling.
        measured: The frequencies of the table, and their errors.
        known_pairs: The indices of the frequencies that are known and not 0, the slowest last.
    """
    unscaled_frequencies = unscaled.frequencies[known_pairs]
    ratios = measured.values[known_pairs] / unscaled_frequencies
    # Measured frequencies may be off by so many standard errors. A model computes the powers of its
    # base in float32, which moves all ratios slightly.
    allowed_errors = MAX_SIGMAS * measured.errors[known_pairs]
    tolerance = allowed_errors / unscaled_frequencies + FLOAT32_POWER_ERROR
    if (ratios > 1 + tolerance).any():
        return
    fitted_factor = _factor_of_slowest_pair(ratio=float(ratios[-1]))
    factors_to_try = dict.fromkeys((fitted_factor, *USUAL_FACTORS))  # each once
    for factor in factors_to_try:
        smallest_ratio = 1 / factor
        is_below_smallest = ratios < smallest_ratio - tolerance
        if factor > MIN_FACTOR and not is_below_smallest.any():
            yield factor


def _factor_of_slowest_pair(ratio: float) -> float:
    """Return the plainest factor by which the slowest frequency may have been divided: 8 for a ratio of 0.1249.

    The slowest pair shows the factor of the scaling best, since it is divided by all of it.
    """
    factor = 1 / max(ratio, SMALLEST_RATIO)
    return _with_fewest_digits(Fit(factor, RELATIVE_FACTOR_ERROR * factor))


def _bases_of_fast_pairs(
    measured: MeasuredFrequencies, known_pairs: Indices, denominator: float
) -> Iterator[float]:
    """Yield the bases with which the fastest pairs have their measured frequencies, usual bases first.

    Without a scaling, pair i has the frequency base^(−i/denominator). Llama3 and YaRN scaling change only
    slow pairs, so that the fastest ones still show the base: one that models usually have, or another.

    Args:
        measured: The frequencies, with their errors.
        known_pairs: The pairs whose frequencies could be measured, in ascending order.
        denominator: Half of the channels.
    """
    # Pair 0 has the frequency 1 with every base, so that the pair after it is needed as well.
    fast_pairs = known_pairs[:2] if known_pairs[0] == 0 else known_pairs[:1]
    for base in USUAL_BASES:
        expected = base ** (-fast_pairs / denominator)
        distances = np.abs(measured.values[fast_pairs] - expected)
        if is_noise(distances, measured.errors[fast_pairs]).all():
            yield base
    yield from _bases_fitted_to_fast_pairs(measured, known_pairs, denominator)


def _bases_fitted_to_fast_pairs(
    measured: MeasuredFrequencies, known_pairs: Indices, denominator: float
) -> Iterator[float]:
    """Yield up to three fitted bases, each from the frequencies of two pairs: pair 0 and a later one.

    If the frequency falls from 1 in pair 0 to 0.1 in pair 1 of 4, the base is 10000. Nothing is yielded
    if the frequency of pair 0 is not known.
    """
    if known_pairs[0] != 0:
        return
    # A later pair gives a sharper base, but its frequency may already be divided by the scaling.
    next_pair = known_pairs[1]
    after_a_sixth = known_pairs[len(known_pairs) // 6 + 1]
    after_a_third = known_pairs[len(known_pairs) // 3 + 1]
    later_pairs = dict.fromkeys((next_pair, after_a_sixth, after_a_third))  # each once
    for pair in later_pairs:
        base = _base_between_pair_0_and(int(pair), measured, denominator)
        if base is not None:
            yield _with_fewest_digits(base)


def _base_between_pair_0_and(
    pair: int, measured: MeasuredFrequencies, denominator: float
) -> Fit | None:
    """Return the base that the frequencies of pair 0 and another one show; None if no model has such a base.

    The frequency of pair i is base^(−i/denominator). So its logarithm falls by ln(base)/denominator
    from pair to pair.
    """
    relative_errors = measured.errors / np.maximum(measured.values, 1e-300)
    fall = (math.log(measured.values[0]) - math.log(measured.values[pair])) / pair
    fall_error = SIGMAS * math.hypot(relative_errors[0], relative_errors[pair]) / pair
    if not 0 < fall * denominator < LARGEST_LOG:
        return None
    base = math.exp(fall * denominator)
    base_error = base * (FLOAT32_ERROR + denominator * fall_error)
    return Fit(base, base_error)


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
        divisors = _find_longrope_divisors(unscaled, measured)
        if divisors is not None:
            yield SchedulePrior(
                schedule=replace(unscaled, scaling=_longrope_with_divisors(divisors)),
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


def _find_longrope_divisors(
    unscaled: FrequencySchedule, measured: MeasuredFrequencies
) -> tuple[float, ...] | None:
    """Return the numbers by which LongRoPE divided the frequencies of a schedule; None if it did not.

    LongRoPE divides each frequency by a number of its own, with two or three decimals: 1.05, 1.1, … 64.5
    in Phi-3. Only divisors that are measured sharply, such as 1.0501 ± 0.0002, can show so few decimals.

    Args:
        unscaled: The schedule without scaling, of a base that is tried.
        measured: The frequencies of a table.
    """
    divisors, errors = _measured_divisors(unscaled, measured)
    is_sharp = (errors < SHARP_DIVISOR) & measured.is_known
    if np.count_nonzero(is_sharp) < MIN_DIVISORS:
        return None
    if not _are_of_usual_size(divisors[measured.is_known]):
        return None
    if not _are_different_decimals(divisors[is_sharp], errors[is_sharp]):
        return None  # Linear scaling has one divisor for all pairs, and YaRN's have many decimals.
    return _divisors_with_few_digits(divisors, errors, is_sharp)


def _divisors_with_few_digits(
    divisors: Floats, errors: Floats, is_sharp: Flags
) -> tuple[float, ...]:
    """Return the plainest number near each divisor: 1.08 for 1.0803 ± 0.0001.

    Divisors that are known well get the plainest number within four errors, and others the nearest one
    of two decimals. Those of pairs that hardly turn change nothing, so that any number nearby is as good.
    """
    allowed_errors_of_others = np.maximum(errors / 16, HALF_HUNDREDTH)
    allowed_errors = np.where(is_sharp, 4 * errors, allowed_errors_of_others)
    fits = map(Fit, divisors.tolist(), allowed_errors.tolist())
    return tuple(map(_with_fewest_digits, fits))


class MeasuredDivisors(NamedTuple):
    """The number by which each frequency was divided, and its standard error."""

    values: Floats
    errors: Floats


def _measured_divisors(
    unscaled: FrequencySchedule, measured: MeasuredFrequencies
) -> MeasuredDivisors:
    """Return the numbers by which unscaled frequencies were divided to give the measured ones.

    A pair that hardly turns must have a divisor as well, though its frequency may be measured as 0. The
    frequency is taken to be half of its error at least, and the divisor to be known to 1 %: whatever it
    is, it changes nothing in the table.
    """
    is_known = measured.is_known
    frequencies_above_0 = np.maximum(measured.values, np.maximum(measured.errors / 2, 1e-30))
    divisors = unscaled.frequencies / np.where(is_known, measured.values, frequencies_above_0)
    relative_errors = np.where(is_known, measured.errors / frequencies_above_0, 0.01)
    return MeasuredDivisors(divisors, np.abs(divisors) * relative_errors)


def _are_of_usual_size(divisors: Floats) -> bool:
    """Return True if all divisors are between 0.5 and 2000, as those that LongRoPE's search finds."""
    smallest = float(divisors.min())
    largest = float(divisors.max())
    return SMALLEST_DIVISOR <= smallest <= largest <= LARGEST_DIVISOR


def _are_different_decimals(divisors: Floats, errors: Floats) -> bool:
    """Return True if divisors differ, and each of them may be a number of two decimals.

    1.0803 ± 0.0001 may be 1.08, but near 1.0853 ± 0.0001 there is no number of two decimals. Divisors that
    are known to half of the fourth decimal may have three.
    """
    if float(np.ptp(divisors)) < SAME_DIVISOR:
        return False
    # 1.0803 · 100 = 108.03 is 0.03 from a whole number, so that 1.0803 is 0.0003 from 1.08.
    units_per_number = np.where(errors < 5e-5, 1000.0, 100.0)  # thousandths or hundredths
    in_units = divisors * units_per_number
    distances = np.abs(in_units - np.rint(in_units)) / units_per_number
    return bool((distances <= 4 * errors + FLOAT64_NUMBER_ERROR).all())
