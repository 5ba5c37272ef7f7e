"""Of the parameters that give the very same table, the simpler ones: rounder numbers, and rules instead of values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pecli.checks.identify.heights import usual_amplitudes
from pecli.checks.identify.numerals import digits
from pecli.checks.identify.recipes import Trial
from pecli.engine.arrays import Floats
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.checks.identify.recipes import Evidence
    from pecli.engine.schemes.scheme import Scheme


_NUMBERS = ("base", "factor", "scale", "amplitude", "attention_factor", "beta_fast", "beta_slow")
_ROUND = 3
"""Digits that are short enough."""
_NEAR = 0.02


def simplified(trial: Trial, evidence: Evidence, angles: Floats, amplitude: float) -> Trial:
    """The scheme with each number as round as it may be without leading further away from the table."""
    few = evidence.first(64)
    for name in _NUMBERS:
        given = getattr(trial.scheme, name, None)
        if name == "amplitude" and given in usual_amplitudes(getattr(trial.scheme, "dim", 1)):
            continue
        for value in _rounder(name, given):
            try:
                changed: dict[str, Any] = {name: value}
                scheme = replace(trial.scheme, **changed)
            except ParameterError:
                continue
            if few.distance(scheme, angles[: few.rows], amplitude)[0] <= trial.error:
                measured = evidence.distance(scheme, angles, amplitude)
                if measured[0] <= trial.error and measured[2] <= trial.usual:
                    trial = _replaced(trial, name, scheme, measured)
                    break
    return _by_no_recipe(trial, evidence, angles, amplitude)


def _by_no_recipe(trial: Trial, evidence: Evidence, angles: Floats, amplitude: float) -> Trial:
    """The exact values, where a recipe is no longer needed with the rounder numbers."""
    if trial.exact:
        return trial
    scheme = replace(trial.scheme, recipe="exact")  # type: ignore[call-arg]
    measured = evidence.distance(scheme, angles, amplitude)
    return Trial(scheme, *measured, trial.undetermined) if measured[0] <= trial.error else trial


def _replaced(trial: Trial, name: str, scheme: Scheme, measured: tuple[float, float, float]) -> Trial:
    said = f"{name} {getattr(trial.scheme, name):.9g} gives the same table"
    lines = (*trial.undetermined, said) if measured[0] == trial.error else trial.undetermined
    return Trial(scheme, *measured, lines)


def _rounder(name: str, value: float | None) -> Iterator[float | None]:
    if value is None or digits(value) <= (_ROUND if name != "factor" else _ROUND - 1):
        return
    if name == "attention_factor":
        yield None
    seen = set()
    for places in range(digits(value) - 1):
        rounded = float(f"{value:.{places}e}")
        if rounded not in seen and abs(rounded - value) <= _NEAR * value and digits(rounded) < digits(value):
            seen.add(rounded)
            yield rounded
