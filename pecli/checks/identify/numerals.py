"""The number that somebody wrote, from the number that was measured: the shortest one that is near enough."""

from __future__ import annotations

import math
from collections.abc import Iterator

LONGEST = 17
"""Digits that tell every float64 from the others."""


def digits(value: float) -> int:
    """How many digits a number needs; powers of two count as short ones, as people write those too.

    >>> digits(10000.0), digits(0.25), digits(131072.0), digits(1.2345)
    (1, 2, 2, 5)
    """
    if value == 0 or not math.isfinite(value):
        return 1 if value == 0 else LONGEST
    mantissa = f"{value:.16e}".split("e")[0].replace(".", "").strip("-0")
    written = repr(value).split("e")[0].replace(".", "").strip("-0")
    count = min(len(mantissa), len(written))
    return min(count, 2) if abs(math.frexp(value)[0]) == 0.5 and value >= 1 else max(1, count)


def shortest(value: float, error: float) -> float:
    """The shortest decimal within the error.

    >>> shortest(9999.9987, 0.01), shortest(0.333333, 1e-9)
    (10000.0, 0.333333)
    """
    return next(shorter(value, error))


def shorter(value: float, error: float) -> Iterator[float]:
    """Every rounding of the value to so many digits that is within the error, the shortest first; then the value."""
    found = []
    for places in range(LONGEST - 1):
        rounded = float(f"{value:.{places}e}")
        if abs(rounded - value) <= error and rounded not in found:
            found.append(rounded)
            yield rounded
    if value not in found:
        yield value


def roundest(low: float, high: float) -> int | None:
    """The integer of an interval that a person would most likely choose: a power of two, then 1000 and the like."""
    first, last = max(1, math.ceil(low)), math.floor(high)
    if last < first:
        return None
    power = 1 << (last.bit_length() - 1)
    if power >= first:
        return power
    step = power
    while step > 1:  # the coarsest multiples of a power of two
        if last // step * step >= first and step >= last / 64:
            return last // step * step
        step //= 2
    ten = int(10 ** (len(str(last)) - 1))
    while last // ten * ten < first:
        ten //= 10
    return last // ten * ten
