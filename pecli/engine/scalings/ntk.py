"""NTK-aware scalings: a larger base, which keeps the highest frequency and divides the lowest by f.

With b' = b·f^(d/(d−2)), the last frequency b'^(−(d−2)/d) is b^(−(d−2)/d) / f.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from pecli.engine import numerics
from pecli.engine.arrays import Floats, Singles
from pecli.engine.numerics import Frequencies, round_fixed
from pecli.engine.scalings.scaling import Scaling, reciprocal
from pecli.errors import ParameterError

_BITS = 160
_SPARE_BITS = 8
"""Bits that are rounded off at the end, with the rounding errors of all steps."""


@dataclass(frozen=True)
class Ntk(Scaling):
    """Uses the base b·f^(d/(d−2))."""

    factor: float

    def stretch(self) -> Fraction:
        """Return the number by which the last frequency is divided."""
        return Fraction(self.factor)

    def approximate_stretch(self) -> Floats:
        """Return `stretch` in float64; fields may be columns of numbers."""
        return np.asarray(self.factor)

    def check(self, base: float, dim: int) -> None:
        if dim < 3:
            name = type(self).__name__.lower()
            rule = f"{name} scaling divides by d − 2, so d must be at least 3"
            raise ParameterError("dim", dim, rule)

    def frequencies(self, base: float, dim: int) -> Frequencies:
        return _frequencies_of_larger_base(base, dim, self.stretch(), Fraction(dim, dim - 2))

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        if half <= 1:  # The only frequency is 1, and half − 1 would divide by zero.
            return plain
        exponents = -np.arange(plain.shape[-1]) / (half - 1)
        scaled: Floats = plain * self.approximate_stretch() ** exponents
        return scaled

    def float32_base(self, base: float, dim: int) -> float:
        power = numerics.power(self.stretch(), Fraction(dim, dim - 2), _BITS)
        value = Fraction(base) * power
        return round_fixed(value.numerator // value.denominator, _BITS, "float32")


@dataclass(frozen=True)
class Dynamic(Ntk):
    """Uses the base of NTK for a stretch that grows with the length, once it exceeds M.

    The stretch is f·L/M − (f − 1) with L = max(length, M): 1 up to M, and 3 at 2·M for f = 2.
    """

    max_position_embeddings: int
    length: int | None = None

    def stretch(self) -> Fraction:
        longest = self.max_position_embeddings
        length = longest if self.length is None else max(self.length, longest)
        factor = Fraction(self.factor)
        return factor * length / longest - (factor - 1)

    def approximate_stretch(self) -> Floats:
        longest = np.asarray(self.max_position_embeddings)
        length = longest if self.length is None else np.maximum(self.length, longest)
        factor = np.asarray(self.factor)
        stretch: Floats = factor * length / longest - (factor - 1)
        return stretch


@dataclass(frozen=True)
class NtkFixed(Scaling):
    """Uses (b·f)^(−2i/d) / f^(2/d), the `rope_type: ntk` of vLLM and GTE."""

    per_frequency = True

    factor: float

    def frequencies(self, base: float, dim: int) -> Frequencies:
        factor = Fraction(self.factor)
        values, bits = _frequencies_of_larger_base(base, dim, factor, exponent=Fraction(1))
        multiplier = numerics.power(Fraction(self.factor), Fraction(-2, dim), bits)
        return Frequencies(tuple(value * multiplier >> bits for value in values), bits)

    def approximate(self, plain: Floats, base: float | Floats, half: float) -> Floats:
        exponents = -(np.arange(plain.shape[-1]) + 1) / half
        scaled: Floats = plain * self.factor**exponents
        return scaled

    def float32_base(self, base: float, dim: int) -> float:
        return base * self.factor

    def float32_frequencies(self, powers: Singles, base: float, dim: int) -> Singles:
        divisor = numerics.power(Fraction(self.factor), Fraction(2, dim), _BITS) / (1 << _BITS)
        return reciprocal(powers) / powers.dtype.type(divisor)


def _frequencies_of_larger_base(
    base: float, dim: int, factor: Fraction, exponent: Fraction
) -> Frequencies:
    """Return the frequencies B^(−2i/dim) of the larger base B = base · factor^exponent.

    B may be irrational, or too large for a float. So its logarithm is passed on, and not B.
    """

    def log_of_larger_base(bits: int) -> int:
        """Return ln base + exponent · ln factor, as an integer over 2**bits."""
        work_bits = bits + _SPARE_BITS
        log_factor = numerics.log(factor, work_bits)
        log_of_power = log_factor * exponent.numerator // exponent.denominator
        logarithm = numerics.log(Fraction(base), work_bits) + log_of_power
        return numerics.round_shift(logarithm, _SPARE_BITS)

    pairs = (dim + 1) // 2  # A scaled dim may be odd, and its last pair counts.
    # The function has to be given a base, but takes the logarithm instead.
    return numerics.geometric(base, Fraction(dim, 2), pairs, log_base=log_of_larger_base)
