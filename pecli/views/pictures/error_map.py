"""Maps of errors: a compared table in as many cells as a picture has room for.

A cell shows the element that is farthest off among those it stands for. The same element is shown
as expected, as found, and by its error, so that the three maps belong together and no wrong element
is lost.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pecli.compare.comparison import READ_BYTES, Comparison
from pecli.compare.part import Part, RowBlock, split_into_row_blocks
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Flags, Floats, Indices, absolute_errors, widest
from pecli.engine.grouping import grouped
from pecli.files.tensor_roles import role_of
from pecli.views.pictures.panels import TablePoint

MAX_ROWS = 192  #: Rows of a map; a figure has as many pixels for each of three maps.
MAX_COLUMNS = 192
MAX_POINTS = 4096  #: Elements of a vector that are drawn.
_NO_ERROR = -1.0  #: Less than any error, and equal to none, since errors are absolute.


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """A table of a tensor, or a vector (one row), cell by cell."""

    name: str
    shape: tuple[int, int]  #: Rows and columns of the table.
    expected: Floats
    found: Floats
    errors: Floats  #: |expected − found|, relative if the tolerance is.
    allowed: Tolerance
    is_relative: bool  #: True if errors are divided by the expected magnitude.
    rows: str  #: The name of the rows; empty for a vector.
    columns: str
    layers: int  #: Matrices over which a cell is the worst: heads, copies.

    @property
    def is_vector(self) -> bool:
        return not self.rows

    @property
    def worst(self) -> TablePoint:
        """The middle of the cell with the largest error, in rows and columns of the table.

        Of 4 rows in 2 cells, cell 1 stands for the rows 2 and 3, whose middle is 2.5.
        """
        errors = np.where(np.isnan(self.errors), np.inf, self.errors)
        cell_row, cell_column = np.unravel_index(np.argmax(errors), errors.shape)
        cells_down, cells_across = errors.shape
        height, width = self.shape
        # Row 0 reaches from −0.5 to 0.5, so that the edges of all rows are −0.5 and height − 0.5.
        row = (float(cell_row) + 0.5) * height / cells_down - 0.5
        column = (float(cell_column) + 0.5) * width / cells_across - 0.5
        return TablePoint(row, column)

    @property
    def tolerance(self) -> float:
        """The largest error that passes, if it is the same for all elements; otherwise 0."""
        smaller, larger = sorted((self.allowed.atol, self.allowed.rtol))
        if smaller > 0 or self.allowed.max_ulp > 0:
            return 0.0
        return larger


def error_maps(
    result: Comparison, rows: int = MAX_ROWS, columns: int = MAX_COLUMNS
) -> Iterator[ErrorMap]:
    """Yield a map for each table of a tensor that has errors; none for a tensor without errors.

    Most tensors are one table. A tensor `rope` that holds cosines and sines is two: «rope: cos» and
    «rope: sin».

    Args:
        result: The comparison of the tensor with its expected values.
        rows: The most rows of a map.
        columns: The most columns of a map.
    """
    has_errors = result.worst_index is not None
    if not has_errors:
        return
    limits = _CellLimits(rows, columns)
    parts_by_table = grouped(result.parts, lambda part: part.name or result.name)
    if len(parts_by_table) == 1:
        yield _error_map(result.name, result.name, result.parts, result, limits)
        return
    for table_name, parts in parts_by_table.items():
        yield _error_map(f"{result.name}: {table_name}", table_name, parts, result, limits)


class _CellLimits(NamedTuple):
    """The most rows and columns of a map."""

    rows: int
    columns: int


def _error_map(
    label: str, table_name: str, parts: Sequence[Part], result: Comparison, limits: _CellLimits
) -> ErrorMap:
    """Return a map of a table's errors: a grid of cells, each with the worst element that it covers.

    A table of 4,096 × 128 is drawn with fewer cells than elements, and no error may disappear in a
    mean.

    Args:
        label: Its name in the picture.
        table_name: Its own name, such as cos, which decides the names of its axes.
        parts: The arrays that were compared as this table, of the same shape: heads, for example.
        result: The comparison that they belong to.
        limits: The most rows and columns of the map.
    """
    shape = parts[0].expected.shape
    is_relative = _has_only_relative_tolerance(result)
    worst = _worst_elements_as_drawn(parts, limits, is_relative)
    if result.sides_swapped:
        # The parts call the expected values found, and the found ones expected.
        worst = worst.with_sides_exchanged()
    axes = _axis_names(table_name, worst.expected, shape)
    return ErrorMap(
        label,
        shape=_height_and_width(shape),
        expected=worst.expected,
        found=worst.found,
        errors=worst.errors,
        allowed=result.allowed,
        is_relative=is_relative,
        rows=axes.rows,
        columns=axes.columns,
        layers=_count_layers(parts, result),
    )


def _worst_elements_as_drawn(
    parts: Sequence[Part], limits: _CellLimits, is_relative: bool
) -> "_WorstElements":
    """Return the element with the largest error in each cell of a map; a vector is drawn as one row.

    For the arguments, see `_worst_elements`. A vector has up to `MAX_POINTS` cells in any case.
    """
    if not _is_vector(parts[0].expected.shape):
        return _worst_elements(parts, limits, is_relative)
    # Arrays are read in blocks of rows. A vector is read as rows of one number: as a column.
    column_limits = _CellLimits(rows=MAX_POINTS, columns=1)
    column = _worst_elements(parts, column_limits, is_relative)
    return column.transposed()


def _has_only_relative_tolerance(result: Comparison) -> bool:
    """Return True if errors are to be divided by the expected values, as the tolerance is relative."""
    return result.allowed.rtol > 0 and result.allowed.atol == 0


def _is_vector(shape: tuple[int, ...]) -> bool:
    return len(shape) < 2


class _AxisNames(NamedTuple):
    """The names of a map's rows, empty for a vector, and of its columns."""

    rows: str
    columns: str


