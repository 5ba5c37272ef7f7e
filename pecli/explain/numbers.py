"""The number that somebody wrote, from the number that was measured."""

from __future__ import annotations

import math
from collections.abc import Iterator

BASES = (
    10000.0,
    500000.0,
    1e6,
    150000.0,
    1000.0,
    100.0,
    1e5,
    5e6,
    1e7,
    160000.0,
    2e6,
    8e6,
    1e8,
    25000.0,
    40000.0,
    32000.0,
)
"""Bases that models have, the likeliest first."""
MAX_DIGITS = 16


def digits(value: float) -> int:
    """How many digits a number needs; powers of two count as short ones, as people write those too.

    >>> digits(10000.0), digits(0.25), digits(131072.0), digits(1.2345)
    (1, 2, 2, 5)
    """
    if value == 0 or not math.isfinite(value):
        return 1 if value == 0 else MAX_DIGITS
    written = repr(float(f"{value:.15g}")).split("e")[0].replace(".", "").strip("-0")
    power_of_two = abs(math.frexp(value)[0]) == 0.5 and value >= 1
    return min(len(written), 2) if power_of_two else max(1, len(written))


def plain(value: float, error: float) -> Iterator[float]:
    """Numbers within the error of a value that people would write, the plainest first; the value itself last.

    >>> next(plain(9999.98, 0.1)), next(plain(8190.0, 5.0)), next(plain(0.3333, 1e-6))
    (10000.0, 8192.0, 0.3333)
    """
    found: list[float] = []
    for places in range(MAX_DIGITS):
        rounded = float(f"{value:.{places}e}")
        if places == 2 and value >= 64:  # powers of two are plainer than other numbers of three digits
            found.append(2.0 ** round(math.log2(value)))
        found.append(rounded)
    for each in dict.fromkeys(found):
        if abs(each - value) <= error:
            yield each
    if value not in found:
        yield value


def plainest(value: float, error: float) -> float:
    """The first of them."""
    return next(plain(value, error))


def plain_integer(low: float, high: float) -> int | None:
    """The integer of an interval that a person would most likely choose: a power of two, then 1000 and the like."""
    first, last = max(1, math.ceil(low)), math.floor(high)
    if last < first:
        return None
    for step in [1 << k for k in range(60, 5, -1)]:
        if last // step * step >= first and (step >= last / 64 or step == 1 << (last.bit_length() - 1)):
            return last // step * step
    ten = int(10 ** (len(str(last)) - 1))
    while last // ten * ten < first:
        ten //= 10
    return last // ten * ten
