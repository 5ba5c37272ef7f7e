"""Frequencies that follow one geometric law at first and a slower one at last: what YaRN and Llama 3 have in common.

With the law taken out, such a curve falls from 1 to 1/factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pecli.checks.identify.curve import FAR, Curve
from pecli.checks.identify.numerals import shortest
from pecli.engine.arrays import Floats

SIGMAS = 5.0
BEST = 6
"""Starts that are followed up."""


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
        return shortest(value, value * (SIGMAS * self.step_error * half + 4e-16))

    @property
    def factor(self) -> float:
        value = math.exp(min(self.log_factor, 50.0))
        return shortest(value, value * (SIGMAS * self.log_factor_error + 4e-16))


def falls(curve: Curve) -> bool:
    """Whether, with some law taken out, the curve never rises: a bend only slows channels down."""
    index = np.flatnonzero(curve.known)
    doubt = FAR * curve.log_errors[index]
    for step in steps(curve):
        rest = curve.logs[index] + step * index
        if (np.diff(rest) <= doubt[1:] + doubt[:-1] + 1e-9).all() and (rest <= doubt + 1e-9).all():
            return True
    return False


def steps(curve: Curve) -> list[float]:
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
