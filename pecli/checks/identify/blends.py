"""Llama 3: with the law taken out, the curve falls in a straight line over the frequencies themselves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np

from pecli.checks.identify.bends import BEST, SIGMAS, Bend, least_squares, steps
from pecli.checks.identify.curve import FAR, Curve, Guess
from pecli.checks.identify.numerals import digits, shortest
from pecli.engine.arrays import Floats

_PAIRS = ((1.0, 4.0), (1.0, 2.0), (1.0, 8.0), (2.0, 4.0), (1.0, 3.0), (2.0, 8.0), (1.0, 16.0), (1.0, 32.0))
_RATIOS = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0)
_LENGTHS = (4096, *(1 << k for k in range(5, 25)))


def guesses(curve: Curve) -> Iterator[Guess]:
    """Llama 3 scalings: over frequencies, 1 down to the high limit, 1/factor from the low one on."""
    half = len(curve.frequency)
    usual = [(length, *pair) for length in _LENGTHS for pair in _PAIRS]
    found = False
    for step in steps(curve):
        table = np.array(usual)
        limits = 2 * math.pi * table[:, 1:] / table[:, :1]
        for k, depth in _best_shares(curve, step, limits[:, 0], limits[:, 1]):
            bend = _waved(curve, step, depth, float(limits[k, 0]), float(limits[k, 1]))
            if bend is not None:
                found = True
                yield _guess(bend, half, *usual[k])
    if not found:
        yield from _free(curve)


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
    for k in np.argsort(error, kind="stable")[:BEST]:
        if np.abs(fall - depth[k] * lost[k])[curve.known].max() < 0.1:
            yield int(k), -math.log1p(-depth[k])


def _guess(bend: Bend, half: int, length: int, low: float, high: float) -> Guess:
    base, factor = bend.base(half), bend.factor
    parameters = {
        "base": base,
        "scaling": "llama3",
        "factor": factor,
        "original_max_position_embeddings": length,
        "low_freq_factor": low,
        "high_freq_factor": high,
    }
    said = "an original length k times as long, with low_freq_factor and high_freq_factor k times as large, is the same"
    usual = 0 if (low, high) == (1, 4) else 3
    return Guess(parameters, (said,), digits(base) + digits(factor) + usual + digits(low) + digits(high))


def _waved(curve: Curve, step: float, depth: float, low: float, high: float) -> Bend | None:
    """The fit with these limits of the frequency, if it is one."""
    index = np.arange(len(curve.frequency), dtype=np.float64)

    def model(x: Floats) -> Floats:
        keep = np.clip((np.exp(-x[0] * index) - low) / (high - low), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-(1 - keep) * -np.expm1(-min(max(x[1], 0.0), 25.0))))

    start = np.array([step, max(depth, 0.01)])
    solution = least_squares(model, start, curve.logs, curve.log_errors)
    if solution is None or solution[2] > FAR or solution[0][1] < 1e-4:
        return None
    (x, errors, misfit) = solution
    return Bend(float(x[0]), float(x[1]), low, high, float(errors[0]), float(errors[1]), misfit)


def _free(curve: Curve) -> Iterator[Guess]:
    """Llama 3 with limits of its own: fitted, then written over a round original length."""
    index = np.arange(len(curve.frequency), dtype=np.float64)
    half = len(curve.frequency)

    def model(x: Floats) -> Floats:
        low, high = math.exp(min(x[2], 50.0)), math.exp(min(x[2] + max(x[3], 1e-6), 60.0))
        keep = np.clip((np.exp(-x[0] * index) - low) / (high - low), 0, 1)
        return np.asarray(-x[0] * index + np.log1p(-(1 - keep) * -np.expm1(-min(max(x[1], 0.0), 25.0))))

    best = None
    for step in steps(curve):
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
    low, high = math.exp(min(x[2], 50.0)), math.exp(min(x[2] + x[3], 60.0))
    bend = Bend(float(x[0]), float(x[1]), low, high, float(errors[0]), float(errors[1]), misfit)
    relative = SIGMAS * float(max(errors[2], errors[3])) + 1e-12
    choices = []
    for length in _LENGTHS:
        limits = [
            shortest(each * length / (2 * math.pi), each * length / (2 * math.pi) * relative) for each in (low, high)
        ]
        if 0 < limits[0] < limits[1]:
            choices.append((sum(map(digits, limits)), abs(math.log(limits[0])), length, *limits))
    if choices:
        _, _, chosen, first, last = min(choices)
        yield _guess(bend, half, int(chosen), first, last)
