"""Which law measured frequencies follow: one near a prior's, or any; and what vectors of frequencies are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice, product
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.explain.edits import Decimals, Dtype, Edit, Explanation, FixedPoint, Negated, Uninitialised
from pecli.explain.laws import (
    BETAS,
    LENGTHS,
    MAX_MISFIT,
    PARAMETERS,
    SEARCHED,
    SIGMAS,
    USUAL_MISFIT,
    Curve,
    Fit,
    Law,
    fitted,
    fitted_beside,
    geometric,
    line,
    steps_of,
)
from pecli.explain.sample import BASES, Sample, digits, grain, plain_integer, plainest, precision
from pecli.explain.wave_schemes import WaveScheme, expected_height, law_edits, neighbours, scheme_of
from pecli.explain.waves import DRIFT


def bends(curve: Curve, half: float) -> Iterator[Fit]:
    """YaRN and Llama 3 scalings that give the curve: with the law taken out, it falls from 1 to 1/factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    known = curve.known
    if known.sum() < 4 or abs(curve.frequency[0] - 1) > MAX_MISFIT * curve.error[0] + 1e-6:
        return
    for step in steps_of(curve, half):
        plain = np.exp(-step * index)
        ratio, error = curve.frequency / plain, curve.error / plain
        slack = MAX_MISFIT * error + 1e-6
        if not 0 < step * half < 60 or (ratio > 1 + slack)[known].any():
            continue
        base = plainest(math.exp(step * half), math.exp(step * half) * 1e-7)
        law = Law(len(index), half, base)
        after = np.flatnonzero(known & (np.abs(ratio - ratio[np.flatnonzero(known)[-1]]) < slack + 1e-9))
        for share in {
            float(np.average(ratio[after], weights=1 / error[after] ** 2)),
            *(1 / f for f in SEARCHED["factor"].usual),
        }:
            if 0 < share < 0.95 and (ratio[known] > share - slack[known]).all():
                inside, ramp, doubt = _inside(share, ratio, error, curve)
                if inside.sum() < 2:
                    yield from _by_usual_lengths(law, share, curve)
                else:
                    yield from _yarns(law, share, inside, ramp, doubt, curve)
                    yield from _llamas(law, share, inside, ramp, doubt, curve)


def _inside(share: float, ratio: Floats, error: Floats, curve: Curve) -> tuple[Flags, Floats, Floats]:
    """How much of each frequency is interpolated, where that is neither all nor nothing."""
    ramp = (1 - ratio) / (1 - share)
    doubt = error / (1 - share)
    return curve.known & (ramp > 3 * doubt + 1e-4) & (ramp < 1 - 3 * doubt - 1e-4) & (doubt < 0.1), ramp, doubt


