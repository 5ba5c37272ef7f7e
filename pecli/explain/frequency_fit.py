"""Which law measured frequencies follow: one near a prior's, or any; and what vectors of frequencies are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.scalings.linear import Linear, Proportional
from pecli.engine.scalings.llama3 import Llama3
from pecli.engine.scalings.longrope import LongRope
from pecli.engine.scalings.ntk import Ntk
from pecli.engine.scalings.yarn import Yarn
from pecli.explain.edits import Channels, Dtype, Edit, Errors, Explanation, Negated, Parameter, Uninitialised, best
from pecli.explain.frequency_estimation import DRIFT
from pecli.explain.frequency_laws import (
    BETAS,
    LENGTHS,
    MAX_MISFIT,
    NO_SCALING,
    SEARCHED,
    SIGMAS,
    USUAL_MISFIT,
    Curve,
    Fit,
    Law,
    fitted,
    fitted_pair,
    geometric,
    line,
    steps_of,
)
from pecli.explain.sample import BASES, Sample, digits, plain_integer, plainest, precision, rounding
from pecli.explain.sinusoid_schemes import WaveScheme, expected_amplitude, law_edits, neighbours, scheme_of


def fit_blends(curve: Curve, half: float) -> Iterator[Fit]:
    """YaRN and Llama 3 scalings that give the curve: with the law taken out, it falls from 1 to 1/factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    known = curve.known
    if known.sum() < 4 or abs(curve.frequency[0] - 1) > MAX_MISFIT * curve.error[0] + 1e-6:
        return
    for step, step_error in steps_of(curve, half):
        plain = np.exp(-step * index)
        ratio, error = curve.frequency / plain, curve.error / plain
        slack = MAX_MISFIT * error + 1e-6
        if not 0 < step * half < 60 or (ratio > 1 + slack)[known].any():
            continue
        base = plainest(math.exp(step * half), math.exp(step * half) * (1e-7 + SIGMAS * step_error * half))
        law = Law(len(index), half, base)
        after = np.flatnonzero(known & (np.abs(ratio - ratio[np.flatnonzero(known)[-1]]) < slack + 1e-9))
        measured = float(np.average(ratio[after], weights=1 / error[after] ** 2))
        for share in {measured, *(1 / factor for factor in SEARCHED["factor"].usual)}:
            if not 0 < share < 0.95 or not (ratio[known] > share - slack[known]).all():
                continue
            ramp, doubt = (1 - ratio) / (1 - share), error / (1 - share)  # how much is interpolated
            inside = np.flatnonzero(known & (np.abs(ramp - 0.5) < 0.5 - 3 * doubt - 1e-4) & (doubt < 0.1))
            if len(inside) < 2:
                yield from _blends_of_usual_lengths(law, share, curve)
            else:
                yarn = Yarn(4096, factor=1 / share).complete()
                yield from _fit_yarn(replace(law, scaling=yarn), inside, ramp, doubt, curve)
                yield from _fit_llama3(law, share, inside, ramp, doubt, curve)


