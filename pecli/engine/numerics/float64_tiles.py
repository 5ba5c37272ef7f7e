"""Rows of cosines and sines in float64: products of two directions with about 75 bits.

Each number of the two directions is split into a head of 26 bits after the point and a tail. A
product of heads has 52 bits, so that it is exact in float64, and so is the sum of two of them. The
tails are at most 2**-27, so that rounding what they add is off by less than 2**-75. Elements whose
last bit that leaves in doubt are rounded one by one elsewhere.
"""

import math
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Flags, Floats, Ints, aligned_buffer
from pecli.engine.numerics import DoubleDouble, phases
from pecli.engine.numerics.phases import Directions, ExactWaves, cos_sin_double_double
from pecli.engine.numerics.tiles import Doubtful, TileSizes, multiples, power_of_two

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

    def first_rows(self, count: int) -> "Workspace":
        """Return the part of the memory that so many rows need."""
        return Workspace(self.high[:count], self.low[:count], self.product[:count])


class _AnchorRows(NamedTuple):
    """Rows that follow one anchor.

    With 32 rows per anchor and 64 anchors per segment, position 2,100 is row 20 of anchor 65, which
    is anchor 1 of segment 1.

    Attributes:
        segment: The number of the segment.
        anchor: The number of the anchor within the segment.
        first_row: The first of the rows, counted from the anchor.
        start: Its place among the rows that are filled.
        row_count: The number of rows.
    """

    segment: int
    anchor: int
    first_row: int
    start: int
    row_count: int

    @property
    def places(self) -> slice:
        """The places of the rows among those that are filled."""
        return slice(self.start, self.start + self.row_count)


class _Elements(NamedTuple):
    """Elements of some rows, and True for each one whose error leaves two roundings possible."""

    values: Floats
    in_doubt: Flags


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


def _exact_products(cosine: Split, sine: Split, terms: Terms, work: Workspace) -> Floats:
    """Return the products of heads, h·h', of both terms: joined, as their addition theorem has them.

    The terms of cos(A + B) are cos A · cos B and sin A · sin B. The angle A is that of an anchor, a
    position from which the rows B are counted. A head is the upper 26 bits of a number, so that
    products of heads are exact.

    Args:
        cosine: The cosines of the anchor.
        sine: Its sines.
        terms: The numbers that both multiply.
        work: Memory, of which `high` gets the result.
    """
    high, _, product = work
    np.multiply(cosine.head, terms.by_cosine.head, high)
    terms.join(high, np.multiply(sine.head, terms.by_sine.head, product), high)
    return high


def _small_products(
    anchor: Directions, cosine: Split, sine: Split, terms: Terms, work: Workspace
) -> Floats:
    """Return the products with tails, (h + t)·t' + t·h', of both terms: joined as those of heads.

    A number is the sum of a head h of 26 bits and a small tail t. The product of two numbers is h·h',
    which `_exact_products` returns, and the rest, which is returned here.

    Args:
        anchor: The cosines and sines of the anchor, h + t.
        cosine: The cosines as heads and tails.
        sine: The sines as heads and tails.
        terms: The numbers that both multiply.
        work: Memory, of which `low` gets the result.
    """
    _, low, product = work
    np.multiply(anchor.cosines.hi, terms.by_cosine.tail, low)
    low += np.multiply(cosine.tail, terms.by_cosine.head, product)
    terms.join(low, np.multiply(anchor.sines.hi, terms.by_sine.tail, product), low)
    terms.join(low, np.multiply(sine.tail, terms.by_sine.head, product), low)
    return low


def _rounded_sums(high: Floats, low: Floats, error: float, memory: Floats) -> _Elements:
    """Return the sums high + low, and which of them the error leaves in doubt.

    Those are the ones for which high + (low − error) and high + (low + error) round differently. If
    they round alike, both are the rounded sum. All arrays are overwritten: `high` gets the sums.
    """
    lower_bound = np.subtract(low, error, memory)
    lower_bound += high
    low += error
    high += low
    return _Elements(values=high, in_doubt=np.not_equal(high, lower_bound))


