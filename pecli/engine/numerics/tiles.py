"""Rows of cosines and sines in float32, float16 and bfloat16, a tile of rows and waves at a time.

With E(p) = exp(i·p·θ), E(a + b) = E(a)·E(b). A position is written as a number of three digits,

    p = (leap · anchors_per_leap + anchor) · rows_per_anchor + row,

and every element is a product of the few values of E that are computed for each digit. With 256
anchors of 128 rows each, position 40,000 = (1 · 256 + 56) · 128 + 64 is E(32,768) · E(7,168) ·
E(64). The products are made in float64 and are off by at most `ERROR`, which decides how nearly
all of them round. A cheap test finds the others, which are computed one by one elsewhere.

The test: a value is in doubt if a tie between two floats lies within the error. Values are scaled
to units of 2**-47, somewhat more than twice the error, and rounded to integers. In these units, a
tie of a dtype with s significant bits is an integer whose first s + 1 bits are followed by zeros,
and a value next to it rounds to that integer. So the integers whose lower bits are all zero are in
doubt, and no others. In float32, for example, 1/2 + 2**-25 is a tie; it is 2**46 + 2**22 units, 25
bits followed by 22 zeros. Ties below one unit round to 0, which is in doubt as well.
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
roundings. A row and an anchor are products of two directions each, the start of a leap is one, and
two products join them: 5 · 0.85 + 4 · √5 + 2 = 15.2 in all, which is 1.69e-15.
"""

_UNITS = 2.0**47
"""Units of the test in 1: ERROR is 0.24 of a unit, below a half."""
_FLOAT64_BITS = 53
_MAX_ROWS_PER_TILE = 1 << 10
_LIMBS = 5
"""Digits of a frequency that count at the farthest position, and one that `cos_sin` leaves out."""
_NO_LEAP = -1
"""The leap of a tile that has not computed any anchors; leaps are counted from 0."""
_BUFFER_ELEMENTS = 256
"""NumPy copies a row that is multiplied with many others again and again to fill its buffer, unless
the row is longer than the buffer."""


class Doubtful(NamedTuple):
    """The places of elements whose rounding the error leaves open."""

    rows: Indices
    columns: Indices


class _TileSizes(NamedTuple):
    """The rows that are made at a time, all powers of two.

    A tile fits into the processor's cache. An anchor is a position whose direction is computed; the
    rows after it are products with that direction. A leap is a stretch of positions whose anchors
    are in memory. For 64 waves and many positions, a tile has 512 rows, an anchor 64, and a leap
    128 anchors.
    """

    rows_per_tile: int
    rows_per_anchor: int
    anchors_per_leap: int


