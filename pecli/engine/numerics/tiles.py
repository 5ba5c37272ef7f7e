"""Rows of cosines and sines in float32, float16 and bfloat16, a tile of rows and waves at a time.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written as a number of three digits,

    p = (segment · anchors_per_segment + anchor) · rows_per_anchor + row,

and every element is a product of the few values of E that are computed for each digit. With 256
anchors of 128 rows each, position 40,000 = (1 · 256 + 56) · 128 + 64 is E(32,768) · E(7,168) ·
E(64). The products are made in float64 and are off by at most `ERROR`, which decides how nearly
all of them round. A cheap test finds the others, which are computed one by one elsewhere.

The test: a value is in doubt if a tie between two floats lies within the error. Values are scaled
by 2**47, so that the error is less than 1/4, and rounded to integers. Scaled, a tie of a dtype with
s significant bits is an integer whose first s + 1 bits are followed by zeros, and a value next to
it rounds to that integer. So the integers whose lower bits are all zero are in doubt, and no
others. In float32, for example, 1/2 + 2**-25 is a tie; scaled, it is 2**46 + 2**22, 25 bits
followed by 22 zeros. Ties below 1 round to 0, which is in doubt as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    Complex,
    Floats,
    Indices,
    Ints,
    aligned_buffer,
    round_to,
)
from pecli.engine.numerics import phases
from pecli.engine.numerics.phases import ExactWaves

ERROR = 1.7e-15
"""Bound on the error of a product, for amplitude 1.

