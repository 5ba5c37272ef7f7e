"""The same tables in float64, which has no wider type to be rounded from: products of small tables in 106 bits.

A position is written p = (large · anchors + anchor) · rows + row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics import double_double, phases
from pecli.engine.numerics.double_double import Doubled
from pecli.engine.numerics.phases import Waves
from pecli.engine.numerics.rounding import undecided
from pecli.engine.numerics.tiles import COLUMNS, TILE, multiples, power_of_two

if TYPE_CHECKING:
    Directions = tuple[Doubled, Doubled]


_ERROR = 2.0**-94
"""Bound on the error of a product, for amplitude 1."""
_ANCHORS = 64


class WideTiles:
    """Makes rows of the cosines or sines of all waves, for about `count` positions, wherever they start."""

    def __init__(self, waves: Waves, count: int) -> None:
        self._waves = waves
        self._limbs = waves.limbs[:, None, :]
        wanted = max(1, min(TILE // min(COLUMNS, len(waves.turns)), 1024, int(count**0.5)))
        self._rows = power_of_two(wanted)
        self._anchors = min(_ANCHORS, power_of_two(-(-count // self._rows)))
        self._small = phases.cos_sin_doubled(self._limbs, multiples(self._rows, 1))
        self._steps = phases.cos_sin_doubled(self._limbs, multiples(self._anchors, self._rows))

    def fill(self, part: str, first: int, out: Array) -> Iterator[tuple[Indices, Indices]]:
        """Write positions first, first + 1, … into the rows of `out`; `part` is "cos" or "sin". What comes back is
        what `Tile.fill` gives.
        """
        error = np.array(_ERROR * float(self._waves.factor.hi))
        anchors, known, row = self._steps, -1, 0
        while row < len(out):
            step, start = divmod(first + row, self._rows)
            large, anchor = divmod(step, self._anchors)
            if large != known:
                anchors, known = self._turned(large), large
            rows = slice(start, min(self._rows, start + len(out) - row))
            small = (self._small[0].take(rows), self._small[1].take(rows))
            value = _product(part, (anchors[0].take(anchor), anchors[1].take(anchor)), small)
            many = rows.stop - start
            out[row : row + many] = value.hi[:, : out.shape[1]]
            doubtful, columns = np.nonzero(undecided(value, error, "float64")[:, : out.shape[1]])
            yield row + doubtful, columns
            row += many

    def _turned(self, large: int) -> Directions:
        """The anchors of a large step, times the amplitude."""
        position = np.array([[large * self._anchors * self._rows]], np.uint64)
        cosines, sines = phases.cos_sin_doubled(self._limbs, position)
        factor = self._waves.factor
        base = (double_double.multiply(cosines, factor), double_double.multiply(sines, factor))
        return _product("cos", base, self._steps), _product("sin", base, self._steps)


def _product(part: str, a: Directions, b: Directions) -> Doubled:
    """The cosine or sine of a sum of angles, from the (cosine, sine) of each."""
    if part == "cos":
        return double_double.add(double_double.multiply(a[0], b[0]), -double_double.multiply(a[1], b[1]))
    return double_double.add(double_double.multiply(a[0], b[1]), double_double.multiply(a[1], b[0]))
