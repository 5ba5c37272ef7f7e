"""Exact tables of cos and sin at any positions, along one axis or several.

Positions may be any rational numbers. Those that are multiples of one unit, such as 1/256, are
integers times waves of that unit, so that the code for integers serves them as well; the sine of a
negative position is minus the sine of the positive one.

Most tables have few different coordinates along each axis: a grid of 64 x 64 points has 4,096 rows
and 64 values per axis. A small table is made of the values, and rows are gathered from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial

import numpy as np

from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.numerics.correct_rounding import round_waves
from pecli.engine.numerics.cos_sin_tables import ExactFiller
from pecli.engine.numerics.phases import ExactWaves

_MAX_NUMERATOR = 1 << 63
_EXPONENT_STEP = 8
"""Denominators 2**e are raised to 2**8, 2**16, …, so that floats form few groups."""
_CHUNK = 1 << 13
"""Elements computed at once, so that intermediate arrays stay in the cache."""
_MAX_SPREAD = 4
"""Integers that fill at least a quarter of their range are made as a range."""
_MAX_SHARED = 1 << 22
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
    """Return the coordinates of positions that are given one by one: (axes, L)."""
    values = []
    indices = []
    for positions in axes:
        distinct = sorted(set(positions))
        index_of = {value: index for index, value in enumerate(distinct)}
        values.append(distinct)
        indices.append([index_of[value] for value in positions])
    every_index = np.array(indices, np.intp)

    def index(start: int, stop: int) -> Indices:
        return every_index[:, start:stop]

    return Coordinates(tuple(values), every_index.shape[1], index)


class AxisFiller:
    """Makes rows of cos and sin tables in which each wave follows one axis of coordinates.

    Args:
        make_waves: `make_waves(unit)` makes the waves for positions that are multiples of a unit.
        axes: The axis that each wave follows.
        coordinates: The positions of the rows.
    """

    def __init__(
        self,
        make_waves: Callable[[Fraction], ExactWaves],
        axes: Sequence[int],
        coordinates: Coordinates,
    ) -> None:
        self._make_waves = make_waves
        self._waves_of = cache(make_waves)
        self._coordinates = coordinates
        self._columns = [
            np.flatnonzero(np.array(axes) == axis) for axis in range(len(coordinates.values))
        ]
        self._shared_table = cache(self._whole_table)

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write rows first, first + 1, … into `out`; arguments as those of `ExactFiller.fill`."""
        parts = part.split(",")
        index = self._coordinates.index(first, first + len(out))
        for k, single in enumerate(parts):
            target = out[:, k :: len(parts)]
            for axis, columns in enumerate(self._columns):
                present = columns[columns < target.shape[1]]
                rows = self._gathered(single, axis, index[axis], dtype)
                target[:, present] = rows[:, : len(present)]

    def _gathered(self, part: str, axis: int, index: Indices, dtype: str) -> Array:
        """Return the rows whose values along an axis have these indices."""
        values = self._coordinates.values[axis]
        columns = self._columns[axis]
        is_repeated = 2 * len(values) <= self._coordinates.rows
        if is_repeated and len(values) * len(columns) <= _MAX_SHARED:
            return self._shared_table(part, axis, dtype)[index]
        distinct, inverse = np.unique(index, return_inverse=True)
        table = self.table(part, [values[k] for k in distinct], columns, dtype)
        return table[inverse.reshape(-1)]

    def _whole_table(self, part: str, axis: int, dtype: str) -> Array:
        return self.table(part, self._coordinates.values[axis], self._columns[axis], dtype)

    def table(
        self, part: str, positions: Sequence[int | Fraction], columns: Indices, dtype: str
    ) -> Array:
        """Return "cos" or "sin" of some waves, one row per position."""
        if _are_close_integers(positions):
            return self._from_range(part, positions, columns, dtype)
        out = np.empty((len(positions), len(columns)), numpy_dtype(dtype))
        for unit, rows in _grouped_by_unit(positions).items():
            magnitudes = [abs(positions[row]) for row in rows]
            numerators = [int(size * unit.denominator) // unit.numerator for size in magnitudes]
            out[rows] = self._multiples(part, unit, numerators, columns, dtype)
        if part == "sin":
            is_negative = np.array([position < 0 for position in positions], bool)
            out[is_negative] = -out[is_negative]
        return out

    def _from_range(
        self, part: str, positions: Sequence[int | Fraction], columns: Indices, dtype: str
    ) -> Array:
        """Return rows gathered from a table of all integers between the least and the largest."""
        low = int(min(positions))
        count = int(max(positions)) - low + 1
        width = sum(map(len, self._columns))
        every_row = np.empty((count, width), numpy_dtype(dtype))
        self._range_filler.fill(part, low, every_row, dtype)
        rows = np.array(positions, np.int64) - low
        return every_row[rows][:, columns]

    def _multiples(
        self, part: str, unit: Fraction, numerators: list[int], columns: Indices, dtype: str
    ) -> Array:
        """Return one row per multiple of a unit, each element computed by itself."""
        waves = self._waves_of(unit)
        make_finer = partial(self._make_waves, unit)
        out = np.empty((len(numerators), len(columns)), numpy_dtype(dtype))
        step = max(1, _CHUNK // max(1, len(columns)))
        for start in range(0, len(numerators), step):
            chunk = np.array(numerators[start : start + step], np.uint64)
            places = np.repeat(chunk, len(columns))
            wave = np.tile(columns, len(chunk))
            is_sine = np.full(len(places), part == "sin")
            elements = round_waves(waves, make_finer, places, wave, is_sine, dtype)
            out[start : start + step] = elements.reshape(len(chunk), len(columns))
        return out

    @cached_property
    def _range_filler(self) -> ExactFiller:
        return ExactFiller(partial(self._make_waves, Fraction(1)), self._coordinates.rows)


def _are_close_integers(positions: Sequence[int | Fraction]) -> bool:
    """Return True for integers that fill enough of their range to compute all of it."""
    if not positions:
        return False
    if not all(position >= 0 and position.denominator == 1 for position in positions):
        return False
    return int(max(positions)) - int(min(positions)) < _MAX_SPREAD * len(positions)


def _grouped_by_unit(positions: Sequence[int | Fraction]) -> dict[Fraction, Indices]:
    """Return the rows of each unit of which positions are multiples.

    0.5 and 0.75 are multiples of 1/256, 3 is one of 1, 2/3 one of 1/3. A position whose numerator
    would exceed 63 bits, such as 2**39 + 2**-40, is a unit by itself.
    """
    rows_of: dict[tuple[int, int], list[int]] = {}
    for row, position in enumerate(positions):
        rows_of.setdefault(_unit(position), []).append(row)
    return {Fraction(*unit): np.array(rows, np.intp) for unit, rows in rows_of.items()}


def _unit(position: int | Fraction) -> tuple[int, int]:
    """Return a unit as (numerator, denominator): making fractions of integers takes time."""
    denominator = position.denominator
    is_power_of_two = denominator & (denominator - 1) == 0
    if is_power_of_two and denominator > 1:
        exponent = denominator.bit_length() - 1
        denominator = 1 << -(-exponent // _EXPONENT_STEP) * _EXPONENT_STEP  # rounded up
    numerator = abs(position.numerator)
    if numerator * denominator >= _MAX_NUMERATOR * position.denominator:
        return numerator, position.denominator
    return 1, denominator
