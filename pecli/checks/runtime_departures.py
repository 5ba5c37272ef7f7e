"""The distance of a runtime's tables from those that a model defines.

Departures are compared exactly: the parameters as the runtime reads them against the model's. The
tables that it computes contain the rounding of its arithmetic as well.
"""

from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from pecli.checks.position_errors import Drift, ErrorCurve, measure_drifts
from pecli.engine.arrays import Array, Positions, widened
from pecli.engine.schemes.rope import Rope, as_read_by_runtime, tables_at
from pecli.engine.table import ByPosition

DENSE_POSITIONS = 8192  #: positions that are all compared, from the first on
PER_DOUBLING = 256  #: positions that are compared beyond those, each time the position doubles


ROUNDED = "rounded"
"""The tables as a runtime computes them: parameters as it reads them, in its float32 arithmetic."""
UNROUNDED = "unrounded"
"""The exact tables of the parameters as a runtime reads them."""


class Departure(NamedTuple):
    """The error that comes from reading parameters differently, without that of the arithmetic.

    Attributes:
        max_abs_error: The largest error.
        first_beyond: The first position whose error exceeds the tolerance; None if none does.
        pairs: The first and the last rotary pair whose error does; None if none does.
    """

    max_abs_error: float = 0.0
    first_beyond: int | None = None
    pairs: tuple[int, int] | None = None


class _MeasuredTables(NamedTuple):
    """The errors of a runtime's tables against those that a model defines, at a sample of positions.

    Attributes:
        rounded: The errors of the tables as the runtime computes them, in float32.
        unrounded: The errors of exact tables of the parameters as the runtime reads them; None if it
            reads them as the model defines them.
        curve: The errors in `rounded` over positions.
    """

    rounded: Drift
    unrounded: Drift | None
    curve: ErrorCurve


class RuntimeErrors(NamedTuple):
    """The errors of a runtime: of what it computes, and of how it reads the parameters."""

    max_abs_error: float
    curve: ErrorCurve
    departure: Departure


def measure_runtime(
    defined: Rope, computed: Rope, count: int, tolerance: float, *, misreads_parameters: bool
) -> RuntimeErrors:
    """Return the errors of a runtime's cosines and sines, at some of the first `count` positions.

    A runtime errs because its float32 arithmetic rounds, or because it misreads a parameter: it may
    ignore a scaling. Its departure is the second error by itself, without any rounding.

    Args:
        defined: The scheme that the model defines.
        computed: The same scheme as the runtime computes it.
        count: The number of positions.
        tolerance: The largest absolute error that a position may have.
        misreads_parameters: True if the runtime misreads parameters, so that it has a departure.
    """
    errors = _compare_tables(
        defined, computed, count, tolerance, misreads_parameters=misreads_parameters
    )
    departure = Departure()  # none
    if errors.unrounded is not None:  # It is there if `misreads_parameters`.
        misread = as_read_by_runtime(computed)  # the scheme without the rounding of the runtime
        departure = _locate_departure(errors.unrounded, defined, misread, count, tolerance)
    return RuntimeErrors(
        max_abs_error=errors.rounded.max_abs_error, curve=errors.curve, departure=departure
    )


def _locate_departure(
    errors: Drift, defined: Rope, misread: Rope, count: int, tolerance: float
) -> Departure:
    """Return the largest error of misread parameters, and where errors exceed the tolerance.

    If a runtime ignores a scaling of the slow frequencies, these may be the pairs 20 to 63, from
    position 1,024 on.

    Args:
        errors: The errors of exact tables of these parameters at a sample of positions: all up to
            8191, and 256 per doubling beyond.
        defined: The scheme that the model defines.
        misread: The same scheme with the parameters as a runtime reads them.
        count: The number of positions.
        tolerance: The largest absolute error that a position may have.
    """
    first_in_sample = errors.first_beyond
    if first_in_sample is None:
        return Departure(max_abs_error=errors.max_abs_error)  # All errors are within the tolerance.
    wrong_pairs = np.flatnonzero(errors.by_frequency > tolerance).tolist()
    # The sample may have left out an earlier position that is wrong.
    first_position = _find_first_beyond(first_in_sample, defined, misread, count, tolerance)
    return Departure(
        max_abs_error=errors.max_abs_error,
        first_beyond=first_position,
        pairs=(wrong_pairs[0], wrong_pairs[-1]),
    )


