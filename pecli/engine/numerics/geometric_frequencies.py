"""Geometric frequencies, in radians per position, as fixed-point numbers.

A position is multiplied by a frequency, so an error of the frequency grows by up to 2**40. The
number of bits is chosen so that enough of them are left after that product. Scalings act on
frequencies between `geometric` and `phases.ExactWaves.from_frequencies`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from fractions import Fraction
from functools import partial
from typing import NamedTuple

import numpy as np

from pecli.engine.numerics.fixed_point import GUARD, exp, log, round_shift
from pecli.errors import ParameterError

POSITION_BITS = 64
"""Bits of a position: positions are at most 2**40, numerators of fractions below 2**63."""
MAX_FREQUENCY = 2.0**64
"""Radians per position; only a base below 1 or a large scale comes near it."""
_GOOD_BITS = 120
"""Bits that are left of the smallest frequency's product with a position: 110, and a margin."""
_DIGIT_BITS = 32
"""Bits of the digits in which phases multiply frequencies; a frequency has whole digits."""
_MAX_LEADING_ZEROS = 1100
"""More than the smallest float64 number has after its point (2**-1074)."""

_MARGIN_BITS = 64
"""Bits of frequencies beyond those that are needed."""
_LOG_BITS = 64
"""Bits of a logarithm that only decides how many bits are needed."""
_MAX_EXPONENT = 1e6
"""The largest exponent that is counted: even 1.001 to this power is beyond float64."""
_LOG2_OF_LEAST_FLOAT = -1074.0
"""The binary logarithm of the smallest float64 number."""

extra_bits = ContextVar("extra_bits", default=0)
"""Bits of frequencies and amplitudes beyond the usual number, while a hard rounding is decided."""


class Frequencies(NamedTuple):
    """Frequencies in radians per position, each an integer over 2**bits."""

    values: tuple[int, ...]
    bits: int

    def take(self, indices: Sequence[int]) -> Frequencies:
        """Return the frequencies with these indices, in their order."""
        return Frequencies(tuple(self.values[index] for index in indices), self.bits)

    def floats(self) -> list[float]:
        """Return the frequencies rounded to float64."""
        return [value / (1 << self.bits) for value in self.values]


def check_base(base: float, largest_exponent: float, scale: float = 1.0) -> None:
    """Raise ParameterError unless scale · base ** −exponent stays below MAX_FREQUENCY.

    The largest frequency is 1 for a base above 1, and the last one for a base below 1.
    """
    log2_largest = max(0.0, -largest_exponent * math.log2(base)) + math.log2(scale)
    if log2_largest < math.log2(MAX_FREQUENCY):
        return
    rule = "frequencies must stay below 2^64 radians per position"
    if base >= 1:
        raise ParameterError("scale", f"{scale:g}", rule)
    raise ParameterError("base", f"{base:g}", rule)


def geometric(
    base: float,
    denominator: Fraction,
    count: int,
    scale: float = 1.0,
    log_base: Callable[[int], int] | None = None,
) -> Frequencies:
    """Return base ** (−i / denominator) for i = 0 … count − 1, as integers over 2**bits.

    For base 10000, denominator 2 and count 2 these are 1 and 1/100. The number of bits is chosen so
    that the product of the smallest frequency with any position is precise.

    Args:
        base: A positive number.
        denominator: Half of the dim, in most schemes.
        count: The number of frequencies.
        scale: A factor by which positions will be multiplied, and for which bits are added.
        log_base: `log_base(bits)` returns the natural logarithm of the base, as an integer over
            2**bits. It is needed for a base that is not a float, such as 10000 · 8^(128/126) of NTK
            scaling; `base` is not used then.
    """
    if log_base is None:
        log_base = partial(log, Fraction(base))
    bits = _geometric_bits(log_base, denominator, count, scale)
    one = 1 << bits  # base ** 0
    if count <= 1:  # The denominator may be 0 then, as of an axis without channels.
        return Frequencies((one,), bits)
    ratio = _ratio_of_neighbours(log_base, denominator, bits)
    values = [one]
    for _ in range(count - 1):
        product = values[-1] * ratio  # over 2**(2 · bits)
        values.append(product >> bits)
    return Frequencies(tuple(values), bits)


