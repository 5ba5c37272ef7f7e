"""A vector of inverse frequencies, or of wavelengths: the rotary law behind it."""

from __future__ import annotations

from itertools import chain

import numpy as np

from pecli.checks.identify import laws, recipes
from pecli.checks.identify.curve import Curve
from pecli.checks.identify.heights import Height
from pecli.checks.identify.match import Match
from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.errors import ParameterError

_SINGLE = 2.0**-24
LONGEST = 1 << 15
"""Frequencies that a scheme may have."""
_MOST = 1000.0
"""A divisor that somebody may have chosen."""


def recognise(name: str, values: Floats, dtype: str) -> list[Match]:
    """The rotary schemes whose inverse frequencies the vector holds."""
    if not 3 <= len(values) <= LONGEST or (values < 0).any() or values[0] <= 0:
        return []
    unit = recipes.unit(recipes.precision(values, dtype))
    coarse = unit > _SINGLE
    for room in (1,) if coarse else (4, 32):  # rounded once or twice; or powers with exponents that were rounded before
        for wavelengths in (False, True):
            if wavelengths and not (values > 0).all():
                continue
            frequency = 2 * np.pi / values if wavelengths else values
            found = _matches(name, frequency, unit, room, wavelengths)
            if found:
                return found
    return _divided(name, values, unit)


def _matches(name: str, frequency: Floats, unit: float, room: int, wavelengths: bool) -> list[Match]:
    doubt = max(unit * max(1, room // 4), 2.0**-52) / 2
    curve = Curve(frequency, np.maximum(frequency, frequency.max() * 1e-12) * doubt)
    for guess in chain.from_iterable(laws.rope(curve, Height())):
        if guess.parameters.get("scaling") == "longrope":
            continue
        try:
            scheme = Rope(1, 2 * len(frequency), **guess.parameters)
        except ParameterError:
            continue
        exact = np.array(scheme.frequencies().floats())
        error = np.abs(exact - frequency)
        if (error <= np.maximum(exact, 1e-300) * max(1.01 * room * unit, 4e-16)).all():
            form = "wavelengths, 2π over the frequencies" if wavelengths else "inverse frequencies"
            return [Match(scheme, float(error.max()), (name,), form, guess.undetermined)]
    return []


def _divided(name: str, values: Floats, unit: float) -> list[Match]:
    """Longrope, where the divisors of a usual base begin near one and never fall: any vector has some divisors."""
    curve = Curve(values, values * max(unit, 2.0**-52) / 2)
    if not curve.known.all() or (np.diff(values) >= 0).any():
        return []
    guess = laws.divided(curve, Height())
    try:
        scheme = Rope(1, 2 * len(values), **guess.parameters)
    except ParameterError:
        return []
    divisors = np.array(scheme.short_factor)
    if not 1 <= divisors[0] < 2 or divisors[-1] > _MOST or (np.diff(divisors) < 0).any():
        return []
    exact = np.array(scheme.frequencies().floats())
    said = (*guess.undetermined, "factor: frequencies do not tell it")
    return [Match(scheme, float(np.abs(exact - values).max()), (name,), "inverse frequencies", said)]