_VECTOR_ELEMENTS = {"inv_freq": "pair", "slopes": "head"}
"""The name of an element of a vector, by its role; of all others, it is «element»."""


def _height_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of a drawn table: 512 and 64 of (32, 512, 64), 1 and 64 of (64,)."""
    if _is_vector(shape):
        return 1, math.prod(shape)
    return shape[-2], shape[-1]


def _read_height_and_width(shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the rows and columns of a table as it is read: a vector (64,) is a column, 64 and 1."""
    height, width = _height_and_width(shape)
    if _is_vector(shape):
        return width, height
    return height, width


def _worst_elements(
    parts: Sequence[Part], limits: _CellLimits, is_relative: bool
) -> "_WorstElements":
    """Return the element with the largest error in each cell of a map.

    A cell stands for several elements: if 4,096 rows are drawn as 192, about 21 rows share a cell.
    All matrices of a table, such as those of its heads, are drawn in the same map.

    Args:
        parts: The arrays that were compared as one table, all of the same shape.
        limits: The most rows and columns of the map.
        is_relative: True if errors are divided by the expected magnitude.
    """
    shape = parts[0].expected.shape
    height, width = _read_height_and_width(shape)  # of each matrix
    cells_down = min(height, limits.rows)
    worst = _WorstElements(cells_down, columns=min(width, limits.columns))
    for part in parts:
        # Arrays may be larger than memory, and are read in blocks of consecutive rows. A block can
        # have rows of several matrices, (heads, rows, width), which are put below each other.
        for block in split_into_row_blocks(_row_axes(shape), _max_rows_of_block(width)):
            cell_of_row = _cells_of_rows(block, height, cells_down)
            expected = widest(part.rows(block)).reshape(block.length, width)
            for found_rows in _found_rows_of_copies(part, block):
                found = found_rows.reshape(block.length, width)
                worst.take_larger_errors(cell_of_row, expected, found, is_relative)
    return worst


