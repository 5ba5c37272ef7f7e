"""Errors of a few units of the last place: the bits alone may tell that none is larger than one known already."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, dtype_name

if TYPE_CHECKING:
    from numpy.typing import NDArray


MOST_UNITS = 64
"""Where errors are larger it is hardly ever so."""
LONGEST_WAIT = 64
"""Pieces that are let pass after it was not so several times."""


class Steps:
    """How the bits of a floating dtype count: as integers, floats of one sign are in order and without gaps."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        precision = SIGNIFICAND_BITS[dtype_name(dtype)]
        self._signed = np.dtype(f"i{dtype.itemsize}")
        self._unit = 1 << (precision - 1)  # bits of the fraction end here, those of the exponent begin
        self._magnitude = np.array((1 << (8 * dtype.itemsize - 1)) - 1, self._signed)
        self._fraction = np.array(self._unit - 1, self._signed)
        self._infinity = int(self._magnitude) // self._unit * self._unit
        self._exponent = 1 - (self._infinity // self._unit - 1) // 2 - (precision - 1)
        self._wait = self._waited = 0

    def worth_it(self, units: int) -> bool:
        """Whether to look at the bits first, if errors have been that large so far."""
        if not 0 < units <= MOST_UNITS:
            return False
        self._waited += 1
        return self._waited > self._wait

    def was_worth_it(self, told: bool) -> None:
        """Remember whether the bits told all; if not, the next time is later."""
        self._wait, self._waited = (0 if told else min(LONGEST_WAIT, 2 * self._wait + 1)), 0

    def bounds(self, ours: Array, theirs: Array, units: int, gap: NDArray[Any]) -> tuple[float, float, bool] | None:
        """What absolute and relative errors are no larger than, if none is of more units, and whether 0 is expected
        somewhere, of which the relative error is left out; None if one is, or that is not to say. The differences of
        the bits are left in the first half of `gap`; the other is room to work in.
        """
        gap, size = gap[: ours.size], gap[ours.size :]
        np.subtract(theirs.view(self._signed), ours.view(self._signed), out=gap)
        most = max(np.maximum.reduce(gap).item(), -np.minimum.reduce(gap).item())
        if most > min(units, self._unit - 1):
            return None
        np.bitwise_and(ours.view(self._signed), self._magnitude, out=size)
        top = int(np.maximum.reduce(size)) + most
        if top >= self._infinity:
            return None
        least = int(np.minimum.reduce(size))
        np.bitwise_and(size, self._fraction, out=size)
        ratio = self._largest_ratio(most, int(np.minimum.reduce(size)))
        if least < self._unit:  # below the normal floats, where a NaN of the other sign may seem close
            ratio = max(ratio, most / max(least, 1))
            np.bitwise_and(theirs.view(self._signed), self._magnitude, out=size)
            if int(np.maximum.reduce(size)) >= self._infinity:
                return None
        return most * self._spacing(top), ratio, least == 0

    def _spacing(self, bits: int) -> float:
        """From the float with these bits down to the next."""
        return math.ldexp(1.0, max(bits // self._unit, 1) - 1 + self._exponent)

    def _largest_ratio(self, units: int, fraction: int) -> float:
        """A bound on the relative error of normal floats that are off by so few units, if none has a smaller fraction.
        An error that reaches into the next binade has its units doubled there.
        """
        return max(units / (self._unit + fraction), (units - 0.5) / (self._unit - 0.5))