def _fit_yarn(law: Law, inside: Indices, ramp: Floats, doubt: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the channels, between two limits, which are rounded or not."""
    slope, level, *_ = line(inside, ramp[inside], doubt[inside])
    if slope <= 0:
        return
    low, high = -level / slope, (1 - level) / slope
    for one, other in {(round(low), round(high)), (math.floor(low), math.ceil(high)), (low, high)}:
        if -0.5 <= one < other <= 2 * law.half:
            yield from _yarn_by_limits(law.having(truncate=(one, other) != (low, high)), one, other, curve)


def _blends_of_usual_lengths(law: Law, share: float, curve: Curve) -> Iterator[Fit]:
    """Either scaling with usual numbers, where too few channels are between the limits to measure those."""
    factor, name = plainest(1 / share, 0.02 / share), "original_max_position_embeddings"
    scalings: list[tuple[float, Any]] = [(0.0, Llama3(factor, 8192, 1.0, 4.0))]
    for truncate, (fast, slow) in product((True, False), BETAS):
        unusual = 0.2 * ((fast, slow) != BETAS[0]) + 0.1 * (not truncate)
        scalings.append((unusual, Yarn(8192, factor, beta_fast=fast, beta_slow=slow, truncate=truncate)))
    for unusual, scaling in scalings:
        found = law.having(scaling=scaling)
        misfits = curve.misfit_by_row(found.having(**{name: np.array(LENGTHS)[:, None]}).frequencies())
        for original, fit in zip(LENGTHS, misfits.tolist(), strict=True):
            if fit < USUAL_MISFIT:
                said = "other original lengths give the same table"
                cost = 0.3 + 0.1 * _digits(found, "base", "factor") + unusual
                yield Fit(found.having(**{name: original}), fit, cost, (said,))


def _yarn_by_limits(law: Law, low: float, high: float, curve: Curve) -> Iterator[Fit]:
    """The original length, and betas where they are not 32 and 1, that put YaRN's limits there."""

    def length(index: float, rotations: float) -> float:
        return float(2 * math.pi * rotations * law.base ** (index / law.half))

    candidates: list[dict[str, float]] = []
    scaling, name = law.scaling, "original_max_position_embeddings"
    for fast, slow in BETAS if scaling.truncate else ():
        bottom = max(length(low, fast) if low > 0 else 1.0, length(high - 1, slow))
        top = min(length(low + 1, fast), length(high, slow) if high < 2 * law.half - 1 else math.inf)
        whole = plain_integer(bottom * (1 + 1e-9), top * (1 - 1e-9)) if bottom < top else None
        if whole is not None:
            usual = {} if (fast, slow) == BETAS[0] else {"beta_fast": fast, "beta_slow": slow}
            candidates.append({name: float(whole), **usual})
    for longest in () if scaling.truncate else sorted(LENGTHS, key=lambda each: abs(math.log(each / length(high, 1)))):
        fast, slow = (longest / length(index, 1) for index in (low, high))
        if abs(fast / 32 - 1) < 0.02 and abs(slow - 1) < 0.02:
            candidates.insert(0, {name: longest})
        betas = {"beta_fast": plainest(fast, 0.02 * fast), "beta_slow": plainest(slow, 0.02 * slow)}
        candidates.append({name: longest, **betas})
    for changes in candidates[:6]:
        whole_law = law.having(factor=plainest(scaling.factor, 0.02 * scaling.factor), **changes)
        if math.isfinite(fit := curve.misfit(whole_law.frequencies())):
            said = "other original lengths, with other beta_fast and beta_slow, give the same table"
            extra = 0.2 * (len(changes) - 1) + 0.1 * (not scaling.truncate)
            yield Fit(whole_law, fit, extra + 0.1 * _digits(whole_law, "base", "factor"), (said,))


def _fit_llama3(law: Law, share: float, inside: Indices, ramp: Floats, doubt: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the frequencies themselves."""
    plain = np.exp(-np.arange(law.count) / law.half * math.log(law.base))
    slope, level, *_ = line(plain[inside] / (2 * math.pi), 1 - ramp[inside], doubt[inside])
    if slope <= 0:
        return
    for low, high in ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 16.0), (2.0, 8.0)):
        original = slope * (high - low)
        if abs(-level * (high - low) / low - 1) < 0.1:
            for whole in {plain_integer(original * 0.97, original * 1.03) or original, float(round(original))}:
                factor = plainest(1 / share, 0.02 / share)
                found = replace(law, scaling=Llama3(factor, int(whole), low, high))
                fit = curve.misfit(found.frequencies())
                said = "an original length k times as long, with both freq_factors k times as large, is the same"
                cost = 0.1 * _digits(found, "base", "factor", "high_freq_factor") + 0.1 * (low != 1)
                yield Fit(found, fit, cost, (said,))


def _digits(law: Law, *names: str) -> int:
    return sum(digits(law.value(name)) for name in names)


def fit_ntk(curve: Curve, half: float, base: float) -> Iterator[Fit]:
    """A base that is not plain may be a plain one, stretched by NTK scaling with a plain factor."""
    for plain_base in BASES:
        if not plain_base * 1.01 < base < plain_base * 3000 or half <= 1:
            continue
        for fit in fitted(Law(len(curve.frequency), half, plain_base, scaling=Ntk(1.0)), "factor", curve):
            if digits(fit.law.value("factor")) <= 3:
                said = f"base {base:.9g} without scaling is the same table, and so is dynamic scaling with that factor"
                yield replace(fit, cost=fit.cost + 0.4 + 0.1 * digits(plain_base), open=(said,))


def fit_longrope(curve: Curve, half: float) -> Iterator[Fit]:
    """LongRoPE: a divisor for every frequency. As many numbers explain as many: only where the divisors of the
    frequencies that are known well come out as plain numbers does that mean anything.
    """
    known, best = curve.known, list[tuple[int, Law]]()
    for base in BASES:
        plain = np.exp(-np.arange(len(known)) / half * math.log(base))
        unknown = np.maximum(curve.frequency, np.maximum(curve.error / 2, 1e-30))  # hardly turning
        divisors = plain / np.where(known, curve.frequency, unknown)
        doubt = np.abs(divisors * np.where(known, curve.error / curve.frequency, 0.01))
        sharp = (doubt < 1e-3) & known
        if sharp.sum() < MIN_RECOGNISED or (divisors[known] < 0.5).any() or (divisors[known] > 2000).any():
            continue
        grid = np.where(doubt < 5e-5, 1000.0, 100.0)
        off = np.abs(divisors * grid - np.rint(divisors * grid)) / grid
        if float(np.ptp(divisors[sharp])) >= 0.005 and not (off[sharp] > 4 * doubt[sharp] + 1e-9).any():
            rounded = tuple(map(plainest, divisors.tolist(), np.where(sharp, 4 * doubt, doubt / 2).tolist()))
            law = Law(len(plain), half, base, scaling=LongRope(4096, rounded, rounded, attention_factor=1.0))
            best.append((int(sharp.sum()), law))
    if best:
        _, law = max(best, key=lambda each: each[0])
        said = (
            "the base and the divisors are known only together",
            "short and long divisors are not told apart, nor is the original length",
            "the attention factor is as measured; a factor may have given it",
        )
        yield Fit(law, curve.misfit(law.frequencies()), 3.0, said)


def fit_laws(curve: Curve, half: float, *, scales: bool) -> Iterator[Fit]:
    """Every law that the frequencies may follow, with exponents over `half`; with `scales`, positions may be multiplied
    (sinusoidal tables), else frequencies divided (linear scaling) and bent.
    """
    count = len(curve.frequency)
    still = np.abs(curve.frequency) <= 6 * curve.error
    turning = count - int(np.argmin(still[::-1])) if not still.all() else 0
    for base in BASES if scales else ():  # most channels of timesteps turn more than once a row
        if (off := curve.misfit((timesteps := Law(count, half, base, TIMESTEPS)).frequencies())) < USUAL_MISFIT:
            yield Fit(timesteps, off, 0.2)
    straight = geometric(curve)
    if straight is not None:
        yield from _fit_geometric(curve, half, straight, scales=scales, turning=turning)
    elif curve.known.sum() == 1 and abs(curve.frequency[0] - 1) <= MAX_MISFIT * curve.error[0]:
        one = Law(count, half)
        yield Fit(one, curve.misfit(one.frequencies()), 0.5, ("one channel turns: any base",))
    if not scales:
        yield from fit_blends(curve, half)


def _fit_geometric(
    curve: Curve, half: float, found: tuple[float, float, float, float], *, scales: bool, turning: int
) -> Iterator[Fit]:
    level, step, level_error, step_error = found
    count = len(curve.frequency)
    scale, base = math.exp(min(level, 50.0)), math.exp(min(max(step * half, -600.0), 600.0))
    slack = (SIGMAS * level_error + 1e-9) * scale
    options: list[dict[str, Any]] = [{}] if abs(scale - 1) <= max(slack, 1e-7) else []
    if not options:
        inverse = plainest(1 / scale, slack / scale**2)
        direct = plainest(scale, slack)
        shorter = inverse if digits(inverse) < digits(direct) else None
        scaled = {"scale": 1 / shorter if shorter else direct}
        options = [scaled if scales else {"scaling": Linear(inverse)}]
    factor = options[0]["scaling"].factor if "scaling" in options[0] else 1.0
    if 0 < turning < count and not scales:
        options.append({"scaling": Proportional(factor), "rotating": turning})
    for changes in options:
        for fit in fitted(Law(count, half, base, **changes), "base", curve):
            doubt = f"the base is known within {SIGMAS * step_error * half * base:.1g}"
            cost = fit.cost + 0.1 * sum(digits(each) for each in (changes.get("scale", 1.0), factor) if each != 1)
            yield replace(fit, cost=cost, open=(doubt,) if step_error * half > 1e-4 else ())
            if digits(fit.law.base) > 2 and fit.law.base not in BASES and not scales and fit.law.scaling == NO_SCALING:
                yield from fit_ntk(curve, half, fit.law.base)


def fit_near_prior(prior: WaveScheme, curve: Curve) -> Iterator[list[Fit]]:
    """Laws near the prior's: itself; one parameter; two; then any law at all."""
    law, count = prior.law, len(curve.frequency)
    if "divisors" not in law.scaling.frequency_parameters() and curve.rises:  # no other law does
        yield list(fit_longrope(curve, float(law.half))) if prior.rotary and count == law.count else []
        return
    resized = replace(law, count=count, half=law.half * count / law.count)
    starts = [law] if count == law.count else [resized, replace(law, count=count)]

    def fit(each: Law, cost: float) -> Fit:
        return Fit(each, curve.misfit(each.frequencies()), cost)

    yield [fit(each, 0.5 * k) for k, each in enumerate(starts)]
    exponents = _exponents(starts[0], curve)
    others = [
        fit(each, 0.95 if each.half in (2 * starts[0].half, starts[0].half / 2) else 1.0 + 0.05 * k)  # not the base
        for k, each in enumerate(neighbours(replace(prior, law=starts[0])))
        if each.count == count  # the scheme's own neighbours have its dim
    ]
    names = [name for name in ("base", *law.scaling.frequency_parameters(), "scale") if name in SEARCHED]
    yield (
        others
        + [fit(each, cost) for each, cost in exponents]
        + [
            replace(one, cost=one.cost + 1 - 0.05 * (name == "length"))
            for start in starts
            for name in names
            for one in fitted(start, name, curve)
        ]
    )
    yield [replace(one, cost=one.cost + 2.2) for one in fit_laws(curve, float(starts[0].half), scales=not prior.rotary)]
    double = [
        replace(one, cost=one.cost + other.cost + 1)
        for other in others
        for name in ("base", *other.law.scaling.frequency_parameters())
        if name in SEARCHED
        for one in fitted(other.law, name, curve)
    ]
    pairs = (fit for two in combinations(names, 2) for fit in fitted_pair(starts[0], two, curve))
    yield double + [replace(fit, cost=fit.cost + 2) for fit in pairs]
    yield list(fit_longrope(curve, float(starts[0].half))) if prior.rotary else []


def _exponents(law: Law, curve: Curve) -> Iterator[tuple[Law, float]]:
    """Laws without scaling, with costs: the base that the spec says with exponents over another whole number (half the
    dimension, a hidden size), or a plain base with exponents over i/(d/2 − 1).
    """
    straight = geometric(curve)
    if straight is None or straight[1] <= 0 or abs(straight[0]) > SIGMAS * straight[2] + 1e-6:
        return
    _, step, _, step_error = straight
    other, slack = law.half - 1, SIGMAS * step_error / step + 1e-6
    unscaled = replace(law, scaling=NO_SCALING, rotating=None)
    extra = float(law.scaling != NO_SCALING)
    over = 2 * math.log(law.base) / step
    whole = round(over)
    if abs(over - whole) <= slack * over <= 0.25 and whole >= 2:
        likely = whole in (law.half, 2 * other, 4 * law.half) or whole % (2 * law.half) == 0
        yield replace(unscaled, half=whole / 2), (0.95 if likely else 1.35) + extra
    if 0 < step * other < 50:
        base = plainest(math.exp(step * other), math.exp(step * other) * slack * step * other)
        if base != law.base and (base in BASES or digits(base) == 1):
            yield replace(unscaled, half=other, base=base), 1.35 + extra


MIN_FREQUENCIES = 4
MAX_UNINITIALISED = 1e-9
"""Radians per position: below it, even the fastest frequency is what memory happened to hold."""
TIMESTEPS = 1000.0
"""What diffusion models multiply positions from 0 to 1 by."""
MIN_RECOGNISED = 6
MIN_IMPROVEMENT = 8.0
"""How many times smaller than the difference from the prior the residual has to be."""
ENOUGH = 3.0
ROUNDING_NOISE = 0.6
"""Of half a step: the root mean square of what rounding leaves."""

INVERSES = {"wavelengths": 2 * math.pi, "1/inv_freq": 1.0}
"""What vectors hold instead of frequencies, which are these numbers over them."""


def explain_frequencies(one: Sample, prior: WaveScheme) -> list[Explanation]:
    """Explanations of a vector of frequencies by what it should be."""
    values = one.values.reshape(-1)
    if np.isnan(values).any() or np.abs(values).max() < MAX_UNINITIALISED:
        return [Explanation((Uninitialised(),), None, math.inf, 0.0, (one.name,))]
    if not np.isfinite(values).all() or np.iscomplexobj(values) or len(values) < 2:
        return []
    signs: tuple[Edit, ...] = (Negated("all"),) if (values < 0).sum() > len(values) / 2 else ()
    values = -values if signs else values
    readings: list[tuple[tuple[Edit, ...], Floats]] = [(signs, values)]
    if (values > 0).all() and values[-1] > values[0]:
        readings += [((Parameter("inv_freq", "frequencies", name),), of / values) for name, of in INVERSES.items()]
        readings.append(((Channels("reversed"),), values[::-1]))
    stored = (Dtype(one.dtype),) if precision(one.dtype) > precision("float32") else ()
    found: list[Explanation] = []
    for edits, frequency in readings:
        floor = ROUNDING_NOISE * rounding(frequency)[1]
        noises = [floor, *(each for each in (1e-6, 1e-5, 1e-4, 1e-3) if each > floor)]
        curves = [Curve(frequency, np.hypot(DRIFT / 4 * np.abs(frequency), noise), aliased=False) for noise in noises]
        if any(fit.misfit <= ENOUGH for tier in fit_near_prior(prior, curves[-1]) for fit in tier):
            found += _explained(one, prior, curves, (*edits, *stored))
    return best(found)


def _explained(
    one: Sample, prior: WaveScheme | None, curves: Iterable[Curve], edits: tuple[Edit, ...] = (), most: int = 1
) -> list[Explanation]:
    """Explanations by the first laws that give a curve, the simplest first; the curves have larger errors each time."""
    for curve in curves:
        count = float(len(curve.frequency))
        any_law = iter(() if prior else ([*fit_laws(curve, count, scales=False), *fit_longrope(curve, count)],))
        for tier in fit_near_prior(prior, curve) if prior else any_law:
            fits = sorted((fit for fit in tier if math.isfinite(fit.misfit)), key=lambda fit: fit.cost)
            made = (_checked(one, prior, fit, curve, edits) for fit in fits)
            if found := list(islice(filter(None, made), most)):
                return found
    return []


def _checked(
    one: Sample, prior: WaveScheme | None, fit: Fit, curve: Curve, edits: tuple[Edit, ...]
) -> Explanation | None:
    """The explanation, if all frequencies are within their errors and it earns its numbers."""
    law, values = fit.law, curve.frequency
    error = np.hypot(curve.error, rounding(values)[0] * np.abs(values))
    left = np.abs(law.frequencies() - values)
    misfit = float(np.sqrt(np.mean((left / error) ** 2)))
    if (left > 4 * error + 1e-15).any() or misfit > ENOUGH:
        return None
    told: tuple[Edit, ...] = law_edits(prior, law) if prior else ()
    if prior is None:
        scheme = scheme_of(law, 0, 1, expected_amplitude(None, law))
        if scheme is None:
            return None
    else:
        scheme = scheme_of(law, prior.offset, prior.length, prior.amplitude, prior.form, prior.rotary)
        if len(values) < MIN_FREQUENCIES * len(told):
            return None
        if told and law.count == prior.law.count:
            change = float(np.sqrt(np.mean(((prior.law.frequencies() - values) / error) ** 2)))
            if change < MIN_IMPROVEMENT * min(misfit, 1.0):
                return None
    noise, extra = float(np.sqrt(np.mean(left**2))), fit.cost - len(told)
    errors = Errors(law.frequencies() - values, values, 4 * error)
    return Explanation(
        (*edits, *told), scheme, float(left.max()), noise, (one.name,), fit.open, extra, lambda _: errors
    )


def recognise_frequencies(one: Sample) -> list[Explanation]:
    """The rotary schemes of a vector of frequencies that falls from 1 or less."""
    values = one.values.reshape(-1)
    if len(values) < MIN_RECOGNISED or not np.isfinite(values).all() or (values < 0).any() or values[0] <= 0:
        return []
    relative, absolute = rounding(values)
    exact = [4 * precision(one.dtype)] if one.dtype == "float64" and not (relative or absolute) else []
    slacks = (*exact, relative or DRIFT / 2)
    errors = (np.hypot(slack * np.abs(values), ROUNDING_NOISE * absolute) + 1e-300 for slack in slacks)
    curves = (Curve(values, error, aliased=False) for error in errors)  # float64 may follow a law to the last place
    return _explained(one, None, (curve for curve in curves if curve.known.sum() >= MIN_RECOGNISED // 2), most=3)
