"""YaRN: with the law taken out, the curve falls along the channels in a straight line between two limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pecli.checks.identify.bends import BEST, Bend, least_squares, steps
from pecli.checks.identify.curve import FAR, Curve, Guess
from pecli.checks.identify.heights import Height
from pecli.checks.identify.numerals import digits, roundest, shortest
from pecli.engine.arrays import Floats

_NOT_FAR = 0.25
"""What a first guess may be off by, if least squares are to mend it."""

_MSCALES = ((1.0, 0.707), (0.707, 1.0))
_WHOLE = 0.02
_MOST = 1e4
"""A factor that somebody may have chosen."""
_STARTS = 20
"""First guesses that are mended."""


_WIDEST = 2048
"""Frequencies of a curve: limits are tried by the square of them, and no head has as many."""


def guesses(curve: Curve, height: Height) -> Iterator[Guess]:
    """YaRN scalings that give the curve, with every limit that fits."""
    half = len(curve.frequency)
    if half > _WIDEST:
        return
    for bend in _ramps(curve):
        base = bend.base(half)
        for factor in _factors(bend, height):
            low, high = bend.low, _end(bend, factor, half)
            for truncate, slack in ((True, 0.0), (False, 1e-3), (False, 1e-5), (False, 1e-9)):
                if base <= 1 or (truncate and (low != round(low) or high != round(high))):
                    continue
                lengths = _original(base, half, low, high, slack)
                said = tuple(_open(bend, half, lengths["original_max_position_embeddings"], truncate))
                parameters = {"base": base, "scaling": "yarn", "factor": factor, **lengths}
                parameters |= {} if truncate else {"truncate": False}
                parameters |= _attention(factor, height)
                extra = 2 * (len(parameters) - 3) + 2 * (not truncate) - math.log10(slack or 1) / 10
                yield Guess(parameters, said, digits(base) + digits(factor) + extra)


def _end(bend: Bend, factor: float, half: int) -> float:
    """Where the bend ends, with another factor, if that is beyond the table: it is as steep as before."""
    if factor == bend.factor or bend.high < half:
        return bend.high
    end = bend.low + (bend.high - bend.low) * (1 - 1 / factor) / -math.expm1(-bend.log_factor)
    if not half <= end <= 2 * half:
        return bend.high
    return round(end) if abs(end - round(end)) < _WHOLE else end


def _factors(bend: Bend, height: Height) -> Iterator[float]:
    """The factor of the curve; and the one that the amplitude follows from by YaRN's rule, if it is a round one."""
    if 1.0001 < bend.factor < _MOST:
        yield bend.factor
    by_rule = math.exp(min(10 * (height.value - 1), 20.0))
    rounded = shortest(by_rule, by_rule * 10 * height.slack)
    if 1 < rounded != bend.factor and digits(rounded) <= 3:
        yield rounded


def _open(bend: Bend, half: int, length: int, truncate: bool) -> Iterator[str]:
    """What a YaRN curve does not decide."""
    yield "the attention factor may be given, or follow from mscale and mscale_all_dim"
    if truncate:
        yield f"other original lengths near {length}, or other beta_fast and beta_slow, give the same table"
    else:
        yield "the original length is known only with beta_fast and beta_slow"
    if bend.high >= half:
        yield "the scaling does not end within the table: its factor is known only with where it ends"


def _attention(factor: float, height: Height) -> dict[str, float]:
    """The attention factor to give: none where YaRN's own rule has it, or that of two mscales."""
    if height.near(0.1 * math.log(factor) + 1):
        return {}
    if height.near(1.0):
        return {"attention_factor": 1.0}
    for mscale, mscale_all_dim in _MSCALES:
        if height.near((0.1 * mscale * math.log(factor) + 1) / (0.1 * mscale_all_dim * math.log(factor) + 1)):
            return {"mscale": mscale, "mscale_all_dim": mscale_all_dim}
    return {"attention_factor": shortest(height.value, height.slack)}


