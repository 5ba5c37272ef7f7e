"""The frequencies of one axis of positions."""

from fractions import Fraction
from typing import NamedTuple


class AxisBlock(NamedTuple):
    """The frequencies of one axis: every `step`-th of base^(−i/denominator) from `start` on; where the law is linear,
    of 1 + (base − 1)·i/denominator, and of zeros where it is still. NTK stretches the base by a factor."""

    axis: int
    channels: int
    denominator: Fraction
    start: int = 0
    step: int = 1
    law: str = ""
    factor: float = 1.0

    @property
    def pairs(self) -> int:
        return self.channels // 2

    @property
    def indices(self) -> range:
        """Which of the frequencies base^(−i/denominator) it has."""
        return range(self.start, self.start + self.step * self.pairs, self.step)

    @property
    def last(self) -> int:
        return max(self.indices, default=0)
