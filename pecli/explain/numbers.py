"""Numbers as people write them: a fitted value is replaced by the plainest number that the data allow."""

import math
from collections.abc import Iterable, Iterator

MAX_DIGITS = 9
"""Significant digits that are tried for a fitted number: float32 has no more."""

MAX_CANDIDATES = 4
"""Numbers that are tried for a fitted one: with more digits they differ by less than the data show."""

POWERS_OF_TWO_FROM = 64.0
"""Lengths and factors from here on are often powers of two, which count as short numbers."""


def digits(value: float) -> int:
    """Return how many significant digits a number takes; powers of two count as two at most.

    >>> digits(10000.0), digits(0.25), digits(131072.0), digits(1.2345)
    (1, 2, 2, 5)
    """
    mantissa = repr(float(f"{value:.15g}")).split("e")[0]
    written = mantissa.replace(".", "").strip("-0")
    is_power_of_two = abs(math.frexp(value)[0]) == 0.5 and value >= 1
    if is_power_of_two:
        return min(len(written), 2)
    return max(1, len(written))


def plain_numbers(value: float, error: float) -> Iterator[float]:
    """Yield numbers within an error of a value, the plainest first.

    >>> list(plain_numbers(9999.98, 0.1))
    [10000.0, 9999.98]
    >>> next(plain_numbers(8190.0, 5.0))
    8192.0
    """
    if not 0 < abs(value) < math.inf:
        return
    candidates = [float(f"{value:.{places}e}") for places in range(MAX_DIGITS)]
    if value >= POWERS_OF_TWO_FROM:
        candidates.insert(2, 2.0 ** round(math.log2(value)))
    near = numbers_near(dict.fromkeys(candidates), value, error)
    yield from near[:MAX_CANDIDATES]


def plainest_number(value: float, error: float) -> float:
    """Return the number with the fewest digits within an error of a value; the value if none is.

    >>> plainest_number(9999.98, 0.1)
    10000.0
    """
    return next(plain_numbers(value, error), value)


def numbers_near(candidates: Iterable[float], value: float, error: float) -> list[float]:
    """Return the candidates within an error of a value, in their order.

    >>> numbers_near([10000.0, 500.0, 9999.5], 9999.75, 0.25)
    [10000.0, 9999.5]
    """
    return [candidate for candidate in candidates if abs(candidate - value) <= error]
