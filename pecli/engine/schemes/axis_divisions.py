"""Ways to divide the frequencies of a head, or of a table, among the axes of an image.

Of 64 channels, most projects give 32 to the rows and 32 to the columns, each with frequencies of
its own. In others the axes share the frequencies of the whole, or take turns pair by pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from pecli.engine.schemes.axis_blocks import LINEAR, STILL, AxisBlock


class AxisShare(NamedTuple):
    """The channels of one axis.

    Attributes:
        axis: Its number among the axes of positions: 1 for columns beside rows.
        place: Its place among the axes in the order of their channels.
        channels: How many of the channels it has.
    """

    axis: int
    place: int
    channels: int


@dataclass(frozen=True)
class Division:
    """The usual division: each axis has the frequencies of a head of its own number of channels."""

    def in_turns(self, axes: Sequence[int], dim: int) -> tuple[AxisBlock, ...]:
        """Return a block per pair if the axes take turns pair by pair: w0 h0 w1 h1 …

        Most divisions have none: the channels of an axis are neighbours, and are one block.

        Args:
            axes: The numbers of the axes, in the order of their channels.
            dim: The channels of all axes.
        """
        return ()

    def block(self, share: AxisShare, axis_count: int, dim: int) -> AxisBlock:
        """Return the frequencies of one of so many axes, which have dim channels in all."""
        return AxisBlock(share.axis, share.channels, denominator=Fraction(share.channels, 2))


class SharedFrequencies(Division):
    """The axes take turns in the frequencies of the whole dim, as in Pixtral.

    Of two axes, the first has the frequencies 0, 2, 4, …, the second 1, 3, 5, …
    """

    def block(self, share: AxisShare, axis_count: int, dim: int) -> AxisBlock:
        """Return the frequencies of one axis among all: 1, 3, 5, … for the second of two axes."""
        return AxisBlock(
            share.axis,
            share.channels,
            denominator=Fraction(dim, 2),
            start=share.place,
            step=axis_count,
        )


class RisingPowers(Division):
    """Frequencies rise from 1 to the base, over the pairs of an axis but one.

    These are the «pixel» frequencies of timm, up to max_freq/2 = 112: for 5 pairs, base^(i/4).
    """

    def block(self, share: AxisShare, axis_count: int, dim: int) -> AxisBlock:
        return AxisBlock(share.axis, share.channels, -_steps(share.channels))


class LinearFrequencies(Division):
    """Frequencies rise from 1 to the base in equal steps, over the pairs of an axis but one.

    These are the «pixel» frequencies of rotary-embedding-torch, up to max_freq/2 = 5: for 5 pairs,
    1 + (base − 1)·i/4.
    """

    def block(self, share: AxisShare, axis_count: int, dim: int) -> AxisBlock:
        return AxisBlock(share.axis, share.channels, _steps(share.channels), progression=LINEAR)


def _steps(channels: int) -> Fraction:
    """Return the number of steps from the first to the last frequency of an axis, at least one."""
    return Fraction(max(1, channels // 2 - 1))


class MixedPairs(Division):
    """The pairs of LTX: some of angle 0, then t0 h0 w0 t1 h1 w1 …, rising.

    Of 64 channels, three axes have 10 frequencies each, base^(i/9) for i < 10, and the first 64
    − 60 = 4 channels have the angle 0.
    """

    def in_turns(self, axes: Sequence[int], dim: int) -> tuple[AxisBlock, ...]:
        """Return the pairs of angle 0 as one block, and then a block per pair: t0 h0 w0 t1 h1 w1 …"""
        pairs_per_axis = dim // 2 // len(axes)
        if pairs_per_axis < 2:  # A single frequency does not rise.
            return ()
        still_channels = dim - 2 * pairs_per_axis * len(axes)
        still = AxisBlock(0, still_channels, Fraction(1), progression=STILL)
        # The exponents −i/denominator of a block are i/(pairs_per_axis − 1), which rise.
        denominator = Fraction(1 - pairs_per_axis)
        return (still, *_pairs_in_turn(axes, pairs_per_axis, denominator))


class AlternatingPairs(Division):
    """The pairs of MoonViT: w0 h0 w1 h1 …, with the frequencies base^(−i/(dim/4)).

    Of 8 channels, the pairs are w0 h0 w1 h1 with the frequencies 1, 1, base^(−1/2), base^(−1/2).
    """

    def in_turns(self, axes: Sequence[int], dim: int) -> tuple[AxisBlock, ...]:
        """Return a block for each pair of each axis; none if two axes cannot have as many pairs."""
        if dim % 4:
            return ()
        return tuple(_pairs_in_turn(axes, dim // 4, denominator=Fraction(dim, 4)))


def _pairs_in_turn(axes: Sequence[int], frequencies: int, denominator: Fraction) -> list[AxisBlock]:
    """Return a pair of each axis for the first frequency, then one of each for the second, …

    For the axes 1, 0 and 2 frequencies, these are pairs of the axes 1, 0, 1, 0.

    Args:
        axes: The numbers of the axes, in the order of their channels.
        frequencies: The number of frequencies, which all axes have.
        denominator: The frequencies are base^(−i/denominator).
    """
    blocks = []
    for index in range(frequencies):
        for axis in axes:
            blocks.append(AxisBlock(axis, 2, denominator, start=index))
    return blocks


OWN = Division()
SHARED = SharedFrequencies()
RISING = RisingPowers()
LINEAR_RISE = LinearFrequencies()
MIXED = MixedPairs()
ALTERNATING = AlternatingPairs()
