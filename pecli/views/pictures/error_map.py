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
from pecli.compare.part import Part, slabs
from pecli.compare.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Floats, Indices, absolute_errors, widest
from pecli.files.tensor_roles import role_of
from pecli.views.pictures.panels import Place

MAX_ROWS = 192  #: Rows of a map; a figure has as many pixels for each of three maps.
MAX_COLUMNS = 192
MAX_POINTS = 4096  #: Elements of a vector that are drawn.


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
    layers: int = 1  #: Matrices over which a cell is the worst: heads, copies.

    @property
    def is_vector(self) -> bool:
        return not self.rows

    @property
    def worst(self) -> Place:
        """The middle of the cell with the largest error, in rows and columns of the table.

        Of 8192 rows in 192 cells, cell 85 stands for the rows 3627 to 3669.
        """
        errors = np.where(np.isnan(self.errors), np.inf, self.errors)
        cell_row, cell_column = np.unravel_index(np.argmax(errors), errors.shape)
        cells_down, cells_across = errors.shape
        height, width = self.shape
        row = (float(cell_row) + 0.5) * height / cells_down - 0.5
        column = (float(cell_column) + 0.5) * width / cells_across - 0.5
        return Place(row, column)

    @property
    def tolerance(self) -> float:
        """The largest error that passes, if it is the same for all elements; otherwise 0."""
        has_both = self.allowed.atol > 0 and self.allowed.rtol > 0
        if has_both or self.allowed.max_ulp > 0:
            return 0.0
        return self.allowed.atol or self.allowed.rtol


def error_maps(
    result: Comparison, rows: int = MAX_ROWS, columns: int = MAX_COLUMNS
) -> Iterator[ErrorMap]:
    """Yield the tables of a tensor that has errors: one, or cosines and sines."""
    if result.worst_index is None:
        return
    parts_by_name: dict[str, list[Part]] = {}
    for part in result.parts:
        parts_by_name.setdefault(part.name or result.name, []).append(part)
    if len(parts_by_name) == 1:
        (parts,) = parts_by_name.values()
        yield _error_map(result.name, result.name, parts, result, _Cells(rows, columns))
        return
    for name, parts in parts_by_name.items():
        label = f"{result.name}: {name}"
        yield _error_map(label, name, parts, result, _Cells(rows, columns))


class _Cells(NamedTuple):
    """The most rows and columns of a map."""

    rows: int
    columns: int


def _error_map(
    label: str, table_name: str, parts: Sequence[Part], result: Comparison, most: _Cells
) -> ErrorMap:
    """Return a map of a table's errors: a grid of cells, each with the worst element that it covers.

    A table of 4,096 × 128 is drawn with fewer cells than elements, and no error may disappear in a
    mean. Tolerances decide whether errors are absolute or relative to the expected values.

    Args:
        label: Its name in the picture.
        table_name: Its own name, such as cos, which decides the names of its axes.
        parts: The arrays that were compared as this table, of the same shape: heads, for example.
        result: The comparison that they belong to.
        most: The most rows and columns of the map.
    """
    shape = parts[0].expected.shape
    is_relative = result.allowed.rtol > 0 and not result.allowed.atol
    if len(shape) < 2:  # A vector is drawn as a row.
        height = 1
        width = math.prod(shape)
        worst = _worst_elements(parts, _Cells(MAX_POINTS, 1), is_relative).transposed()
    else:
        height, width = shape[-2:]
        worst = _worst_elements(parts, most, is_relative)
    expected = worst.expected
    found = worst.found
    if result.sides_swapped:
        expected, found = found, expected
    row_name, column_name = _axis_names(table_name, expected, shape)
    return ErrorMap(
        label,
        (height, width),
        expected,
        found,
        worst.errors,
        result.allowed,
        is_relative,
        row_name,
        column_name,
        _count_layers(parts, result),
    )


