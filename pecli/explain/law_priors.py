"""Laws that measured frequencies may follow if nothing is known of them: usual ones first, then fitted numbers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
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
from pecli.explain.catalogue.law_numbers import NO_MOVE, USUAL_BASES, OtherBase
from pecli.explain.catalogue.scalings import FACTORS, LENGTHS
from pecli.explain.law import NO_SCALING, Law, fit_parameter
from pecli.explain.measure import FLOAT32_DRIFT, MAX_SIGMAS, SIGMAS, Fit, Frequencies
from pecli.explain.numbers import digits, plain_numbers
from pecli.explain.time_limit import check_time

TIMESTEPS = 1000.0
"""Number by which diffusion models multiply positions from 0 to 1: most pairs then lose whole turns per row."""

COST_PER_DIGIT = 0.1
"""Cost of each digit of a number that no model is known to have."""

NTK_COST = 0.25
"""Cost of NTK scaling by a plain factor: with one digit, less than that of a base of four digits, which it replaces."""

PROPORTIONAL_COST = 0.3
"""Cost of pairs that do not turn: slow ones may only seem to stand still."""

MAX_NTK_DIGITS = 3
"""Digits of a factor of NTK scaling: any base is some usual base, stretched by a factor of nine digits."""

LONGROPE_COST = 3.0
"""Cost of one divisor per frequency: every other law is preferred."""

MIN_PAIRS = 4
"""Frequencies that a law with a bend has to explain: it has a base, a factor and a length."""

MAX_BLUR = 0.01
"""Relative error of most frequencies up to which bends are looked for: with larger ones, hundreds of bends fit."""

MIN_DIVISORS = 6
"""Frequencies that have to be sharp enough to show whether LongRoPE's divisors are plain numbers."""

SHARP_DIVISOR = 1e-3
"""Error of a divisor that is known well: it shows two decimals."""

SAME_DIVISOR = 0.005
"""Difference of divisors below which they are one number, written with two decimals."""

SMALLEST_DIVISOR = 0.5
LARGEST_DIVISOR = 2000.0
"""Divisors of LongRoPE: published ones are between 1 and 65, and its search may go beyond."""

FACTOR_ERROR = 0.02
"""Relative error of a factor that is read off the slowest pair: a blend may not have reached its end there."""

MIN_FACTOR = 1.05
"""Smallest factor of a blend: below it, noise looks like one."""

KNOWN_TO = 1e-4
"""Relative standard error of a base from which on an answer states the doubt."""

LARGEST_LOG = 60.0
"""Logarithm of the largest base that is considered."""

BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (64.0, 2.0), (16.0, 2.0), (128.0, 1.0))
"""Values of beta_fast and beta_slow that YaRN is used with, the usual ones first."""

FREQUENCY_FACTORS = ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 16.0), (2.0, 8.0))
"""Values of low_freq_factor and high_freq_factor that llama3 scaling is used with, the usual ones first."""

SAME_LLAMA3 = (
    "an original length k times as long, with both freq_factors k times as large, is the same"
)
SAME_YARN = "other original lengths, with other beta_fast and beta_slow, give the same table"
SAME_DIVISORS = (
    "the base and the divisors are known only together",
    "short and long divisors are not told apart, nor is the original length",
    "the attention factor is as measured; a factor may have given it",
)


@dataclass(frozen=True)
class LawPrior:
    """A law that gives measured frequencies, what its numbers cost, and what the frequencies leave open."""

    law: Law
    cost: float = 0.0
    open: tuple[str, ...] = ()


def rotary_laws(measured: Frequencies) -> list[LawPrior]:
    """Return the laws of rotary tables that agree with frequencies, the plainest first."""
    half = float(len(measured.values))
    priors = [*_geometric(measured, half, may_scale=False)]
    if not _agreeing(priors, measured):
        priors = [*_bent(measured, half), *_divided(measured, half)]
    return _agreeing(priors, measured)


def sinusoidal_laws(measured: Frequencies, halves: tuple[float, ...]) -> list[LawPrior]:
    """Return the laws of added tables that agree with frequencies, for exponents over each of some halves."""
    priors = []
    for place, half in enumerate(halves):
        for prior in _geometric(measured, half, may_scale=True):
            # The first half is the usual one: fairseq's D/2 − 1 and others come after it.
            priors.append(replace(prior, cost=prior.cost + COST_PER_DIGIT * place))
    return _agreeing(priors, measured)


def _agreeing(priors: list[LawPrior], measured: Frequencies) -> list[LawPrior]:
    agreeing = [prior for prior in priors if measured.agree_with(prior.law.frequencies)]
    return sorted(agreeing, key=lambda prior: prior.cost)


