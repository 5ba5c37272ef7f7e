"""Tiles of float32 tables, made by a compiled loop."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np

from pecli.engine.arrays import Array, Complex, Floats, Indices
from pecli.engine.numerics.tiles import Doubtful, Factors, Tile


class ColumnFactors:
    """Two factors for every column of some rows, each array (rows, columns).

    A column is the real or the imaginary part of the product of an anchor a and a row b. Either is
    a sum of two products, which the loop adds:

        re(a·b) = re(a) · re(b) + (−im(a)) · im(b)
        im(a·b) = re(a) · im(b) +    im(a) · re(b)

    The columns of "cos" are real parts, those of "sin" imaginary ones, and pairs have both.
    """

    def __init__(self, rows: int, waves: int, functions: str) -> None:
        """Allocate factors for the columns of some waves (frequencies), which are set later.

        A table of cosines and sines has real parts in the columns 0, 2, 4, … and imaginary ones in
        1, 3, 5, …; a table of only one of them has one column per wave.
        """
        columns_per_wave = 2 if "," in functions else 1
        self.first: Floats = np.empty((rows, columns_per_wave * waves))
        self.second: Floats = np.empty_like(self.first)
        self._has_real = functions != "sin"
        self._real_columns = slice(0, None, columns_per_wave)
        self._has_imag = functions != "cos"
        last_column_of_wave = columns_per_wave - 1
        self._imag_columns = slice(last_column_of_wave, None, columns_per_wave)

    def set_anchors(self, anchors: Complex) -> None:
        """Set the factors of anchors a in the products a·b with the rows b that follow them.

        An anchor is the direction cos + i·sin at every 64th position, for example.
        re(a·b) = re(a) · re(b) + (−im(a)) · im(b), and im(a·b) = re(a) · im(b) + im(a) · re(b). The
        factors on the left of the first products are `first`, those of the second ones `second`.
        """
        if self._has_real:
            self.first[:, self._real_columns] = anchors.real
            np.negative(anchors.imag, out=self.second[:, self._real_columns])
        if self._has_imag:
            self.first[:, self._imag_columns] = anchors.real
            self.second[:, self._imag_columns] = anchors.imag

    def set_rows(self, rows: Complex) -> None:
        """Set the factors of rows b in the products a·b with the anchors a before them.

        A row is the direction cos + i·sin of its distance from the anchor, such as 36 positions.
        re(a·b) = re(a) · re(b) + (−im(a)) · im(b), and im(a·b) = re(a) · im(b) + im(a) · re(b). The
        factors on the right of the first products are `first`, those of the second ones `second`.
        """
        if self._has_real:
            self.first[:, self._real_columns] = rows.real
            self.second[:, self._real_columns] = rows.imag
        if self._has_imag:
            self.first[:, self._imag_columns] = rows.imag
            self.second[:, self._imag_columns] = rows.real


class CompiledTile(Tile):
    """A tile of float32 whose elements are made, rounded and tested one after the other.

    The loop needs no memory between the factors and the table, so that it makes a whole segment.
    """

    is_compiled = True

    def __init__(self, factors: Factors, columns: int, loops: ModuleType) -> None:
        """Allocate the arguments of a compiled loop, which makes some thousand rows per call.

        A row is a product of two rows of numbers cos + i·sin. That at position 100 is a product of
        those at 64, called an anchor (every 64th position is one), and at 36.

        Args:
            factors: The numbers cos + i·sin at positions 0 … 63, and at anchors.
            columns: The columns of the table: one per frequency, or two for cosine and sine.
            loops: The module `compiled_loops`.
        """
        super().__init__(factors, columns, "float32")
        self._loops = loops
        sizes = factors.sizes
        wave_count = factors.row_directions.shape[1]

        # The loop multiplies real numbers: the real and imaginary parts of positions 0 … 63, and
        # those of anchors, which `_compute_anchors` sets for one segment after another.
        self._row_factors = ColumnFactors(sizes.rows_per_anchor, wave_count, factors.functions)
        self._row_factors.set_rows(factors.row_directions)
        self._anchor_factors = ColumnFactors(
            sizes.anchors_per_segment, wave_count, factors.functions
        )
        # The loop writes here which elements may be rounded wrongly: all those of a segment, at most.
        self._doubtful_elements = np.empty(sizes.rows_per_segment * columns, np.int64)
        # The base class has these numbers as arrays without axes; the loop takes scalars.
        self._inverse_scale_scalar = self._inverse_scale[()]
        self._ignored_bits_scalar = self._ignored_bits[()]

    def _compute_anchors(self, segment: int, start: Complex) -> None:
        super()._compute_anchors(segment, start)
        self._anchor_factors.set_anchors(self._anchors)

    def _fill_segment(self, segment: int, first: int, out: Array) -> Iterator[Doubtful]:
        """Write the rows of `out` that lie in a segment; yield the places of elements in doubt.

        Args:
            segment: The number of the segment, a stretch of positions whose anchors are in memory.
            first: The position of row 0 of `out`.
            out: The rows, some of which may lie in other segments.
        """
        rows_in_segment = self._rows_in_segment(segment, first, len(out))
        start = rows_in_segment.start
        position_of_segment = segment * self.factors.sizes.rows_per_segment
        elements = self._write_products(first + start - position_of_segment, out[rows_in_segment])
        if elements.size:
            # With 64 columns, element 130 is in column 2 of row 2, counted from `start`.
            rows, columns = np.divmod(elements, self.columns)
            yield Doubtful(start + rows, columns)

    def _write_products(self, first_row: int, rows: Array) -> Indices:
        """Write cosines and sines into some rows; return the elements that may be rounded wrongly.

        They are numbered row by row: with 64 columns, element 130 is in column 2 of row 2.

        An element is cos(A + B) = cos A · cos B + (−sin A) · sin B, for example. A is the angle at
        an anchor, a position with known cosines, and B the angle from it to the row.

        Args:
            first_row: The number of the first row, counted from the first anchor.
            rows: The rows to fill.
        """
        anchor_factors = self._anchor_factors
        row_factors = self._row_factors
        memory_of_rows = _as_one_axis(rows)
        elements_per_row = rows.strides[0] // rows.itemsize
        # The arguments have no keywords, for which numba would need 3 µs more.
        doubtful_count = self._loops.add_products(
            anchor_factors.first,  # cos A
            anchor_factors.second,  # −sin A
            row_factors.first,  # cos B
            row_factors.second,  # sin B
            first_row,
            memory_of_rows,  # The loop writes the elements here.
            elements_per_row,
            self.columns,
            # The factors of anchors are scaled, so that bits of an element show if it may be rounded
            # wrongly. These two numbers undo the scale, and state which bits do not matter for that.
            self._inverse_scale_scalar,
            self._ignored_bits_scalar,
            self._doubtful_elements,  # The loop writes the numbers of doubtful elements here.
        )
        elements: Indices = self._doubtful_elements[:doubtful_count]
        return elements


def _as_one_axis(rows: Array) -> Array:
    """Return the memory of some rows, from the first element to the last, as one axis.

    Compiled loops are fast only if they know that neighbours are adjacent. Columns 0–1 of the rows
    [[1, 2, 3], [4, 5, 6]] are [1, 2, 3, 4, 5].
    """
    length = (len(rows) - 1) * (rows.strides[0] // rows.itemsize) + rows.shape[1]
    return np.lib.stride_tricks.as_strided(rows, (length,), (rows.itemsize,))
