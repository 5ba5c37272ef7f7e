"""Rows of cosines and sines in float64: products of two directions with about 75 bits.

Each number of the two directions is split into a head of 26 bits after the point and a tail. A
product of heads has 52 bits, so that it is exact in float64, and so is the sum of two of them. The
tails are at most 2**-27, so that rounding what they add is off by less than 2**-75. Elements whose
last bit that leaves in doubt are rounded one by one elsewhere.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, aligned_buffer
from pecli.engine.numerics import DoubleDouble, phases
from pecli.engine.numerics.phases import Directions, ExactWaves, cos_sin_double_double
from pecli.engine.numerics.tiles import Doubtful, multiples, power_of_two

_HEAD_UNIT = 2.0**-26
_ERROR = 2.0**-75
"""Bound on the error of a product, for amplitude 1.

In units of 2**-78: the tails and the numbers that they are multiplied by are off by 1.25, the four
products of tails add 1, three sums of them 3, and taking the error off or adding it 1: 6.25.
"""
_MAX_ROWS = 1024
_MAX_ANCHORS = 64
_MAX_COLUMNS = 512
"""Waves from which on the size of the small table no longer depends on their number."""


class Split(NamedTuple):
    """Numbers of 106 bits as head + tail, off by 2**-80; heads are multiples of a unit."""

    head: Floats
    tail: Floats

    def part(self, rows: slice, width: int) -> "Split":
        """Return some rows, and the first columns of them."""
        return Split(self.head[rows, :width], self.tail[rows, :width])


def _split(value: DoubleDouble, unit: float) -> Split:
    head = np.rint(value.hi * (1 / unit)) * unit
    return Split(head, (value.hi - head) + value.lo)


class Workspace(NamedTuple):
    """Three arrays of one shape, used again for every tile."""

    high: Floats
    low: Floats
    product: Floats


class Terms(NamedTuple):
    """An addition theorem, for an anchor A and rows B of the small table.

    cos(A + B) = cos A · cos B − sin A · sin B, and sin(A + B) = cos A · sin B + sin A · cos B.

    Attributes:
        by_cosine: The numbers that cos A multiplies.
        by_sine: The numbers that sin A multiplies.
        join: `np.subtract` or `np.add`.
    """

    by_cosine: Split
    by_sine: Split
    join: np.ufunc


def _add_low_part(work: Workspace, error: float) -> Flags:
    """Add the low part to the high one; return True for elements that the error leaves in doubt.

    That is, if high + (low − error) and high + (low + error) round differently.
    """
    high, low, lower_bound = work
    np.subtract(low, error, lower_bound)
    lower_bound += high
    low += error
    high += low
    return np.not_equal(high, lower_bound)


class Float64Tiles:
    """Makes rows for about `count` positions, wherever they start.

    A position is (leap · anchors + anchor) · rows + row, as in `tiles`. The anchors of a leap are
    computed in 106 bits; an element is a product of an anchor and a row of the small table.
    """

    def __init__(self, waves: ExactWaves, count: int) -> None:
        """Compute the two small tables whose products are all rows, to about 106 bits.

        A position is an anchor and some rows after it, and its direction is the product of both:
        with 32 rows per anchor, position 100 is anchor 3 and row 4. `_steps` holds the directions
        from the first anchor to each other one.

        Args:
            waves: The frequencies and the amplitude.
            count: About how many positions are needed.
        """
        self._factor = waves.factor
        self._limbs = waves.limbs[:, None, :]
        rows_in_cache = phases.TILE // 2 // min(_MAX_COLUMNS, len(waves.turns))
        self._rows = power_of_two(max(1, min(rows_in_cache, _MAX_ROWS, int(count**0.5))))
        self._anchors = min(_MAX_ANCHORS, power_of_two(-(-count // self._rows)))
        small = cos_sin_double_double(self._limbs, multiples(0, self._rows, 1))
        self._small_cosines = _split(small.cosines, _HEAD_UNIT)
        self._small_sines = _split(small.sines, _HEAD_UNIT)
        self._steps = cos_sin_double_double(self._limbs, multiples(0, self._anchors, self._rows))
        self._scale = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))

    def fill(self, function: str, first: int, out: Array) -> Iterator[Doubtful]:
        """Write "cos" or "sin" of positions first, first + 1, … into `out`; yield doubtful places.

        An element is doubtful if the error of its product leaves two roundings possible. A tile is
        the rows of one anchor; the anchors of one leap are computed together. With 32 rows and 64
        anchors, position 2,100 is row 20 of anchor 65, which is anchor 1 of leap 1.
        """
        width = out.shape[1]
        memory = aligned_buffer(3 * self._rows * width, np.float64).reshape(3, self._rows, width)
        anchors = self._steps
        current_leap = -1
        written = 0
        while written < len(out):
            anchor_number, small_row = divmod(first + written, self._rows)
            leap, anchor = divmod(anchor_number, self._anchors)
            if leap != current_leap:
                anchors = self._anchors_of(leap)
                current_leap = leap
            count = min(self._rows - small_row, len(out) - written)
            work = Workspace(*memory[:, :count])
            direction = Directions(anchors.cosines[anchor, :width], anchors.sines[anchor, :width])
            in_doubt = self._write_rows(function, direction, small_row, work)
            out[written : written + count] = work.high
            if in_doubt.any():
                rows, columns = np.nonzero(in_doubt)
                yield Doubtful(written + rows, columns)
            written += count

    def _write_rows(
        self, function: str, anchor: Directions, small_row: int, work: Workspace
    ) -> Flags:
        """Write cos or sin of an anchor's next rows to `work.high`; return True for doubtful places.

        Angles are added: cos(A + B) = cos A · cos B − sin A · sin B, with an anchor A and rows B. Each
        number is a head of 26 bits and a tail. With heads h and tails t, (h + t)·(h' + t') = h·h' +
        (h + t)·t' + t·h'. The first product is exact in float64; the others are small, and are
        added up in `work.low`.

        Args:
            function: "cos" or "sin".
            anchor: The direction of the anchor, one number per wave.
            small_row: The first row of the small table.
            work: Memory (rows, waves), with as many rows as are multiplied.
        """
        high, low, product = work
        terms = self._terms(function, slice(small_row, small_row + len(high)), high.shape[1])
        cosine = _split(anchor.cosines, _HEAD_UNIT * self._scale)
        sine = _split(anchor.sines, _HEAD_UNIT * self._scale)

        np.multiply(cosine.head, terms.by_cosine.head, high)
        terms.join(high, np.multiply(sine.head, terms.by_sine.head, product), high)

        np.multiply(anchor.cosines.hi, terms.by_cosine.tail, low)
        low += np.multiply(cosine.tail, terms.by_cosine.head, product)
        terms.join(low, np.multiply(anchor.sines.hi, terms.by_sine.tail, product), low)
        terms.join(low, np.multiply(sine.tail, terms.by_sine.head, product), low)

        return _add_low_part(work, _ERROR * self._scale)

    def _terms(self, function: str, rows: slice, width: int) -> Terms:
        """Return the rows of the small table that the anchor's cosine and sine multiply."""
        cosines = self._small_cosines.part(rows, width)
        sines = self._small_sines.part(rows, width)
        if function == "cos":
            return Terms(cosines, sines, np.subtract)
        return Terms(sines, cosines, np.add)

    def _anchors_of(self, leap: int) -> Directions:
        """Return the directions of a leap's anchors, times the amplitude."""
        start = cos_sin_double_double(self._limbs, multiples(leap, 1, self._anchors * self._rows))
        cosine = start.cosines * self._factor
        sine = start.sines * self._factor
        step_cosine, step_sine = self._steps
        return Directions(
            cosine * step_cosine - sine * step_sine, cosine * step_sine + sine * step_cosine
        )
