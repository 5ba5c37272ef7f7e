"""Tables of cos and sin in float64, which has no wider type to round from: products in about 75 bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, aligned_buffer
from pecli.engine.numerics import DoubleDouble, phases
from pecli.engine.numerics.phases import COLUMNS, Waves, cos_sin_double_double, multiples, power_of_two

Directions = tuple[DoubleDouble, DoubleDouble]  #: cosines and sines

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
    def of(cls, value: DoubleDouble, unit: float) -> _Split:
        """Heads are multiples of a unit."""
        head = np.rint(value.hi * (1 / unit)) * unit
        return cls(head, (value.hi - head) + value.lo)


class Float64Tiles:
    """Makes rows for about `count` positions, wherever they start.

    A position is written p = (large · anchors + anchor) · rows + row. Of the two directions that are multiplied, each
    number is split into a head of 26 bits after the binary point and a tail. Products of heads are exact, and so are
    their sums; what the tails add is small, and its rounding errors are smaller still. Elements whose last bit those
    leave in doubt are rounded one by one, elsewhere.
    """

    def __init__(self, waves: Waves, count: int) -> None:
        self._waves = waves
        self._limbs = waves.limbs[:, None, :]
        wanted = max(1, min(phases.TILE // 2 // min(COLUMNS, len(waves.turns)), 1024, int(count**0.5)))
        self._rows = power_of_two(wanted)
        self._anchors = min(_ANCHORS, power_of_two(-(-count // self._rows)))
        self._small = [_Split.of(each, _HEAD) for each in cos_sin_double_double(self._limbs, multiples(self._rows, 1))]
        self._steps = cos_sin_double_double(self._limbs, multiples(self._anchors, self._rows))
        self._scale = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))

    def fill(self, part: str, first: int, out: Array) -> Iterator[tuple[Indices, Indices]]:
        """Write positions first, first + 1, … into the rows of `out`; `part` is "cos" or "sin". What comes back is
        what `Tile.fill` gives."""
        width = out.shape[1]
        work = [aligned_buffer(self._rows * width, np.float64).reshape(self._rows, width) for _ in range(3)]
        anchors, known, row = self._steps, -1, 0
        while row < len(out):
            step, start = divmod(first + row, self._rows)
            large, anchor = divmod(step, self._anchors)
            if large != known:
                anchors, known = self._turned(large), large
            many = min(self._rows - start, len(out) - row)
            turn = [direction[anchor, :width] for direction in anchors]
            doubtful = self._product(part, turn, start, [each[:many] for each in work])
            out[row : row + many] = work[0][:many]
            if doubtful.any():
                rows, columns = np.nonzero(doubtful)
                yield row + rows, columns
            row += many

    def _product(self, part: str, turn: list[DoubleDouble], start: int, work: list[Floats]) -> Array:
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
        position = np.array([[large * self._anchors * self._rows]], np.uint64)
        cosines, sines = cos_sin_double_double(self._limbs, position)
        factor = self._waves.factor
        cosine, sine = cosines * factor, sines * factor
        step_cosine, step_sine = self._steps
        return cosine * step_cosine - sine * step_sine, cosine * step_sine + sine * step_cosine
