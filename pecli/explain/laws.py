"""Laws of frequencies: what base, dim and scaling make of them in float64, and which law measured ones follow.

The engine's exact frequencies take a millisecond a time; a search asks thousands of times, and its data carry noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats
from pecli.explain.numbers import BASES, digits, plain, plain_integer, plainest
from pecli.explain.waves import wrap

SIGMAS = 5.0
"""Standard errors within which a plain number is taken for the measured one."""
MAX_MISFIT = 12.0
"""Standard errors that a frequency may be off its law, since errors are themselves estimates."""
USUAL_MISFIT = 2.5
"""Root mean square, in standard errors, at which a usual number needs no search."""
GRID = 64
"""Values of a parameter that a search starts from."""
HOPELESS = 40.0
"""Root mean square, in hundredths of the frequencies, beyond which no value near a start will fit."""
LENGTHS = (*(float(1 << k) for k in range(8, 21)), 1e6, 128000.0, 100000.0, 32000.0)
BETAS = ((32.0, 1.0), (64.0, 1.0), (16.0, 1.0), (32.0, 2.0), (64.0, 2.0), (16.0, 2.0), (128.0, 1.0))
"""beta_fast and beta_slow as models have them, the usual ones first."""


@dataclass(frozen=True)
class Curve:
    """Frequencies by channel, with errors; `folded` where signs are lost (one function alone)."""

    frequency: Floats
    error: Floats
    folded: bool = False
    drift: float = 0.0
    """The relative error that was added to the measured ones, as float32 arithmetic makes it."""
    aliased: bool = True
    """Whether whole turns per row are lost, as in tables; not in vectors of frequencies."""

    @property
    def known(self) -> Flags:
        return np.asarray((self.error < 0.25 * np.abs(self.frequency)) & (self.frequency != 0))

    def misfits(self, frequency: Floats) -> Floats:
        """How far off each frequency of a law is, in standard errors."""
        if not self.aliased:
            return np.asarray(np.abs(frequency - self.frequency) / self.error)
        off = np.abs(wrap(frequency - self.frequency))
        if self.folded:
            off = np.minimum(off, np.abs(wrap(frequency + self.frequency)))
        return np.asarray(off / self.error)

    def misfit(self, frequency: Floats) -> float:
        """The same for all together: the root of the mean square, with a limit for those far off."""
        return float(np.sqrt(np.mean(np.minimum(self.misfits(frequency), 1e15) ** 2)))

    def tight(self) -> Curve:
        """The same with the measured errors alone."""
        square = self.error**2 - (self.drift * self.frequency) ** 2
        return replace(self, error=np.sqrt(np.maximum(square, 1e-32)), drift=0.0)

    def loosened(self, relative: float) -> Curve:
        return replace(self, error=np.hypot(self.error, relative * np.abs(self.frequency)))


@dataclass(frozen=True)
class Law:
    """base^(−i/half), for i < count, after a scaling; positions times `scale`."""

    count: int
    half: float
    base: float = 10000.0
    scale: float = 1.0
    scaling: str = "none"
    factor: float = 1.0
    original: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    low: float = 1.0
    high: float = 4.0
    longest: float = 0.0
    """max_position_embeddings, of dynamic scaling."""
    length: float = 0.0
    """The length that dynamic scaling is read at."""
    turning: int = 0
    """Of proportional scaling: how many frequencies are not zero."""
    divisors: tuple[float, ...] = ()
    times: int = 1
    """How often the scaling is applied."""

    def having(self, **changes: Any) -> Law:
        """The law with other values of some fields, by name."""
        return replace(self, **changes)

    def frequencies(self) -> Floats:
        """Radians per row."""
        with np.errstate(all="ignore"):
            plain = np.exp(-np.arange(self.count) / self.half * math.log(self.base))
            scaled = (
                plain
                if self.scaling == "none"
                else plain * (_SCALINGS[self.scaling](self, plain) / plain) ** self.times
            )
            return np.asarray(scaled * self.scale)


def _linear(law: Law, plain: Floats) -> Floats:
    return plain / law.factor


def _stretched(law: Law, plain: Floats) -> Floats:
    by = law.factor
    if law.scaling == "dynamic":
        by = law.factor * max(law.length, law.longest) / law.longest - (law.factor - 1)
    return np.asarray(plain * by ** (-np.arange(law.count) / (law.half - 1))) if law.half > 1 else plain


def _yarn(law: Law, plain: Floats) -> Floats:
    low, high = yarn_limits(law)
    ramp = np.clip((np.arange(law.count) - low) / (high - low), 0, 1)
    return np.asarray(plain / law.factor * ramp + plain * (1 - ramp))


def yarn_limits(law: Law) -> tuple[float, float]:
    """The indices between which YaRN blends."""
    low, high = (
        law.half * math.log(law.original / (2 * math.pi * beta)) / math.log(law.base)
        for beta in (law.beta_fast, law.beta_slow)
    )
    if law.truncate:
        low, high = float(math.floor(low)), float(math.ceil(high))
    low, high = max(low, 0.0), min(high, 2 * law.half - 1)
    return low, high + 0.001 if low == high else high


def _llama3(law: Law, plain: Floats) -> Floats:
    keep = np.clip((law.original * plain / (2 * math.pi) - law.low) / (law.high - law.low), 0, 1)
    return np.asarray(plain / law.factor * (1 - keep) + plain * keep)


def _proportional(law: Law, plain: Floats) -> Floats:
    return np.where(np.arange(law.count) < law.turning, plain / law.factor, 0.0)


def _longrope(law: Law, plain: Floats) -> Floats:
    if len(law.divisors) != len(plain):  # of another dimension
        return np.full_like(plain, np.nan)
    return np.asarray(plain / np.array(law.divisors))


_SCALINGS: dict[str, Callable[[Law, Floats], Floats]] = {
    "linear": _linear,
    "ntk": _stretched,
    "dynamic": _stretched,
    "yarn": _yarn,
    "llama3": _llama3,
    "proportional": _proportional,
    "longrope": _longrope,
}

PARAMETERS: dict[str, tuple[str, ...]] = {
    "none": (),
    "linear": ("factor",),
    "ntk": ("factor",),
    "dynamic": ("factor", "longest", "length"),
    "yarn": ("factor", "original", "beta_fast", "beta_slow", "truncate"),
    "llama3": ("factor", "original", "low", "high"),
    "proportional": ("factor", "turning"),
    "longrope": ("divisors",),
}
"""The fields that belong to each scaling."""


@dataclass(frozen=True)
class Fit:
    """A law that frequencies follow, how well, and how far-fetched its numbers are."""

    law: Law
    misfit: float
    cost: float
    open: tuple[str, ...] = ()


# One parameter, the others being known.

_USUAL: dict[str, tuple[float, ...]] = {
    "base": BASES,
    "factor": (2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 10.0),
    "original": LENGTHS,
    "longest": LENGTHS,
    "length": LENGTHS,
    "beta_fast": (32.0, 64.0, 16.0, 128.0, 8.0, 24.0, 48.0),
    "beta_slow": (1.0, 2.0, 4.0, 0.5, 8.0),
    "low": (1.0, 2.0, 4.0, 0.5),
    "high": (4.0, 8.0, 2.0, 16.0, 32.0),
    "scale": (1.0, 1000.0, 0.5, 2.0, 180 / math.pi, math.pi / 180, 2 * math.pi, math.pi),
    "half": (),
}
_DIGIT_COST = {"base": 0.15}
_RANGES: dict[str, tuple[float, float]] = {
    "base": (1.5, 1e9),
    "factor": (0.01, 1e4),
    "original": (64.0, 2.0**22),
    "longest": (64.0, 2.0**22),
    "length": (64.0, 2.0**22),
    "beta_fast": (0.25, 2048.0),
    "beta_slow": (0.01, 256.0),
    "low": (0.05, 64.0),
    "high": (0.1, 256.0),
    "scale": (1e-4, 3000.0),
    "half": (1.0, 65536.0),
}


def fitted(law: Law, name: str, curve: Curve) -> Iterator[Fit]:
    """The law with the value of one parameter that comes nearest, as somebody would have written it."""
    low, high = _RANGES[name]
    if name == "half":
        low, high = law.half / 20, law.half * 20

    def misfit(log: float, of: Curve = curve) -> float:
        return of.misfit(law.having(**{name: math.exp(log)}).frequencies())

    for known in _USUAL[name]:
        if (off := misfit(math.log(known))) < USUAL_MISFIT:
            yield Fit(law.having(**{name: known}), off, 0.0)
            return
    rough = curve.loosened(0.01)
    grid = np.linspace(math.log(low), math.log(high), GRID)
    starts = np.array([misfit(each, rough) for each in grid])
    if not np.isfinite(starts).any() or np.nanmin(starts) > HOPELESS:
        return
    k = int(np.nanargmin(starts))
    best, width = float(grid[k]), float(grid[1] - grid[0])
    for of, reach in ((rough, width), (curve.loosened(1e-5), width / 20), (curve, 1e-4), (curve, 1e-9)):
        best = _golden(partial(misfit, of=of), best - reach, best + reach)
    yield from _written(law, name, curve, best)
    if curve.drift:
        tight = curve.tight()
        best = _golden(partial(misfit, of=tight), best - 1e-7, best + 1e-7)
        yield from (replace(fit, cost=fit.cost + 0.2) for fit in _written(law, name, tight, best))


def _written(law: Law, name: str, curve: Curve, log: float) -> Iterator[Fit]:
    """The value as somebody would have written it: the plainest that fits about as well as the best."""

    def misfit(log: float) -> float:
        return curve.misfit(law.having(**{name: math.exp(log)}).frequencies())

    least, value = misfit(log), math.exp(log)
    allowed = math.sqrt(least**2 + SIGMAS**2 * max(1.0, least**2) / max(1, len(curve.frequency)))
    near = [each for each in _USUAL[name] if abs(math.log(each / value)) < 0.2]
    for candidate in (*sorted(near, key=lambda each: abs(math.log(each / value))), *plain(value, 0.05 * value)):
        off = misfit(math.log(candidate))
        if off <= allowed:
            cost = 0.0 if candidate in _USUAL[name] else _DIGIT_COST.get(name, 0.1) * digits(candidate)
            yield Fit(law.having(**{name: candidate}), off, cost)
            return


def fitted_pair(law: Law, one: str, other: str, curve: Curve) -> Iterator[Fit]:
    """Two parameters at once, by least squares of the logarithms; then each as somebody would have written it."""
    use = np.flatnonzero(curve.known & (curve.frequency > 0))
    if len(use) < 6:
        return
    logs, errors = np.log(curve.frequency[use]), curve.error[use] / curve.frequency[use]

    def at(x: Floats) -> Law:
        return law.having(**{one: math.exp(min(x[0], 40.0)), other: math.exp(min(x[1], 40.0))})

    def rest(x: Floats) -> Floats:
        with np.errstate(all="ignore"):
            off = (np.log(np.maximum(at(x).frequencies()[use], 1e-30)) - logs) / np.maximum(errors, 1e-7)
        return np.asarray(np.clip(np.nan_to_num(off, nan=1e9), -1e9, 1e9))

    x = np.log(np.array([getattr(law, one), getattr(law, other)]))
    here = rest(x)
    for _ in range(20):
        slopes = np.stack([(rest(x + 1e-6 * unit) - here) / 1e-6 for unit in np.eye(2)], axis=1)
        move = np.clip(-np.linalg.pinv(slopes, rcond=1e-9) @ here, -2, 2)
        while (rest(x + move) ** 2).sum() > (here**2).sum() and np.abs(move).max() > 1e-9:
            move = move / 4
        x, here = x + move, rest(x + move)
        if np.abs(move).max() < 1e-10:
            break
    if np.sqrt(np.mean(here**2)) > MAX_MISFIT:
        return
    for name, last in ((one, other), (other, one)):
        yield from fitted(
            at(x).having(**{name: plainest(getattr(at(x), name), 1e-3 * getattr(at(x), name))}), last, curve
        )


def _golden(of: Callable[[float], float], low: float, high: float) -> float:
    """The smallest value between two limits, by golden section, for functions with one valley."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    one, two = of(left), of(right)
    for _ in range(32):
        if one <= two:
            high, right, two = right, left, one
            left = high - share * (high - low)
            one = of(left)
        else:
            low, left, one = left, right, two
            right = low + share * (high - low)
            two = of(right)
    return (low + high) / 2


