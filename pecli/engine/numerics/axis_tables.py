"""Tables of cos and sin at any positions, of one axis or of several, exact.

Positions may be any rational numbers. Those with one denominator are integers times the waves of that unit, so exact
tables for integers serve them, too; a sine of a negative position is minus that of the positive one. Most tables have
few different coordinates along each axis: a small table is made of those, and rows are gathered from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property, partial

import numpy as np

from pecli.engine.arrays import Array, Indices, numpy_dtype
from pecli.engine.numerics.correct_rounding import round_waves
from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.phases import Waves

_MAX_NUMERATOR = 1 << 63
_EXPONENT_STEP = 8  #: powers of two in denominators are rounded up to multiples of this, so that floats form few groups
_CHUNK = 1 << 13  #: elements dealt with at once, so that intermediate arrays stay in the cache
_MAX_SPREAD = (
    4  #: integers that fill at least one in this many places of their range are made as a range
)
_MAX_SHARED = 1 << 22  #: elements of a small table that is made once for all blocks


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The positions of rows along some axes: few different `values` of each axis, and which of them every row has."""

    values: tuple[Sequence[int | Fraction], ...]
    rows: int
    index: Callable[[int, int], Indices]
    """`index(start, stop)`: for each axis and row, the number of its value: (axes, stop − start)."""


def listed_coordinates(axes: Sequence[Sequence[int | Fraction]]) -> Coordinates:
    """Positions that are given one by one: (axes, L)."""
    values, indices = [], []
    for positions in axes:
        distinct = sorted(set(positions))
        number = {value: k for k, value in enumerate(distinct)}
        values.append(distinct)
        indices.append([number[value] for value in positions])
    every = np.array(indices, np.intp)
    return Coordinates(tuple(values), every.shape[1], lambda start, stop: every[:, start:stop])


class AxisRotation:
    """As `Rotation`, but each wave follows one axis of `coordinates`; `make_waves(unit)` are for multiples of it."""

    def __init__(
        self, make_waves: Callable[[Fraction], Waves], axes: Sequence[int], coordinates: Coordinates
    ) -> None:
        self._make_waves, self._waves_of = make_waves, cache(make_waves)
        self._coordinates, self._shared = coordinates, cache(self._table_of)
        self._columns = [
            np.flatnonzero(np.array(axes) == axis) for axis in range(len(coordinates.values))
        ]

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        parts = part.split(",")
        index = self._coordinates.index(first, first + len(out))
        for k, single in enumerate(parts):
            target = out[:, k :: len(parts)]
            for axis, columns in enumerate(self._columns):
                columns = columns[columns < target.shape[1]]
                target[:, columns] = self._gathered(single, axis, index[axis], dtype)[
                    :, : len(columns)
                ]

    def _gathered(self, part: str, axis: int, index: Indices, dtype: str) -> Array:
        values = self._coordinates.values[axis]
        if (
            2 * len(values) <= self._coordinates.rows
            and len(values) * len(self._columns[axis]) <= _MAX_SHARED
        ):
            return self._shared(part, axis, dtype)[index]
        distinct, inverse = np.unique(index, return_inverse=True)
        return self.table(part, [values[k] for k in distinct], self._columns[axis], dtype)[
            inverse.reshape(-1)
        ]

    def _table_of(self, part: str, axis: int, dtype: str) -> Array:
        return self.table(part, self._coordinates.values[axis], self._columns[axis], dtype)

    def table(
        self, part: str, positions: Sequence[int | Fraction], columns: Indices, dtype: str
    ) -> Array:
        whole = all(position >= 0 and position.denominator == 1 for position in positions)
        if (
            positions
            and whole
            and int(max(positions)) - int(min(positions)) < _MAX_SPREAD * len(positions)
        ):
            rows, low = (
                np.array(positions, np.int64),
                int(min(positions)),
            )  # integers that lie close together
            every = np.empty(
                (int(max(positions)) - low + 1, sum(map(len, self._columns))), numpy_dtype(dtype)
            )
            self._rotation.fill(part, low, every, dtype)
            return every[rows - low][:, columns]
        out = np.empty((len(positions), len(columns)), numpy_dtype(dtype))
        for unit, rows in _grouped(positions).items():
            waves = self._waves_of(unit)
            numerators = [
                int(abs(positions[row]) * unit.denominator) // unit.numerator for row in rows
            ]
            step = max(1, _CHUNK // max(1, len(columns)))
            for start in range(0, len(rows), step):
                some = np.array(numerators[start : start + step], np.uint64)
                places, waved = np.repeat(some, len(columns)), np.tile(columns, len(some))
                sine = np.full(len(places), part == "sin")
                found = round_waves(
                    waves, partial(self._make_waves, unit), places, waved, sine, dtype
                )
                out[rows[start : start + step]] = found.reshape(len(some), len(columns))
        if part == "sin":
            negative = np.array([position < 0 for position in positions], bool)
            out[negative] = -out[negative]
        return out

    @cached_property
    def _rotation(self) -> Rotation:
        return Rotation(partial(self._make_waves, Fraction(1)), self._coordinates.rows)


def _grouped(positions: Sequence[int | Fraction]) -> dict[Fraction, Indices]:
    """Rows by the unit of which their positions are multiples; where numerators would be too large, by themselves."""
    found: dict[tuple[int, int], list[int]] = {}
    for row, position in enumerate(
        positions
    ):  # mostly integers: fractions of them would take their time
        denominator = position.denominator
        if denominator & (denominator - 1) == 0 and denominator > 1:
            denominator = 1 << -(-(denominator.bit_length() - 1) // _EXPONENT_STEP) * _EXPONENT_STEP
        is_large = abs(position.numerator) * denominator >= _MAX_NUMERATOR * position.denominator
        unit = (abs(position.numerator), position.denominator) if is_large else (1, denominator)
        found.setdefault(unit, []).append(row)
    return {Fraction(*unit): np.array(rows, np.intp) for unit, rows in found.items()}
