"""The amplitude of a table, from the interval that every single element leaves for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Floats

if TYPE_CHECKING:
    from pecli.checks.identify.curve import Curve


_SIGMAS = 5.0
_ROWS = 256
_SINGLE = 1.2e-7
"""What computing in float32 does to an angle, relative to it."""


@dataclass(frozen=True)
class Height:
    """An amplitude, and how well it is known."""

    value: float = 1.0
    error: float = 0.0

    @property
    def slack(self) -> float:
        """How far from the value it may be."""
        return _SIGMAS * self.error + 2e-7 * self.value

    def near(self, other: float) -> bool:
        return abs(self.value - other) <= self.slack


def usual_amplitudes(dim: int) -> tuple[float, ...]:
    """What projects multiply sinusoidal tables by: one, or a root of the dim."""
    return (1.0, math.sqrt(2 / dim), 1 / math.sqrt(dim), math.sqrt(dim))


def measured(parts: Mapping[str, Floats], curve: Curve, offset: int, rough: Height, unit: float) -> Height:
    """The amplitudes with which no element rounds to another value; the rough one where there are none such."""
    low, high = 0.0, np.inf
    use = np.isfinite(curve.error)
    for name, values in parts.items():
        step = max(1, len(values) // _ROWS)
        some = np.abs(values[::step, use])
        places = offset + np.arange(0, len(values), step, dtype=np.float64)[:, None]
        angle = places * curve.frequency[use]
        shape = np.abs(np.cos(angle) if name == "cos" else np.sin(angle))
        doubt = np.sqrt(np.maximum(1 - shape**2, 0)) * np.minimum(1.0, 5 * curve.error[use] * places + _SINGLE * angle)
        good = (shape - doubt > 0.5) & (some > 0)
        if not good.any():
            continue
        half = np.ldexp(unit / 2, np.frexp(some[good])[1])
        low = max(low, float(((some[good] - half) / (shape + doubt)[good]).max()))
        high = min(high, float(((some[good] + half) / (shape - doubt)[good]).min()))
    if not 0 < low <= high < np.inf:
        return rough
    return Height((low + high) / 2, (high - low) / 2 / _SIGMAS + 1e-16)