def _ramps(curve: Curve) -> list[Bend]:
    """The best ramps over channels: between whole limits, and the very best of all."""
    found: dict[tuple[float, float], tuple[float, float, float]] = {}
    for step in steps(curve):
        usual = list(_best_ramps(curve, step, *_usual_limits(curve, step)))
        coarse = list(_best_ramps(curve, step, *_all_limits(curve)))
        fine = list(_best_ramps(curve, step, *_between(curve, coarse)))
        for error, low, high, depth in usual + (fine or coarse):
            if error < found.get((low, high), (math.inf,))[0]:
                found[low, high] = error, step, depth
    starts = sorted(found.items(), key=lambda item: item[1][0])[:_STARTS]
    fitted = [_fitted(curve, *limits, *start[1:]) for limits, start in starts]
    best = sorted((each for each in fitted if each is not None), key=lambda bend: bend.misfit)
    good = [bend for bend in best if bend.misfit <= FAR]
    if not good and best:
        tied = [_tied(curve, each.step, each.log_factor, each.high) for each in best[:3]]
        free = [_fitted(curve, each.low, each.high, each.step, each.log_factor, free=True) for each in best[:2]]
        fitting = [bend for bend in (*tied, *free) if bend is not None and bend.misfit <= FAR]
        good = fitting[:2]
    return good


def _tied(curve: Curve, step: float, depth: float, high: float) -> Bend | None:
    """Least squares for the law, the factor and the original length, with limits at 32 rotations and 1."""
    index = np.arange(len(curve.frequency), dtype=np.float64)

    def limits(x: Floats) -> tuple[float, float]:
        high = x[2] / max(x[0], 1e-9)
        return max(0.0, high - math.log(32) / max(x[0], 1e-9)), high

    def model(x: Floats) -> Floats:
        low, high = limits(x)
        ramp = np.clip((index - low) / max(high - low, 1e-3), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-ramp * -np.expm1(-min(max(x[1], 0.0), 25.0))))

    solution = least_squares(model, np.array([step, max(depth, 0.01), high * step]), curve.logs, curve.log_errors)
    if solution is None:
        return None
    x, errors, misfit = solution
    return Bend(float(x[0]), float(x[1]), *limits(x), float(errors[0]), float(errors[1]), misfit)


def _usual_limits(curve: Curve, step: float) -> tuple[Floats, Floats]:
    """Limits that 32 rotations and 1 give, whatever the original length."""
    half = len(curve.frequency)
    lows = np.repeat(np.arange(half, dtype=np.float64), 3)
    highs = np.ceil(lows + math.log(32) / step) + np.tile([0.0, 1.0, 2.0], half)
    return lows, np.minimum(highs, 2 * half - 1)


def _all_limits(curve: Curve) -> tuple[Floats, Floats]:
    half, stride = len(curve.frequency), _stride(curve)
    grid = np.meshgrid(np.arange(0, half, stride), np.arange(1, 2 * half, stride), indexing="ij")
    lows, highs = (each.ravel().astype(np.float64) for each in grid)
    return lows[lows < highs], highs[lows < highs]


