"""Frequencies that follow one geometric law at first and a slower one at last: YaRN and Llama 3.

With the law taken out, the curve falls from 1 to 1/factor: along the channels in a straight line between two limits
(YaRN), or in a straight line over the frequencies themselves (Llama 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.identify.curve import FAR, Curve, Reading
from pecli.checks.identify.heights import Height
from pecli.checks.identify.numerals import digits, roundest, shortest

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

_SIGMAS = 5.0
_BEST = 6
_PAIRS = ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 3.0), (2.0, 8.0), (1.0, 16.0), (1.0, 32.0))
_RATIOS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
_LENGTHS = (4096, *(1 << k for k in range(5, 25)))


@dataclass(frozen=True)
class Bend:
    """A fit: step of the law, logarithm of the factor, where the bend begins and ends; with errors."""

    step: float
    log_factor: float
    low: float
    high: float
    step_error: float
    log_factor_error: float
    misfit: float

    def base(self, half: int) -> float:
        value = math.exp(min(self.step * half, 700.0))
        return shortest(value, value * (_SIGMAS * self.step_error * half + 4e-16))

    @property
    def factor(self) -> float:
        value = math.exp(min(self.log_factor, 50.0))
        return shortest(value, value * (_SIGMAS * self.log_factor_error + 4e-16))


def readings(curve: Curve, height: Height) -> Iterator[Reading]:
    """Every YaRN or Llama 3 scaling that gives the curve, the rounder ones first."""
    if curve.known.sum() < 3 or not curve.known[0] or abs(curve.logs[0]) > FAR * curve.log_errors[0]:
        return
    if not _falls(curve):
        return
    found = list(_yarn(curve, height))
    if height.near(1.0):
        found += list(_llama3(curve))
    yield from sorted(found, key=lambda reading: reading.cost)[:8]


def _falls(curve: Curve) -> bool:
    """Whether, with some law taken out, the curve never rises: a bend only slows channels down."""
    index = np.flatnonzero(curve.known)
    doubt = FAR * curve.log_errors[index]
    for step in _steps(curve):
        rest = curve.logs[index] + step * index
        if (np.diff(rest) <= doubt[1:] + doubt[:-1] + 1e-9).all() and (rest <= doubt + 1e-9).all():
            return True
    return False


def _steps(curve: Curve) -> list[float]:
    """Steps of the law, from the channels before the bend or those after it."""
    known = np.flatnonzero(curve.known)
    logs = curve.logs
    pairs = [(known[0], known[1]), (known[-2], known[-1]), (known[0], known[len(known) // 4 + 1])]
    pairs += [(known[k], known[k + 1]) for k in range(len(known) - 1)]
    steps = [float(logs[a] - logs[b]) / int(b - a) for a, b in pairs]
    exact = sorted(steps[:3])
    middle = sorted(steps[3:])
    found: list[float] = []
    for each in (*exact, middle[0], middle[len(middle) // 2]):
        if each > 0 and all(abs(each / other - 1) > 1e-9 for other in found):
            found.append(each)
    return found


def _yarn(curve: Curve, height: Height) -> Iterator[Reading]:
    half = len(curve.frequency)
    seen = set()
    for bend in _ramps(curve):
        for truncate in (True, False):
            if truncate and (bend.low != round(bend.low) or bend.high != round(bend.high)):
                continue
            base, factor = bend.base(half), bend.factor
            if factor <= 1.0001 or base <= 1:
                continue
            lengths = _original(base, half, bend.low, bend.high, truncate)
            if lengths is None:
                continue
            parameters: dict[str, Any] = {"base": base, "scaling": "yarn", "factor": factor, **lengths}
            if not truncate:
                parameters["truncate"] = False
            cost = digits(base) + digits(factor) + 4 * (not truncate) + 2 * len(lengths)
            length = lengths["original_max_position_embeddings"]
            said = (f"other original lengths near {length} give the same table",) if truncate else ()
            attention = _attention(factor, height)
            key = repr(parameters)
            if key not in seen:
                seen.add(key)
                extra = {} if attention is None else {"attention_factor": attention}
                yield Reading({**parameters, **extra}, said, cost + 2 * len(extra))


def _attention(factor: float, height: Height) -> float | None:
    """The attention factor to give: none where YaRN's own rule has it."""
    if height.near(0.1 * math.log(factor) + 1):
        return None
    return 1.0 if height.near(1.0) else shortest(height.value, height.slack)


