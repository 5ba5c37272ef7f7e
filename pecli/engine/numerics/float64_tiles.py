"""Rows of cosines and sines in float64: products of two directions with about 75 bits.

Each number of the two directions is split into a head of 26 bits after the point and a tail. A
product of heads has 52 bits, so that it is exact in float64, and so is the sum of two of them. The
tails are at most 2**-27, so that rounding what they add is off by less than 2**-75. Elements whose
last bit that leaves in doubt are rounded one by one elsewhere.
"""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Ints, aligned_buffer
from pecli.engine.numerics import DoubleDouble, phases
from pecli.engine.numerics.phases import Directions, ExactWaves, cos_sin_double_double
from pecli.engine.numerics.tiles import Doubtful, multiples, power_of_two

_HEAD_UNIT = 2.0**-26
_ERROR = 2.0**-75
"""Bound on the error of a product, for amplitude 1.

In units of 2**-78: the tails and the numbers that they are multiplied by are off by 1.25, the four
products of tails add 1, three sums of them 3, and taking the error off or adding it 1: 6.25.
"""
_NO_LEAP = -1
"""The leap before any anchors are computed; leaps are counted from 0."""
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
    """Return a number as the nearest multiple of a unit, and what is left of it.

    With the unit 1/4, 0.7 is 0.75 − 0.05.
    """
    head = np.rint(value.hi * (1 / unit)) * unit
    return Split(head, (value.hi - head) + value.lo)


class Workspace(NamedTuple):
    """Three arrays of one shape, used again for every tile.

    A result is the sum of `high` and `low`; `product` is memory for products on the way.
    """

    high: Floats
    low: Floats
    product: Floats


class _TileRows(NamedTuple):
    """Rows that follow one anchor.

    With 32 rows per anchor and 64 anchors per leap, position 2,100 is row 20 of anchor 65, which is
    anchor 1 of leap 1.

    Attributes:
        leap: The number of the leap.
        anchor: The number of the anchor within the leap.
        first_row: The first of the rows, counted from the anchor.
        start: Its place among the rows that are filled.
        row_count: The number of rows.
    """

    leap: int
    anchor: int
    first_row: int
    start: int
    row_count: int


class Terms(NamedTuple):
    """An addition theorem, for the angles of an anchor A and of the rows B after it.

    cos(A + B) = cos A · cos B − sin A · sin B, and sin(A + B) = cos A · sin B + sin A · cos B.

    Attributes:
        by_cosine: The numbers that cos A multiplies.
        by_sine: The numbers that sin A multiplies.
        join: `np.subtract` or `np.add`.
    """

    by_cosine: Split
    by_sine: Split
    join: np.ufunc


def _write_high_part(cosine: Split, sine: Split, terms: Terms, work: Workspace) -> None:
    """Write the products of heads, h·h', of both terms to `work.high`.

    A head is the upper 26 bits of a number, so that products of heads are exact.

    Args:
        cosine: The cosines of the anchor.
        sine: Its sines.
        terms: The numbers that both multiply.
        work: Memory for the result and for a product.
    """
    high, _, product = work
    np.multiply(cosine.head, terms.by_cosine.head, high)
    terms.join(high, np.multiply(sine.head, terms.by_sine.head, product), high)


def _write_low_part(
    anchor: Directions, cosine: Split, sine: Split, terms: Terms, work: Workspace
) -> None:
    """Write the products with tails, (h + t)·t' + t·h', of both terms to `work.low`.

    A number is the sum of a head h and a small tail t. The product of two numbers is h·h', which is
    the high part, and the rest, which is the low part.

    Args:
        anchor: The cosines and sines of the anchor, h + t.
        cosine: The cosines as heads and tails.
        sine: The sines as heads and tails.
        terms: The numbers that both multiply.
        work: Memory for the result and for a product.
    """
    _, low, product = work
    np.multiply(anchor.cosines.hi, terms.by_cosine.tail, low)
    low += np.multiply(cosine.tail, terms.by_cosine.head, product)
    terms.join(low, np.multiply(anchor.sines.hi, terms.by_sine.tail, product), low)
    terms.join(low, np.multiply(sine.tail, terms.by_sine.head, product), low)


