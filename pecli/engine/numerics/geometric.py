"""Geometric frequencies, exact: from a base to waves.

Frequencies are radians per position, as integers over 2**bits. What a scaling does to them, or to the amplitude,
happens between `geometric` and `waves`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from pecli.engine.numerics import fixed_point
from pecli.errors import ParameterError

if TYPE_CHECKING:
    from pecli.engine.numerics.phases import Waves

MAX_FREQUENCY = 2.0**64
"""Frequencies stay below this, so that a base below 1 has a limit that makes sense."""

_AMPLITUDE_BITS = 200


class Frequencies(NamedTuple):
    """Radians per position, each an integer over 2**bits."""

    values: tuple[int, ...]
    bits: int
    more: Callable[[int], Frequencies]
    """The same frequencies with that many bits more."""

    def first(self, count: int) -> Frequencies:
        """The first few of them."""
        return Frequencies(self.values[:count], self.bits, lambda extra: self.more(extra).first(count))

    def take(self, indices: Sequence[int]) -> Frequencies:
        """Those of the given numbers, in that order."""
        values = tuple(self.values[k] for k in indices)
        return Frequencies(values, self.bits, lambda extra: self.more(extra).take(indices))

    def floats(self) -> list[float]:
        """As float64, each rounded once."""
        return [value / (1 << self.bits) for value in self.values]


def check_base(base: float, largest_exponent: float, scale: float = 1.0) -> None:
    """A base below 1 makes frequencies that grow; they have to stay below MAX_FREQUENCY."""
    if max(0.0, -largest_exponent * math.log2(base)) + math.log2(scale) >= math.log2(MAX_FREQUENCY):
        at_fault = ("scale", scale) if base >= 1 else ("base", base)
        raise ParameterError(at_fault[0], f"{at_fault[1]:g}", "frequencies must stay below 2^64 radians per position")


def geometric(
    base: float,
    denominator: Fraction,
    count: int,
    scale: float = 1.0,
    extra: int = 0,
    log_base: Callable[[int], int] | None = None,
) -> Frequencies:
    """base ** (−i / denominator) for i = 0 … count − 1, precise enough for positions times `scale`.

    Where the base is not a float, `log_base` gives its logarithm to any number of bits, and `base` does not count.
    """
    from pecli.engine.numerics.phases import bits_for

    steps = min(float((count - 1) / denominator), 1e6) if count > 1 else 0.0
    log2 = math.log2(base) if log_base is None else log_base(64) / 2**64 / math.log(2)
    smallest = 2.0 ** max(-1074.0, -steps * log2) if log2 > 0 else 1.0
    growth = max(0, int(-steps * log2)) + count.bit_length()  # what the steps add to an error
    bits = bits_for(smallest) + 64 + growth + abs(math.frexp(scale)[1]) + extra
    values = [1 << bits]
    if count > 1:
        step = -1 / denominator
        if log_base is None:
            ratio = fixed_point.power(Fraction(base), step, bits)
        else:
            exponent = log_base(bits + 32) * step.numerator // step.denominator
            ratio = fixed_point.round_shift(fixed_point.exp(exponent, bits + 32), 32)
        for _ in range(count - 1):
            values.append(values[-1] * ratio >> bits)
    return Frequencies(tuple(values), bits, lambda extra: geometric(base, denominator, count, scale, extra, log_base))


def joined(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of all parts, one part after the other."""
    bits = max(part.bits for part in parts)
    values = tuple(value << (bits - part.bits) for part in parts for value in part.values)
    return Frequencies(values, bits, lambda extra: joined([part.more(extra) for part in parts]))


def in_radians(frequencies: Frequencies) -> Frequencies:
    """Turns per position as radians per position."""
    turn = 2 * fixed_point.pi(frequencies.bits)
    values = tuple(fixed_point.round_shift(value * turn, frequencies.bits) for value in frequencies.values)
    return Frequencies(values, frequencies.bits, lambda extra: in_radians(frequencies.more(extra)))


def waves(
    frequencies: Frequencies,
    *,
    scale: float | Fraction = 1.0,
    amplitude: Fraction | float | Callable[[int], int] = 1.0,
    extra: int = 0,
    in_turns: bool = False,
) -> Waves:
    """The waves with these frequencies over positions times `scale`; in radians per position unless `in_turns`.

    An amplitude that is not a fraction is given as a function: to so many bits after the point, as an integer.
    """
    from pecli.engine.numerics.phases import Waves, bits_for

    smallest = min((value for value in frequencies.values if value), default=1) / (1 << frequencies.bits)
    bits = bits_for(smallest * float(scale) / 8) + extra
    numerator, denominator = scale.as_integer_ratio()
    turn = (1 << frequencies.bits if in_turns else 2 * fixed_point.pi(frequencies.bits)) * denominator
    turns = tuple(((value * numerator) << bits) // turn for value in frequencies.values)
    places = _AMPLITUDE_BITS + extra
    height = amplitude(places) if callable(amplitude) else fixed_point.fixed(Fraction(amplitude), places)
    error = 4 if callable(amplitude) else int(Fraction(height, 1 << places) != amplitude)

    def more(extra: int) -> Waves:
        finer = frequencies.more(extra)
        return waves(finer, scale=scale, amplitude=amplitude, extra=extra, in_turns=in_turns)

    return Waves(turns, bits, height, places, error, more)