def _ramps(curve: Curve) -> list[Bend]:
    """The best ramps over channels: between whole limits, and the very best of all."""
    steps = _steps(curve)
    found: dict[tuple[float, float], tuple[float, float]] = {}
    for step in steps:
        for lows, highs in (_usual_limits(curve, step), _all_limits(curve)):
            for low, high, depth in _best_ramps(curve, step, lows, highs):
                found.setdefault((low, high), (step, depth))
    fitted = [_fitted(curve, *limits, *start) for limits, start in found.items()]
    best = sorted((each for each in fitted if each is not None), key=lambda bend: bend.misfit)
    good = [bend for bend in best if bend.misfit <= FAR]
    if not good and best:
        free = [_fitted(curve, each.low, each.high, each.step, each.log_factor, free=True) for each in best[:2]]
        good = [bend for bend in free if bend is not None and bend.misfit <= FAR][:1]
    return good


def _usual_limits(curve: Curve, step: float) -> tuple[Floats, Floats]:
    """Limits that 32 rotations and 1 give, whatever the original length."""
    half = len(curve.frequency)
    lows = np.repeat(np.arange(half, dtype=np.float64), 3)
    highs = np.ceil(lows + math.log(32) / step) + np.tile([0.0, 1.0, 2.0], half)
    return lows, np.minimum(highs, 2 * half - 1)