# No parameter known.


def geometric(curve: Curve) -> tuple[float, float, float, float] | None:
    """Level and step of ln f = level − step · i by weighted least squares, with errors; channels that turn more than
    half a circle per row, and others that do not fit, left out.
    """
    known = np.flatnonzero(curve.known & (curve.frequency > 0))
    if len(known) < 2:
        return None
    logs, errors = np.log(curve.frequency[known]), curve.error[known] / curve.frequency[known]
    best: tuple[float, ...] | None = None
    for some in (known, known[len(known) // 2 :]):
        pick = np.isin(known, some)
        if pick.sum() < 2:
            continue
        slopes = np.diff(logs[pick]) / np.diff(known[pick])
        step = float(np.median(slopes))
        level = float(np.median(logs[pick] - step * known[pick]))
        for _ in range(6):
            off = np.abs(logs - level - step * known)
            use = off <= np.maximum(MAX_MISFIT * errors, 1.5 * float(np.median(off)) + 1e-12)
            if use.sum() < 2:
                break
            weights = 1 / np.maximum(errors[use], 1e-15) ** 2
            centre = np.average(known[use], weights=weights)
            spread = (weights * (known[use] - centre) ** 2).sum()
            step = float((weights * (known[use] - centre) * logs[use]).sum() / spread)
            level = float(np.average(logs[use], weights=weights) - step * centre)
            level_error = math.sqrt(1 / weights.sum() + centre**2 / spread)
        else:
            good = float(use.sum())
            if best is None or good > best[-1]:
                best = level, -step, level_error, 1 / math.sqrt(spread), good
    return best[:4] if best else None  # type: ignore[return-value]


def steps_of(curve: Curve, half: float) -> list[float]:
    """Steps of the law before a bend: of usual bases, and as the first channels say."""
    known = np.flatnonzero(curve.known & (curve.frequency > 0))
    found = [math.log(base) / half for base in BASES]
    if len(known) > 3 and known[0] == 0:
        logs = np.log(curve.frequency[known])
        ends = (1, len(known) // 6 + 1, len(known) // 3 + 1)
        found += [float(logs[0] - logs[last]) / int(known[last]) for last in ends]
    return found


def bends(curve: Curve, half: float) -> Iterator[Fit]:
    """YaRN and Llama 3 scalings that give the curve: with the law taken out, it falls from 1 to 1/factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    known = curve.known
    if known.sum() < 6 or abs(curve.frequency[0] - 1) > MAX_MISFIT * curve.error[0] + 1e-6:
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
            *(1 / f for f in _USUAL["factor"]),
        }:
            if 0 < share < 0.95 and (ratio[known] > share - slack[known]).all():
                yield from _yarns(law, share, ratio, error, curve)
                yield from _llamas(law, share, ratio, error, curve)


def _inside(share: float, ratio: Floats, error: Floats, curve: Curve) -> tuple[Flags, Floats, Floats]:
    """How much of each frequency is interpolated, where that is neither all nor nothing."""
    ramp = (1 - ratio) / (1 - share)
    doubt = error / (1 - share)
    return curve.known & (ramp > 3 * doubt + 1e-4) & (ramp < 1 - 3 * doubt - 1e-4) & (doubt < 0.1), ramp, doubt


def _line(x: Floats, y: Floats, error: Floats) -> tuple[float, float]:
    weights = 1 / np.maximum(error, 1e-12) ** 2
    centre = np.average(x, weights=weights)
    slope = float((weights * (x - centre) * y).sum() / (weights * (x - centre) ** 2).sum())
    return slope, float(np.average(y, weights=weights)) - slope * float(centre)


def _yarns(law: Law, share: float, ratio: Floats, error: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the channels, between two limits."""
    inside, ramp, doubt = _inside(share, ratio, error, curve)
    if inside.sum() < 2:
        return
    at = np.flatnonzero(inside).astype(np.float64)
    slope, level = _line(at, ramp[inside], doubt[inside])
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


def _llamas(law: Law, share: float, ratio: Floats, error: Floats, curve: Curve) -> Iterator[Fit]:
    """A straight line over the frequencies themselves."""
    inside, ramp, doubt = _inside(share, ratio, error, curve)
    if inside.sum() < 2:
        return
    plain = np.exp(-np.arange(law.count) / law.half * math.log(law.base))
    slope, level = _line(plain[inside] / (2 * math.pi), 1 - ramp[inside], doubt[inside])
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


def divided(curve: Curve, half: float) -> Iterator[Fit]:
    """LongRoPE: a divisor for every frequency. As many numbers explain as many: only where the divisors of the
    frequencies that are known well come out as plain numbers does that mean anything.
    """
    known = curve.known
    best: tuple[int, Law] | None = None
    for base in BASES:
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