In units of 2**-53: a direction is off by 0.85, a complex product adds √5, the amplitude two
roundings. A row and an anchor are products of two directions each, the start of a segment is one,
and two products join them: 5 · 0.85 + 4 · √5 + 2 = 15.2 in all, which is 1.69e-15.
"""

_TEST_SCALE = 2.0**47
"""The scale of the test for amplitude 1: it makes ERROR 0.24, so that integers stay the nearest."""
_FLOAT64_BITS = 53
_MAX_ROWS_PER_TILE = 1 << 10
_DIGITS = 5
"""Digits of a frequency that count at the farthest position, and one that `cos_sin` leaves out."""
_NO_SEGMENT = -1
"""The segment of a tile that has not computed any anchors; segments are counted from 0."""
_BUFFER_ELEMENTS = 256
"""NumPy copies a row that is multiplied with many others again and again to fill its buffer, unless
the row is longer than the buffer."""


class Doubtful(NamedTuple):
    """The places of elements whose rounding the error leaves open."""

    rows: Indices
    columns: Indices


class TileSizes(NamedTuple):
    """The rows that are made at a time, all powers of two.

    For 64 waves and many positions, a tile has 512 rows, an anchor 64, and a segment 128 anchors.

    Attributes:
        rows_per_tile: Rows that are made at a time, as many as fit into the processor's cache.
        rows_per_anchor: Rows from one anchor to the next. An anchor is a position whose direction
            cos + i·sin is in memory; the rows after it are products with that direction.
        anchors_per_segment: Anchors that are in memory at a time. A segment is the positions from
            the first of them to the last row after the last of them.
    """

    rows_per_tile: int
    rows_per_anchor: int
    anchors_per_segment: int

    @property
    def rows_per_segment(self) -> int:
        return self.anchors_per_segment * self.rows_per_anchor


def _tile_sizes(wave_count: int, count: int) -> TileSizes:
    """Return how many rows of a table are computed at a time, as powers of two.

    Every 64th row, for example, is an anchor, whose cosines and sines are computed. The rows after
    it are products with them. A tile is the rows that are made at once, and a segment the rows
    whose anchors are in memory at once.

    The comments have the numbers for 64 waves and 100,000 positions.

    Args:
        wave_count: How many frequencies the table has.
        count: About how many positions are needed.
    """
    rows_in_cache = power_of_two_within(phases.TILE // wave_count)  # 32,768 // 64 = 512
    rows_per_tile = min(power_of_two(count), _MAX_ROWS_PER_TILE, rows_in_cache)  # 512
    rows_per_anchor = _rows_per_anchor(rows_per_tile)  # 64

    needed_anchors = power_of_two(math.ceil(count / rows_per_anchor))  # 2,048
    # The anchors of a segment take a quarter of a tile's memory, or less.
    most_anchors = max(1, rows_per_tile // 4)  # 128
    anchors_per_segment = min(most_anchors, needed_anchors)  # 128
    return TileSizes(rows_per_tile, rows_per_anchor, anchors_per_segment)


def _rows_per_anchor(rows_per_tile: int) -> int:
    """Return how many rows are products with the same anchor, about four roots of a tile's rows.

    With few rows per anchor, there are many anchors to compute; with many rows per anchor, the
    table of rows, by which every anchor is multiplied, is long.

    >>> _rows_per_anchor(512)  # The root is 22.6, and 16 the power of two below it.
    64
    """
    root = power_of_two_within(math.isqrt(rows_per_tile))
    return min(rows_per_tile, 4 * root)


class Factors:
    """The small tables of E whose products are some columns of a table, scaled for the test.

    `functions` is "cos" or "sin" for one column per wave, "cos,sin" or "sin,cos" for two. A pair of
    columns is a complex number: cos + i·sin, or sin + i·cos = i·conj(cos + i·sin), which rotates
    the other way.

    Attributes:
        sizes: The rows that are made at a time.
        test_scale: The power of two by which elements are scaled for the test of their rounding.
        row_directions: E(0), E(1), …, E(rows_per_anchor − 1), as complex numbers.
        row_factors: The same numbers as anchors are multiplied by: complex for pairs, cosines and
            sines for one function.
        anchor_directions: E at all anchors of segment 0: E(0), E(64), E(128), … with 64 rows per
            anchor.
    """

    def __init__(self, waves: ExactWaves, columns: slice, functions: str, count: int) -> None:
        """Compute two small tables of cos + i·sin, whose products are rows of a large table.

        One has the positions 0 … 63, for example. The other one has every 64th position, called an
        anchor: 0, 64, 128, …. The number at position 300 = 256 + 44 is the product of those at the
        anchor 256 and at 44.

        Args:
            waves: The frequencies and the amplitude of the large table.
            columns: Which of the frequencies these small tables are for.
            functions: "cos", "sin", or both in one of two orders.
            count: About how many positions are needed.
        """
        self.functions = functions
        # A frequency is stored as several integers, so that position · frequency is exact.
        self._frequency_digits = _digits_for_float64(waves, columns)
        self._amplitude = float(waves.amplitude_factor.hi)
        # Elements are scaled by it for a test of how they round (see the head of this file).
        self.test_scale = _power_of_two_for_test(self._amplitude)

        wave_count = self._frequency_digits.shape[-1]
        self.sizes = _tile_sizes(wave_count, count)
        rows_per_anchor = self.sizes.rows_per_anchor
        self.row_directions = self._directions_at_multiples(step=1, count=rows_per_anchor)
        self.row_factors = self._separate_functions(self.row_directions)
        # There are, for example, 128 anchors. Those of later positions are products of these with
        # the results of `starts`.
        self.anchor_directions = self._directions_at_multiples(
            step=rows_per_anchor, count=self.sizes.anchors_per_segment
        )

    @property
    def has_pairs(self) -> bool:
        return "," in self.functions

    @property
    def _has_sine_first(self) -> bool:
        return self.functions == "sin,cos"

    def _separate_functions(self, directions: Complex) -> tuple[AnyArray, ...]:
        """Return directions as they are for pairs, and else cosines and sines in separate arrays.

        A table of cosines only is faster by real products than by complex ones.
        """
        if self.has_pairs:
            return (directions,)
        return (directions.real.copy(), directions.imag.copy())

    def _directions_at_multiples(self, step: int, count: int) -> Complex:
        """Return the directions at the positions 0, step, 2·step, …, a row each: (count, waves).

        The direction at position p is E(p) = cos + i·sin of its angles, and E(a + b) = E(a) · E(b).
        So they are products of two shorter tables. For step 1 and 128 directions, these are E(0),
        E(1), …, E(15) and E(0), E(16), …, E(112): only 16 + 8 of them are computed.

        Args:
            step: The distance of the positions.
            count: The number of positions, a power of two.
        """
        fine_count = 2 ** (count.bit_length() // 2)  # 16 for 128, whose bit_length is 8
        coarse_count = count // fine_count
        fine = self._directions(multiples(0, fine_count, step))
        coarse = self._directions(multiples(0, coarse_count, fine_count * step))
        products = coarse[:, None] * fine  # (coarse_count, fine_count, waves)
        return products.reshape(count, -1)

    def _directions(self, positions: Ints) -> Complex:
        """Return cos + i·sin at some positions, or cos − i·sin for tables of "sin,cos".

        A pair (sin, cos) of such a table is i · (cos − i·sin), and rotates the other way.
        """
        directions = phases.directions(self._frequency_digits, positions)
        return directions.conj() if self._has_sine_first else directions

    def starts(self, segments: range) -> Complex:
        """Return cos + i·sin at the first position of every segment, times factors of all elements.

        All rows of a segment are products with its number returned here, so that the factors are
        multiplied only here: the amplitude, and the scale of the test for doubtful roundings. For
        "sin,cos" there is a third one, i, because sin + i·cos = i · (cos − i·sin).
        """
        factor: complex = self._amplitude * self.test_scale
        if self._has_sine_first:
            factor *= 1j
        first_positions = multiples(segments.start, len(segments), self.sizes.rows_per_segment)
        starts: Complex = self._directions(first_positions) * factor
        return starts


def _digits_for_float64(waves: ExactWaves, columns: slice) -> Ints:
    """Return the digits of some frequencies that count in float64: (digits, 1, frequencies).

    A frequency is a fraction of a turn, in digits of 32 bits, lowest first. The axis of length 1 is
    for the positions by which frequencies are multiplied.
    """
    return np.ascontiguousarray(waves.digits[-_DIGITS:, None, columns])


class _TilePart(NamedTuple):
    """Rows that are made at once, in the memory of a tile, which begins at an anchor.

    Attributes:
        rows: Their places among the rows to fill.
        anchor: The number of the anchor in its segment.
        rows_after_anchor: The rows between the anchor and the first of these rows.
    """

    rows: slice
    anchor: int
    rows_after_anchor: int


class Tile:
    """Memory for some rows of some waves, which is used again for every tile.

    Threads wait for each other whenever Python runs between two NumPy calls, so that little is
    left to do there: all memory is allocated once, here.

    The memory, with the shapes for 64 waves, tiles of 512 rows, 64 rows per anchor, and 128 anchors
    per segment:

        _anchors       (128, 64)    complex E at all anchors of the current segment
        _anchor_parts  (128, 64)    its cosines and its sines, if the table has only one of them
        _products      (8, 64, 64)  products of 8 anchors with 64 rows: complex for pairs, else two
                                    arrays of float64, of which the first becomes the result
        _values        (512, 64)    the result as rows of float64, a view of the first of
                                    `_products`; (512, 128) for pairs
    """

    is_compiled = False

    def __init__(self, factors: Factors, columns: int, dtype: str) -> None:
        """Allocate memory in which rows of a table are made, some hundred at a time.

        A row is a product of two rows of numbers cos + i·sin. That at position 300 is a product of
        those at 256, called an anchor (every 64th position is one), and at 44.

        Args:
            factors: The numbers cos + i·sin at positions 0 … 63, and at anchors.
            columns: The columns of the table: one per frequency, or two for cosine and sine.
            dtype: The dtype of the table, such as "float32".
        """
        self.factors = factors
        self.columns = columns
        self.dtype = dtype

        # The anchors of one segment, a stretch of some thousand positions. A table that has only
        # cosines, or only sines, also needs their real and imaginary parts in separate arrays.
        self._segment_in_memory = _NO_SEGMENT
        self._anchors: Complex = _memory_like(factors.anchor_directions)
        self._anchor_parts = _memory_for_anchor_parts(factors)

        # The products (anchors, rows, frequencies), and the same memory as rows of the table.
        self._products = _memory_for_products(factors)
        self._values = _as_rows(self._products[0], factors.sizes.rows_per_tile)

        # A product may be rounded wrongly if its bits after the first 36 (for float32) are 0.
        self._ignored_bits = _upper_bits_of_test(dtype)
        # For this test, products are scaled, by 2**47 for example. This undoes it.
        self._inverse_scale = np.array(1 / factors.test_scale, np.float32)

    def fits(self, factors: Factors, columns: int, dtype: str, *, is_compiled: bool) -> bool:
        """Return True if this memory is that of a tile with these properties."""
        has_same_shape = (self.columns, self.dtype) == (columns, dtype)
        return has_same_shape and self.factors is factors and self.is_compiled == is_compiled

    def fill(self, first: int, out: Array) -> Iterator[Doubtful]:
        """Write the cosines and sines of positions first, first + 1, … into the rows of `out`.

        They are made segment by segment. A segment is some thousand positions, for which a few
        numbers are computed first: cos + i·sin at every 64th position, for example (an anchor).

        Yields:
            The rows and columns of elements that may be rounded wrongly, for the caller to correct.
        """
        segments = self._segments_of(first, len(out))
        # All at once, because one NumPy call for many numbers is faster than many calls.
        starts = self._starts_of_new_segments(segments)
        # NumPy multiplies rows faster with a small buffer. It is set only once, because each switch
        # is Python code, for which threads wait.
        with _small_numpy_buffer():
            for segment in segments:
                has_anchors_in_memory = segment == self._segment_in_memory
                if not has_anchors_in_memory:
                    self._compute_anchors(segment, starts[segment])
                yield from self._fill_segment(segment, first, out)

    def _segments_of(self, first: int, count: int) -> range:
        """Return the numbers of the segments in which `count` positions from `first` on lie.

        With 8,192 positions per segment, positions 8,000 … 16,999 lie in segments 0, 1 and 2.
        """
        positions_per_segment = self.factors.sizes.rows_per_segment
        first_segment = first // positions_per_segment
        end = -(-(first + count) // positions_per_segment)  # rounded up
        return range(first_segment, end)

    def _starts_of_new_segments(self, segments: range) -> dict[int, Complex]:
        """Return cos + i·sin at the first position of each segment whose anchors are not in memory.

        Blocks of rows follow each other, so that a block often begins in the segment in which the
        last one ended. The anchors of that segment are still in memory and are used again.
        """
        new_segments = segments[1:] if segments.start == self._segment_in_memory else segments
        return dict(zip(new_segments, self.factors.starts(new_segments), strict=True))

    def _fill_segment(self, segment: int, first: int, out: Array) -> Iterator[Doubtful]:
        """Write the rows of `out` that lie in a segment; yield the places of elements in doubt.

        The rows are made in parts, as many at once as the memory of this tile holds.

        Args:
            segment: The number of the segment, a stretch of positions whose anchors are in memory.
            first: The position of row 0 of `out`.
            out: The rows, some of which may lie in other segments.
        """
        for part in self._parts_in_segment(segment, first, len(out)):
            doubtful = self._make_rows(part.anchor, part.rows_after_anchor, out[part.rows])
            if doubtful is not None:
                # Rows are counted from the first one of the part.
                yield Doubtful(part.rows.start + doubtful.rows, doubtful.columns)

    def _parts_in_segment(self, segment: int, first: int, count: int) -> Iterator[_TilePart]:
        """Yield the rows of a table that lie in a segment of positions, in parts of some hundred.

        A part is made in memory for 512 rows, which begins at an anchor: every 64th position, for
        example. The rows from position 300 of the segment on are in the parts

            300 … 767: after anchor 4 (position 256), from 44 rows after it on: 512 − 44 rows
            768 … 1,279: after anchor 12 (position 768): 512 rows

        Args:
            segment: The number of the segment.
            first: The position of row 0.
            count: The number of rows.
        """
        sizes = self.factors.sizes
        position_of_segment = segment * sizes.rows_per_segment
        rows = self._rows_in_segment(segment, first, count)
        start = rows.start
        while start < rows.stop:
            position_in_segment = first + start - position_of_segment
            anchor, rows_after_anchor = divmod(position_in_segment, sizes.rows_per_anchor)
            room = sizes.rows_per_tile - rows_after_anchor
            stop = min(start + room, rows.stop)
            yield _TilePart(slice(start, stop), anchor, rows_after_anchor)
            start = stop

    def _rows_in_segment(self, segment: int, first: int, count: int) -> slice:
        """Return which of `count` rows lie in a segment, if row 0 is at the position `first`.

        If segment 1 has the positions 16384 … 32767, and 1000 rows begin at position 16000, they
        are the rows 384 … 999.
        """
        rows_per_segment = self.factors.sizes.rows_per_segment
        position_of_segment = segment * rows_per_segment
        start = max(0, position_of_segment - first)
        stop = min(position_of_segment + rows_per_segment - first, count)
        return slice(start, stop)

    def _make_rows(self, anchor: int, rows_after_anchor: int, out: Array) -> Doubtful | None:
        """Write rows into `out`, rounded to its dtype; return the elements in doubt, if any.

        An anchor is a position whose cosines and sines are in memory; those of the rows after it,
        64 for example, are products with them. All 64 rows of each anchor are computed in float64,
        also if `out` begins or ends in their middle. Elements are in doubt if the error of float64
        leaves their rounding open.

        Args:
            anchor: The number of the first anchor, in the current segment.
            rows_after_anchor: The rows from that anchor to the first row of `out`.
            out: The rows.
        """
        end = rows_after_anchor + len(out)
        anchor_count = -(-end // self.factors.sizes.rows_per_anchor)  # rounded up
        self._multiply_anchors(anchor, anchor_count)  # It writes to `_values`.
        values = self._values[rows_after_anchor:end]
        self._write_rounded(values[:, : self.columns], out)
        return self._in_doubt(values)

    def _write_rounded(self, values: Floats, out: Array) -> None:
        """Write values, which are scaled for the test, into `out`, each rounded once."""
        if self.dtype == "float32":
            out[...] = values
            np.multiply(out, self._inverse_scale, out)  # exact, by a power of two
        else:
            out[...] = round_to(values * float(self._inverse_scale), self.dtype)

    def _in_doubt(self, values: Floats) -> Doubtful | None:
        """Return the places of values that may be rounded wrongly to the dtype; None without any.

        Those are next to a tie, the middle of two neighbouring numbers of the dtype. `Factors` has
        scaled the values so that each is off by less than 1/4, and that ties are integers (except
        those below 1, which count as 0). So a value whose rounding its error leaves open is less than
        1/4 from a tie, and becomes that tie if it is rounded to an integer.

        Args:
            values: The values (rows, columns), which are overwritten.
        """
        lower_bits = _lower_bits_of_integers(values, self._ignored_bits)
        if lower_bits.min() != 0:  # The usual result: integers with lower bits are not ties.
            return None
        rows, columns = np.divmod(np.flatnonzero(lower_bits == 0), values.shape[1])
        is_written = columns < self.columns  # The table may lack the very last column.
        return Doubtful(rows[is_written], columns[is_written])

    def _compute_anchors(self, segment: int, start: Complex) -> None:
        """Compute cos + i·sin at all anchors of a segment: every 64th of its positions, say.

        They are products of those at the anchors of segment 0 and the one at the start of this
        segment.

        Args:
            segment: The number of the segment.
            start: cos + i·sin at its first position, a number per wave.
        """
        np.multiply(self.factors.anchor_directions, start, self._anchors)
        if not self.factors.has_pairs:
            cosines, sines = self._anchor_parts
            cosines[...] = self._anchors.real
            sines[...] = self._anchors.imag
        self._segment_in_memory = segment

    def _multiply_anchors(self, anchor: int, count: int) -> None:
        """Compute the rows that follow `count` anchors: E(anchor) · E(row), with E = cos + i·sin.

        An anchor is every 64th position, for example, and a row the distance from it. The products
        are (anchors, rows, frequencies), and `_values` is a view of them as rows.
        """
        anchors = slice(anchor, anchor + count)
        if self.factors.has_pairs:
            (row_directions,) = self.factors.row_factors
            np.multiply(self._anchors[anchors, None], row_directions, self._products[0][:count])
        else:
            self._multiply_parts(anchors, count)

    def _multiply_parts(self, anchors: slice, count: int) -> None:
        """Compute only the cosines, or only the sines, of the rows that follow some anchors.

        An anchor is a position a whose cosine and sine are in memory, and position a + b is b rows
        after it. The results are in the first array of `_products`.
        """
        row_cosines, row_sines = self.factors.row_factors
        cosines, sines = self._anchor_parts
        anchor_cosines = cosines[anchors, None]  # (anchors, 1, waves)
        anchor_sines = sines[anchors, None]
        products = self._products[0][:count]
        second_products = self._products[1][:count]
        if self.factors.functions == "cos":  # cos(a + b) = cos a · cos b − sin a · sin b
            np.multiply(anchor_cosines, row_cosines, products)
            np.multiply(anchor_sines, row_sines, second_products)
            np.subtract(products, second_products, products)
        else:  # sin(a + b) = cos a · sin b + sin a · cos b
            np.multiply(anchor_cosines, row_sines, products)
            np.multiply(anchor_sines, row_cosines, second_products)
            np.add(products, second_products, products)


@contextmanager
def _small_numpy_buffer() -> Iterator[None]:
    """Let NumPy have a buffer of _BUFFER_ELEMENTS, which only matters for speed.

    The caller of a generator has it, too, while it takes an item; its results do not depend on it.
    """
    usual_size = np.setbufsize(_BUFFER_ELEMENTS)
    try:
        yield
    finally:
        np.setbufsize(usual_size)


def _lower_bits_of_integers(values: Floats, ignored_bits: AnyArray) -> Ints:
    """Round values to integers and return the lower bits of each, which are 0 for ties of a dtype.

    The result is flat, and has the memory of the values, which are lost: new memory would take more
    time than the rest.

    Args:
        values: The values (rows, columns).
        ignored_bits: The upper bits of a float64 that may be anything (see `_upper_bits_of_test`).
            They are shifted out to the left.
    """
    integers = values.reshape(-1)  # the same memory
    np.rint(integers, out=integers)
    bits = integers.view(np.uint64)
    np.left_shift(bits, ignored_bits, out=bits)
    return bits


def _upper_bits_of_test(dtype: str) -> AnyArray:
    """Return how many of the 64 bits of a float64 precede those that are 0 at a tie of the dtype.

    A tie is the middle of two neighbouring numbers of the dtype. In binary, a tie of float32 has 25
    digits, one more than float32 has, and then only zeros: 2^46 + 2^22 is one, 2^46 + 2^22 + 1 is
    not. A float64 is stored as a sign (1 bit), an exponent (11 bits), and 52 digits, without the
    first one, which is always 1. So 1 + 11 + 24 = 36 bits precede the zeros, which are 28.
    """
    bits_of_zeros = _FLOAT64_BITS - (SIGNIFICAND_BITS[dtype] + 1)
    return np.array(64 - bits_of_zeros, np.uint64)


def _power_of_two_for_test(amplitude: float) -> float:
    """Return the factor that makes the errors of products less than 1/4, a power of two.

    Errors grow with the amplitude. For amplitudes above 1/2 up to 1, the factor is 2**47, above 1
    up to 2 half of that. A product with a power of two is exact.
    """
    scale: float = _TEST_SCALE / 2.0 ** np.ceil(np.log2(amplitude))
    return scale


def _memory_like(array: AnyArray) -> AnyArray:
    """Return uninitialised aligned memory of the shape and dtype of an array."""
    return aligned_buffer(array.size, array.dtype).reshape(array.shape)


def _memory_for_anchor_parts(factors: Factors) -> tuple[Floats, ...]:
    """Return memory for the cosines and the sines of anchors; nothing for pairs.

    An anchor is every 64th position, for example; rows are products with its cosines and sines. A
    table that has both is made of complex products. One that has only cosines, or only sines, needs
    real products, which are faster with the two in separate arrays.
    """
    if factors.has_pairs:
        return ()
    shape = factors.anchor_directions.shape
    return (np.empty(shape), np.empty(shape))


def _memory_for_products(factors: Factors) -> tuple[AnyArray, ...]:
    """Return memory for a tile's products (anchors, rows, waves): one array per array of rows."""
    anchors_per_tile = factors.sizes.rows_per_tile // factors.sizes.rows_per_anchor
    buffers = []
    for rows in factors.row_factors:
        buffer = aligned_buffer(anchors_per_tile * rows.size, rows.dtype)
        buffers.append(buffer.reshape(anchors_per_tile, *rows.shape))
    return tuple(buffers)


def _as_rows(products: AnyArray, row_count: int) -> Floats:
    """Return the memory of products (anchors, rows, waves) as rows of float64.

    A complex number becomes two neighbouring columns: its real part and its imaginary part.
    """
    rows: Floats = products.view(np.float64).reshape(row_count, -1)
    return rows


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less than a number.

    >>> [power_of_two(number) for number in (1, 4, 5)]
    [1, 4, 8]
    """
    return 1 << max(0, number - 1).bit_length()


def power_of_two_within(number: int) -> int:
    """Return the largest power of two that is not above a positive number.

    >>> [power_of_two_within(number) for number in (1, 4, 7)]
    [1, 4, 4]
    """
    return 1 << (number.bit_length() - 1)


def multiples(first: int, count: int, step: int) -> Ints:
    """Return the positions first·step, (first + 1)·step, … as a column."""
    return np.arange(first, first + count, dtype=np.uint64)[:, None] * np.uint64(step)