def _all_limits(curve: Curve) -> tuple[Floats, Floats]:
    half = len(curve.frequency)
    stride = -(-half // 48)
    grid = np.meshgrid(np.arange(0, half, stride), np.arange(1, 2 * half, stride), indexing="ij")
    lows, highs = (each.ravel().astype(np.float64) for each in grid)
    return lows[lows < highs], highs[lows < highs]


def _best_ramps(curve: Curve, step: float, lows: Floats, highs: Floats) -> Iterator[tuple[float, float, float]]:
    """The limits between which a straight ramp comes nearest, with the logarithm of the factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    fall = 1 - np.exp(curve.logs + step * index)
    weights = np.where(curve.known, np.exp(-2 * (curve.logs + step * index)) / curve.log_errors**2, 0.0)
    weights = weights / max(weights.max(), 1e-300)
    lows = np.minimum(lows, highs - 1e-3)
    ramps = np.clip((index - lows[:, None]) / (highs - lows)[:, None], 0, 1)
    below = (ramps**2 * weights).sum(axis=1)
    depth = np.clip((ramps * (weights * fall)).sum(axis=1) / np.maximum(below, 1e-300), 0, 0.9999)
    error = (weights * (fall - depth[:, None] * ramps) ** 2).sum(axis=1)
    for k in np.argsort(error, kind="stable")[:_BEST]:
        yield float(lows[k]), float(highs[k]), -math.log1p(-depth[k])


def _fitted(curve: Curve, low: float, high: float, step: float, depth: float, free: bool = False) -> Bend | None:
    """Least squares for the law and the factor, and for the limits too if they are free."""
    index = np.arange(len(curve.frequency), dtype=np.float64)

    def model(x: Floats) -> Floats:
        first, last = (x[2], max(x[3], x[2] + 1e-3)) if free else (low, high)
        ramp = np.clip((index - first) / (last - first), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-ramp * -np.expm1(-min(max(x[1], 0.0), 50.0))))

    start = np.array([step, max(depth, 0.01), low, high][: 4 if free else 2])
    solution = least_squares(model, start, curve.logs, curve.log_errors)
    if solution is None:
        return None
    x, errors, misfit = solution
    limits = (float(x[2]), float(x[3])) if free else (low, high)
    return Bend(float(x[0]), float(x[1]), *limits, float(errors[0]), float(errors[1]), misfit)


def least_squares(
    model: Callable[[Floats], Floats], start: Floats, values: Floats, errors: Floats
) -> tuple[Floats, Floats, float] | None:
    """Gauss–Newton with halved steps: the solution, its errors, and the largest misfit in standard errors."""
    x = start.astype(np.float64)
    use = np.isfinite(errors)

    def rest(at: Floats) -> Floats:
        return np.asarray((values - model(at))[use] / errors[use])

    here = rest(x)
    inverse = np.eye(len(x))
    for _ in range(30):
        steps = np.maximum(np.abs(x), 1e-3) * 1e-7
        slopes = np.stack([(rest(x + np.eye(len(x))[k] * steps[k]) - here) / steps[k] for k in range(len(x))], axis=1)
        gram = slopes.T @ slopes
        scales = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        inverse = np.linalg.pinv(gram / np.outer(scales, scales), rcond=1e-12) / np.outer(scales, scales)
        move = -inverse @ (slopes.T @ here)
        for _ in range(12):
            there = rest(x + move)
            if np.isfinite(there).all() and (there**2).sum() <= (here**2).sum() * (1 + 1e-12):
                break
            move = move / 2
        else:
            break
        gain = (here**2).sum() - (there**2).sum()
        x, here = x + move, there
        if gain <= 1e-9 * (1 + (here**2).sum()):
            break
    if not np.isfinite(here).all():
        return None
    return x, np.sqrt(np.maximum(np.diag(inverse), 0)), float(np.abs(here).max(initial=0.0))


def _original(base: float, half: int, low: float, high: float, truncate: bool) -> dict[str, Any] | None:
    """An original length, and the betas where they are not 32 and 1, that put the limits there."""

    def length(index: float, rotations: float) -> float:
        return 2 * math.pi * rotations * base ** (index / half)

    if not truncate:
        fast, slow = length(low, 32), length(high, 1)
        if abs(fast / slow - 1) < 1e-3:
            whole = roundest(slow * 0.9999, slow * 1.0001) or round(slow)
            return {"original_max_position_embeddings": whole}
        choice = roundest(slow * 0.7, slow * 1.4) or round(slow)
        return {
            "original_max_position_embeddings": choice,
            "beta_fast": shortest(32 * choice / fast, 32 * choice / fast * 1e-4),
            "beta_slow": shortest(choice / slow, choice / slow * 1e-4),
        }
    least = length(low, 32) if low > 0 else 1.0
    most = length(low + 1, 32)
    tail = (length(high - 1, 1), length(high, 1) if high < 2 * half - 1 else math.inf)
    bottom, top = max(least, tail[0]), min(most, tail[1])
    if bottom < top:
        whole = roundest(bottom * (1 + 1e-9), top * (1 - 1e-9))
        if whole is not None:
            return {"original_max_position_embeddings": whole}
    return _other_betas(low, high, half, length)


def _other_betas(low: float, high: float, half: int, length: Callable[[float, float], float]) -> dict[str, Any] | None:
    """Betas other than 32 and 1: a round length, then the roundest betas that give the limits."""
    whole = roundest(length(high - 0.9, 1), length(high - 0.1, 1)) or round(length(high - 0.5, 1))
    slow: dict[str, Any] = {}
    if not length(high - 1, 1) < whole <= length(high, 1):
        slow = {"beta_slow": shortest(whole / length(high - 0.5, 1), whole / length(high, 1) * 0.1)}
    one = 32 * whole / length(low + 0.5, 32)
    fast = shortest(one, one * 0.2 * math.log(length(1, 1) / length(0, 1)))
    return {"original_max_position_embeddings": max(1, whole), "beta_fast": fast, **slow}


def _llama3(curve: Curve) -> Iterator[Reading]:
    """Llama 3 scalings: over frequencies, 1 down to the high limit, 1/factor from the low one on."""
    half = len(curve.frequency)
    usual = [(length, *pair) for length in _LENGTHS for pair in _PAIRS]
    found = False
    for step in _steps(curve):
        table = np.array(usual)
        limits = 2 * math.pi * table[:, 1:] / table[:, :1]
        for k, depth in _best_shares(curve, step, limits[:, 0], limits[:, 1]):
            bend = _waved(curve, step, depth, float(limits[k, 0]), float(limits[k, 1]))
            if bend is not None:
                found = True
                yield _llama3_reading(bend, half, *usual[k])
    if not found:
        yield from _llama3_free(curve)


def _best_shares(curve: Curve, step: float, lows: Floats, highs: Floats) -> Iterator[tuple[int, float]]:
    """The limits of frequencies between which a straight blend comes nearest, with the logarithm of the factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    fall = 1 - np.exp(curve.logs + step * index)
    weights = np.where(curve.known, np.exp(-2 * (curve.logs + step * index)) / curve.log_errors**2, 0.0)
    weights = weights / max(weights.max(), 1e-300)
    lost = 1 - np.clip((np.exp(-step * index) - lows[:, None]) / (highs - lows)[:, None], 0, 1)
    below = (weights * lost**2).sum(axis=1)
    depth = np.clip((lost * (weights * fall)).sum(axis=1) / np.maximum(below, 1e-300), 0, 0.9999)
    error = (weights * (fall - depth[:, None] * lost) ** 2).sum(axis=1)
    for k in np.argsort(error, kind="stable")[:_BEST]:
        if np.abs(fall - depth[k] * lost[k])[curve.known].max() < 0.1:
            yield int(k), -math.log1p(-depth[k])


def _llama3_reading(bend: Bend, half: int, length: int, low: float, high: float) -> Reading:
    base, factor = bend.base(half), bend.factor
    parameters = {
        "base": base,
        "scaling": "llama3",
        "factor": factor,
        "original_max_position_embeddings": length,
        "low_freq_factor": low,
        "high_freq_factor": high,
    }
    said = "the original length is known only over low_freq_factor and over high_freq_factor"
    usual = 0 if (low, high) == (1, 4) else 3
    return Reading(parameters, (said,), digits(base) + digits(factor) + usual + digits(low) + digits(high))


def _waved(curve: Curve, step: float, depth: float, low: float, high: float) -> Bend | None:
    """The fit with these limits of the frequency, if it is one."""
    index = np.arange(len(curve.frequency), dtype=np.float64)

    def model(x: Floats) -> Floats:
        keep = np.clip((np.exp(-x[0] * index) - low) / (high - low), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-(1 - keep) * -np.expm1(-min(max(x[1], 0.0), 50.0))))

    start = np.array([step, max(depth, 0.01)])
    solution = least_squares(model, start, curve.logs, curve.log_errors)
    if solution is None or solution[2] > FAR or solution[0][1] < 1e-4:
        return None
    (x, errors, misfit) = solution
    return Bend(float(x[0]), float(x[1]), low, high, float(errors[0]), float(errors[1]), misfit)


