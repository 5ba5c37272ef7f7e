"""Which law measured frequencies follow: one near a prior's, or any; and what vectors of frequencies are."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from pecli.engine.arrays import Floats, Indices
from pecli.engine.scalings import linear, llama3, longrope, ntk, yarn
from pecli.explain import frequency_laws as laws
from pecli.explain.acceptance import Judge
from pecli.explain.edits import (
    Channels,
    Dtype,
    Edit,
    Errors,
    Explanation,
    Negated,
    Parameter,
    Uninitialised,
    best,
)
from pecli.explain.frequency_laws import (
    MAX_MISFIT,
    NO_SCALING,
    ORIGINAL,
    SIGMAS,
    Curve,
    Fit,
    Law,
    WaveScheme,
    fitted,
)
from pecli.explain.sample import BASES, digits, plainest, precision, rounding
from pecli.explain.wave_measurement import DRIFT

TIMESTEPS = 1000.0  # what diffusion models multiply positions from 0 to 1 by
BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (64.0, 2.0), (16.0, 2.0), (128.0, 1.0))
FREQ_FACTORS = ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 16.0), (2.0, 8.0))
NEAR_BASE = 1e-3  # of the logarithm: bases that may be the same
MIN_FREQUENCIES = 4  # that every number of an explanation has to explain
MAX_UNINITIALISED = 1e-9  # radians per position: below it, even the fastest frequency is what memory happened to hold
MIN_RECOGNISED = 6
ENOUGH = 3.0  # standard errors, root mean square, that a vector may be off its law
ROUNDING_NOISE = 0.6  # of half a step: the root mean square of what rounding leaves
INVERSES = {
    "wavelengths": 2 * math.pi,
    "1/inv_freq": 1.0,
}  # numbers that frequencies are over what vectors hold


def _blends() -> Iterator[tuple[float, Any, str]]:
    """Scalings that divide slow channels and blend up to fast ones, what is unusual about each, and what stays open."""
    for low, high in FREQ_FACTORS:
        scaling: Any = partial(
            llama3.Llama3, **{ORIGINAL: 8192}, low_freq_factor=low, high_freq_factor=high
        )
        said = "an original length k times as long, with both freq_factors k times as large, is the same"
        yield 0.1 * digits(high) + 0.1 * (low != 1), scaling, said
    for truncate, (fast, slow) in product((True, False), BETAS):
        said = "other original lengths, with other beta_fast and beta_slow, give the same table"
        scaling = partial(yarn.Yarn, 8192, beta_fast=fast, beta_slow=slow, truncate=truncate)
        yield 0.4 * ((fast, slow) != BETAS[0]) + 0.1 * (not truncate), scaling, said


def fit_blends(curve: Curve, half: float) -> Iterator[Fit]:
    """Blends that give the curve: with the law taken out, it falls from 1 to 1/factor about the original length."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    known = np.flatnonzero(curve.known)
    if len(known) < 4:
        return
    for step, step_error in _steps(curve, half):
        plain = np.exp(-step * index)
        ratio, error = (curve.frequency / plain)[known], (curve.error / plain)[known]
        slack = MAX_MISFIT * error + 1e-6
        if (
            not 0 < step * half < 60
            or (ratio > 1 + slack).any()
            or (len(index) > 16 and ratio[1] < 1 - slack[1])
        ):
            continue
        base = plainest(
            math.exp(step * half), math.exp(step * half) * (1e-7 + SIGMAS * step_error * half)
        )
        last = np.abs(ratio - ratio[-1]) < slack + 1e-9
        inverse = 1 / max(1e-9, float(np.average(ratio[last], weights=1 / error[last] ** 2)))
        measured = plainest(inverse, 0.02 * inverse)
        for factor in dict.fromkeys((measured, *laws.FACTORS)):
            if factor <= 1.05 or (ratio < 1 / factor - slack).any():
                continue
            plainness = 0.1 * (digits(base) + digits(factor))
            for unusual, scaling, said in _blends():
                law = Law(len(index), half, base, scaling=scaling(factor=factor))
                misfits = curve.misfit(
                    law.having(**{ORIGINAL: np.array(laws.LENGTHS)[:, None]}).frequencies()
                )
                for length, off in zip(laws.LENGTHS, misfits.tolist(), strict=True):
                    if off < laws.USUAL_MISFIT:
                        yield Fit(
                            law.having(**{ORIGINAL: length}), off, unusual + plainness, (said,)
                        )
                if factor == measured and unusual <= 0.1 and misfits.min() >= laws.USUAL_MISFIT:
                    yield from (
                        fit.costing(plainness + unusual, said)
                        for fit in fitted(law, ORIGINAL, curve)
                    )