@dataclass(frozen=True)
class Line:
    """A geometric series: frequencies scale · exp(−step · i), and the measured ones that lie on it."""

    level: Fit  # the scale, which is 1 for an unscaled law
    step: float
    measured: Frequencies  # 0 for those that do not lie on it


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

    def holds(self, index: Indices, logs: Floats, errors: Floats) -> Flags:
        """Return which logarithms of frequencies lie on the line."""
        left = np.abs(logs - self.level + self.step * index)
        return np.asarray(left <= MAX_SIGMAS * np.hypot(errors, self.level_error))


def fit_line(measured: Frequencies) -> Line | None:
    """Fit a geometric series to frequencies; those that turn more than half a turn per row are left out.

    The slow half is fitted first, since it never loses whole turns; then all frequencies that lie on its line.
    """
    known = np.flatnonzero(measured.known & (measured.values > 0))
    if len(known) < 2:
        return None
    logs = np.log(measured.values[known])
    errors = measured.errors[known] / measured.values[known]
    first_slow = len(known) // 2 if len(known) > MIN_PAIRS else 0
    line = LogLine.fitted(known[first_slow:], logs[first_slow:], errors[first_slow:])
    for _ in range(2):
        is_near = line.holds(known, logs, errors)
        if np.count_nonzero(is_near) < 2:
            break
        line = LogLine.fitted(known[is_near], logs[is_near], errors[is_near])
    on_line = known[line.holds(known, logs, errors)]
    values = np.zeros_like(measured.values)
    values[on_line] = measured.values[on_line]
    scale = math.exp(min(line.level, LARGEST_LOG))
    error = (SIGMAS * line.level_error + 1e-9) * scale
    return Line(Fit(scale, error), line.step, measured._replace(values=values))


def _geometric(measured: Frequencies, half: float, *, may_scale: bool) -> Iterator[LawPrior]:
    """Yield laws without a bend: positions multiplied by a number, or frequencies divided by a factor."""
    pairs = len(measured.values)
    if may_scale:
        for base in USUAL_BASES:
            yield LawPrior(Law(pairs, half, base, TIMESTEPS), 2 * COST_PER_DIGIT)
    line = fit_line(measured)
    if line is None or not 0 < line.step * half < LARGEST_LOG:
        return
    law = Law(pairs, half, math.exp(line.step * half))
    yield from _with_base(_scaled(law, line, may_scale=may_scale), line.measured)
    turning = _turning(measured)
    if not may_scale and turning < pairs:
        yield from _with_base(_proportional(law, line, turning), line.measured)


def _proportional(law: Law, line: Line, turning: int) -> LawPrior:
    """Return a law by which only the first pairs turn, as proportional scaling has it."""
    factor = _plainest(_inverse(line.level))
    cost = PROPORTIONAL_COST
    if factor != 1:
        cost += COST_PER_DIGIT * digits(factor)
    return LawPrior(replace(law, scaling=Proportional(factor), rotating=turning), cost)


def _scaled(law: Law, line: Line, *, may_scale: bool) -> LawPrior:
    """Return a law with the number by which its first frequency differs from 1.

    A rotary table divides all frequencies by a factor of linear scaling; an added one multiplies positions, and 0.001
    is written as 1/1000 if that is plainer.
    """
    scale, error = line.level
    if abs(scale - 1) <= max(error, 1e-7):
        return LawPrior(law)
    factor = _plainest(_inverse(line.level))
    if not may_scale:
        return LawPrior(replace(law, scaling=Linear(factor)), COST_PER_DIGIT * digits(factor))
    direct = _plainest(line.level)
    plainer = 1 / factor if digits(factor) < digits(direct) else direct
    cost = COST_PER_DIGIT * min(digits(factor), digits(direct))
    return LawPrior(replace(law, scale=plainer), cost)


def _inverse(fit: Fit) -> Fit:
    return Fit(1 / fit.value, fit.error / fit.value**2)


def _plainest(fit: Fit) -> float:
    return next(plain_numbers(fit.value, fit.error), fit.value)


def _turning(measured: Frequencies) -> int:
    """Return the number of pairs up to the last one that turns."""
    is_turning = np.abs(measured.values) > NO_MOVE * measured.errors
    return int(np.flatnonzero(is_turning)[-1]) + 1 if is_turning.any() else 0