def _stride(curve: Curve) -> int:
    return -(-len(curve.frequency) // 48)


def _between(curve: Curve, coarse: list[tuple[float, float, float, float]]) -> tuple[Floats, Floats]:
    """The limits that the grid left out around its best."""
    reach = np.arange(1 - _stride(curve), _stride(curve), dtype=np.float64)
    pairs = [(low + a, high + b) for _, low, high, _ in coarse for a in reach for b in reach]
    limits = np.unique(np.array(pairs).reshape(-1, 2), axis=0)
    lows, highs = limits[(limits[:, 0] >= 0) & (limits[:, 0] < limits[:, 1])].T
    return lows, highs


def _best_ramps(curve: Curve, step: float, lows: Floats, highs: Floats) -> Iterator[tuple[float, float, float, float]]:
    """The limits between which a straight ramp comes nearest: how near, they, and the logarithm of the factor."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    fall = 1 - np.exp(curve.logs + step * index)
    weights = np.where(curve.known, np.exp(-2 * (curve.logs + step * index)) / curve.log_errors**2, 0.0)
    weights = weights / max(weights.max(), 1e-300)
    lows = np.minimum(lows, highs - 1e-3)
    ramps = np.clip((index - lows[:, None]) / (highs - lows)[:, None], 0, 1)
    below = (ramps**2 * weights).sum(axis=1)
    depth = np.clip((ramps * (weights * fall)).sum(axis=1) / np.maximum(below, 1e-300), 0, 0.9999)
    error = (weights * (fall - depth[:, None] * ramps) ** 2).sum(axis=1)
    for k in np.argsort(error, kind="stable")[:BEST]:
        if np.abs(fall - depth[k] * ramps[k])[curve.known].max() < _NOT_FAR:
            yield float(error[k]), float(lows[k]), float(highs[k]), -math.log1p(-depth[k])


def _fitted(curve: Curve, low: float, high: float, step: float, depth: float, free: bool = False) -> Bend | None:
    """Least squares for the law and the factor, and for the limits too if they are free."""
    index = np.arange(len(curve.frequency), dtype=np.float64)

    def model(x: Floats) -> Floats:
        first, last = (x[2], max(x[3], x[2] + 1e-3)) if free else (low, high)
        ramp = np.clip((index - first) / (last - first), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-ramp * -np.expm1(-min(max(x[1], 0.0), 25.0))))

    start = np.array([step, max(depth, 0.01), low, high][: 4 if free else 2])
    solution = least_squares(model, start, curve.logs, curve.log_errors)
    if solution is None:
        return None
    x, errors, misfit = solution
    limits = (float(x[2]), float(x[3])) if free else (low, high)
    return Bend(float(x[0]), float(x[1]), *limits, float(errors[0]), float(errors[1]), misfit)


def _original(base: float, half: int, low: float, high: float, slack: float) -> dict[str, Any]:
    """An original length, and the betas where they are not 32 and 1, that put the limits there."""

    def length(index: float, rotations: float) -> float:
        return float(2 * math.pi * rotations * base ** (index / half))

    if slack:
        fast, slow = length(low, 32), length(high, 1)
        if abs(fast / slow - 1) < slack:
            return {"original_max_position_embeddings": roundest(slow * (1 - slack), slow * (1 + slack)) or round(slow)}
        choice = roundest(slow * 0.7, slow * 1.4) or round(slow)
        return {
            "original_max_position_embeddings": choice,
            "beta_fast": shortest(32 * choice / fast, 32 * choice / fast * slack),
            "beta_slow": shortest(choice / slow, choice / slow * slack),
        }
    least = length(low, 32) if low > 0 else 1.0
    most = length(low + 1, 32)
    tail = (length(high - 1, 1), length(high, 1) if high < 2 * half - 1 else math.inf)
    bottom, top = max(least, tail[0]), min(most, tail[1])
    if bottom < top:
        fitting = roundest(bottom * (1 + 1e-9), top * (1 - 1e-9))
        if fitting is not None:
            return {"original_max_position_embeddings": fitting}
    return _other_betas(low, high, half, length)


def _other_betas(low: float, high: float, half: int, length: Callable[[float, float], float]) -> dict[str, Any]:
    """Betas other than 32 and 1: a round length, then the roundest betas that give the limits."""
    whole = roundest(length(high - 0.9, 1), length(high - 0.1, 1)) or round(length(high - 0.5, 1))
    slow: dict[str, Any] = {}
    if not length(high - 1, 1) < whole <= length(high, 1):
        slow = {"beta_slow": shortest(whole / length(high - 0.5, 1), whole / length(high, 1) * 0.1)}
    one = 32 * whole / length(low + 0.5, 32)
    fast = shortest(one, one * 0.2 * math.log(length(1, 1) / length(0, 1)))
    return {"original_max_position_embeddings": max(1, whole), "beta_fast": fast, **slow}


def unbent(base: float, half: int, height: Height) -> Iterator[Guess]:
    """A geometric law whose amplitude is not one: YaRN with its bend beyond the table, or a mere attention factor."""
    amplitude, factor = height.value, math.exp(min(10 * (height.value - 1), 50.0))
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
                yield Guess(parameters, (said,), digits(base) + digits(value) + 4)
    parameters = {
        "base": base,
        "scaling": "longrope",
        "short_factor": ones,
        "long_factor": ones,
        "original_max_position_embeddings": 4096,
        "attention_factor": shortest(amplitude, height.slack),
    }
    said = (
        "scaling: cos and sin are multiplied by a constant; longrope with divisors of one is one way to write that, "
        "yarn that scales no frequency (its factor, mscale, mscale_all_dim, beta_fast, beta_slow, truncate and "
        "original_max_position_embeddings stay open) another"
    )
    yield Guess(parameters, (said,), digits(base) + 20)