def _worst_elements(parts: Sequence[Part], most: _Cells, is_relative: bool) -> "_WorstElements":
    """Return the worst element of each cell of a map.

    Arrays may be larger than memory: they are read in slabs, which are some consecutive rows. Row r
    of `height` rows belongs to the row r · cell_rows // height of cells. A vector is read as a
    column: one row per element.

    Args:
        parts: The arrays that were compared as one table; each may have copies, such as heads that
            all hold the same table.
        most: The most rows and columns of the map.
        is_relative: True if errors are divided by the expected magnitude.
    """
    shape = parts[0].expected.shape
    height = math.prod(shape)
    width = 1
    if len(shape) > 1:
        height, width = shape[-2:]
    cell_rows = min(height, most.rows)
    worst = _WorstElements(cell_rows, min(width, most.columns))
    for part in parts:
        for slab in slabs(shape[:-1] or shape, max(1, READ_BYTES // (8 * width))):
            expected = widest(part.rows(slab)).reshape(slab.length, width)
            rows = np.arange(slab.start, slab.start + slab.length) % height
            rows_to_cells = rows * cell_rows // height
            for copy in np.ndindex(part.copies):
                found = widest(part.decoded(part.found[(*copy, *slab.at)]))
                found = found.reshape(slab.length, width)
                worst.add(rows_to_cells, expected, found, is_relative)
    return worst


def _count_layers(parts: Sequence[Part], result: Comparison) -> int:
    """Return over how many matrices a cell is the worst."""
    row_length = math.prod(result.shape[-1:])
    layers = len(parts) * math.prod(parts[0].expected.shape[:-2])
    for size, step in zip(parts[0].copies, parts[0].view.steps, strict=False):
        if step >= row_length:  # Copies within a row are doubled columns.
            layers *= size
    return layers


class _WorstElements:
    """The element that is farthest off, cell by cell."""

    def __init__(self, rows: int, columns: int) -> None:
        # An error of −1 is less than any, so that the first element of each cell is kept.
        self.expected = np.full((rows, columns), -1.0)
        self.found = np.full((rows, columns), -1.0)
        self.errors = np.full((rows, columns), -1.0)

    def transposed(self) -> "_WorstElements":
        """Return the same elements with rows and columns exchanged."""
        columns, rows = self.errors.shape
        worst = _WorstElements(rows, columns)
        worst.expected = self.expected.T
        worst.found = self.found.T
        worst.errors = self.errors.T
        return worst

    def add(
        self, rows_to_cells: Indices, expected: AnyArray, found: AnyArray, is_relative: bool
    ) -> None:
        """Keep the elements of a slab (some rows) that are farther off than those in their cells.

        A cell of the map covers many elements, and keeps the worst. First the largest error of each
        cell is found, then the elements that have it: those whose error equals it. If several do,
        any of them is kept.

        Args:
            rows_to_cells: The row of cells that each row of the slab belongs to.
            expected: The slab, rows by columns.
            found: The same elements of the other side.
            is_relative: True if errors are divided by the expected magnitude.
        """
        errors = _errors(expected, found, is_relative)
        width = expected.shape[1]
        columns_to_cells = np.arange(width) * self.errors.shape[1] // width
        first_columns = np.flatnonzero(np.diff(columns_to_cells, prepend=-1))
        largest_in_row = np.maximum.reduceat(errors, first_columns, axis=1)
        largest = np.full(self.errors.shape, -1.0)
        np.maximum.at(largest, rows_to_cells, largest_in_row)
        largest[largest <= self.errors] = np.nan  # Nothing equals NaN, so these cells stay.
        rows, columns = np.nonzero(errors == largest[rows_to_cells][:, columns_to_cells])
        cells = rows_to_cells[rows], columns_to_cells[columns]
        self.expected[cells] = expected.real[rows, columns]
        self.found[cells] = found.real[rows, columns]
        self.errors[cells] = errors[rows, columns]


def _errors(expected: AnyArray, found: AnyArray, is_relative: bool) -> Floats:
    """Return the errors of elements; a relative one is 0 if both sides are 0."""
    errors: Floats = absolute_errors(expected, found)[1]
    if not is_relative:
        return errors
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(errors == 0, 0.0, errors / np.abs(expected))


def _axis_names(name: str, expected: Floats, shape: tuple[int, ...]) -> tuple[str, str]:
    """Return the names of rows and columns, by the name of the table and its values."""
    role = role_of(name)
    if len(shape) < 2:
        return "", {"inv_freq": "pair", "slopes": "head"}.get(role or "", "element")
    if len(shape) > 2 and (role == "bias" or shape[-2] == shape[-1]):
        return "query", "key"
    if role not in ("cos", "sin"):
        return "position", "channel"
    is_whole_row = expected.shape[1] == shape[-1]
    if is_whole_row and _has_doubled_columns(expected[-1]):
        return "position", "channel"
    return "position", "pair"


def _has_doubled_columns(row: Floats) -> bool:
    """Return True if a row holds every frequency twice, as halves or interleaved."""
    if len(row) % 2:
        return False
    half = len(row) // 2
    as_halves = np.array_equal(row[:half], row[half:])
    interleaved = np.array_equal(row[0::2], row[1::2])
    return as_halves or interleaved
