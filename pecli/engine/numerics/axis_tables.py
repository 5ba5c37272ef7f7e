"""Exact tables of cos and sin at any positions, along one axis or several.

Positions may be any rational numbers. Those that are multiples of one unit, such as 1/256, are
integers times waves of that unit, so that the code for integers serves them as well; the sine of a
negative position is minus the sine of the positive one.

Most tables have few different coordinates along each axis: a grid of 64 x 64 points has 4,096 rows
and 64 values per axis. A small table is made of the values, and rows are gathered from it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial

import numpy as np

from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.numerics.correct_rounding import rounded_elements
from pecli.engine.numerics.cos_sin_tables import ExactFiller
from pecli.engine.numerics.phases import ExactWaves

_MAX_UNITS = 1 << 63
"""A position is below so many units, so that their number fits 64 bits."""
_EXPONENT_STEP = 8
"""Denominators 2**e are raised to 2**8, 2**16, …, so that floats form few groups."""
_CHUNK = 1 << 13
"""Elements computed at once, so that intermediate arrays stay in the cache."""
_MAX_SPREAD = 4
"""Integers that fill at least a quarter of their range are made as a range."""
_MIN_RUN = 256
"""Consecutive integers that are worth a range of their own, before positions far apart."""
_MAX_KEPT = 1 << 22
"""Elements of a small table that is made once for all blocks, at most."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The positions of rows along some axes.

    Attributes:
        values: The different positions of each axis.
        rows: The number of rows.
        index: `index(start, stop)` returns, for each axis and row, the index of its value, as an
            array (axes, stop − start).
    """

    values: tuple[Sequence[int | Fraction], ...]
    rows: int
    index: Callable[[int, int], Indices]


def listed_coordinates(axes: Sequence[Sequence[int | Fraction]]) -> Coordinates:
    """Return the coordinates of positions that are given one by one: (axes, L).

    One axis with the positions 7, 0, 7 has the different values 0 and 7, and its rows have the
    indices 1, 0, 1.
    """
    values_by_axis = []
    indices_by_axis = []
    for positions in axes:
        distinct = sorted(set(positions))
        index_of_value = {value: index for index, value in enumerate(distinct)}
        values_by_axis.append(distinct)
        indices_by_axis.append([index_of_value[position] for position in positions])
    all_indices = np.array(indices_by_axis, np.intp)  # (axes, L)

    def indices_of_rows(start: int, stop: int) -> Indices:
        return all_indices[:, start:stop]

    return Coordinates(tuple(values_by_axis), all_indices.shape[1], indices_of_rows)


def picked_rows(coordinates: Coordinates, rows: Indices) -> Coordinates:
    """Return the coordinates of some rows, in this order.

    Rows at the positions 7, 0, 7, of which the rows 1 and 2 are picked, are then at 0 and 7.
    """
    index_of_row = coordinates.index(0, coordinates.rows)  # (axes, rows)
    picked_indices = index_of_row[:, rows]

    def indices_of_rows(start: int, stop: int) -> Indices:
        return picked_indices[:, start:stop]

    return Coordinates(coordinates.values, len(rows), indices_of_rows)


class AxisFiller:
    """Makes rows of cos and sin tables in which each wave follows one axis of coordinates.

    A wave is one frequency: the cosine or sine of position · frequency is a column of the table.
    """

    def __init__(
        self,
        make_waves: Callable[[Fraction], ExactWaves],
        axis_of_wave: Sequence[int],
        coordinates: Coordinates,
    ) -> None:
        """Keep the arguments; nothing is computed before the first `fill`.

        Args:
            make_waves: `make_waves(unit)` returns the frequencies for positions that are counted in
                a unit. With the unit 1/256, position 3/4 counts as 192, and the frequencies are
                1/256 of those for the unit 1.
            axis_of_wave: The axis whose positions each frequency is multiplied by: 0 0 1 1 1 if two
                frequencies follow axis 0, and three follow axis 1.
            coordinates: The positions of the rows on each axis.
        """
        self._coordinates = coordinates
        self._waves_of_axes = _waves_of_axes(axis_of_wave, axis_count=len(coordinates.values))
        # The next two take long to compute, and are needed again for every block of rows.
        self._cached_waves = cache(make_waves)
        self._cached_table_of_axis = cache(self._table_of_axis)
        # A few roundings need more bits, with which this makes the frequencies again.
        self._make_waves = make_waves

    def fill(self, functions: str, first: int, out: Array, dtype: str) -> None:
        """Write rows first, first + 1, … of the table into `out`.

        A row is a point with a position on each axis: (row 3, column 5) of an image. A column is
        the cosine or sine of a frequency times the position on one of the axes.

        Args:
            functions: "cos" or "sin" for one column per frequency, "cos,sin" or "sin,cos" for two
                columns by turns.
            first: The number of the first row.
            out: The rows to fill.
            dtype: The name of the dtype of `out`.
        """
        value_indices = self._coordinates.index(first, first + len(out))  # (axes, rows)
        names = functions.split(",")
        for place, function in enumerate(names):
            columns = out[:, place :: len(names)]
            self._fill_function(function, value_indices, columns, dtype)

    def _fill_function(self, function: str, value_indices: Indices, out: Array, dtype: str) -> None:
        """Write the cosines, or the sines, of some rows: one column per wave (a frequency).

        Args:
            function: "cos" or "sin".
            value_indices: The positions on each axis (axes, rows), as indices of its values.
            out: The array to fill (rows, waves). In a table of cosines and sines with an odd number
                of columns, the last wave has no sine, so that its column is missing here.
            dtype: The name of the dtype of `out`.
        """
        wave_count = out.shape[1]
        for axis, waves_of_axis in enumerate(self._waves_of_axes):
            waves = waves_of_axis[waves_of_axis < wave_count]
            rows = self._rows_on_axis(function, axis, value_indices[axis], dtype)
            out[:, _as_slice(waves)] = rows[:, : len(waves)]  # Waves are in ascending order.

    def _rows_on_axis(self, function: str, axis: int, value_indices: Indices, dtype: str) -> Array:
        """Return "cos" or "sin" of the waves of an axis at some of its values, a row each.

        If the axis has the values 0, 5 and 9, the indices 2, 0, 2 stand for rows of 9, 0 and 9.
        Each value is computed once, in a small table from which the rows are gathered.
        """
        if self._is_table_kept(axis):
            table_of_axis = self._cached_table_of_axis(function, axis, dtype)
            return table_of_axis[value_indices]
        different_indices, places = np.unique(value_indices, return_inverse=True)
        values = self._coordinates.values[axis]
        different_values = [values[index] for index in different_indices]
        table = self.table(function, different_values, self._waves_of_axes[axis], dtype)
        return table[places]

    def _is_table_kept(self, axis: int) -> bool:
        """Return True if a table of all values of an axis is worth its memory.

        It is if most rows repeat a value: a grid of 64 x 64 points has 4,096 rows and 64 values per
        axis. Otherwise, or if the table is large, rows are computed when they are needed.
        """
        value_count = len(self._coordinates.values[axis])
        is_repeated = 2 * value_count <= self._coordinates.rows
        return is_repeated and value_count * len(self._waves_of_axes[axis]) <= _MAX_KEPT

    def _table_of_axis(self, function: str, axis: int, dtype: str) -> Array:
        """Return "cos" or "sin" of the waves of an axis, one row per different position on it."""
        values = self._coordinates.values[axis]
        return self.table(function, values, self._waves_of_axes[axis], dtype)

    def table(
        self, function: str, positions: Sequence[int | Fraction], wave_indices: Indices, dtype: str
    ) -> Array:
        """Return a table of cosines or sines: a row per position, a column per frequency.

        Integers close together are rows of one range, which is fast: all of them, or a long run at
        the beginning, such as 0 … 8191 before 10,000 and 20,000. Other positions are computed row
        by row.

        Args:
            function: "cos" or "sin".
            positions: Any rational numbers, also negative ones.
            wave_indices: The indices of the frequencies.
            dtype: The dtype of the table.
        """
        if _are_close_integers(positions):
            return self._from_range(function, positions, wave_indices, dtype)
        run_length = _first_run(positions)
        if run_length < _MIN_RUN:
            return self._at_rational_positions(function, positions, wave_indices, dtype)
        run = positions[:run_length]
        others = positions[run_length:]
        out = np.empty((len(positions), len(wave_indices)), numpy_dtype(dtype))
        out[:run_length] = self._from_range(function, run, wave_indices, dtype)
        out[run_length:] = self._at_rational_positions(function, others, wave_indices, dtype)
        return out

    def _at_rational_positions(
        self, function: str, positions: Sequence[int | Fraction], wave_indices: Indices, dtype: str
    ) -> Array:
        """Return cosines or sines at any rational positions: a row per position.

        Every position is a whole number of units: 3/4 is 192 units of 1/256. The rows of one unit
        are made together, because the frequencies for a unit take long to compute.

        Args:
            function: "cos" or "sin".
            positions: The positions, also negative ones.
            wave_indices: The indices of the frequencies, one per column.
            dtype: The dtype of the result.
        """
        out = np.empty((len(positions), len(wave_indices)), numpy_dtype(dtype))
        for unit, rows in _rows_by_unit(positions).items():
            distances = [abs(positions[row]) for row in rows]
            unit_counts = [_count_units(distance, unit) for distance in distances]
            out[rows] = self._at_unit_counts(function, unit, unit_counts, wave_indices, dtype)
        if function == "sin":  # sin(−x) = −sin(x), and cos(−x) = cos(x)
            is_negative = np.array([position < 0 for position in positions], bool)
            out[is_negative] = -out[is_negative]
        return out

    def _from_range(
        self, function: str, positions: Sequence[int | Fraction], wave_indices: Indices, dtype: str
    ) -> Array:
        """Return rows of cosines or sines, gathered from a table of all integers in their range.

        Consecutive integers are computed many times faster than single ones. For the positions 2,
        5 and 3, the range has the rows 2, 3, 4, 5, of which 0, 3 and 1 are returned.
        """
        lowest = int(min(positions))
        range_length = int(max(positions)) - lowest + 1
        wave_count = sum(map(len, self._waves_of_axes))
        range_table = np.empty((range_length, wave_count), numpy_dtype(dtype))
        self._range_filler.fill(function, lowest, range_table, dtype)
        rows = np.array(positions, np.int64) - lowest
        return range_table[rows][:, wave_indices]

    def _at_unit_counts(
        self, function: str, unit: Fraction, counts: list[int], wave_indices: Indices, dtype: str
    ) -> Array:
        """Return cosines or sines at some numbers of units: a row per number.

        Position 3/4 is 192 units of 1/256. Its angle is 192 times a frequency per unit, an integer
        times a number, as that of position 192 in other tables.

        Args:
            function: "cos" or "sin".
            unit: The unit, such as 1/256.
            counts: The numbers of units, from 0 on.
            wave_indices: The indices of the frequencies, one per column.
            dtype: The dtype of the result.
        """
        frequencies_per_unit = self._cached_waves(unit)
        remake_with_more_bits = partial(self._make_waves, unit)
        out = np.empty((len(counts), len(wave_indices)), numpy_dtype(dtype))
        is_sine = np.array([[function == "sin"]])  # (1, 1): the same for all elements
        for rows in _blocks_in_cache(len(counts), len(wave_indices)):
            out[rows] = rounded_elements(
                frequencies_per_unit,
                remake_with_more_bits,
                positions=np.array(counts[rows], np.uint64)[:, None],  # (rows, 1)
                wave_indices=wave_indices[None, :],  # (1, columns)
                is_sine=is_sine,
                dtype=dtype,
            )
        return out

    @cached_property
    def _range_filler(self) -> ExactFiller:
        return ExactFiller(partial(self._make_waves, Fraction(1)), self._coordinates.rows)


def _waves_of_axes(axis_of_wave: Sequence[int], axis_count: int) -> list[Indices]:
    """Return the indices of the waves that follow each axis.

    >>> [waves.tolist() for waves in _waves_of_axes([0, 0, 1, 1, 1], axis_count=2)]
    [[0, 1], [2, 3, 4]]
    """
    axes = np.array(axis_of_wave)
    return [np.flatnonzero(axes == axis) for axis in range(axis_count)]


def _blocks_in_cache(row_count: int, column_count: int) -> Iterator[slice]:
    """Yield blocks of rows, each with so few elements that the processor's cache holds them.

    >>> [*_blocks_in_cache(5, column_count=4096)]
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    rows_per_block = max(1, _CHUNK // max(1, column_count))
    for start in range(0, row_count, rows_per_block):
        yield slice(start, start + rows_per_block)


def _as_slice(indices: Indices) -> slice | Indices:
    """Return consecutive indices as a slice, whose columns NumPy copies ten times as fast.

    [3, 4, 5] is 3:6. [0, 3, 6], as interleaved M-RoPE has, stays as it is.
    """
    count = len(indices)
    if count and indices[-1] - indices[0] == count - 1:
        return slice(int(indices[0]), int(indices[0]) + count)
    return indices


def _are_close_integers(positions: Sequence[int | Fraction]) -> bool:
    """Return True for integers that fill enough of their range to compute all of it."""
    if not positions:
        return False
    if not all(map(_is_natural, positions)):
        return False
    return int(max(positions)) - int(min(positions)) < _MAX_SPREAD * len(positions)


def _is_natural(position: int | Fraction) -> bool:
    """Return True for an integer of 0 or more."""
    return position >= 0 and position.denominator == 1


def _first_run(positions: Sequence[int | Fraction]) -> int:
    """Return how many positions, from the first on, are consecutive integers of 0 or more.

    >>> _first_run([5, 6, 7, 100, 101])
    3
    """
    for index, position in enumerate(positions):
        is_next = position == positions[0] + index
        if not is_next or not _is_natural(position):
            return index
    return len(positions)


def _rows_by_unit(positions: Sequence[int | Fraction]) -> dict[Fraction, Indices]:
    """Return the rows of a table by the unit of their positions, which are multiples of it.

    0.5 and 0.75 are multiples of 1/256, 3 is one of 1, 2/3 one of 1/3. A position of 2**63 units or
    more, such as 2**39 + 2**-40, is a unit by itself.
    """
    rows_of_unit: dict[tuple[int, int], list[int]] = {}
    for row, position in enumerate(positions):
        unit = _unit_of_position(position)
        rows_of_unit.setdefault(unit, []).append(row)
    return {Fraction(*unit): np.array(rows, np.intp) for unit, rows in rows_of_unit.items()}


def _count_units(distance: int | Fraction, unit: Fraction) -> int:
    """Return how many units a distance from 0 is: 192 for 3/4 and a unit of 1/256."""
    return int(distance * unit.denominator) // unit.numerator


def _unit_of_position(position: int | Fraction) -> tuple[int, int]:
    """Return the unit of which a position is a multiple, as (numerator, denominator).

    cos(position · frequency) is computed as cos(n · (unit · frequency)) with the integer n. The
    numbers in brackets take long to compute, for every unit anew, so that positions should share
    their units: 1/2, 3/4 and 5/128 all have 1/256.

    The result is a pair because making fractions takes time.

    >>> _unit_of_position(Fraction(3, 4)), _unit_of_position(Fraction(2, 3))
    ((1, 256), (1, 3))
    """
    numerator = abs(position.numerator)
    denominator = position.denominator
    unit_denominator = _common_denominator(denominator)
    multiple = numerator * unit_denominator // denominator
    if multiple < _MAX_UNITS:
        return 1, unit_denominator
    # The multiple would not fit into an integer of 64 bits: the position is a unit by itself.
    return numerator, denominator


def _common_denominator(denominator: int) -> int:
    """Return a multiple of a denominator, which many positions have in common.

    Denominators of floats are powers of two, 2**e, and are raised to 2**8, 2**16, 2**24, …. Others
    stay as they are.

    >>> _common_denominator(2) == _common_denominator(64) == 2**8
    True
    >>> _common_denominator(2**59) == 2**64, _common_denominator(3)
    (True, 3)
    """
    is_power_of_two = denominator & (denominator - 1) == 0
    if not is_power_of_two:
        return denominator
    exponent = denominator.bit_length() - 1
    steps = math.ceil(exponent / _EXPONENT_STEP)
    return 1 << (steps * _EXPONENT_STEP)