def _llama3_free(curve: Curve) -> Iterator[Reading]:
    """Llama 3 with limits of its own: fitted, then written over a round original length."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    half = len(curve.frequency)

    def model(x: Floats) -> Floats:
        low, high = math.exp(min(x[2], 50.0)), math.exp(min(x[2] + max(x[3], 1e-6), 60.0))
        keep = np.clip((np.exp(-x[0] * index) - low) / (high - low), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-(1 - keep) * -np.expm1(-min(max(x[1], 0.0), 50.0))))

    best = None
    for step in _steps(curve):
        places = np.repeat(np.exp(-step * np.arange(0, half + 1, max(1, half / 40))), len(_RATIOS))
        lows = places / np.sqrt(np.tile(_RATIOS, len(places) // len(_RATIOS)))
        highs = lows * np.tile(_RATIOS, len(places) // len(_RATIOS))
        for k, depth in islice(_best_shares(curve, step, lows, highs), 2):
            start = np.array([step, max(depth, 0.01), math.log(lows[k]), math.log(highs[k] / lows[k])])
            solution = least_squares(model, start, curve.logs, curve.log_errors)
            if solution is not None and (best is None or solution[2] < best[2]):
                best = solution
    if best is None or best[2] > FAR:
        return
    x, errors, misfit = best
    low, high = math.exp(x[2]), math.exp(x[2] + x[3])
    bend = Bend(float(x[0]), float(x[1]), low, high, float(errors[0]), float(errors[1]), misfit)
    relative = _SIGMAS * float(max(errors[2], errors[3])) + 1e-12
    choices = []
    for length in _LENGTHS:
        limits = [shortest(each * length / (2 * math.pi), each * length / (2 * math.pi) * relative) for each in (low, high)]
        if 0 < limits[0] < limits[1]:
            choices.append((sum(map(digits, limits)), abs(math.log(limits[0])), length, *limits))
    if choices:
        _, _, length, first, last = min(choices)
        yield _llama3_reading(bend, half, length, first, last)


def unbent(base: float, half: int, height: Height) -> Iterator[Reading]:
    """A geometric law whose amplitude is not one: YaRN whose bend lies beyond the table, or just an attention factor."""
    amplitude, factor = height.value, math.exp(10 * (height.value - 1))
    ones = (1.0,) * half
    if amplitude > 1 and factor < 1e6:
        value = shortest(factor, factor * 10 * height.slack)
        if digits(value) <= 4 and value > 1 and base > 1:
            beyond = 2 * math.pi * 32 * base ** ((half + 1) / half)
            length = 1 << max(1, math.ceil(math.log2(beyond)))
            if length <= 1 << 40:
                parameters = {
                    "base": base,
                    "scaling": "yarn",
                    "factor": value,
                    "original_max_position_embeddings": length,
                }
                said = f"no frequency is scaled: any original length from {math.ceil(beyond)} on gives this table"
                yield Reading(parameters, (said,), digits(base) + digits(value) + 4)
    parameters = {
        "base": base,
        "scaling": "longrope",
        "short_factor": ones,
        "long_factor": ones,
        "original_max_position_embeddings": 4096,
        "attention_factor": shortest(amplitude, height.slack),
    }
    said = "cos and sin are multiplied by a constant: longrope with divisors of one is one way to write that"
    yield Reading(parameters, (said,), digits(base) + 20)