def _with_base(prior: LawPrior, measured: Frequencies) -> Iterator[LawPrior]:
    """Yield a law with each base that somebody may have written for the measured one."""
    law = prior.law
    fit = fit_parameter(law, "base", measured, (law.base,))
    if fit is None:
        return
    doubt: tuple[str, ...] = ()
    if fit.error > SIGMAS * KNOWN_TO * fit.value:
        doubt = (f"the base is known within {number(fit.error, 1)}",)
    bases = [*OtherBase.written(fit.value, fit.error)]
    for base in bases:
        cost = prior.cost + _cost_of_base(base)
        yield LawPrior(law.having("base", base), cost, (*prior.open, *doubt))
    if law.scaling == NO_SCALING and law.scale == 1:
        yield from _stretched(law, fit)


def _cost_of_base(base: float) -> float:
    return 0.0 if base in USUAL_BASES else COST_PER_DIGIT * digits(base)


def _stretched(law: Law, base: Fit) -> Iterator[LawPrior]:
    """Yield NTK scaling: a usual base b that a plain factor s has stretched to b · s^(d/(d − 2))."""
    if law.half <= 1:
        return
    power = 1 - 1 / law.half
    for usual in USUAL_BASES:
        ratio = base.value / usual
        if ratio <= 1.01:
            continue
        factor = ratio**power
        plain = _plainest(Fit(factor, factor * power * base.error / base.value + 1e-9))
        if digits(plain) <= MAX_NTK_DIGITS and plain > 1:
            text = f"base {base.value:.6g} without scaling is the same table, and so is dynamic scaling with that factor"
            cost = NTK_COST + COST_PER_DIGIT * digits(plain)
            yield LawPrior(replace(law, base=usual, scaling=Ntk(plain)), cost, (text,))


@dataclass(frozen=True)
class Blend:
    """A scaling that divides slow frequencies by a factor and leaves fast ones, as it is usually configured."""

    scaling: Scaling
    cost: float
    open: str


def _blends(factor: float) -> Iterator[Blend]:
    for low, high in FREQUENCY_FACTORS:
        cost = COST_PER_DIGIT * (digits(high) + (low != 1))
        yield Blend(Llama3(factor, 8192, low, high), cost, SAME_LLAMA3)
    for truncate in (True, False):
        for fast, slow in BETAS:
            is_usual = (fast, slow) == BETAS[0]
            cost = COST_PER_DIGIT * (not truncate) + (0.0 if is_usual else 4 * COST_PER_DIGIT)
            scaling = Yarn(8192, factor, beta_fast=fast, beta_slow=slow, truncate=truncate)
            yield Blend(scaling, cost, SAME_YARN)


def _bent(measured: Frequencies, half: float) -> Iterator[LawPrior]:
    """Yield llama3 and YaRN laws, which leave fast frequencies as they are and divide slow ones by a factor.

    Llama 3.1 (base 500000, factor 8) has the frequencies of its base in the first pairs, and an eighth of them in the
    last ones. So the first pairs give the base, and the last one the factor.
    """
    known = np.flatnonzero(measured.known & (measured.values > 0))
    if len(known) < MIN_PAIRS:
        return
    relative_errors = measured.errors[known] / measured.values[known]
    if np.median(relative_errors) > MAX_BLUR:
        return
    for base in _bases_of_fast_pairs(measured, known, half):
        plain = Law(len(measured.values), half, base)
        for factor in _blend_factors(plain, measured, known):
            yield from _with_blend(plain, factor, measured)


def _blend_factors(plain: Law, measured: Frequencies, known: Indices) -> Iterator[float]:
    """Yield factors by which slow frequencies of a plain law may have been divided, the fitted one first.

    There is none if some frequency is higher than the plain law's: no blend raises one. Nor does a blend divide any by
    more than its factor.
    """
    expected = plain.frequencies[known]
    ratios = measured.values[known] / expected
    slack = MAX_SIGMAS * measured.errors[known] / expected + FLOAT32_DRIFT
    if (ratios > 1 + slack).any():
        return
    of_slowest = 1 / max(float(ratios[-1]), 1e-9)
    fitted = _plainest(Fit(of_slowest, FACTOR_ERROR * of_slowest))
    for factor in dict.fromkeys((fitted, *FACTORS)):
        is_divided_by_more = ratios < 1 / factor - slack
        if factor > MIN_FACTOR and not is_divided_by_more.any():
            yield factor


