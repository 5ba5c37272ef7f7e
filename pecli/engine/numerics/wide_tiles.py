"""The same tables in float64, which has no wider type to be rounded from: products of small tables in about 75 bits.

A position is written p = (large · anchors + anchor) · rows + row. Of the two directions that are multiplied, each
number is split in a head of 26 bits behind the point, the same for all, and a tail. Products of heads are exact, and
so are their sums; what the tails add is small, and its rounding errors are smaller still. Elements for which those
leave the last bit in doubt are settled one by one, elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices
from pecli.engine.numerics import double_double, phases
from pecli.engine.numerics.aligned_buffer import room_for
from pecli.engine.numerics.double_double import Doubled
from pecli.engine.numerics.phases import Waves
from pecli.engine.numerics.tiles import COLUMNS, TILE, multiples, power_of_two

if TYPE_CHECKING:
    Directions = tuple[Doubled, Doubled]

_HEAD = 2.0**-26
_ERROR = 2.0**-75
"""Bound on the error of a product, for amplitude 1. A tail is at most 2**-27. In units of 2**-78: the tails and the
numbers that they are multiplied by are off by 1.25, the four products of tails add 1, three sums of them 3, and taking
the error off or adding it 1: 6.25 in all.
"""
_ANCHORS = 64


class _Split(NamedTuple):
    """Numbers of 106 bits as head + tail, off by 2**-80."""

    head: Floats
    tail: Floats

    @classmethod
    def of(cls, value: Doubled, unit: float) -> _Split:
        """Heads are multiples of a unit."""
        head = np.rint(value.hi * (1 / unit)) * unit
        return cls(head, (value.hi - head) + value.lo)


class WideTiles:
    """Makes rows of the cosines or sines of all waves, for about `count` positions, wherever they start."""

    def __init__(self, waves: Waves, count: int) -> None:
        self._waves = waves
        self._limbs = waves.limbs[:, None, :]
        wanted = max(1, min(TILE // 2 // min(COLUMNS, len(waves.turns)), 1024, int(count**0.5)))
        self._rows = power_of_two(wanted)
        self._anchors = min(_ANCHORS, power_of_two(-(-count // self._rows)))
        self._small = [_Split.of(each, _HEAD) for each in phases.cos_sin_doubled(self._limbs, multiples(self._rows, 1))]
        self._steps = phases.cos_sin_doubled(self._limbs, multiples(self._anchors, self._rows))
        self._scale = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))

    def fill(self, part: str, first: int, out: Array) -> Iterator[tuple[Indices, Indices]]:
        """Write positions first, first + 1, … into the rows of `out`; `part` is "cos" or "sin". What comes back is
        what `Tile.fill` gives.
        """
        width = out.shape[1]
        work = [room_for(self._rows * width, np.float64).reshape(self._rows, width) for _ in range(3)]
        anchors, known, row = self._steps, -1, 0
        while row < len(out):
            step, start = divmod(first + row, self._rows)
            large, anchor = divmod(step, self._anchors)
            if large != known:
                anchors, known = self._turned(large), large
            many = min(self._rows - start, len(out) - row)
            turn = [each.take((anchor, slice(width))) for each in anchors]
            doubtful = self._product(part, turn, start, [each[:many] for each in work])
            out[row : row + many] = work[0][:many]
            if doubtful.any():
                rows, columns = np.nonzero(doubtful)
                yield row + rows, columns
            row += many

    def _product(self, part: str, turn: list[Doubled], start: int, work: list[Floats]) -> Array:
        """The cosine or sine of sums of angles, in the first of three arrays; which of them are in doubt.

        cos (a + b) = cos a · cos b − sin a · sin b, sin (a + b) = cos a · sin b + sin a · cos b
        """
        high, low, product = work
        rows, width = slice(start, start + len(high)), high.shape[1]
        small = self._small if part == "cos" else self._small[::-1]
        join = np.subtract if part == "cos" else np.add
        (c, s), (cos, sin) = ([_Split.of(each, _HEAD * self._scale) for each in turn], small)
        cos_head, cos_tail, sin_head, sin_tail = (each[rows, :width] for each in (*cos, *sin))
        np.multiply(c.head, cos_head, high)
        join(high, np.multiply(s.head, sin_head, product), high)
        np.multiply(turn[0].hi, cos_tail, low)
        low += np.multiply(c.tail, cos_head, product)
        join(low, np.multiply(turn[1].hi, sin_tail, product), low)
        join(low, np.multiply(s.tail, sin_head, product), low)
        error = _ERROR * self._scale
        np.subtract(low, error, product)
        product += high
        low += error
        high += low
        return np.not_equal(high, product)

    def _turned(self, large: int) -> Directions:
        """The anchors of a large step, times the amplitude."""
        position = np.array([[large * self._anchors * self._rows]], np.uint64)
        cosines, sines = phases.cos_sin_doubled(self._limbs, position)
        factor = self._waves.factor
        base = (double_double.multiply(cosines, factor), double_double.multiply(sines, factor))
        return _directions("cos", base, self._steps), _directions("sin", base, self._steps)


def _directions(part: str, a: Directions, b: Directions) -> Doubled:
    """The cosine or sine of a sum of angles in 106 bits, from the (cosine, sine) of each."""
    if part == "cos":
        return double_double.add(double_double.multiply(a[0], b[0]), -double_double.multiply(a[1], b[1]))
    return double_double.add(double_double.multiply(a[0], b[1]), double_double.multiply(a[1], b[0]))
