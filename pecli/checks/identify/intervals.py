"""Which values of a parameter the roundings of the data leave open, and the plainest number among them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS

_LOWEST_EXPONENT = {"float64": -1022, "float32": -126, "float16": -14, "bfloat16": -126}


class Interval(NamedTuple):
    """All values from low to high."""

    low: float
    high: float

    @property
    def empty(self) -> bool:
        return not self.low <= self.high  # NaN is no limit

    def plainest(self) -> float:
        """The number of the interval with the fewest digits.

        >>> Interval(7.9988, 8.003).plainest()
        8.0
        """
        middle = (self.low + self.high) / 2
        for digits in range(1, 17):
            short = float(f"{middle:.{digits}g}")
            if self.low <= short <= self.high:
                return short
        return middle

    def words(self) -> str:
        """The limits, in as many digits as tell them apart.

        >>> Interval(7.9988123, 8.0031).words()
        '7.9988 … 8.0031'
        """
        for digits in range(3, 17):
            low, high = f"{self.low:.{digits}g}", f"{self.high:.{digits}g}"
            if abs(float(high) - float(low) - (self.high - self.low)) < 0.05 * (self.high - self.low):
                break
        return f"{low} … {high}"


def spacing(values: Floats, dtype: str) -> Floats:
    """The distance of each value from the next one of the dtype."""
    with np.errstate(divide="ignore"):
        exponent = np.frexp(np.abs(values))[1] - 1
    exponent = np.where(values == 0, _LOWEST_EXPONENT[dtype], exponent)
    return np.asarray(np.ldexp(1.0, np.maximum(exponent, _LOWEST_EXPONENT[dtype]) - (SIGNIFICAND_BITS[dtype] - 1)))
