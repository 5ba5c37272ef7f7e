"""Errors of tables against an exact one, by position and by frequency, in constant memory."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Array, Floats, Indices, Positions, widened
from pecli.engine.table import ByPosition, results_in_order

DRIFT_BLOCK_ELEMENTS = 1 << 19  #: a few megabytes in every thread
POINTS_PER_DECADE = 24  #: of the curve of errors over positions
MAX_DECADES = 13  #: positions end at 2^40, which is below 10^13


@dataclass
class Drift:
    """The errors of one table, over stretches of positions and by frequency.

    Attributes:
        recipe: The recipe or runtime that computed the table.
        largest: The largest error of each stretch of positions.
        sums: The sum of the errors of each stretch.
        by_frequency: The largest error of each frequency.
        first_beyond: The first position whose error exceeds the tolerance; None if none does.
        first_equal: The first position whose row equals the row before, though the exact rows
            differ; None if there is none.
    """

    recipe: str
    largest: Floats
    sums: Floats
    by_frequency: Floats
    first_beyond: int | None = None
    first_equal: int | None = None

    @property
    def max_abs_error(self) -> float:
        return float(self.largest.max())

    def add_errors(self, errors: "BlockErrors", stretches: Indices, groups: Indices) -> None:
        """Add the errors of a block of rows to those of the stretches and frequencies.

        Args:
            errors: The errors of the block.
            stretches: The stretch of positions to which each row belongs: 0, 0, 1, 2, 2, 2.
            groups: The frequency to which each column belongs.
        """
        # `at` adds up all rows of a stretch; `self.sums[stretches] += …` would keep one of them.
        np.maximum.at(self.largest, stretches, errors.by_row)
        np.add.at(self.sums, stretches, errors.sums)
        np.maximum.at(self.by_frequency, groups, errors.by_column)

    def note_first_positions(
        self, errors: "BlockErrors", positions: Positions, tolerance: float
    ) -> None:
        """Keep the first positions beyond the tolerance, and with a row like the one before.

        Blocks come in the order of positions, so that what an earlier block has found stays.
        """
        is_beyond = errors.by_row > tolerance
        self.first_beyond = _keep_first(self.first_beyond, positions[is_beyond])
        self.first_equal = _keep_first(self.first_equal, positions[errors.repeated_rows])


def _keep_first(first: int | None, positions: Positions) -> int | None:
    """Return the first position that was noted before, or else the first of those in a block, if any."""
    if first is None and positions.size:
        return int(positions[0])
    return first


class ErrorCurve(NamedTuple):
    """Positions, and the largest error around each; NaN if there is no error."""

    positions: Floats
    errors: Floats


@dataclass
class Drifts:
    """The errors of several tables over the same stretches of positions.

    Attributes:
        edges: The first position of each stretch, and the position after the last one.
        tables: The errors of each table.
    """

    edges: Indices
    tables: list[Drift] = field(default_factory=list)

    def add_block(
        self,
        errors_by_table: Sequence["BlockErrors"],
        positions: Positions,
        groups: Indices,
        tolerance: float,
    ) -> None:
        """Add the errors of a block of rows to those of all tables.

        Args:
            errors_by_table: The errors that each table has in the block.
            positions: The position of each row of the block.
            groups: The frequency to which each column belongs.
            tolerance: The error beyond which the first position is kept.
        """
        # With the edges 0, 1, 10, 100, position 42 is in the stretch 2, which begins at 10.
        stretches = np.searchsorted(self.edges, positions, side="right") - 1
        for drift, errors in zip(self.tables, errors_by_table, strict=True):
            drift.add_errors(errors, stretches, groups)
            drift.note_first_positions(errors, positions, tolerance)

    def curve(self, drift: Drift) -> ErrorCurve:
        """Return the largest error of each stretch at its middle, from position 1 on.

        The curve is drawn on a logarithmic scale. There, the middle of 100 … 109 is √(100 · 109), and
        position 0 has no place: it counts as 0.5, and is left out.
        """
        first = np.maximum(self.edges[:-1], 0.5)
        last = np.maximum(self.edges[1:] - 1, 0.5)
        middles = np.sqrt(first * last)
        is_drawn = middles >= 1
        is_error = (drift.largest > 0) & np.isfinite(drift.largest)
        errors = np.where(is_error, drift.largest, np.nan)
        return ErrorCurve(middles[is_drawn], errors[is_drawn])


def measure_drifts(
    exact: ByPosition,
    tables: Mapping[str, ByPosition],
    tolerance: float,
    positions: Positions | range,
    on_block: Callable[[int], None] = lambda count: None,
) -> Drifts:
    """Return the errors of tables against the exact one, by position and by frequency.

    A table may have a million rows. So the largest error is kept for each stretch of positions, such
    as 100 to 109. About 100 stretches are enough to draw a curve.

    Args:
        exact: The exact numbers. Its `groups` have the frequency to which each column belongs.
        tables: Tables to compare with them, by the name of a recipe or runtime.
        tolerance: The first position with a larger error is kept as `first_beyond`.
        positions: The position of each row, in order.
        on_block: Called with the number of positions that were done since its last call.
    """
    last_position = int(positions[-1])
    drifts = _start_with_zero_errors(tables, exact, last_position)
    for block in _measure_blocks(exact, tables.values()):
        positions_of_block = np.asarray(positions[block.rows])
        frequency_of_column = exact.groups
        drifts.add_block(block.errors, positions_of_block, frequency_of_column, tolerance)
        on_block(len(positions_of_block))
    return drifts


def _start_with_zero_errors(names: Iterable[str], exact: ByPosition, last_position: int) -> Drifts:
    """Return the errors of tables before any of their rows were compared, which are all 0."""
    edges = _find_edges(exact.first, last_position + 1)
    return Drifts(edges, [_make_no_errors(name, edges, exact) for name in names])


def _make_no_errors(name: str, edges: Indices, exact: ByPosition) -> Drift:
    """Return the errors of a table before any of its rows were compared."""
    stretches = len(edges) - 1
    return Drift(
        recipe=name,
        largest=np.zeros(stretches),
        sums=np.zeros(stretches),
        by_frequency=np.zeros(len(exact.values)),
    )


def _find_edges(first: int, stop: int) -> Indices:
    """Return the edges of stretches of positions that grow with the position: 0, 1, 2, …, 10, 11, 12, 13, 15, …

    They are even on a logarithmic scale, and 1, 10, 100, … are among them, so that a stretch is in
    one decade.
    """
    count = MAX_DECADES * POINTS_PER_DECADE
    powers = 10.0 ** (np.arange(count + 1) / POINTS_PER_DECADE)
    edges = np.unique(np.rint(powers).astype(np.int64))
    inner = edges[(edges > first) & (edges < stop)]
    return np.concatenate([[first], inner, [stop]])


class BlockErrors(NamedTuple):
    """The errors of some rows of a table.

    Attributes:
        by_row: The largest error of each row.
        sums: The sum of the errors of each row.
        by_column: The largest error of each column.
        repeated_rows: The indices in the block of rows that equal the row before, although the
            exact rows differ.
    """

    by_row: Floats
    sums: Floats
    by_column: Floats
    repeated_rows: Indices


class _MeasuredBlock(NamedTuple):
    """Some rows, and the errors that each table has there."""

    rows: slice
    errors: list[BlockErrors]


def _measure_blocks(exact: ByPosition, tables: Collection[ByPosition]) -> Iterator[_MeasuredBlock]:
    """Yield the errors of tables for a block of rows at a time, in the order of rows.

    Blocks are measured in several threads. A block of 128 columns has 2^19 / 128 = 4,096 rows.
    """
    rows_at_once = max(2, DRIFT_BLOCK_ELEMENTS // max(1, len(exact.groups)))

    def measure(start: int) -> _MeasuredBlock:
        stop = min(start + rows_at_once, exact.count)
        return _MeasuredBlock(slice(start, stop), _measure_block(exact, tables, start, stop))

    yield from results_in_order(measure, range(0, exact.count, rows_at_once))


def _measure_block(
    exact: ByPosition, tables: Iterable[ByPosition], start: int, stop: int
) -> list[BlockErrors]:
    """Return the errors of each table in a block of rows, from `start` up to `stop`.

    One row more is read, that before the block: the first row of the block is compared with it as
    well, to find rows that repeat the one before.
    """
    first_read = max(start - 1, 0)
    rows_before = start - first_read  # 1, or 0 at the beginning of the tables
    exact_rows = exact.read(first_read, stop)
    return [
        _measure_rows(table.read(first_read, stop), exact_rows, rows_before) for table in tables
    ]


def _measure_rows(rows: Array, exact_rows: Array, rows_before: int) -> BlockErrors:
    """Return the errors |rows − exact_rows| in a block of a table: the largest by row and by column.

    The result also has the rows that repeat the one before by mistake: in bfloat16, the row of
    position 257 is that of 256. To find one at the start of a block, the row before the block is given.

    Args:
        rows: The row before the block, if there is one, and then the rows of the block.
        exact_rows: The same rows of the exact table.
        rows_before: 1, or 0 if the block is the beginning of a table.
    """
    error = _measure_absolute_errors(rows[rows_before:], exact_rows[rows_before:])
    repeated_rows = _find_repeated_rows(rows, exact_rows) - rows_before
    return _summarise_errors(error, repeated_rows)


def _summarise_errors(error: Array, repeated_rows: Indices) -> BlockErrors:
    """Return the largest errors of the rows and columns of a block, and the sum of each row.

    Args:
        error: The error of each element, (rows, columns); NaN counts as infinity.
        repeated_rows: The rows that equal the row before by mistake.
    """
    by_column = error.max(axis=0)
    # The largest errors are NaN if any is, and take less time to look at than all of them.
    if np.isnan(by_column).any():
        error = np.where(np.isnan(error), np.inf, error)
        by_column = error.max(axis=0)
    return BlockErrors(
        by_row=error.max(axis=1).astype(np.float64),
        sums=error.sum(axis=1, dtype=np.float64),
        by_column=by_column,
        repeated_rows=repeated_rows,
    )


def _measure_absolute_errors(table: Array, exact: Array) -> Array:
    """Return |table − exact|.

    If both are float32, so is the difference: that of close floats has no rounding error.
    """
    error: Array
    if table.dtype == exact.dtype == np.float32:
        error = np.subtract(table, exact)
    else:
        error = widened(table) - widened(exact)
    np.abs(error, out=error)
    return error


def _find_repeated_rows(table: Array, exact: Array) -> Indices:
    """Return the indices of rows that equal the row before, but not in the exact table.

    Of the rows of positions 255, 256, 257, it is the last if positions are rounded to bfloat16,
    which cannot hold 257.
    """
    # Most rows differ from the next one in their first number, so that few are read in full.
    candidates = np.flatnonzero(table[:-1, 0] == table[1:, 0])
    are_equal = (table[candidates] == table[candidates + 1]).all(axis=1)
    equal_to_next = candidates[are_equal]
    should_differ = (exact[equal_to_next] != exact[equal_to_next + 1]).any(axis=1)
    repeated: Indices = equal_to_next[should_differ] + 1
    return repeated