class Float64Tiles:
    """Makes rows for about `count` positions, wherever they start.

    A position is (segment · anchors_per_segment + anchor) · rows_per_anchor + row, as in `tiles`.
    The anchors of a segment are computed in 106 bits; an element is a product of an anchor and a
    row.
    """

    def __init__(self, waves: ExactWaves, count: int) -> None:
        """Compute two small tables of cosines and sines, from which all rows are made.

        One has the positions 0 … 31, for example, and the other one every 32nd position, called an
        anchor: 0, 32, 64, …, 2,016. The cosine and sine at position 100 = 96 + 4 then follow from
        those at 96 and at 4.

        Args:
            waves: The frequencies and the amplitude.
            count: About how many positions are needed.
        """
        # The digits of the frequencies (digits, 1, waves); the axis of length 1 is for positions.
        self._frequency_digits = waves.digits[:, None, :]
        self._amplitude = waves.amplitude_factor
        self._sizes = _sizes(len(waves.turns), count)
        rows_per_anchor = self._sizes.rows_per_anchor

        anchor_positions = multiples(0, self._sizes.anchors_per_segment, step=rows_per_anchor)
        self._first_anchors = self._directions(anchor_positions)

        # A number is split into a head of 26 bits and a small tail, because products of heads are
        # exact in float64.
        rows = self._directions(multiples(0, rows_per_anchor, step=1))
        self._row_cosines = _split(rows.cosines, _HEAD_UNIT)
        self._row_sines = _split(rows.sines, _HEAD_UNIT)

        # Anchors are also multiplied by the amplitude. If that is 1.5, they are below 2 instead of
        # 1, so that their heads have a unit twice as large, and so have errors.
        largest_anchor = _power_of_two_bound(float(self._amplitude.hi))
        self._anchor_head_unit = largest_anchor * _HEAD_UNIT
        self._error = largest_anchor * _ERROR

    def _directions(self, positions: Ints) -> Directions:
        """Return the cosines and sines at some positions, to about 106 bits."""
        return cos_sin_double_double(self._frequency_digits, positions)

    def fill(self, function: str, first: int, out: Array) -> Iterator[Doubtful]:
        """Write cosines or sines of positions first, first + 1, … into the rows of `out`.

        Every 32nd position, for example, is an anchor. The rows after it are made together:
        position 100 = 96 + 4 from the cosine and sine at 96, the anchor, and at 4.

        Args:
            function: "cos" or "sin".
            first: The position of the first row.
            out: The array to fill, one column per frequency.

        Yields:
            The rows and columns of elements that may be rounded wrongly, for the caller to correct.
        """
        width = out.shape[1]
        memory = self._memory_for_rows(width)
        for rows, anchors in self._rows_with_anchors(first, len(out)):
            anchor_directions = anchors.part(rows.anchor, width)  # cosines and sines
            work = memory.first_rows(rows.row_count)
            elements = self._compute_rows(function, anchor_directions, rows.first_row, work)
            out[rows.places] = elements.values
            if elements.in_doubt.any():
                doubtful_rows, columns = np.nonzero(elements.in_doubt)
                yield Doubtful(rows.start + doubtful_rows, columns)

    def _rows_with_anchors(
        self, first: int, count: int
    ) -> Iterator[tuple[_AnchorRows, Directions]]:
        """Yield the rows after each anchor, with the directions of all anchors of their segment.

        An anchor is every 32nd position, for example, whose cosines and sines are computed. A
        segment is the anchors that are computed together, such as 64 of them, and their rows.
        """
        all_rows = self._rows_by_anchor(first, count)
        for segment, rows_of_segment in groupby(all_rows, key=attrgetter("segment")):
            anchors = self._anchors_of(segment)
            for rows in rows_of_segment:
                yield rows, anchors

    def _rows_by_anchor(self, first: int, count: int) -> Iterator[_AnchorRows]:
        """Yield the rows after each anchor, which together are positions first, first + 1, ….

        The first anchor and the last one may have only some of their rows there: with 32 rows per
        anchor, positions 2,100 … 2,115 are rows 20 … 31 of an anchor and rows 0 … 3 of the next.
        """
        sizes = self._sizes
        start = 0
        while start < count:
            anchor_number, row = divmod(first + start, sizes.rows_per_anchor)
            segment, anchor = divmod(anchor_number, sizes.anchors_per_segment)
            row_count = min(sizes.rows_per_anchor - row, count - start)
            yield _AnchorRows(segment, anchor, first_row=row, start=start, row_count=row_count)
            start += row_count

    def _memory_for_rows(self, width: int) -> Workspace:
        """Return memory for all rows of an anchor: three arrays (rows_per_anchor, width)."""
        shape = (len(Workspace._fields), self._sizes.rows_per_anchor, width)
        return Workspace(*aligned_buffer(math.prod(shape), np.float64).reshape(shape))

    def _compute_rows(
        self, function: str, anchor: Directions, first_row: int, work: Workspace
    ) -> _Elements:
        """Return the cosines or sines of some rows, and which of them may be rounded wrongly.

        The rows follow an anchor, a position with known cosines. With its angle A, and B from it to
        a row, cos(A + B) = cos A · cos B − sin A · sin B. Each number is split into a head h of 26
        bits and a small tail t:

            (h + t) · (h' + t') = h·h' + [(h + t)·t' + t·h'].

        h·h' is exact in float64. The bracket is small, and so is its error.

        Args:
            function: "cos" or "sin".
            anchor: The cosines and sines of the anchor, one per frequency.
            first_row: The first of these rows, counted from the anchor.
            work: Memory (rows, frequencies) for as many rows as are needed, and for the result.
        """
        row_count, width = work.high.shape
        rows = slice(first_row, first_row + row_count)
        row_terms = self._terms(function, rows, width)  # cos B and sin B of each row
        cos_a = _split(anchor.cosines, self._anchor_head_unit)
        sin_a = _split(anchor.sines, self._anchor_head_unit)
        # Each is the difference of two products: those with cos A and those with sin A.
        exact_part = _exact_products(cos_a, sin_a, row_terms, work)  # h·h'
        small_part = _small_products(anchor, cos_a, sin_a, row_terms, work)  # the brackets
        return _rounded_sums(exact_part, small_part, self._error, memory=work.product)

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

    def _anchors_of(self, segment: int) -> Directions:
        """Return the directions of a segment's anchors, times the amplitude: (anchors, waves).

        A segment is a stretch of positions, and its anchors every 32nd of them, for example. The
        directions, cos and sin, are those of the first segment, turned by the angle at which this
        segment starts.
        """
        start = self._directions(multiples(segment, 1, self._sizes.rows_per_segment))  # (1, waves)
        cosine = start.cosines * self._amplitude
        sine = start.sines * self._amplitude
        anchor_cosines, anchor_sines = self._first_anchors
        return Directions(
            cosine * anchor_cosines - sine * anchor_sines,
            cosine * anchor_sines + sine * anchor_cosines,
        )


def _sizes(waves: int, count: int) -> TileSizes:
    """Return how many rows are made from one anchor, and how many anchors are computed together.

    All are powers of two. The rows per anchor are about the root of the number of positions, so
    that rows and anchors are equally many, and at most what fits into the cache. They are also the
    rows of a tile: all of them are made at once.
    """
    rows_in_cache = phases.TILE // 2 // min(_MAX_COLUMNS, waves)
    most_rows = min(rows_in_cache, _MAX_ROWS, int(count**0.5))
    rows_per_anchor = power_of_two(max(1, most_rows))
    needed_anchors = power_of_two(math.ceil(count / rows_per_anchor))
    return TileSizes(rows_per_anchor, rows_per_anchor, min(_MAX_ANCHORS, needed_anchors))


def _power_of_two_bound(number: float) -> float:
    """Return the smallest power of two that is not below a positive number: 2.0 for 1.3."""
    bound: float = 2.0 ** np.ceil(np.log2(number))
    return bound
