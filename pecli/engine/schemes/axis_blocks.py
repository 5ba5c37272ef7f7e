"""The frequencies of one axis of positions."""

from fractions import Fraction
from typing import NamedTuple


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
    progression: str = ""
    """`linear` for 1 + (base − 1)·i/denominator, `still` for zeros, else powers of the base."""
    factor: float = 1.0
    """The factor by which NTK stretches the base."""

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
