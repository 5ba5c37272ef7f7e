"""Tables of amplitude · cos and sin of position · frequency, exact and fast at once.

The elements are products of the entries of small tables. Those whose rounding such a product leaves in doubt are
settled one by one, so the result is the correctly rounded value, however the table is cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from threading import Lock

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.phases import Waves
from pecli.engine.numerics.tiles import COLUMNS, Factors, Tile, WideTiles
from pecli.engine.numerics.ziv_rounding import settle

_IDLE = 8
"""Tiles that are kept for the next block."""


class Rotation:
    """Makes rows of cos and sin tables of some waves, for about `count` positions, wherever they start.

    Nothing is computed before the first `fill`, which may be called from several threads.
    """

    def __init__(self, make_waves: Callable[[], Waves], count: int) -> None:
        self._make_waves, self._count = make_waves, count
        self._lock = Lock()
        self._made: dict[tuple[str, int], Factors] = {}
        self._idle: list[Tile] = []

    def fill(self, part: str, first: int, out: Array, dtype: str) -> None:
        """Write positions first, first + 1, … into the rows of `out`.

        `part` is "cos" or "sin" for a column a wave, "cos,sin" or "sin,cos" for two; with two, the very last column
        may be missing.
        """
        width = len(part.split(","))
        if dtype == "float64" and width > 1:
            for k, single in enumerate(part.split(",")):
                self.fill(single, first, out[:, k::width], dtype)
            return
        with self._lock:
            waves = self.waves
        doubts = _Doubts()
        if dtype == "float64":
            with self._lock:
                tiles = self._wide
            for rows, columns in tiles.fill(part, first, out):
                doubts.add(rows, columns)
        else:
            for column in range(0, len(waves.turns), COLUMNS):
                target = out[:, column * width : (column + COLUMNS) * width]
                tile = self._tile(self._factors(part, column), target.shape[1], dtype)
                for rows, columns in tile.fill(first, target):
                    doubts.add(rows, columns + column * width)
                self._release(tile)
        doubts.settle(waves, first, out, part, dtype)

    def at(self, part: str, positions: Indices, axes: Indices, dtype: str) -> Array:
        """The cos or sin of a few positions: of (axes, rows) positions, each wave follows one axis."""
        rows, width = positions.shape[1], len(axes)
        columns, sine = np.tile(np.arange(width), rows), np.full(rows * width, part == "sin")
        places = positions.T[:, axes].astype(np.uint64).reshape(-1)
        return settle(self.waves, places, columns, sine, dtype).reshape(rows, width)

    def _factors(self, part: str, column: int) -> Factors:
        """The small tables of some waves, made once, by whoever comes first."""
        with self._lock:
            if (part, column) not in self._made:
                self._made[part, column] = Factors(self.waves, slice(column, column + COLUMNS), part, self._count)
            return self._made[part, column]

    def _tile(self, factors: Factors, columns: int, dtype: str) -> Tile:
        """One that nobody works with, whose memory has been touched already, or a new one."""
        with self._lock:
            for place, tile in enumerate(self._idle):
                if (tile.factors, tile.columns, tile.dtype) == (factors, columns, dtype):
                    return self._idle.pop(place)
        return Tile(factors, columns, dtype)

    def _release(self, tile: Tile) -> None:
        with self._lock:
            self._idle.append(tile)
            del self._idle[:-_IDLE]

    @cached_property
    def waves(self) -> Waves:
        return self._make_waves()

    @cached_property
    def _wide(self) -> WideTiles:
        return WideTiles(self.waves, self._count)


class _Doubts:
    """Elements that need a second look."""

    def __init__(self) -> None:
        self.rows: list[Indices] = []
        self.columns: list[Indices] = []

    def add(self, rows: Indices, columns: Indices) -> None:
        self.rows.append(rows)
        self.columns.append(columns)

    def settle(self, waves: Waves, first: int, out: Array, part: str, dtype: str) -> None:
        if not any(rows.size for rows in self.rows):
            return
        rows, columns = np.concatenate(self.rows), np.concatenate(self.columns)
        pair = len(part.split(","))
        sine = (columns % 2 == (part == "cos,sin")) if pair == 2 else np.full(len(rows), part == "sin")
        positions = rows.astype(np.uint64) + np.uint64(first)
        out[rows, columns] = settle(waves, positions, columns // pair, sine, dtype)
