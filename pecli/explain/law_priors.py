"""Laws that measured frequencies may follow if nothing is known of them: usual ones first, then fitted numbers."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.scalings.linear import Linear, Proportional
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.scaling import Scaling
from pecli.engine.scalings.yarn import Yarn
from pecli.explain.catalogue.law_numbers import NO_MOVE, USUAL_BASES, OtherBase
from pecli.explain.catalogue.scalings import FACTORS, LENGTHS
from pecli.explain.law import NO_SCALING, Law
from pecli.explain.measure import MAX_SIGMAS, SIGMAS, Fit, Frequencies, fit_number
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
    for number, half in enumerate(halves):
        for prior in _geometric(measured, half, may_scale=True):
            # The first half is the usual one: fairseq's D/2 − 1 and others come after it.
            priors.append(replace(prior, cost=prior.cost + COST_PER_DIGIT * number))
    return _agreeing(priors, measured)


def _agreeing(priors: list[LawPrior], measured: Frequencies) -> list[LawPrior]:
    agreeing = [prior for prior in priors if measured.agree_with(prior.law.frequencies)]
    return sorted(agreeing, key=lambda prior: prior.cost)


@dataclass(frozen=True)
class Line:
    """ln f = level − step · i, with standard errors, and the frequencies that lie on it."""

    level: Fit
    step: float
    measured: Frequencies


def fit_line(measured: Frequencies) -> Line | None:
    """Fit a geometric series to frequencies; those that turn more than half a turn per row are left out.

    The slow half is fitted first, since it never loses whole turns; then all frequencies that lie on its line.
    """
    known = np.flatnonzero(measured.known & (measured.values > 0))
    if len(known) < 2:
        return None
    logs = np.log(measured.values[known])
    errors = measured.errors[known] / measured.values[known]
    is_used = known >= known[len(known) // 2] if len(known) > MIN_PAIRS else known >= 0
    step, level, level_error = _line(known[is_used], logs[is_used], errors[is_used])
    for _ in range(2):
        left = np.abs(logs - level + step * known)
        is_near = left <= MAX_SIGMAS * np.hypot(errors, level_error)
        if np.count_nonzero(is_near) < 2:
            break
        step, level, level_error = _line(known[is_near], logs[is_near], errors[is_near])
    is_near = np.abs(logs - level + step * known) <= MAX_SIGMAS * np.hypot(errors, level_error)
    values = np.zeros_like(measured.values)
    values[known[is_near]] = measured.values[known[is_near]]
    scale = math.exp(min(level, LARGEST_LOG))
    on_line = measured._replace(values=values)
    return Line(Fit(scale, (SIGMAS * level_error + 1e-9) * scale), step, on_line)


def _line(index: Indices, logs: Floats, errors: Floats) -> tuple[float, float, float]:
    """Return the step and the level of a falling line by weighted least squares, and the standard error of the level."""
    weights = 1 / np.maximum(errors, 1e-15)
    (slope, level), covariance = np.polyfit(index, logs, 1, w=weights, cov="unscaled")
    return -float(slope), float(level), math.sqrt(covariance[1, 1])


def _geometric(measured: Frequencies, half: float, *, may_scale: bool) -> Iterator[LawPrior]:
    """Yield laws without a bend: positions multiplied by a number, or frequencies divided by a factor."""
    pairs = len(measured.values)
    if may_scale:
        for base in USUAL_BASES:
            yield LawPrior(Law(pairs, half, base, TIMESTEPS), 2 * COST_PER_DIGIT)
    line = fit_line(measured)
    if line is None or not 0 < line.step * half < LARGEST_LOG:
        return
    base = math.exp(line.step * half)
    for prior in _scaled(Law(pairs, half, base), line, may_scale=may_scale):
        yield from _with_base(prior, line.measured)
    turning = _turning(measured)
    if not may_scale and turning < pairs:
        factor = _plainest(Fit(1 / line.level.value, line.level.error / line.level.value**2))
        law = Law(pairs, half, base, scaling=Proportional(factor), rotating=turning)
        cost = PROPORTIONAL_COST + (COST_PER_DIGIT * digits(factor) if factor != 1 else 0.0)
        yield from _with_base(LawPrior(law, cost), line.measured)


def _scaled(law: Law, line: Line, *, may_scale: bool) -> Iterator[LawPrior]:
    """Yield a law with the number by which its first frequency differs from 1."""
    scale, error = line.level
    if abs(scale - 1) <= max(error, 1e-7):
        yield LawPrior(law)
        return
    inverse = _plainest(Fit(1 / scale, error / scale**2))
    direct = _plainest(line.level)
    if not may_scale:
        yield LawPrior(replace(law, scaling=Linear(inverse)), COST_PER_DIGIT * digits(inverse))
        return
    plainer = 1 / inverse if digits(inverse) < digits(direct) else direct
    cost = COST_PER_DIGIT * min(digits(inverse), digits(direct))
    yield LawPrior(replace(law, scale=plainer), cost)


def _plainest(fit: Fit) -> float:
    return next(plain_numbers(fit.value, fit.error), fit.value)


def _turning(measured: Frequencies) -> int:
    """Return the number of pairs up to the last one that turns."""
    is_turning = np.abs(measured.values) > NO_MOVE * measured.errors
    return int(np.flatnonzero(is_turning)[-1]) + 1 if is_turning.any() else 0


def _with_base(prior: LawPrior, measured: Frequencies) -> Iterator[LawPrior]:
    """Yield a law with each base that somebody may have written for the measured one."""
    law = prior.law

    def frequencies(base: float) -> Floats:
        return law.having("base", base).frequencies

    fit = fit_number(frequencies, measured, (law.base,))
    if fit is None:
        return
    doubt: tuple[str, ...] = ()
    if fit.error > SIGMAS * KNOWN_TO * fit.value:
        doubt = (f"the base is known within {fit.error:.1g}",)
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
    """Yield llama3 and YaRN laws: with the plain law taken out, frequencies fall from 1 to 1/factor."""
    known = np.flatnonzero(measured.known & (measured.values > 0))
    if len(known) < MIN_PAIRS:
        return
    relative = measured.errors[known] / measured.values[known]
    if np.median(relative) > MAX_BLUR:
        return
    pairs = len(measured.values)
    for base in _bases_of_fast_pairs(measured, known, half):
        plain = Law(pairs, half, base)
        ratios = measured.values[known] / plain.frequencies[known]
        slack = MAX_SIGMAS * measured.errors[known] / plain.frequencies[known] + 1e-6
        if (ratios > 1 + slack).any():
            continue
        slowest = 1 / max(float(ratios[-1]), 1e-9)
        fitted = _plainest(Fit(slowest, 0.02 * slowest))
        for factor in dict.fromkeys((fitted, *FACTORS)):
            if factor > 1.05 and not (ratios < 1 / factor - slack).any():
                yield from _with_blend(plain, factor, measured)


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
    """Yield LongRoPE: one divisor per pair, if those that are known well are plain numbers of two or three decimals."""
    if measured.is_folded:
        return
    best: list[tuple[int, LawPrior]] = []
    for base in USUAL_BASES:
        plain = Law(len(measured.values), half, base)
        divisors = _divisors(plain, measured)
        if divisors is not None:
            scaling = LongRope(4096, divisors.values, divisors.values, attention_factor=1.0)
            prior = LawPrior(replace(plain, scaling=scaling), LONGROPE_COST, SAME_DIVISORS)
            best.append((divisors.sharp, prior))
    if best:
        yield max(best, key=lambda each: each[0])[1]


@dataclass(frozen=True)
class Divisors:
    """Divisors of all frequencies, and how many of them are known well."""

    values: tuple[float, ...]
    sharp: int


def _divisors(plain: Law, measured: Frequencies) -> Divisors | None:
    """Return the plain numbers by which a law's frequencies were divided; None if those known well are not plain."""
    known = measured.known
    # A pair that hardly turns has some divisor, too, which changes nothing.
    slow = np.maximum(measured.values, np.maximum(measured.errors / 2, 1e-30))
    divisors = plain.frequencies / np.where(known, measured.values, slow)
    doubts = np.abs(divisors) * np.where(known, measured.errors / np.abs(slow), 0.01)
    is_sharp = (doubts < 1e-3) & known
    if np.count_nonzero(is_sharp) < MIN_DIVISORS:
        return None
    if (divisors[known] < 0.5).any() or (divisors[known] > 2000).any():
        return None
    grid = np.where(doubts < 5e-5, 1000.0, 100.0)
    off = np.abs(divisors * grid - np.rint(divisors * grid)) / grid
    are_alike = (
        float(np.ptp(divisors[is_sharp])) < 0.005
    )  # Linear scaling divides all by one number.
    if are_alike or (off[is_sharp] > 4 * doubts[is_sharp] + 1e-9).any():
        return None
    errors = np.where(is_sharp, 4 * doubts, doubts / 16)
    values = [
        _plainest(Fit(float(divisor), float(error)))
        for divisor, error in zip(divisors, errors, strict=True)
    ]
    return Divisors(tuple(values), int(np.count_nonzero(is_sharp)))