def _find_first_beyond(
    first: int, defined: Rope, misread: Rope, count: int, tolerance: float
) -> int:
    """Return the first position beyond the tolerance, by comparing those that were skipped before it.

    If 16,000 was compared and passed, and 16,044 was the next and failed, all from 16,000 to 16,044
    are compared.

    Args:
        first: The first compared position that is beyond the tolerance.
        defined: The scheme that the model defines.
        misread: The same scheme with the parameters as a runtime reads them.
        count: The number of positions, on which it depends which were skipped.
        tolerance: The largest absolute error that a position may have.
    """
    positions = compared_positions(count)
    index = int(np.searchsorted(positions, first))
    last_right = positions[max(index - 1, 0)]
    between = np.arange(last_right, first + 1, dtype=np.int64)
    error = widened(_make_all_rows(misread, between)) - widened(_make_all_rows(defined, between))
    is_beyond = np.abs(error).max(axis=1) > tolerance
    return int(between[np.argmax(is_beyond)])


@lru_cache(maxsize=8)
def _compare_tables(
    defined: Rope, computed: Rope, count: int, tolerance: float, *, misreads_parameters: bool
) -> _MeasuredTables:
    """Return the errors of a runtime's tables at a sample of positions, with and without its rounding.

    If the runtime reads all parameters right, its tables have no error without the rounding: only
    those with rounding are compared. The result is remembered, as runtimes often compute the same.

    Args:
        defined: The scheme that the model defines.
        computed: The scheme as the runtime computes it, in its own arithmetic.
        count: The number of positions, of which a sample is compared.
        tolerance: The largest absolute error that a position may have.
        misreads_parameters: True if the runtime ignores a scaling, for example.
    """
    exact = _make_exact_rows(defined, count)
    positions = compared_positions(count)
    tables = {ROUNDED: _make_rows(computed, positions)}
    if misreads_parameters:
        # The same wrong parameters in exact arithmetic: the errors that remain come from misreading.
        misread = as_read_by_runtime(computed)
        tables[UNROUNDED] = _make_rows(misread, positions)
    errors = measure_drifts(exact, tables, tolerance, positions)
    errors_by_table = {table.recipe: table for table in errors.tables}
    rounded = errors_by_table[ROUNDED]
    return _MeasuredTables(
        rounded=rounded,
        unrounded=errors_by_table.get(UNROUNDED),
        curve=errors.curve(rounded),
    )


def compared_positions(count: int) -> Positions:
    """Return the first positions, some of the others, and the last.

    Of 16,384 positions: 0 … 8191, then 8192 · 2^(k/256) rounded down for k = 1 … 255, then 16383.
    """
    near = np.arange(min(count, DENSE_POSITIONS), dtype=np.int64)
    doublings = max(0.0, np.log2(count / DENSE_POSITIONS))
    steps = np.arange(1, np.ceil(doublings * PER_DOUBLING))
    far = DENSE_POSITIONS * 2.0 ** (steps / PER_DOUBLING)
    return np.unique(np.concatenate([near, far.astype(np.int64), [count - 1]]))


@lru_cache(maxsize=1)
def _make_exact_rows(defined: Rope, count: int) -> ByPosition:
    """Return the rows that all runtimes are compared with, computed once."""
    positions = compared_positions(count)
    exact = _make_all_rows(defined, positions)
    return replace(_make_rows(defined, positions), read=lambda start, stop: exact[start:stop])


def _make_all_rows(rope: Rope, positions: Positions) -> Array:
    return _make_rows(rope, positions).read(0, len(positions))


def _make_rows(rope: Rope, positions: Positions) -> ByPosition:
    """Return cosines and sines side by side, with a row for each position.

    64 frequencies make 128 columns, of which columns 0 and 64 belong to the first frequency.
    """
    frequencies = list(rope.angular_frequencies())
    groups = np.tile(np.arange(len(frequencies)), 2)
    tables = tables_at(rope, positions)

    def read(start: int, stop: int) -> Array:
        return np.concatenate([table.read(start, stop) for table in tables], axis=1)

    return ByPosition(
        first=0,
        count=len(positions),
        kind="frequencies",
        values=frequencies,
        groups=groups,
        read=read,
    )