def _steps(curve: Curve, half: float) -> Iterator[tuple[float, float]]:
    """Steps of the law before a bend, with errors: of usual bases, and as the first channels say."""
    yield from ((math.log(base) / half, 0.0) for base in BASES)
    known = np.flatnonzero(curve.known & (curve.frequency > 0))
    if len(known) > 3 and known[0] == 0:
        logs, errors = (
            np.log(curve.frequency[known]),
            curve.tight().error[known] / curve.frequency[known],
        )
        for last in (1, len(known) // 6 + 1, len(known) // 3 + 1):
            step, error = logs[0] - logs[last], np.hypot(errors[0], errors[last])
            yield float(step / known[last]), float(error / known[last])


class Geometric(NamedTuple):
    """ln f = level − step · i, with errors."""

    level: float
    step: float
    level_error: float
    step_error: float


def geometric(curve: Curve) -> Geometric | None:
    """The geometric law by weighted least squares, channels that do not fit left out, as those that turn too far."""
    known = np.flatnonzero(curve.known & (curve.frequency > 0))
    if len(known) < 2:
        return None
    logs, errors = np.log(curve.frequency[known]), curve.error[known] / curve.frequency[known]
    slow = slice(len(known) // 2 if len(known) > 3 else 0, None)
    step = -float(np.median(np.diff(logs[slow]) / np.diff(known[slow])))
    level = float(np.median(logs[slow] + step * known[slow]))
    found = _line(known[slow], logs[slow], errors[slow])._replace(step=step, level=level)
    for _ in range(6):
        off = np.abs(logs - found.level + found.step * known)
        use = off <= np.maximum(
            MAX_MISFIT * np.hypot(errors, found.level_error), 1.5 * float(np.median(off)) + 1e-12
        )
        found = _line(known[use], logs[use], errors[use])
    return found


def _line(x: Indices, y: Floats, error: Floats) -> Geometric:
    (slope, level), covariance = np.polyfit(x, y, 1, w=1 / np.maximum(error, 1e-15), cov="unscaled")
    return Geometric(float(level), -float(slope), *np.sqrt(np.diag(covariance)[::-1]).tolist())


def fit_ntk(curve: Curve, half: float, base: float) -> Iterator[Fit]:
    """A base that is not plain may be a plain one, stretched by NTK scaling with a plain factor."""
    said = f"base {base:.9g} without scaling is the same table, and so is dynamic scaling with that factor"
    for plain_base in BASES:
        if plain_base * 1.01 < base < plain_base * 3000 and half > 1:
            for fit in fitted(
                Law(len(curve.frequency), half, plain_base, scaling=ntk.Ntk(1.0)), "factor", curve
            ):
                if digits(fit.law.scaling.factor) <= 3:
                    yield fit.costing(0.4 + 0.1 * digits(plain_base), said)


def fit_longrope(curve: Curve, half: float) -> Iterator[Fit]:
    """LongRoPE: as many divisors as frequencies, which mean something only where those known well are plain numbers."""
    known, best = curve.known, list[tuple[int, Law]]()
    for base in BASES:
        plain = np.exp(-np.arange(len(known)) / half * math.log(base))
        unknown = np.maximum(curve.frequency, np.maximum(curve.error / 2, 1e-30))  # hardly turning
        divisors = plain / np.where(known, curve.frequency, unknown)
        doubt = np.abs(divisors * np.where(known, curve.error / curve.frequency, 0.01))
        sharp = (doubt < 1e-3) & known
        if (
            sharp.sum() < MIN_RECOGNISED
            or (divisors[known] < 0.5).any()
            or (divisors[known] > 2000).any()
        ):
            continue
        grid = np.where(doubt < 5e-5, 1000.0, 100.0)
        off = np.abs(divisors * grid - np.rint(divisors * grid)) / grid
        if (
            float(np.ptp(divisors[sharp])) >= 0.005
            and not (off[sharp] > 4 * doubt[sharp] + 1e-9).any()
        ):
            rounded = tuple(
                map(plainest, divisors.tolist(), np.where(sharp, 4 * doubt, doubt / 2).tolist())
            )
            law = Law(
                len(plain),
                half,
                base,
                scaling=longrope.LongRope(4096, rounded, rounded, attention_factor=1.0),
            )
            best.append((int(sharp.sum()), law))
    if best:
        _, law = max(best, key=lambda each: each[0])
        said = (
            "the base and the divisors are known only together",
            "short and long divisors are not told apart, nor is the original length",
            "the attention factor is as measured; a factor may have given it",
        )
        yield Fit(law, float(curve.misfit(law.frequencies())), 3.0, said)


def fit_laws(curve: Curve, half: float, *, scales: bool) -> Iterator[Fit]:
    """Every law that the frequencies may follow, with exponents over `half`; with `scales`, positions may be multiplied
    (sinusoidal tables), else frequencies divided (linear scaling) and bent."""
    count = len(curve.frequency)
    for base in BASES if scales else ():  # most channels of timesteps turn more than once a row
        if (
            off := curve.misfit((timesteps := Law(count, half, base, TIMESTEPS)).frequencies())
        ) < laws.USUAL_MISFIT:
            yield Fit(timesteps, float(off), 0.2)
    straight = geometric(curve)
    found = (
        list(_fit_geometric(curve, half, straight, scales=scales)) if straight is not None else []
    )
    yield from found
    if not scales and all(
        fit.misfit >= laws.USUAL_MISFIT for fit in found
    ):  # none is needed where a plain law does
        yield from fit_blends(curve, half)


def _fit_geometric(curve: Curve, half: float, found: Geometric, *, scales: bool) -> Iterator[Fit]:
    count, factor, changes = len(curve.frequency), 1.0, dict[str, Any]()
    scale, base = (
        math.exp(min(found.level, 50.0)),
        math.exp(min(max(found.step * half, -600.0), 600.0)),
    )
    slack = (SIGMAS * found.level_error + 1e-9) * scale
    if abs(scale - 1) > max(slack, 1e-7):
        inverse, direct = plainest(1 / scale, slack / scale**2), plainest(scale, slack)
        factor = inverse if not scales else 1.0
        changes = {"scale": 1 / inverse if digits(inverse) < digits(direct) else direct}
        changes = changes if scales else {"scaling": linear.Linear(inverse)}
    options = [changes]
    still = np.abs(curve.frequency) <= 6 * curve.error
    turning = count - int(np.argmin(still[::-1])) if not still.all() else 0
    if 0 < turning < count and not scales:
        options.append({"scaling": linear.Proportional(factor), "rotating": turning})
    for changes in options:
        for fit in fitted(Law(count, half, base, **changes), "base", curve):
            doubt = f"the base is known within {SIGMAS * found.step_error * half * base:.1g}"
            numbers = 0.1 * sum(
                digits(each) for each in (changes.get("scale", 1.0), factor) if each != 1
            )
            yield fit.costing(numbers, *((doubt,) if found.step_error * half > 1e-4 else ()))
            if (
                digits(fit.law.base) > 2
                and fit.law.base not in BASES
                and not scales
                and fit.law.scaling == NO_SCALING
            ):
                yield from fit_ntk(curve, half, fit.law.base)


def fit_near_prior(prior: WaveScheme, curve: Curve) -> Iterator[list[Fit]]:
    """Laws near the prior's: itself; one parameter; two; then any law at all."""
    law, count = prior.law, len(curve.frequency)
    rises = np.diff(curve.frequency) > MAX_MISFIT * (curve.error[1:] + curve.error[:-1])
    if (
        "divisors" not in law.scaling.frequency_parameters() and not curve.aliased and rises.any()
    ):  # as no other law
        yield (
            list(fit_longrope(curve, float(law.half)))
            if prior.rotary and count == law.count
            else []
        )
        return
    resized = replace(law, count=count, half=law.half * count / law.count)
    starts = [law] if count == law.count else [resized, replace(law, count=count)]

    def fit(each: Law, cost: float) -> Fit:
        return Fit(each, float(curve.misfit(each.frequencies())), cost)

    def numbers(law: Law) -> list[str]:
        return [
            name for name in ("base", *law.scaling.frequency_parameters()) if name in laws.SEARCHED
        ]

    yield [fit(each, 0.5 * k) for k, each in enumerate(starts)]
    others = [
        fit(
            each, 0.95 if each.half in (2 * starts[0].half, starts[0].half / 2) else 1.0 + 0.05 * k
        )  # not the base
        for k, each in enumerate(laws.neighbours(replace(prior, law=starts[0])))
        if each.count == count  # the scheme's own neighbours have its dim
    ]
    names = [*numbers(law), "scale"]
    single: list[Fit] = []
    for start, name in product(starts, names):
        single += [one.costing(1 - 0.05 * (name == "length")) for one in fitted(start, name, curve)]
    exponents = (*_exponents(starts[0], curve), *_plain_bases(one.law for one in single))
    yield [*others, *(fit(each, cost) for each, cost in exponents), *single]
    unrelated = list(fit_laws(curve, float(starts[0].half), scales=not prior.rotary))
    exponents = tuple(_plain_bases(one.law for one in unrelated))
    yield [
        *(one.costing(2.2) for one in unrelated),
        *(fit(each, cost + 1) for each, cost in exponents),
    ]
    double: list[Fit] = []
    for other in others:
        double += [
            one.costing(other.cost + 1)
            for name in numbers(other.law)
            for one in fitted(other.law, name, curve)
        ]
    pairs = (
        one for two in combinations(names, 2) for one in laws.fitted_pair(starts[0], two, curve)
    )
    yield double + [one.costing(2) for one in pairs]
    yield list(fit_longrope(curve, float(starts[0].half))) if prior.rotary else []


def _exponents(law: Law, curve: Curve) -> Iterator[tuple[Law, float]]:
    """Laws with other exponents, with costs: over d/2 − 1; and without scaling, the base that the spec says with
    exponents over another whole number (half the dimension, a hidden size), or a plain base for one that grows."""
    other, unscaled = law.half - 1, replace(law, scaling=NO_SCALING, rotating=None)
    if other > 0:
        yield replace(law, half=other), 0.95
    found = geometric(curve)
    if found is None or found.step <= 0 or abs(found.level) > SIGMAS * found.level_error + 1e-6:
        return
    slack, extra = SIGMAS * found.step_error / found.step + 1e-6, float(law.scaling != NO_SCALING)
    base = plainest(
        math.exp(found.step * law.half),
        slack * found.step * law.half * math.exp(found.step * law.half),
    )
    if extra and not law.scaling.per_frequency and digits(base) <= 2:
        yield replace(unscaled, base=base), 1.35
    over = 2 * math.log(law.base) / found.step
    whole = round(over)
    if abs(over - whole) <= slack * over <= 0.25 and whole >= 2:
        usual = any(
            abs(math.log(base) - found.step * law.half) < NEAR_BASE for base in BASES
        )  # which says as much
        likely = whole in (law.half, 2 * other, 4 * law.half) or (
            whole % (2 * law.half) == 0 and not usual
        )
        if likely or not usual:
            yield replace(unscaled, half=whole / 2), (0.95 if likely else 1.35) + extra


def _plain_bases(fitted_laws: Iterable[Law]) -> Iterator[tuple[Law, float]]:
    """Usual bases with exponents over d/2 − 1 or 2·d, where the base alone would be a number that nobody has."""
    for law, base in product((law for law in fitted_laws if law.base not in BASES), BASES):
        for half in (law.half - 1, 2 * law.half):
            if abs(math.log(base) - math.log(law.base) * half / law.half) < NEAR_BASE:
                yield replace(law, base=base, half=half), 1.35


def explain_frequencies(judge: Judge, prior: WaveScheme) -> list[Explanation]:
    """Explanations of a vector of frequencies by what it should be."""
    ((name, one),) = judge.samples.items()
    values = one.values.reshape(-1)
    if np.isnan(values).any() or np.abs(values).max() < MAX_UNINITIALISED:
        return [Explanation((Uninitialised(),), None, (name,), residual=math.inf)]
    if not np.isfinite(values).all() or np.iscomplexobj(values) or len(values) < 2:
        return []
    signs: tuple[Edit, ...] = (Negated("all"),) if (values < 0).sum() > len(values) / 2 else ()
    values = -values if signs else values
    readings: list[tuple[tuple[Edit, ...], Floats]] = [(signs, values)]
    if (values > 0).all() and values[-1] > values[0]:
        readings += [
            ((Parameter("inv_freq", "frequencies", name),), of / values)
            for name, of in INVERSES.items()
        ]
        readings.append(((Channels("reversed"),), values[::-1]))
    stored = (Dtype(one.dtype),) if precision(one.dtype) > precision("float32") else ()
    found: list[Explanation] = []
    for edits, frequency in readings:
        floor = ROUNDING_NOISE * rounding(frequency)[1]
        noises = [floor, *(each for each in (1e-6, 1e-5, 1e-4, 1e-3) if each > floor)]
        curves = [
            Curve(frequency, np.hypot(DRIFT / 4 * np.abs(frequency), noise), aliased=False)
            for noise in noises
        ]
        if any(fit.misfit <= ENOUGH for tier in fit_near_prior(prior, curves[-1]) for fit in tier):
            tiers = ((curve, tier) for curve in curves for tier in fit_near_prior(prior, curve))
            found += _by_tiers(tiers, judge, prior, (*edits, *stored))[:1]
    return best(found)


def recognise_frequencies(judge: Judge) -> list[Explanation]:
    """The rotary schemes of a vector of frequencies that falls from 1 or less."""
    (one,) = judge.samples.values()
    values = one.values.reshape(-1)
    falling = np.isfinite(values).all() and (values >= 0).all() and values[:1].any()
    if not one.is_vector or len(values) < MIN_RECOGNISED or not falling:
        return []
    relative, absolute = rounding(values)
    exact = (
        [4 * precision(one.dtype)] if one.dtype == "float64" and not (relative or absolute) else []
    )
    slacks = (*exact, relative or DRIFT / 2)  # float64 may follow a law to the last place
    errors = (
        np.hypot(slack * np.abs(values), ROUNDING_NOISE * absolute) + 1e-300 for slack in slacks
    )
    half = float(len(values))
    curves = (Curve(values, error, aliased=False) for error in errors)
    known = (curve for curve in curves if curve.known.sum() >= MIN_RECOGNISED // 2)
    tiers = (
        (curve, [*fit_laws(curve, half, scales=False), *fit_longrope(curve, half)])
        for curve in known
    )
    return _by_tiers(tiers, judge, None)[:3]


def _by_tiers(
    tiers: Iterable[tuple[Curve, list[Fit]]],
    judge: Judge,
    prior: WaveScheme | None,
    edits: tuple[Edit, ...] = (),
) -> list[Explanation]:
    """Explanations by the first laws that give a curve, the simplest first; the curves have larger errors each time."""
    for curve, tier in tiers:
        fits = sorted((fit for fit in tier if fit.misfit <= ENOUGH), key=lambda fit: fit.cost)
        proposals = (
            each
            for fit in fits
            for each in _proposed(fit, curve, prior, edits, tuple(judge.samples))
        )
        if found := list(judge.accepted(proposals)):
            return found
    return []


def _proposed(
    fit: Fit,
    curve: Curve,
    prior: WaveScheme | None,
    edits: tuple[Edit, ...],
    names: tuple[str, ...],
) -> Iterator[Explanation]:
    """The explanation, if all frequencies are within their errors and it earns its numbers."""
    law, values = fit.law, curve.frequency
    error = np.hypot(curve.error, rounding(values)[0] * np.abs(values))
    left = law.frequencies() - values
    told = laws.law_edits(prior, law) if prior else ()
    if (np.abs(left) > 4 * error + 1e-15).any() or (
        prior and len(values) < MIN_FREQUENCIES * len(told)
    ):
        return
    if prior is None:
        over = law.base ** (
            1 - 1 / law.half
        )  # the base of exponents over d/2 − 1, which no rotary scheme has
        own, other = (digits(plainest(base, 1e-6 * base)) for base in (law.base, over))
        if own > other + 2 or law.base < laws.MIN_BASE:
            return
        scheme = laws.scheme_of(law, 0, 1, laws.expected_amplitude(None, law))
    else:
        scheme = laws.scheme_of(
            law, prior.offset, prior.length, prior.amplitude, prior.form, prior.rotary
        )
    if prior or scheme is not None:
        leaves = Errors(left, values, 4 * error)
        yield Explanation((*edits, *told), scheme, names, leaves, fit.cost - len(told), fit.open)