def _add_low_part(work: Workspace, error: float) -> Flags:
    """Add the low part to the high one; return True for elements that the error leaves in doubt.

    That is, if high + (low − error) and high + (low + error) round differently. If they do not, both
    are the rounded sum, so that the second one is left in `work.high`.
    """
    high, low, lower_bound = work
    np.subtract(low, error, lower_bound)
    lower_bound += high
    low += error
    high += low
    return np.not_equal(high, lower_bound)


class Float64Tiles:
    """Makes rows for about `count` positions, wherever they start.

    A position is (leap · anchors_per_leap + anchor) · rows_per_anchor + row, as in `tiles`. The
    anchors of a leap are computed in 106 bits; an element is a product of an anchor and a row.
    """

    def __init__(self, waves: ExactWaves, count: int) -> None:
        """Compute the two small tables whose products are all rows, to about 106 bits.

        The direction of position p is cos + i·sin of p · frequency, and directions of sums are
        products. With 32 rows per anchor and 64 anchors per leap, a leap has 2,048 positions, and
        position 2,148 = 2,048 + 3 · 32 + 4 is row 4 of anchor 3 of leap 1. The tables here hold
        rows 0 … 31, and the anchors 0, 32, 64, … of leap 0. Those of another leap are the same,
        turned by the angle at which it starts.

        Args:
            waves: The frequencies and the amplitude.
            count: About how many positions are needed.
        """
        self._amplitude = waves.factor
        # Errors and the units of heads grow with the amplitude, by a power of two that is not below.
        self._amplitude_bound = 2.0 ** np.ceil(np.log2(float(waves.factor.hi)))
        # The digits of the frequencies (digits, 1, waves); the axis of length 1 is for positions.
        self._frequency_digits = waves.limbs[:, None, :]

        self._rows_per_anchor = _best_rows_per_anchor(len(waves.turns), count)
        needed_anchors = power_of_two(-(-count // self._rows_per_anchor))
        self._anchors_per_leap = min(_MAX_ANCHORS, needed_anchors)
        self._rows_per_leap = self._anchors_per_leap * self._rows_per_anchor

        # A number is split into a head of 26 bits and a tail: products of two heads are exact.
        row_directions = self._directions(multiples(0, self._rows_per_anchor, 1))
        self._row_cosines = _split(row_directions.cosines, _HEAD_UNIT)
        self._row_sines = _split(row_directions.sines, _HEAD_UNIT)
        positions_of_anchors = multiples(0, self._anchors_per_leap, self._rows_per_anchor)
        self._first_anchors = self._directions(positions_of_anchors)

    def _directions(self, positions: Ints) -> Directions:
        return cos_sin_double_double(self._frequency_digits, positions)

    def fill(self, function: str, first: int, out: Array) -> Iterator[Doubtful]:
        """Write "cos" or "sin" of positions first, first + 1, … into `out`; yield doubtful places.

        An element is doubtful if its error leaves two roundings possible.

        Angles are added: an anchor is every 32nd position, for example, and the rows after it are
        computed from its cosine and sine and those of 0 … 31. They are a tile, and made at once. A
        leap is a stretch of positions, 64 anchors, for example, that are computed together.

        Args:
            function: "cos" or "sin".
            first: The position of the first row.
            out: The array to fill, one column per wave (a frequency).
        """
        width = out.shape[1]
        memory = self._memory_of_tile(width)  # used again for every tile
        anchors = self._first_anchors
        current_leap = _NO_LEAP
        for tile in self._tiles_of(first, len(out)):
            if tile.leap != current_leap:
                anchors = self._anchors_of(tile.leap)
                current_leap = tile.leap
            work = Workspace(*memory[:, : tile.row_count])
            anchor = anchors.part(tile.anchor, width)
            in_doubt = self._write_rows(function, anchor, tile.first_row, work)  # to work.high
            out[tile.start : tile.start + tile.row_count] = work.high
            if in_doubt.any():
                rows, columns = np.nonzero(in_doubt)
                yield Doubtful(tile.start + rows, columns)

    def _tiles_of(self, first: int, count: int) -> Iterator["_TileRows"]:
        """Yield the tiles of positions first, first + 1, …; the ends may be incomplete tiles."""
        start = 0
        while start < count:
            anchor_number, row = divmod(first + start, self._rows_per_anchor)
            leap, anchor = divmod(anchor_number, self._anchors_per_leap)
            row_count = min(self._rows_per_anchor - row, count - start)
            yield _TileRows(leap, anchor, first_row=row, start=start, row_count=row_count)
            start += row_count

    def _memory_of_tile(self, width: int) -> Floats:
        """Return memory for the three arrays of a `Workspace`: (3, rows_per_anchor, width)."""
        shape = (len(Workspace._fields), self._rows_per_anchor, width)
        return aligned_buffer(prod(shape), np.float64).reshape(shape)

    def _write_rows(
        self, function: str, anchor: Directions, first_row: int, work: Workspace
    ) -> Flags:
        """Write cos or sin of an anchor's next rows to `work.high`; return True for doubtful places.

        An anchor is a position whose cosine and sine are computed. For rows after it, angles are
        added: cos(A + B) = cos A · cos B − sin A · sin B, with the anchor A and the rows B. Each
        number is a head of 26 bits and a tail. With heads h and tails t, (h + t)·(h' + t') = h·h' +
        (h + t)·t' + t·h'. The first product is exact in float64, and makes the high part of the
        sum; the others are small, and make the low part.

        Args:
            function: "cos" or "sin".
            anchor: The cosines and sines of the anchor, one per wave (a frequency).
            first_row: The first of these rows, counted from the anchor.
            work: Memory (rows, waves), with as many rows as are multiplied.
        """
        row_count, width = work.high.shape
        terms = self._terms(function, slice(first_row, first_row + row_count), width)
        head_unit = _HEAD_UNIT * self._amplitude_bound
        split_cosine = _split(anchor.cosines, head_unit)
        split_sine = _split(anchor.sines, head_unit)
        _write_high_part(split_cosine, split_sine, terms, work)
        _write_low_part(anchor, split_cosine, split_sine, terms, work)
        return _add_low_part(work, _ERROR * self._amplitude_bound)

    def _terms(self, function: str, rows: slice, width: int) -> Terms:
        """Return the numbers of some rows that the anchor's cosine and sine multiply.

        cos(A + B) = cos A · cos B − sin A · sin B, and sin(A + B) = cos A · sin B + sin A · cos B,
        with the anchor A and the rows B.
        """
        cosines = self._row_cosines.part(rows, width)
        sines = self._row_sines.part(rows, width)
        if function == "cos":
            return Terms(cosines, sines, np.subtract)
        return Terms(sines, cosines, np.add)

    def _anchors_of(self, leap: int) -> Directions:
        """Return the directions of a leap's anchors, times the amplitude: (anchors, waves).

        A leap is a stretch of positions, and its anchors every 32nd of them, for example. The
        directions, cos and sin, are those of the first leap, turned by the angle at which this leap
        starts.
        """
        start = self._directions(multiples(leap, 1, self._rows_per_leap))  # (1, waves)
        cosine = start.cosines * self._amplitude
        sine = start.sines * self._amplitude
        anchor_cosines, anchor_sines = self._first_anchors
        return Directions(
            cosine * anchor_cosines - sine * anchor_sines,
            cosine * anchor_sines + sine * anchor_cosines,
        )


def _best_rows_per_anchor(waves: int, count: int) -> int:
    """Return how many rows are products with one anchor, a power of two.

    That is about the root of the number of positions, so that rows and anchors are equally many,
    and at most what fits into the cache.
    """
    rows_in_cache = phases.TILE // 2 // min(_MAX_COLUMNS, waves)
    most_rows = min(rows_in_cache, _MAX_ROWS, int(count**0.5))
    return power_of_two(max(1, most_rows))
