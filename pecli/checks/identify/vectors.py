"""A vector of inverse frequencies, or of wavelengths: the rotary law behind it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.identify import laws, recipes
from pecli.checks.identify.curve import Curve
from pecli.checks.identify.heights import Height
from pecli.checks.identify.match import Match
from pecli.engine.rope import Rope
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats


def recognise(name: str, values: Floats, dtype: str) -> list[Match]:
    """The rotary schemes whose inverse frequencies the vector holds."""
    if len(values) < 3 or (values < 0).any() or values[0] <= 0:
        return []
    unit = recipes.unit(recipes.precision(values, dtype))
    for room in (1, 8):  # rounded once; or powers with exponents that were rounded before
        for wavelengths in (False, True):
            if wavelengths and not (values > 0).all():
                continue
            frequency = 2 * np.pi / values if wavelengths else values
            found = _matches(name, frequency, room * unit, wavelengths)
            if found:
                return found
    return []


def _matches(name: str, frequency: Floats, unit: float, wavelengths: bool) -> list[Match]:
    curve = Curve(frequency, np.maximum(frequency, frequency.max() * 1e-12) * max(unit, 2.0**-52) / 2)
    for reading in chain.from_iterable(laws.rope(curve, Height())):
        if reading.parameters.get("scaling") == "longrope":
            continue
        try:
            scheme = Rope(1, 2 * len(frequency), **reading.parameters)
        except ParameterError:
            continue
        exact = np.array(scheme.frequencies().floats())
        error = np.abs(exact - frequency)
        if (error <= np.maximum(exact, 1e-300) * max(4 * unit, 4e-16)).all():
            form = "wavelengths, 2π over the frequencies" if wavelengths else "inverse frequencies"
            return [Match(scheme, float(error.max()), (name,), form, reading.undetermined)]
    return []