def _ratio_of_neighbours(log_base: Callable[[int], int], denominator: Fraction, bits: int) -> int:
    """Return base ** (−1 / denominator), the ratio of neighbouring frequencies, over 2**bits."""
    work_bits = bits + 2 * GUARD
    log_ratio = int(-log_base(work_bits) / denominator)
    return round_shift(exp(log_ratio, work_bits), work_bits - bits)


def _geometric_bits(
    log_base: Callable[[int], int], denominator: Fraction, count: int, scale: float
) -> int:
    """Return how many bits after the point the frequencies base ** (−i / denominator) need.

    For base 10000 and 64 frequencies, the smallest is 2**-13.1. It needs 224 bits, so that enough
    of them are left in its product with any position. With 7 bits for rounding errors, 1 for the
    scale 1.0, and a margin of 64, the result is 296.

    Args:
        log_base: `log_base(bits)` returns the natural logarithm of the base, over 2**bits.
        denominator: The frequencies are base ** (−i / denominator).
        count: The number of frequencies.
        scale: A factor by which positions will be multiplied.
    """
    log2_last = _log2_of_last(log_base, denominator, count)
    # The first frequency is 1, which is the smallest if the base is below 1.
    log2_smallest = min(0.0, log2_last)
    # A frequency below the smallest float64 number counts as that, and not as 0.
    smallest = 2.0 ** max(log2_smallest, _LOG2_OF_LEAST_FLOAT)
    bits_for_smallest = bits_for(smallest)
    bits_for_errors = _bits_of_rounding_errors(count, log2_last)
    _, exponent_of_scale = math.frexp(scale)  # 10 for the scale 1000, which is 0.98 · 2**10
    bits_for_scale = abs(exponent_of_scale)
    return bits_for_smallest + bits_for_errors + bits_for_scale + _MARGIN_BITS


def _bits_of_rounding_errors(count: int, log2_last: float) -> int:
    """Return how many of the last bits of frequencies their rounding errors may make wrong.

    Each frequency is the one before times a ratio, rounded to a unit of the last bit. So it has the
    error of the one before times the ratio, and about a unit more: after 64 steps with a ratio
    below 1, at most about 64 units, which are 7 bits. With a ratio above 1, errors grow as
    frequencies do, from 1 to the last one, 2**log2_last: that is log2_last bits more. A few units
    that this leaves out are within _MARGIN_BITS.

    Args:
        count: The number of frequencies.
        log2_last: The binary logarithm of the last frequency, above 0 if frequencies grow.
    """
    bits_of_growth = max(0, int(log2_last))
    return count.bit_length() + bits_of_growth


def _log2_of_last(log_base: Callable[[int], int], denominator: Fraction, count: int) -> float:
    """Return the binary logarithm of the last of the frequencies base ** (−i / denominator).

    It is −13.1 for base 10000, denominator 64 and count 64, because 10000 ** (−63/64) is 2**-13.1.
    """
    if count <= 1:
        return 0.0
    largest_exponent = min(float((count - 1) / denominator), _MAX_EXPONENT)
    ln_base: float = log_base(_LOG_BITS) / 2**_LOG_BITS
    return -largest_exponent * (ln_base / math.log(2))


def joined(parts: Sequence[Frequencies]) -> Frequencies:
    """Return the frequencies of all parts, such as axes of an image, one part after the other.

    Frequencies are integers over 2**bits. A part with fewer bits is shifted to the most that a part
    has: 3 over 2**8 becomes 48 over 2**12.
    """
    bits = max((part.bits for part in parts), default=0)
    values: list[int] = []
    for part in parts:
        shift = bits - part.bits
        values.extend(value << shift for value in part.values)
    return Frequencies(tuple(values), bits)


def bits_for(smallest: float) -> int:
    """Return the bits that frequencies need so that the smallest is precise at any position.

    The position takes 64 bits off, and zeros after the point are not digits: a frequency of 2**-10
    needs 64 + 120 + 10 bits, rounded up to 224.
    """
    leading_zeros = _MAX_LEADING_ZEROS
    if smallest > 0:
        leading_zeros = max(0, -int(np.floor(np.log2(smallest))))
    leading_zeros = min(leading_zeros, _MAX_LEADING_ZEROS)
    bits = POSITION_BITS + _GOOD_BITS + leading_zeros + extra_bits.get()
    digits = -(-bits // _DIGIT_BITS)  # rounded up
    return digits * _DIGIT_BITS