def _tile_sizes(waves: int, count: int) -> _TileSizes:
    """Return how many rows are computed at a time, for a table of about `count` positions.

    A tile is the rows that fit into the processor's cache. A few of its positions are anchors, whose
    cos + i·sin is computed; the rows after an anchor are products with it. A leap is the stretch of
    positions whose anchors are in memory. All sizes are powers of two. A table of 64 waves and
    100,000 positions has tiles of 512 rows, 64 rows per anchor, and 128 anchors per leap.

    Args:
        waves: The frequencies of the table, one or two columns each.
        count: About how many positions are needed.
    """
    rows_in_cache = phases.TILE // waves
    exponent_in_cache = rows_in_cache.bit_length() - 1  # of the power of two that is not above it
    rows_per_tile = min(power_of_two(count), _MAX_ROWS_PER_TILE, 2**exponent_in_cache)

    # Three to four times the root of the rows of a tile: fewer rows per anchor need more anchors,
    # and the small tables of both have to be computed.
    tile_exponent = rows_per_tile.bit_length() - 1  # 9 for 512 rows, which are 2**9
    about_root = 2 ** (tile_exponent // 2)  # 16 for 512 rows
    rows_per_anchor = min(rows_per_tile, 4 * about_root)

    needed_anchors = power_of_two(math.ceil(count / rows_per_anchor))
    most_anchors = max(1, rows_per_tile // 4)
    return _TileSizes(rows_per_tile, rows_per_anchor, min(most_anchors, needed_anchors))


class Factors:
    """The small tables of E whose products are some columns of a table, in units of the test.

    `functions` is "cos" or "sin" for one column per wave, "cos,sin" or "sin,cos" for two. A pair of
    columns is a complex number: cos + i·sin, or sin + i·cos = i·conj(cos + i·sin), which rotates
    the other way.

    Attributes:
        rows_per_tile: Rows that are made at a time.
        rows_per_anchor: Rows from one anchor to the next.
        anchors_per_leap: Anchors that are in memory at a time.
        rows_per_leap: Rows that follow them.
        unit: Units of the test in 1.
        row_directions: E(0), E(1), …, E(rows_per_anchor − 1), as complex numbers.
        row_factors: The same numbers as anchors are multiplied by: complex for pairs, cosines and
            sines for one function.
        anchor_directions: E at all anchors of leap 0: E(0), E(64), E(128), … with 64 rows per
            anchor.
    """

    def __init__(self, waves: ExactWaves, columns: slice, functions: str, count: int) -> None:
        """Compute the small tables whose products are rows of cosines and sines.

        The direction E(p) = cos + i·sin of position p is E(anchor) · E(row), because angles add up
        when complex numbers are multiplied: with 128 rows per anchor, E(7,232) is E(7,168) · E(64).
        So a few anchors and a few rows give a long table. A leap is a stretch of positions whose
        anchors are in memory at a time; those of leap 0 are computed here, and the others are their
        products with E at the start of the leap. A tile is the rows that are made at a time.

        Args:
            waves: The frequencies and the amplitude.
            columns: The waves (frequencies) that these tables are for.
            functions: "cos", "sin", or both in one of two orders.
            count: About how many positions are needed.
        """
        self.functions = functions
        self._is_conjugate = functions == "sin,cos"
        # The digits of the frequencies (digits, 1, waves); the axis of length 1 is for positions.
        self._frequency_digits = np.ascontiguousarray(waves.limbs[-_LIMBS:, None, columns])

        sizes = _tile_sizes(self._frequency_digits.shape[-1], count)
        self.rows_per_tile = sizes.rows_per_tile
        self.rows_per_anchor = sizes.rows_per_anchor
        self.anchors_per_leap = sizes.anchors_per_leap
        self.rows_per_leap = sizes.anchors_per_leap * sizes.rows_per_anchor

        # The direction at the start of a leap is multiplied by the amplitude, and scaled so that a
        # cheap test finds the products whose rounding is in doubt: their lower bits are then 0.
        amplitude = float(waves.factor.hi)
        self.unit = _unit_of_test(amplitude)
        self._factor_of_starts: complex = amplitude * self.unit
        if self._is_conjugate:
            self._factor_of_starts *= 1j  # sin + i·cos = i·conj(cos + i·sin)

        self.row_directions = self._directions_at_multiples(step=1, count=self.rows_per_anchor)
        self.row_factors = self._separate_functions(self.row_directions)
        self.anchor_directions = self._directions_at_multiples(
            step=self.rows_per_anchor, count=self.anchors_per_leap
        )

    @property
    def has_pairs(self) -> bool:
        return "," in self.functions

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
        return directions.conj() if self._is_conjugate else directions

    def starts(self, leaps: range) -> Complex:
        """Return cos + i·sin at the first position of every leap, times the factor of all elements.

        A leap is a stretch of positions. Its numbers are products with the one returned here, so that
        the factor, such as an amplitude, is multiplied only here.
        """
        first_positions = multiples(leaps.start, len(leaps), self.rows_per_leap)
        starts: Complex = self._directions(first_positions) * self._factor_of_starts
        return starts


class Tile:
    """Memory for some rows of some waves, which is used again for every tile.

    Threads wait for each other whenever Python runs between two NumPy calls, so that little is
    left to do there: all memory is allocated once, here.

    The memory, with the shapes for 64 waves, tiles of 512 rows, 64 rows per anchor, and 128 anchors
    per leap:

        _anchors       (128, 64)    complex E at all anchors of the current leap
        _anchor_parts  (128, 64)    its cosines and its sines, if the table has only one of them
        _products      (8, 64, 64)  products of 8 anchors with 64 rows: complex for pairs, else two
                                    arrays of float64, of which the first becomes the result
        _values        (512, 64)    the result as rows of float64, a view of the first of
                                    `_products`; (512, 128) for pairs
    """

    is_compiled = False

    def __init__(self, factors: Factors, columns: int, dtype: str) -> None:
        """Allocate the memory of a tile, some hundred rows of a table, which is used for every tile.

        An anchor is a position whose direction cos + i·sin is in memory, and the rows after it are
        products with that direction. A leap is a stretch of positions whose anchors are in memory
        at the same time.

        Args:
            factors: The directions of some anchors, and of the rows after an anchor. Their products
                are the rows of the table.
            columns: The columns of the table: one per wave, or two for cosine and sine.
            dtype: The dtype of the table, to which products are rounded: "float32", for example.
        """
        self.factors = factors
        self.columns = columns
        self.dtype = dtype

        # Values are computed in units of the test for doubtful roundings, and then scaled back.
        self._shift = _shift_of_test(dtype)
        self._scale = np.array(1 / factors.unit, np.float32)  # a power of two

        self._leap = _NO_LEAP  # the leap of the anchors in memory
        self._anchors: Complex = _memory_like(factors.anchor_directions)
        self._anchor_parts = _memory_for_anchor_parts(factors)

        # The first of the products becomes the result. `_values` is the same memory as rows of
        # float64, in which a complex number is two neighbouring columns.
        self._products = _memory_for_products(factors)
        result = self._products[0]
        self._values: Floats = result.view(np.float64).reshape(factors.rows_per_tile, -1)

    def fits(self, factors: Factors, columns: int, dtype: str, *, is_compiled: bool) -> bool:
        """Return True if this memory is that of a tile with these properties."""
        has_same_shape = (self.columns, self.dtype) == (columns, dtype)
        return has_same_shape and self.factors is factors and self.is_compiled == is_compiled

    def fill(self, first: int, out: Array) -> Iterator[Doubtful]:
        """Write positions first, first + 1, … into the rows of `out`; yield elements in doubt.

        An element is in doubt if the error of its product leaves two roundings possible; the caller
        computes it with more digits. Rows are written leap by leap: a leap is a stretch of some
        thousand positions whose anchors (positions with a computed direction, one in 64, for example)
        are in memory. Rows after an anchor are the product of its direction with a small table.
        """
        leaps = self._leaps_of(first, len(out))
        starts = self._starts_of_new_leaps(leaps)
        with _short_buffer():  # once for all leaps, because threads wait for each other in Python
            for leap in leaps:
                is_in_memory = leap == self._leap
                if not is_in_memory:
                    self._enter_leap(leap, starts[leap])
                yield from self._fill_leap(first, out)

    def _leaps_of(self, first: int, count: int) -> range:
        """Return the numbers of the leaps in which `count` positions from `first` on lie.

        With 8,192 positions per leap, positions 8,000 … 16,999 lie in leaps 0, 1 and 2.
        """
        positions_per_leap = self.factors.rows_per_leap
        first_leap = first // positions_per_leap
        end = -(-(first + count) // positions_per_leap)  # rounded up
        return range(first_leap, end)

    def _starts_of_new_leaps(self, leaps: range) -> dict[int, Complex]:
        """Return E = cos + i·sin at the first position of each leap, except for the one in memory.

        Blocks of rows follow each other, so that a block often begins in the leap in which the last
        one ended. The anchors of that leap are still in memory and are used again.
        """
        new_leaps = leaps[1:] if leaps.start == self._leap else leaps
        return dict(zip(new_leaps, self.factors.starts(new_leaps), strict=True))

    def _fill_leap(self, first: int, out: Array) -> Iterator[Doubtful]:
        """Write the rows of `out` that lie in the current leap; yield the elements in doubt.

        A leap is a stretch of positions, in which every 128th, for example, is an anchor: its cosines
        and sines are in memory, and the 127 rows after it are products with them. As many rows as the
        memory of a tile holds are written at once. That memory begins at an anchor: to write from
        position 300 of the leap on, it begins at anchor 2, position 256, and 44 of its rows are left
        out.

        Args:
            first: The position of row 0 of `out`.
            out: The rows, some of which may lie in other leaps.
        """
        factors = self.factors
        leap_start = self._leap * factors.rows_per_leap
        rows_of_leap = self._rows_in_leap(first, len(out))
        out_row = rows_of_leap.start
        while out_row < rows_of_leap.stop:
            position_in_leap = first + out_row - leap_start
            anchor, rows_after_anchor = divmod(position_in_leap, factors.rows_per_anchor)
            rows_left_in_tile = factors.rows_per_tile - rows_after_anchor
            stop = min(rows_of_leap.stop, out_row + rows_left_in_tile)
            doubtful = self._make_rows(anchor, rows_after_anchor, out[out_row:stop])
            if doubtful is not None:
                yield Doubtful(out_row + doubtful.rows, doubtful.columns)
            out_row = stop

    def _rows_in_leap(self, first: int, count: int) -> slice:
        """Return the rows of a block that lie in the current leap.

        The block has `count` rows, and its row 0 is row `first` of the table. If leap 1 has rows
        16384 … 32767 of the table, and a block of 1000 rows begins at row 16000, they are the rows
        384 … 999 of the block.
        """
        leap_start = self._leap * self.factors.rows_per_leap
        start = max(0, leap_start - first)
        stop = min(leap_start + self.factors.rows_per_leap - first, count)
        return slice(start, stop)

    def _make_rows(self, anchor: int, rows_after_anchor: int, out: Array) -> Doubtful | None:
        """Write rows into `out`, rounded to its dtype; return the elements in doubt, None without any.

        An anchor is a position whose cosines and sines are in memory; those of the rows after it, 64
        for example, are products with them. All 64 rows of each anchor are computed in float64, also
        if `out` begins or ends in their middle. Elements are in doubt if the error of float64 leaves
        their rounding open.

        Args:
            anchor: The number of the first anchor, in the current leap.
            rows_after_anchor: The rows from that anchor to the first row of `out`.
            out: The rows.
        """
        end = rows_after_anchor + len(out)
        anchor_count = -(-end // self.factors.rows_per_anchor)  # rounded up
        self._multiply_anchors(anchor, anchor_count)  # It writes to `_values`.
        values = self._values[rows_after_anchor:end]
        self._write_rounded(values[:, : self.columns], out)
        return self._in_doubt(values)

    def _write_rounded(self, values: Floats, out: Array) -> None:
        """Write values, which are in units of the test, into `out`, each rounded once."""
        if self.dtype == "float32":
            out[...] = values
            np.multiply(out, self._scale, out)  # exact, by a power of two
        else:
            out[...] = round_to(values * float(self._scale), self.dtype)

    def _in_doubt(self, values: Floats) -> Doubtful | None:
        """Return the places of values that their error leaves two roundings; None if there are none.

        Those lie near a tie, the middle of two neighbouring numbers of the dtype, and are computed
        with more digits elsewhere. The unit of the values is a bit more than their possible error,
        so that a value near a tie is the tie itself when it is rounded to an integer.

        In binary, a tie in float32 has 25 digits and then only zeros. A float64 is stored as a sign,
        an exponent, and the digits after the first one, which is always 1. A shift to the left drops
        the sign, the exponent and the first 25 digits. What remains of the tie 2^46 + 2^22 is 0, and
        of 2^46 + 2^22 + 1 it is not. The values are overwritten.
        """
        flat = values.reshape(-1)
        np.rint(flat, flat)
        bits_of_floats = flat.view(np.uint64)
        np.left_shift(bits_of_floats, self._shift, bits_of_floats)
        if bits_of_floats.min() != 0:
            return None
        rows, columns = np.divmod(np.flatnonzero(bits_of_floats == 0), values.shape[1])
        is_written = columns < self.columns  # The table may lack the very last column.
        return Doubtful(rows[is_written], columns[is_written])

    def _enter_leap(self, leap: int, start: Complex) -> None:
        """Compute cos + i·sin at all anchors of a leap: every 64th position, for example.

        They are products of those at the anchors of leap 0 and the one at the start of this leap.

        Args:
            leap: The number of the leap.
            start: cos + i·sin at its first position, a number per wave.
        """
        np.multiply(self.factors.anchor_directions, start, self._anchors)
        if not self.factors.has_pairs:
            cosines, sines = self._anchor_parts
            cosines[...] = self._anchors.real
            sines[...] = self._anchors.imag
        self._leap = leap

    def _multiply_anchors(self, anchor: int, count: int) -> None:
        """Compute the rows that follow `count` anchors: E(anchor) · E(row), with E = cos + i·sin.

        The products are (anchors, rows, waves), and `_values` is a view of them as rows.
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
def _short_buffer() -> Iterator[None]:
    """Let NumPy have a buffer of _BUFFER_ELEMENTS, which only matters for speed.

    The caller of a generator has it, too, while it takes an item; its results do not depend on it.
    """
    usual_size = np.setbufsize(_BUFFER_ELEMENTS)
    try:
        yield
    finally:
        np.setbufsize(usual_size)


def _shift_of_test(dtype: str) -> AnyArray:
    """Return by how many bits the test shifts a float64 to the left.

    The test decides whether a value is so near a tie that the error leaves its rounding open: if the
    bits after its first s + 1 are all 0 (see the top of this module). Shifting drops the sign, the
    exponent and those first bits. For float32, s is 24, so that 53 − 25 = 28 bits remain of 64.
    """
    tested_bits = _FLOAT64_BITS - (SIGNIFICAND_BITS[dtype] + 1)
    return np.array(64 - tested_bits, np.uint64)


def _unit_of_test(amplitude: float) -> float:
    """Return the units of the test in 1 (see the top of this module).

    Errors grow with the amplitude, and so do the units: by a power of two, so that scaling by them
    is exact. For amplitudes above 1/2 up to 1 there are 2**47 units in 1, above 1 up to 2 half as many.
    """
    unit: float = _UNITS / 2.0 ** np.ceil(np.log2(amplitude))
    return unit


def _memory_like(array: AnyArray) -> AnyArray:
    """Return uninitialised aligned memory of the shape and dtype of an array."""
    return aligned_buffer(array.size, array.dtype).reshape(array.shape)


def _memory_for_anchor_parts(factors: Factors) -> tuple[Floats, ...]:
    """Return memory for the cosines and the sines of anchors; nothing for pairs.

    Pairs are multiplied as complex numbers. A table that has only cosines, or only sines, needs real
    products, which are faster with the parts in arrays of their own.
    """
    if factors.has_pairs:
        return ()
    shape = factors.anchor_directions.shape
    return (np.empty(shape), np.empty(shape))


def _memory_for_products(factors: Factors) -> tuple[AnyArray, ...]:
    """Return memory for a tile's products (anchors, rows, waves): one array per array of rows."""
    anchors_per_tile = factors.rows_per_tile // factors.rows_per_anchor
    buffers = []
    for rows in factors.row_factors:
        buffer = aligned_buffer(anchors_per_tile * rows.size, rows.dtype)
        buffers.append(buffer.reshape(anchors_per_tile, *rows.shape))
    return tuple(buffers)


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is not less than a number.

    >>> [power_of_two(number) for number in (1, 4, 5)]
    [1, 4, 8]
    """
    return 1 << max(0, number - 1).bit_length()


def multiples(first: int, count: int, step: int) -> Ints:
    """Return the positions first·step, (first + 1)·step, … as a column."""
    return np.arange(first, first + count, dtype=np.uint64)[:, None] * np.uint64(step)
