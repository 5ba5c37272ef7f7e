"""The frequencies of one axis of positions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pecli.engine import numerics
from pecli.engine.numerics import Frequencies


class Progression(ABC):
    """The rule by which the frequencies of an axis follow each other."""

    @property
    def is_geometric(self) -> bool:
        """True if they are powers of the base itself."""
        return False

    @abstractmethod
    def frequencies(self, block: "AxisBlock", base: float, scale: float) -> Frequencies:
        """Return the exact frequencies from index 0 to the last one that a block has.

        Args:
            block: The channels of an axis.
            base: The base of powers, or the end of a linear rise.
            scale: The factor of the positions, which decides how exact frequencies have to be.
        """


@dataclass(frozen=True)
class Powers(Progression):
    """The powers base^(−i/denominator).

    Attributes:
        ntk_factor: The factor by which NTK stretches the base.
    """

    ntk_factor: float = 1.0

    @property
    def is_geometric(self) -> bool:
        return self.ntk_factor == 1

    def frequencies(self, block: "AxisBlock", base: float, scale: float) -> Frequencies:
        if self.is_geometric:
            return numerics.geometric(base, block.denominator, block.last + 1, scale)
        from pecli.engine.scalings.ntk import Ntk

        return Ntk(self.ntk_factor).frequencies(base, block.channels)


class _LinearRise(Progression):
    """Frequencies 1 + (base − 1)·i/denominator: 1, 2, 3, 4, 5 for base 5 and denominator 4."""

    def frequencies(self, block: "AxisBlock", base: float, scale: float) -> Frequencies:
        rise = (Fraction(base) - 1) / block.denominator
        return _fixed([1 + rise * index for index in range(block.last + 1)])


class _Still(Progression):
    """Zeros, for pairs that do not turn."""

    def frequencies(self, block: "AxisBlock", base: float, scale: float) -> Frequencies:
        return _fixed([Fraction(0)] * (block.last + 1))


@dataclass(frozen=True)
class Listed(Progression):
    """Frequencies that are given one by one.

    Attributes:
        values: The radians per position of each pair, at least as many as a block has.
    """

    values: tuple[float, ...]

    def frequencies(self, block: "AxisBlock", base: float, scale: float) -> Frequencies:
        smallest = min((value for value in self.values if value), default=1.0)
        return _fixed([Fraction(value) for value in self.values], min(smallest, 1.0))


def _fixed(values: list[Fraction], smallest: float = 1.0) -> Frequencies:
    """Return exact numbers as frequencies, which are integers over 2**bits: 1/2 is 2**bits / 2.

    Args:
        values: The numbers.
        smallest: A lower bound of all numbers but zeros. The smaller it is, the more bits there are.
    """
    bits = numerics.bits_for(smallest) + 64
    return Frequencies(tuple(numerics.fixed(value, bits) for value in values), bits)


POWERS = Powers()
LINEAR = _LinearRise()
STILL = _Still()


class AxisBlock(NamedTuple):
    """Frequencies of one axis: every `step`-th of base^(−i/denominator), from index `start` on.

    For a head of 64 channels that an image's rows and columns share, 32 channels each:

    - EVA gives each axis its own frequencies: AxisBlock(axis, 32, denominator=16) has the indices
      0, 1, …, 15, and the last frequency is base^(−15/16);
    - Pixtral shares the frequencies of the whole head: rows have AxisBlock(0, 32, denominator=32,
      start=0, step=2) with the indices 0, 2, …, 30, columns start=1 with 1, 3, …, 31, and the last
      frequency is base^(−31/32).
    """

    axis: int
    channels: int
    denominator: Fraction
    start: int = 0
    step: int = 1
    progression: Progression = POWERS

    @property
    def pairs(self) -> int:
        """Return the number of frequencies: a sine and a cosine channel share one."""
        return self.channels // 2

    @property
    def indices(self) -> range:
        """Return the i of its frequencies base^(−i/denominator)."""
        return range(self.start, self.start + self.step * self.pairs, self.step)

    @property
    def last(self) -> int:
        """Return the largest index, 0 if there is none."""
        return max(self.indices, default=0)

    @property
    def has_all_powers(self) -> bool:
        """Return True if its frequencies are all powers base^0, base^(−2/d), … of d channels.

        The base may be stretched.
        """
        return (type(self.progression), self.start, self.step) == (Powers, 0, 1)