def _bases_of_fast_pairs(measured: Frequencies, known: Indices, half: float) -> Iterator[float]:
    """Yield the bases that the first pairs allow, which no blend divides: usual ones, then the plainest."""
    first = known[:2]
    if first[0] != 0:
        first = known[:1]
    for base in USUAL_BASES:
        off = np.abs(measured.values[first] - base ** (-first / half))
        if (off <= MAX_SIGMAS * measured.errors[first]).all():
            yield base
    if known[0] != 0 or len(known) < MIN_PAIRS:
        return
    for last in dict.fromkeys((1, len(known) // 6 + 1, len(known) // 3 + 1)):
        index = known[last]
        step = (math.log(measured.values[0]) - math.log(measured.values[index])) / index
        errors = measured.errors / np.maximum(measured.values, 1e-300)
        error = SIGMAS * math.hypot(errors[0], errors[index]) / index
        if 0 < step * half < LARGEST_LOG:
            value = math.exp(step * half)
            yield _plainest(Fit(value, value * (1e-7 + half * error)))


def _with_blend(plain: Law, factor: float, measured: Frequencies) -> Iterator[LawPrior]:
    """Yield the usual blends with the original lengths that agree with the frequencies."""
    numbers = COST_PER_DIGIT * digits(factor)
    if plain.base not in USUAL_BASES:
        numbers += COST_PER_DIGIT * digits(plain.base)
    for blend in _blends(factor):
        check_time()
        law = replace(plain, scaling=blend.scaling)
        cost = blend.cost + numbers
        for length in _agreeing_lengths(law, measured):
            found = law.having("original_max_position_embeddings", int(length))
            yield LawPrior(found, cost, (blend.open,))


def _agreeing_lengths(law: Law, measured: Frequencies) -> Floats:
    """Return the usual original lengths with which a law gives the frequencies, all of them tried at once."""
    lengths = np.array(LENGTHS)
    columns: Any = {"original_max_position_embeddings": lengths[:, None]}
    frequencies = replace(law, scaling=replace(law.scaling, **columns)).frequencies
    return lengths[measured.agreeing(frequencies)]


def _divided(measured: Frequencies, half: float) -> Iterator[LawPrior]:
    """Yield LongRoPE over the usual base whose divisors, one per pair, are known best."""
    if measured.is_folded:
        return
    candidates: list[tuple[Law, Divisors]] = []
    for base in USUAL_BASES:
        plain = Law(len(measured.values), half, base)
        divisors = _divisors(plain, measured)
        if divisors is not None:
            candidates.append((plain, divisors))
    if candidates:
        plain, divisors = max(candidates, key=lambda candidate: candidate[1].sharp)
        scaling = LongRope(4096, divisors.values, divisors.values, attention_factor=1.0)
        yield LawPrior(replace(plain, scaling=scaling), LONGROPE_COST, SAME_DIVISORS)


@dataclass(frozen=True)
class Divisors:
    """Divisors of all frequencies, and how many of them are known well."""

    values: tuple[float, ...]
    sharp: int


def _divisors(plain: Law, measured: Frequencies) -> Divisors | None:
    """Return the plain numbers by which a law's frequencies were divided, such as Phi-3's 1.05, 1.1, … 64.5.

    None is returned unless those that are known well are numbers of two or three decimals, and differ: linear scaling
    divides all frequencies by one number.
    """
    known = measured.known
    # A pair that hardly turns also has a divisor, which changes nothing: about half its error is a frequency for it.
    usable = np.maximum(measured.values, np.maximum(measured.errors / 2, 1e-30))
    divisors = plain.frequencies / np.where(known, measured.values, usable)
    relative_errors = np.where(known, measured.errors / np.abs(usable), 0.01)
    errors = np.abs(divisors) * relative_errors
    is_sharp = (errors < SHARP_DIVISOR) & known
    if np.count_nonzero(is_sharp) < MIN_DIVISORS or not _are_possible(divisors[known]):
        return None
    are_alike = float(np.ptp(divisors[is_sharp])) < SAME_DIVISOR
    if are_alike or not _are_decimals(divisors[is_sharp], errors[is_sharp]):
        return None
    allowed = np.where(is_sharp, 4 * errors, errors / 16)
    values = [
        _plainest(Fit(float(divisor), float(error)))
        for divisor, error in zip(divisors, allowed, strict=True)
    ]
    return Divisors(tuple(values), int(np.count_nonzero(is_sharp)))


def _are_possible(divisors: Floats) -> bool:
    """Return True if divisors are of a size that LongRoPE's search gives: it hardly raises a frequency."""
    return bool((divisors >= SMALLEST_DIVISOR).all() and (divisors <= LARGEST_DIVISOR).all())


def _are_decimals(divisors: Floats, errors: Floats) -> bool:
    """Return True if numbers may have two decimals, or three if they are known to half of the fourth."""
    places = np.where(errors < 5e-5, 1000.0, 100.0)
    off = np.abs(divisors * places - np.rint(divisors * places)) / places
    return bool((off <= 4 * errors + 1e-9).all())