def _yarns(law: Law, share: float, inside: Flags, ramp: Floats, doubt: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the channels, between two limits."""
    at = np.flatnonzero(inside).astype(np.float64)
    slope, level, *_ = line(at, ramp[inside], doubt[inside])
    if slope <= 0:
        return
    low, high = -level / slope, (1 - level) / slope
    for truncate in (True, False):
        for one, other in (
            {(round(low), round(high)), (math.floor(low), math.ceil(high))} if truncate else {(low, high)}
        ):
            if -0.5 <= one < other <= 2 * law.half:
                yield from _by_limits(
                    replace(law, scaling="yarn", factor=1 / share, truncate=truncate), one, other, curve
                )


def _by_usual_lengths(law: Law, share: float, curve: Curve) -> Iterator[Fit]:
    """Either scaling with its usual numbers, where too few channels are between the limits to measure those."""
    factor = plainest(1 / share, 0.02 / share)
    for scaling in ("llama3", "yarn"):
        for original in LENGTHS:
            found = law.having(scaling=scaling, factor=factor, original=original)
            if (fit := curve.misfit(found.frequencies())) < USUAL_MISFIT:
                said = "other original lengths give the same table"
                yield Fit(found, fit, 0.3 + 0.1 * _digits(found, "base", "factor"), (said,))


def _by_limits(law: Law, low: float, high: float, curve: Curve) -> Iterator[Fit]:
    """The original length, and betas where they are not 32 and 1, that put YaRN's limits there."""

    def length(index: float, rotations: float) -> float:
        return float(2 * math.pi * rotations * law.base ** (index / law.half))

    candidates: list[dict[str, float]] = []
    for fast, slow in BETAS if law.truncate else ():
        bottom = max(length(low, fast) if low > 0 else 1.0, length(high - 1, slow))
        top = min(length(low + 1, fast), length(high, slow) if high < 2 * law.half - 1 else math.inf)
        whole = plain_integer(bottom * (1 + 1e-9), top * (1 - 1e-9)) if bottom < top else None
        if whole is not None:
            usual = {} if (fast, slow) == BETAS[0] else {"beta_fast": fast, "beta_slow": slow}
            candidates.append({"original": float(whole), **usual})
    for longest in () if law.truncate else sorted(LENGTHS, key=lambda each: abs(math.log(each / length(high, 1)))):
        fast, slow = (longest / length(index, 1) for index in (low, high))
        if abs(fast / 32 - 1) < 0.02 and abs(slow - 1) < 0.02:
            candidates.insert(0, {"original": longest})
        betas = {"beta_fast": plainest(fast, 0.02 * fast), "beta_slow": plainest(slow, 0.02 * slow)}
        candidates.append({"original": longest, **betas})
    for changes in candidates[:6]:
        whole_law = law.having(factor=plainest(law.factor, 0.02 * law.factor), **changes)
        if math.isfinite(fit := curve.misfit(whole_law.frequencies())):
            said = "other original lengths, with other beta_fast and beta_slow, give the same table"
            extra = 0.2 * (len(changes) - 1) + 0.1 * (not law.truncate)
            yield Fit(whole_law, fit, extra + 0.1 * _digits(whole_law, "base", "factor"), (said,))


def _llamas(law: Law, share: float, inside: Flags, ramp: Floats, doubt: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the frequencies themselves."""
    plain = np.exp(-np.arange(law.count) / law.half * math.log(law.base))
    slope, level, *_ = line(plain[inside] / (2 * math.pi), 1 - ramp[inside], doubt[inside])
    if slope <= 0:
        return
    for low, high in ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 16.0), (2.0, 8.0)):
        original = slope * (high - low)
        if abs(-level * (high - low) / low - 1) < 0.1:
            for whole in {plain_integer(original * 0.97, original * 1.03) or original, float(round(original))}:
                found = replace(
                    law,
                    scaling="llama3",
                    factor=plainest(1 / share, 0.02 / share),
                    original=float(whole),
                    low=low,
                    high=high,
                )
                fit = curve.misfit(found.frequencies())
                said = "an original length k times as long, with both freq_factors k times as large, is the same"
                yield Fit(found, fit, 0.1 * _digits(found, "base", "factor", "high") + 0.1 * (low != 1), (said,))


def _digits(law: Law, *names: str) -> int:
    return sum(digits(getattr(law, name)) for name in names)


def stretched(curve: Curve, half: float, base: float) -> Iterator[Fit]:
    """A base that is not plain may be a plain one, stretched by NTK scaling with a plain factor."""
    for plain_base in BASES:
        if not plain_base * 1.01 < base < plain_base * 3000 or half <= 1:
            continue
        for fit in fitted(Law(len(curve.frequency), half, plain_base, scaling="ntk"), "factor", curve):
            if digits(fit.law.factor) <= 3:
                said = f"base {base:.9g} without scaling is the same table, and so is dynamic scaling with that factor"
                yield replace(fit, cost=fit.cost + 0.4 + 0.1 * digits(plain_base), open=(said,))


def _other_bases(curve: Curve, half: float) -> list[float]:
    """Bases of up to five digits for which the divisors of all frequencies that are known well have two decimals."""
    use = np.flatnonzero(curve.known & (curve.error < 2e-5 * np.abs(curve.frequency)))
    if len(use) < 9:
        return []
    first, rest = int(use[use > 0][0]), use[use > 0][1:]
    divisors = np.arange(50, 3200) / 100
    with np.errstate(all="ignore"):
        every = np.abs(divisors * curve.frequency[first]) ** (-half / first)
    bases = np.array([*{float(f"{base:.4e}") for base in every if 10 < base < 1e8}])
    found = np.exp(np.multiply.outer(np.log(bases), -rest / half)) / curve.frequency[rest]
    doubt = 4 * found * curve.error[rest] / np.abs(curve.frequency[rest]) + 1e-9
    return [float(base) for base in bases[(np.abs(found * 100 - np.rint(found * 100)) / 100 <= doubt).all(axis=1)]]


def divided(curve: Curve, half: float) -> Iterator[Fit]:
    """LongRoPE: a divisor for every frequency. As many numbers explain as many: only where the divisors of the
    frequencies that are known well come out as plain numbers does that mean anything.
    """
    known = curve.known
    best: tuple[int, Law] | None = None
    for base in (*BASES, *_other_bases(curve, half)):
        plain = np.exp(-np.arange(len(curve.frequency)) / half * math.log(base))
        divisors = np.where(known, plain / np.where(known, curve.frequency, 1), 1.0)
        doubt = np.where(known, divisors * curve.error / np.where(known, np.abs(curve.frequency), 1), np.inf)
        sharp = (doubt < 1e-3) & known
        grid = np.where(doubt < 5e-5, 1000.0, 100.0)
        off = np.abs(divisors * grid - np.rint(divisors * grid)) / grid
        if sharp.sum() < 6 or (divisors[known] < 0.5).any() or (divisors[known] > 2000).any():
            continue
        if (off[sharp] > 4 * doubt[sharp] + 1e-9).any() or float(np.ptp(divisors[sharp])) < 0.005:
            continue
        unknown = plain / np.maximum(curve.frequency, np.maximum(curve.error / 2, 1e-30))  # hardly turning
        rounded = [
            plainest(float(d), float(4 * e if good else e / 2)) if k else float(f"{u:.3g}")
            for d, e, k, u, good in zip(divisors, doubt, known, unknown, sharp, strict=True)
        ]
        if best is None or sharp.sum() > best[0]:
            best = int(sharp.sum()), Law(len(plain), half, base, scaling="longrope", divisors=tuple(rounded))
    if best is not None:
        said = (
            "the base and the divisors are known only together",
            "short and long divisors are not told apart, nor is the original length",
            "the attention factor is as measured; a factor may have given it",
        )
        yield Fit(best[1], curve.misfit(best[1].frequencies()), 3.0, said)


def laws(curve: Curve, halves: Sequence[float], *, scales: bool) -> Iterator[Fit]:
    """Every law that the frequencies may follow, for exponents over each of `halves`; with `scales`, positions may be
    multiplied (sinusoidal tables), else frequencies divided (linear scaling) and bent.
    """
    count = len(curve.frequency)
    still = np.abs(curve.frequency) <= 6 * curve.error
    turning = count - int(np.argmin(still[::-1])) if not still.all() else 0
    straight = geometric(curve)
    for half, base in product(halves, BASES if scales else ()):  # most channels of timesteps turn more than once a row
        if (off := curve.misfit((timesteps := Law(count, half, base, TIMESTEPS)).frequencies())) < USUAL_MISFIT:
            yield Fit(timesteps, off, 0.2)
    for half in halves:
        if straight is not None:
            yield from _straight(curve, half, straight, scales=scales, turning=turning)
        elif curve.known.sum() == 1 and abs(curve.frequency[0] - 1) <= MAX_MISFIT * curve.error[0]:
            yield Fit(
                Law(count, half), curve.misfit(Law(count, half).frequencies()), 0.5, ("one channel turns: any base",)
            )
    if not scales:
        yield from bends(curve, halves[0])


def _straight(
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
        options = (
            [{"scale": 1 / shorter if shorter else direct}] if scales else [{"scaling": "linear", "factor": inverse}]
        )
    if 0 < turning < count and not scales:
        options.append({**(options[0] if options else {}), "scaling": "proportional", "turning": turning})
    for changes in options:
        for fit in fitted(Law(count, half, base, **changes), "base", curve):
            said = (
                (f"the base is known within {SIGMAS * step_error * half * base:.1g}",)
                if step_error * half > 1e-4
                else ()
            )
            cost = fit.cost + 0.1 * sum(digits(v) for v in changes.values() if isinstance(v, float))
            yield replace(fit, cost=cost, open=said)
            if digits(fit.law.base) > 2 and fit.law.base not in BASES and not scales and fit.law.scaling == "none":
                yield from stretched(curve, half, fit.law.base)


def laws_with_prior(prior: WaveScheme, curve: Curve) -> Iterator[list[Fit]]:
    """Laws near the prior's: itself; one parameter; two; then any law at all."""
    law, count = prior.law, len(curve.frequency)
    if law.scaling != "longrope" and curve.rises:  # no other law does
        yield list(divided(curve, float(law.half))) if prior.rotary and count == law.count else []
        return
    if count != law.count:
        resized = replace(law, count=count, half=law.half * count / law.count)
        starts = [resized, replace(law, count=count)]
    else:
        starts = [law]

    def fit(each: Law, cost: float) -> Fit:
        return Fit(each, curve.misfit(each.frequencies()), cost)

    yield [fit(each, 0.5 * k) for k, each in enumerate(starts)]
    others = [
        fit(each, 0.95 if each.half == 2 * starts[0].half else 1.0 + 0.05 * k)  # rather than the root of the base
        for k, each in enumerate(neighbours(replace(prior, law=starts[0])))
        if each.count == count  # the scheme's own neighbours have its dim
    ]
    names = [name for name in ("base", *PARAMETERS[law.scaling], "scale") if name in SEARCHED]
    yield others + [
        replace(one, cost=one.cost + 1) for start in starts for name in names for one in fitted(start, name, curve)
    ]
    yield [replace(one, cost=one.cost + 2.2) for one in laws(curve, [float(starts[0].half)], scales=not prior.rotary)]
    double = [
        replace(one, cost=one.cost + other.cost + 1)
        for other in others
        for name in ("base", *PARAMETERS[other.law.scaling])
        if name in SEARCHED
        for one in fitted(other.law, name, curve)
    ]
    pairs = (fit for one, other in combinations(names, 2) for fit in fitted_beside(starts[0], one, other, curve))
    yield double + [replace(fit, cost=fit.cost + 2) for fit in pairs]
    yield list(divided(curve, float(starts[0].half))) if prior.rotary else []


MIN_FREQUENCIES = 4
TIMESTEPS = 1000.0
"""What diffusion models multiply positions from 0 to 1 by."""
MIN_RECOGNISED = 6
MIN_IMPROVEMENT = 8.0
"""How many times smaller than the difference from the prior the residual has to be."""
ENOUGH = 3.0


def explain_frequencies(one: Sample, prior: WaveScheme) -> list[Explanation]:
    """Explanations of a vector of frequencies by what it should be."""
    values = one.values.reshape(-1)
    if np.isnan(values).any() or not values.any() or len(values) < 2:
        return [Explanation((Uninitialised(),), None, math.inf, 0.0, (one.name,))]
    if not np.isfinite(values).all() or np.iscomplexobj(values):
        return []
    signs: tuple[Edit, ...] = (Negated("all"),) if (values < 0).sum() > len(values) / 2 else ()
    values = -values if signs else values
    if found := _explained(one, values, prior, signs):
        return found
    if len(values) == prior.law.count and abs(values[0] / prior.law.frequencies()[0] - 1) > 0.5:
        return [Explanation((Uninitialised(),), None, math.inf, 0.0, (one.name,))]
    return []


def _explained(one: Sample, values: Floats, prior: WaveScheme, edits: tuple[Edit, ...]) -> list[Explanation]:
    floor = noise_floor(values)
    noises = [floor, *(each for each in (1e-6, 1e-5, 1e-4, 1e-3) if each > floor)]
    curves = [Curve(values, np.hypot(DRIFT / 4 * np.abs(values), noise), aliased=False) for noise in noises]
    loosest = curves[-1]
    if not any(fit.misfit <= ENOUGH for tier in laws_with_prior(prior, loosest) for fit in tier):
        return []
    for curve in curves:
        for tier in laws_with_prior(prior, curve):
            for fit in sorted((fit for fit in tier if math.isfinite(fit.misfit)), key=lambda fit: fit.cost):
                if found := _checked(one, values, prior, fit, curve, edits):
                    return [found]
    return []


def noise_floor(values: Floats) -> float:
    """What rounding leaves of numbers of order one, as decimals or steps say."""
    found = grain(values)
    if isinstance(found, Decimals):
        return 0.3 * 10.0**-found.digits
    return 0.3 * found.step if isinstance(found, FixedPoint) else 0.0


def _checked(
    one: Sample, values: Floats, prior: WaveScheme, fit: Fit, curve: Curve, edits: tuple[Edit, ...]
) -> Explanation | None:
    """The explanation, if all frequencies are within their errors and it earns its numbers."""
    law = fit.law
    found = law.frequencies()
    kind = grain(values)
    error = curve.error
    if isinstance(kind, Dtype):
        error = np.hypot(error, precision(kind.found) * np.abs(values))
    left = np.abs(found - values)
    if (left > 4 * error + 1e-12).any() or np.sqrt(np.mean((left / error) ** 2)) > ENOUGH:
        return None
    told = law_edits(prior, law)
    if told and len(values) < MIN_FREQUENCIES * len(told):
        return None
    if told and law.count == prior.law.count:
        before = prior.law.frequencies()
        change, rest = (float(np.sqrt(np.mean(((each - values) / error) ** 2))) for each in (before, found))
        if change < MIN_IMPROVEMENT * min(rest, 1.0):
            return None
    scheme = scheme_of(law, prior.offset, prior.length, prior.height, prior.form, prior.rotary)
    noise = float(np.sqrt(np.mean(left**2)))
    return Explanation((*edits, *told), scheme, float(left.max()), noise, (one.name,), fit.open, fit.cost - len(told))


def recognise_frequencies(one: Sample) -> list[Explanation]:
    """The rotary scheme of a vector of frequencies that falls from 1 or less."""
    values = one.values.reshape(-1)
    if len(values) < MIN_RECOGNISED or not np.isfinite(values).all() or (values < 0).any() or values[0] <= 0:
        return []
    kind = grain(values)
    loose = precision(kind.found) if isinstance(kind, Dtype) else DRIFT / 2
    exact = [4 * precision(one.dtype)] if one.dtype == "float64" and kind is None else []
    floor = noise_floor(values)
    for relative in (*exact, loose):  # numbers of float64 that follow a law to the last place need all of them
        curve = Curve(values, np.hypot(relative * np.abs(values), floor) + 1e-300, aliased=False)
        if found := list(islice(_recognised(one, values, curve), 3)):
            return found
    return []


def _recognised(one: Sample, values: Floats, curve: Curve) -> Iterator[Explanation]:
    count = float(len(values))
    every = [*laws(curve, [count], scales=False), *divided(curve, count)]
    for fit in sorted(every, key=lambda each: each.cost):
        left = np.abs(fit.law.frequencies() - values)
        if (left <= 4 * curve.error + 1e-15).all() and curve.known.sum() >= MIN_RECOGNISED // 2:
            height = expected_height(None, fit.law)
            if (scheme := scheme_of(fit.law, 0, 1, height)) is not None:
                noise = float(np.sqrt(np.mean(left**2)))
                yield Explanation((), scheme, float(left.max()), noise, (one.name,), fit.open, fit.cost)
