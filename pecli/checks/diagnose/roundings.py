"""What pipelines do to the angles: steps of position · frequency in a narrow dtype, or one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pecli.checks.diagnose.causes import Cause, cost_of
from pecli.checks.diagnose.precision import rounded
from pecli.engine.arrays import Flags, Floats, Indices
from pecli.engine.schemes.recipes import RECIPES

_DOUBT = 2.0**-20
"""The relative error of float32 angles, which may decide how a narrow dtype rounds them."""


@dataclass(frozen=True)
class Rounding:
    """Which steps are rounded to a narrow dtype."""

    causes: tuple[Cause, ...] = ()
    dtype: str = ""
    frequencies: bool = False
    positions: bool = False
    phases: bool = False
    recurrence: bool = False

    @property
    def cost(self) -> float:
        return cost_of(self.causes)

    def angles(self, positions: Floats, frequencies: Floats, columns: Indices) -> tuple[Floats, Flags | None]:
        """The angles of these columns, and where it is open which way the narrow dtype rounds."""
        if self.recurrence:
            return _recurrence(positions, frequencies)[:, columns], None
        chosen = frequencies[columns]
        if self.positions:
            positions = rounded(positions, self.dtype)
        if self.frequencies:
            chosen = rounded(chosen, self.dtype)
        with np.errstate(invalid="ignore"):  # float16 has infinite positions
            angles = np.multiply.outer(positions, chosen)
        if not self.phases:
            return angles, None
        low, high = rounded(angles * (1 - _DOUBT), self.dtype), rounded(angles * (1 + _DOUBT), self.dtype)
        return rounded(angles, self.dtype), low != high


def _recurrence(positions: Floats, frequencies: Floats) -> Floats:
    """Each angle is the one before times a constant, in float32; what scaling did comes on top."""
    count = len(frequencies)
    ratio = np.float32(frequencies[1] / frequencies[0]) if count > 1 and frequencies[0] else np.float32(1)
    angles = np.empty((len(positions), count), np.float32)
    angles[:, 0] = positions * frequencies[0]
    for column in range(1, count):
        angles[:, column] = angles[:, column - 1] * ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = frequencies / (frequencies[0] * (frequencies[min(1, count - 1)] / frequencies[0]) ** np.arange(count))
    return np.asarray(angles * np.where(np.isfinite(scaled), scaled, 1.0))


def _narrow(dtype: str, collide: int) -> tuple[Rounding, ...]:
    phases = (Cause(f"the phases are computed in {dtype}"),)
    positions = (Cause(f"positions are rounded to {dtype} (they collide from {collide} on)"),)
    return (
        Rounding(phases, dtype, phases=True),
        Rounding(phases, dtype, frequencies=True, positions=True, phases=True),
        Rounding(phases, dtype, frequencies=True, phases=True),
        Rounding((Cause(f"inv_freq is rounded to {dtype}"),), dtype, frequencies=True),
        Rounding(positions, dtype, positions=True),
    )


RECURRENCE = Rounding(
    (Cause("the phases come from a float32 recurrence, as in ggml (verify with --recipe float32-recurrence)"),),
    recurrence=True,
)
_NONE = Rounding()
_OTHERS = (*_narrow("bfloat16", 257), *_narrow("float16", 2049), RECURRENCE)
"""From nothing to what half-precision models do to their angles."""


def roundings(recipe: str) -> tuple[Rounding, ...]:
    """The recipe's own, then all others, each with its cause: after another one than exact that, ggml's at the end."""
    own = _of(recipe)
    if own == _NONE:
        return (_NONE, *_OTHERS)
    exact = Rounding((Cause(f"the recipe is exact or float32 (the spec says {recipe})"),))
    return (own, exact, *(each for each in _OTHERS if replace(each, causes=()) != own))


def _of(recipe: str) -> Rounding:
    """What a recipe rounds before the sine is taken."""
    steps = RECIPES.get(recipe)
    if steps is None:
        return _NONE
    return Rounding(
        dtype="bfloat16" if "bfloat16" in (steps.positions, steps.frequencies, steps.product) else "",
        frequencies=steps.frequencies == "bfloat16",
        positions=steps.positions == "bfloat16",
        phases=steps.product == "bfloat16",
        recurrence=steps.recurrence,
    )