def _row_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the axes that count rows: (8, 512) of (8, 512, 64); a vector (64,) has 64 rows."""
    return shape[:-1] or shape


def _max_rows_of_block(width: int) -> int:
    """Return how many rows of float64 numbers are read at once; at least one."""
    bytes_of_row = 8 * width
    return max(1, READ_BYTES // bytes_of_row)


def _cells_of_rows(block: RowBlock, height: int, cells_down: int) -> Indices:
    """Return the row of cells that each row of a block belongs to.

    A block counts the rows of all matrices one after another. If they have 8,192 rows each, row
    12,192 is row 4,000 of the second one. In a map of 192 rows of cells, it belongs to the row
    4,000 · 192 // 8,192 = 93.

    Args:
        block: Consecutive rows of a table.
        height: The rows of each matrix of the table.
        cells_down: The rows of cells of the map.
    """
    row_numbers = np.arange(block.start, block.start + block.length)
    rows_of_matrix = row_numbers % height
    return rows_of_matrix * cells_down // height


def _found_rows_of_copies(part: Part, block: RowBlock) -> Iterator[AnyArray]:
    """Yield the found values of some rows of a part, once per copy of the part.

    A file may have the same cosines for each of 32 heads: these are 32 copies of one table.
    """
    for copy in np.ndindex(part.copies):
        yield widest(part.decoded(part.found[(*copy, *block.at)]))


def _count_layers(parts: Sequence[Part], result: Comparison) -> int:
    """Return how many matrices lie over each other in a map, whose cells show the worst element.

    They are the heads of a bias (32, 512, 512), or the copies of a table that a file holds per head.
    """
    row_length = math.prod(result.shape[-1:])
    layers = len(parts) * math.prod(parts[0].expected.shape[:-2])
    for size, step in zip(parts[0].copies, parts[0].view.steps, strict=False):
        if step >= row_length:  # Copies within a row are doubled columns.
            layers *= size
    return layers


class _WorstElements:
    """The element that is farthest off, cell by cell."""

    def __init__(self, rows: int, columns: int) -> None:
        # Any error exceeds _NO_ERROR, so that the first elements of a cell replace the fill values.
        self.expected = np.full((rows, columns), -1.0)
        self.found = np.full((rows, columns), -1.0)
        self.errors = np.full((rows, columns), _NO_ERROR)

    def transposed(self) -> "_WorstElements":
        """Return the same elements with rows and columns exchanged."""
        columns, rows = self.errors.shape
        worst = _WorstElements(rows, columns)
        worst.expected = self.expected.T
        worst.found = self.found.T
        worst.errors = self.errors.T
        return worst

    def with_sides_exchanged(self) -> "_WorstElements":
        """Return the same elements with the expected and the found values exchanged."""
        worst = _WorstElements(*self.errors.shape)
        worst.expected = self.found
        worst.found = self.expected
        worst.errors = self.errors
        return worst

    def take_larger_errors(
        self, cell_of_row: Indices, expected: AnyArray, found: AnyArray, is_relative: bool
    ) -> None:
        """Put elements of some rows into their cells of the map, if no worse one is there.

        A cell with an error of 3 covers new elements with the errors 2, 5 and 4: it takes the element
        with 5. If it had an error of 6, it would keep that.

        Args:
            cell_of_row: The row of cells that each row belongs to, (rows,).
            expected: The rows, (rows, columns).
            found: The same elements of the other side, (rows, columns).
            is_relative: True if errors are divided by the expected magnitude.
        """
        errors = _errors(expected, found, is_relative)  # (rows, columns)
        _, width = errors.shape
        _, cells_across = self.errors.shape
        # 0 0 1 1 for 4 columns in 2 cells:
        cell_of_column = np.arange(width) * cells_across // width
        is_new_maximum = self._are_new_maxima(errors, cell_of_row, cell_of_column)
        rows, columns = np.nonzero(is_new_maximum)
        # If several elements have the new maximum of a cell, the last one stays in all three arrays.
        cells = (cell_of_row[rows], cell_of_column[columns])
        self.expected[cells] = expected.real[rows, columns]
        self.found[cells] = found.real[rows, columns]
        self.errors[cells] = errors[rows, columns]

    def _are_new_maxima(
        self, errors: Floats, cell_of_row: Indices, cell_of_column: Indices
    ) -> Flags:
        """Return True for elements with the largest error of their cell that exceed what it holds.

        Args:
            errors: The errors of some rows, (rows, columns).
            cell_of_row: The row of cells that each row belongs to.
            cell_of_column: The column of cells that each column belongs to.
        """
        cells_down, _ = self.errors.shape
        largest = _largest_in_cells(errors, cell_of_row, cell_of_column, cells_down)
        # A cell that keeps its error gets _NO_ERROR here, which no element has: (cells down, across).
        new_errors = np.where(largest > self.errors, largest, _NO_ERROR)
        new_error_of_element = new_errors[cell_of_row][:, cell_of_column]  # (rows, columns)
        return np.asarray(errors == new_error_of_element)


def _largest_in_cells(
    errors: Floats, cell_of_row: Indices, cell_of_column: Indices, cells_down: int
) -> Floats:
    """Return the largest error of each cell of a map, `_NO_ERROR` for cells without these rows.

    Args:
        errors: The errors of some rows, (rows, columns).
        cell_of_row: The row of cells that each row belongs to.
        cell_of_column: The column of cells that each column belongs to: of 4 columns in 2 cells,
            0 0 1 1. The first columns of the cells are then 0 and 2.
        cells_down: The rows of cells of the whole map.
    """
    first_columns = np.flatnonzero(np.diff(cell_of_column, prepend=-1))
    largest_in_rows = np.maximum.reduceat(errors, first_columns, axis=1)  # (rows, cells across)
    largest = np.full((cells_down, len(first_columns)), _NO_ERROR)
    np.maximum.at(largest, cell_of_row, largest_in_rows)
    return largest


def _errors(expected: AnyArray, found: AnyArray, is_relative: bool) -> Floats:
    """Return the errors of elements, absolute or as shares of the expected magnitude.

    The error of two equal numbers is 0, also if both are 0, ∞ or NaN.
    """
    errors: Floats = absolute_errors(expected, found)[1]
    if not is_relative:
        return errors
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = errors / np.abs(expected)
    # An infinite error is no share of an infinite number, and larger than all others.
    ratios = np.where(np.isnan(ratios), np.inf, ratios)
    return np.where(errors == 0, 0.0, ratios)


def _axis_names(table_name: str, expected: Floats, shape: tuple[int, ...]) -> _AxisNames:
    """Return the names of a table's rows and columns, such as «position» and «pair».

    Args:
        table_name: The name of the table, from which its role follows: cos, bias, slopes.
        expected: The expected values that the map shows. It has fewer columns than the table if
            that is too wide for a picture.
        shape: The shape of the table.
    """
    role = role_of(table_name)  # None for other names
    if _is_vector(shape):
        return _AxisNames(rows="", columns=_VECTOR_ELEMENTS.get(role or "", "element"))
    if _has_queries_and_keys(role, shape):
        return _AxisNames(rows="query", columns="key")
    # Cosines (512, 64) have a column per pair of channels, or two equal ones: one per channel.
    is_wave = role in ("cos", "sin")
    if is_wave and not _shows_doubled_columns(expected, shape[-1]):
        return _AxisNames(rows="position", columns="pair")
    return _AxisNames(rows="position", columns="channel")


def _has_queries_and_keys(role: str | None, shape: tuple[int, ...]) -> bool:
    """Return True for biases of several heads, and for any square matrices: (8, 512, 512)."""
    has_heads = len(shape) > 2
    is_square = shape[-2] == shape[-1]
    return has_heads and (role == "bias" or is_square)


def _shows_doubled_columns(expected: Floats, width: int) -> bool:
    """Return True if a map has all columns of its table, and each of them twice."""
    is_whole_row = expected.shape[1] == width
    return is_whole_row and _has_doubled_columns(expected[-1])


def _has_doubled_columns(row: Floats) -> bool:
    """Return True if a row holds every frequency twice, as halves or interleaved."""
    if len(row) % 2:
        return False
    half = len(row) // 2
    as_halves = np.array_equal(row[:half], row[half:])
    interleaved = np.array_equal(row[0::2], row[1::2])
    return as_halves or interleaved
