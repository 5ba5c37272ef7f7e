"""A table, and the places of a tensor that have to equal it."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pecli.compare.candidate import Expected
from pecli.compare.factors import Shape, View, find_steps, first_along, view_whole
from pecli.engine.arrays import (
    SIGNIFICAND_BITS,
    AnyArray,
    Array,
    dtype_name,
    numpy_dtype,
    widened,
)
from pecli.engine.table import Table

LOWEST = {"float64": -3e38, "float32": -3e38, "bfloat16": -3e38, "float16": -6e4}
"""By dtype, the value below which there are only masks: programs write finfo.min, or −1e38, for −∞."""
FLOAT32_SLACK = 2.0**-24  #: relative change that float32 arithmetic may make to a value


@dataclass(frozen=True)
class Part:
    """A table, or an array, and a view (copies…, *shape) of the elements of a tensor that have to equal it.

    Attributes:
        expected: The table.
        view: The elements. Doubled columns are the first axis of copies.
        negated: True if they hold the opposite numbers, as one of the two sines of a rotation matrix.
        step: What the integer 1 stands for; 0 if the elements are numbers themselves.
        masked: True if the most negative number of a dtype stands for −∞.
        name: The name of the table, if a tensor holds several.
        copy_axes: The axes of the tensor along which the table is repeated.
    """

    expected: Expected
    view: View
    negated: bool = False
    step: float = 0.0
    masked: bool = False
    name: str = ""
    copy_axes: tuple[int, ...] = ()

    @classmethod
    def of_arrays(
        cls, expected: Expected, found: Array, *, masked: bool = False, name: str = ""
    ) -> "Part":
        """Return a whole array as a part, which has to equal another array of the same shape."""
        return cls(expected, view_whole(found), masked=masked, name=name)

    @property
    def found(self) -> AnyArray:
        return self.view.values

    @property
    def copies(self) -> Shape:
        return self.found.shape[: self.found.ndim - len(self.expected.shape)]

    @property
    def first_copy(self) -> AnyArray:
        """The first copy of the table, with the sign that the table has."""
        return self.as_in_table(first_along(self.found, len(self.copies)))

    @property
    def expected_dtype(self) -> "np.dtype[Any]":
        dtype = self.expected.dtype
        return numpy_dtype(dtype) if isinstance(dtype, str) else dtype

    def decoded(self, values: AnyArray) -> AnyArray:
        """Return the numbers that elements stand for.

        With a step of 1/127, the integer 127 stands for 1.0. In a mask, −3.4e38 stands for −∞.
        """
        if self.step:
            return np.multiply(values, self.step, dtype=np.float64)
        if not self.masked:
            return values
        is_mask = values <= LOWEST.get(dtype_name(values.dtype), -np.inf)
        if not is_mask.any():
            return values
        return np.where(is_mask, np.asarray(-np.inf, values.dtype), values)

    def as_in_table(self, values: AnyArray) -> AnyArray:
        """Return numbers that were found with the sign that the table has them with."""
        return np.negative(values) if self.negated else values

    def rows(self, block: "RowBlock") -> AnyArray:
        """Return some rows of the expected table as they should lie in the tensor: masked, or negated.

        If integers stand for its values, they are float64 numbers, which are rounded to steps later.
        """
        if isinstance(self.expected, Table):
            rows: AnyArray = self.expected.read(block.start, block.start + block.length)
        else:
            rows = np.ascontiguousarray(self.expected[block.at].reshape(block.length, -1))
        return self.as_in_table(widened(rows) if self.step else self.decoded(rows))

    def in_steps(self, expected: AnyArray, found: AnyArray) -> AnyArray:
        """Return expected numbers rounded as quantisation did, if the integer found is a nearest one.

        With a step of 1/127, 0.502 should be stored as 64, which stands for 0.5039: then 0.5039 is expected.
        If 65 was found, 0.502 itself is expected, and the error is 1.25 steps.
        """
        # Halfway between two steps, float32 arithmetic may round either way.
        largest_rounding = 0.5 * self.step + FLOAT32_SLACK * np.abs(expected)
        is_nearest_step = np.abs(found - expected) <= largest_rounding
        return np.where(is_nearest_step, found, expected)


def is_float_table(expected: Expected) -> bool:
    """Return True if a table has a floating dtype, so that integers may stand for its values."""
    dtype = expected.dtype if isinstance(expected, Table) else dtype_name(expected.dtype)
    return dtype in SIGNIFICAND_BITS


class RowBlock(NamedTuple):
    """Some rows of a table that follow each other, and that one index selects.

    Rows are counted through all heads: row 5 of head 2 of a bias (12, 64, 64) is row 2 · 64 + 5 = 133.
    """

    at: tuple[int | slice, ...]  #: index of these rows along the axes before the last one
    start: int  #: number of the first row
    length: int  #: number of rows


def split_into_row_blocks(lengths: Shape, max_rows: int) -> Iterator[RowBlock]:
    """Yield all rows of a table in blocks: pieces of at most so many rows, each of which one index selects.

    A bias of 12 heads, (12, 64, 64), has 12 · 64 rows. With at most 200 rows, a block is three heads,
    [0:3]. With at most 50, every head is cut into two blocks: [0, 0:50] and [0, 50:64] of head 0.

    Their first rows, counted through all heads, are 0, 50, 64, …:

    >>> [(block.start, block.length) for block in split_into_row_blocks((12, 64), 50)][:3]
    [(0, 50), (50, 14), (64, 50)]

    Args:
        lengths: The lengths of the table's axes before the last, such as heads and rows.
        max_rows: The largest number of rows.
    """
    if not lengths:  # A single number is one row.
        yield RowBlock(at=(), start=0, length=1)
        return
    cut_axis = _find_cut_axis(lengths, max_rows)
    rows_per_index = math.prod(lengths[cut_axis + 1 :])  # 64 if whole heads are taken
    indices_per_block = max(1, max_rows // max(1, rows_per_index))
    first_row = 0
    for outer_index in np.ndindex(lengths[:cut_axis]):  # each head, if heads are cut
        for low in range(0, lengths[cut_axis], indices_per_block):
            high = min(low + indices_per_block, lengths[cut_axis])
            row_count = (high - low) * rows_per_index
            yield RowBlock(at=(*outer_index, slice(low, high)), start=first_row, length=row_count)
            first_row += row_count


def _find_cut_axis(lengths: Shape, max_rows: int) -> int:
    """Return the first axis along which one index selects at most so many rows.

    Of 12 heads with 64 rows, one index along axis 0 selects 64 rows, and one along axis 1 a single
    row. So heads are taken whole if 200 rows are allowed, and cut if 50 are:

    >>> _find_cut_axis((12, 64), 200), _find_cut_axis((12, 64), 50)
    (0, 1)
    """
    rows_per_index_by_axis = find_steps(lengths)  # (64, 1)
    return next(axis for axis, rows in enumerate(rows_per_index_by_axis) if rows <= max_rows)
