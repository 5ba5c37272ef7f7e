"""A curve of frequencies with their errors, and the geometric law behind most of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pecli.engine.arrays import Flags, Floats

LOOSENESS = (0.0, 1.2e-7, 1e-6, 2.0**-8)
"""Relative errors that recipes make: none, frequencies in float32, by many steps in float32, in bfloat16."""
FAR = 7.0
"""Standard errors that a value may be off."""


@dataclass(frozen=True)
class Guess:
    """Parameters of a scheme that give a curve, what they leave open, and how far-fetched they are."""

    parameters: dict[str, Any]
    undetermined: tuple[str, ...] = ()
    cost: float = 0.0


@dataclass(frozen=True)
class Curve:
    """Radians a position, channel by channel."""

    frequency: Floats
    error: Floats

    def loosened(self, by: float) -> Curve:
        return Curve(self.frequency, np.hypot(self.error, by * np.abs(self.frequency)))

    def inflated(self, by: float) -> Curve:
        return Curve(self.frequency, by * self.error)

    @cached_property
    def known(self) -> Flags:
        """Channels that turn, and of which it is known how fast."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.frequency > 0) & (self.error < 0.15 * self.frequency))

    @cached_property
    def logs(self) -> Floats:
        return np.log(np.where(self.known, self.frequency, 1.0))

    @cached_property
    def log_errors(self) -> Floats:
        """Errors of the logarithms; infinite where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.known, np.maximum(self.error / np.abs(self.frequency), 1e-15), np.inf)


@dataclass(frozen=True)
class Law:
    """frequency_i = exp(level − step·i), with errors."""

    level: float
    step: float
    level_error: float
    step_error: float

    def logs(self, count: int) -> Floats:
        return np.asarray(self.level - self.step * np.arange(count, dtype=np.float64))


def geometric(curve: Curve, level: float | None = None) -> Law | None:
    """The geometric law through the known channels, its level given or not; None where there is none such."""
    weights = 1 / curve.log_errors**2
    index = np.arange(len(weights), dtype=np.float64)
    count = int(curve.known.sum())
    if not count:
        return None
    scale = weights.max()
    weights = weights / scale
    if level is not None:
        power = float((weights * index**2).sum())
        step = -float((weights * index * (curve.logs - level)).sum() / power) if power else 0.0
        law = Law(level, step, 0.0, float(1 / np.sqrt(power * scale)) if power else np.inf)
    else:
        total, first, second = (float((weights * index**k).sum()) for k in range(3))
        determinant = total * second - first**2
        here, there = float((weights * curve.logs).sum()), float((weights * index * curve.logs).sum())
        if count == 1 or determinant <= 0:
            law = Law(here / total, 0.0, float(1 / np.sqrt(total * scale)), np.inf)
        else:
            at = (second * here - first * there) / determinant
            step = -(total * there - first * here) / determinant
            errors = (float(np.sqrt(each / determinant / scale)) for each in (second, total))
            law = Law(at, step, *errors)
    return law if fits(curve, law) else None


def fits(curve: Curve, law: Law) -> bool:
    """Whether every channel is as the law has it, unknown ones included: they must not turn visibly faster."""
    values = law.logs(len(curve.frequency))
    if np.isinf(law.step_error):
        values = np.where(curve.known, values, -np.inf)
    apart = np.abs(curve.logs - values)[curve.known] / curve.log_errors[curve.known]
    if (apart > FAR).any():
        return False
    open_ = ~curve.known & np.isfinite(curve.error) & np.isfinite(values)
    with np.errstate(over="ignore"):
        return bool((np.abs(curve.frequency - np.exp(values))[open_] <= FAR * curve.error[open_]).all())
