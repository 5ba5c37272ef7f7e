"""Tables that layers keep between calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pecli.engine.numerics.cos_sin_tables import Rotation
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.schemes.rope import Rope

Positions = range | NDArray[np.int64]

_MIN_KEPT = 1 << 24
"""Bytes up to which a table is kept however few of its rows are asked for."""
_MAX_AHEAD = 1 << 30
"""Bytes of the largest table that is made before it is needed."""
_RUN = 64
"""About how many rows are made at once where the positions lie far apart."""


class FirstRows:
    """The first rows of a table without end: made when they are asked for, kept, and at least doubled when they grow.

    `fill(start, out)` writes rows start, start + 1, … of the table. Rows never change, and nobody can write to them.
    """

    def __init__(self, width: int, dtype: str, fill: Callable[[int, NDArray[Any]], None]) -> None:
        self._fill = fill
        self.table: NDArray[Any] = np.empty((0, width), numpy_dtype(dtype))

    def up_to(self, count: int, capacity: int = 0) -> NDArray[Any]:
        """At least that many rows; where they have to be made, `capacity` of them if that is enough."""
        table = self.table
        if count > len(table):
            grown = np.empty((max(count, capacity or 2 * len(table)), table.shape[1]), table.dtype)
            grown[: len(table)] = table
            self._fill(len(table), grown[len(table) :])
            grown.flags.writeable = False
            self.table = table = grown
        return table


class RotationCache:
    """cos + i·sin of position · frequency, exact, kept for every rotary scheme and dtype that was asked for."""

    def __init__(self) -> None:
        self.kept: dict[Rope, FirstRows] = {}

    def at(self, positions: Positions, rope: Rope, dtype: str, limit: int | None) -> tuple[NDArray[Any], Positions]:
        """A complex table, one column per pair, and which of its rows belong to the positions.

        With a limit on positions, the table is made for all of them at once. Without one it grows, unless a few
        positions far out ask for a table much larger than they are: then their rows alone are made, and not kept.
        """
        rope, dim = replace(rope, seq_len=_RUN, offset=0, dtype=dtype), rope.rotary_dim
        if rope not in self.kept:
            self.kept[rope] = FirstRows(dim, dtype, partial(_fill, rope))
        kept, row_bytes = self.kept[rope], dim * numpy_dtype(dtype).itemsize
        capacity = limit if limit and limit * row_bytes <= _MAX_AHEAD else 0
        count = 1 + int(positions[-1] if isinstance(positions, range) else positions.max())
        if count <= max(capacity, _MIN_KEPT // row_bytes, 2 * len(kept.table), 4 * len(positions)):
            return _pairs(kept.up_to(count, capacity)), positions
        if isinstance(positions, range):
            table = np.empty((len(positions), dim), numpy_dtype(dtype))
            _fill(rope, positions.start, table)
            return _pairs(table), range(len(positions))
        unique, rows = np.unique(positions, return_inverse=True)
        table = np.empty((len(unique), dim), numpy_dtype(dtype))
        starts = [0, *(np.flatnonzero(np.diff(unique) != 1) + 1).tolist(), len(unique)]
        for start, stop in pairwise(starts):
            _fill(rope, int(unique[start]), table[start:stop])
        return _pairs(table), rows.astype(np.int64, copy=False)


def _fill(rope: Rope, start: int, out: NDArray[Any]) -> None:
    rotation = _rotation(rope) if len(out) <= _RUN else replace(rope, seq_len=len(out)).rotation()
    rotating = 2 * rope.rotating_pairs
    rotation.fill("cos,sin", start, out[:, :rotating], rope.dtype)
    out[:, rotating::2], out[:, rotating + 1 :: 2] = 1, 0


@lru_cache(maxsize=8)
def _rotation(rope: Rope) -> Rotation:
    return rope.rotation()


def _pairs(table: NDArray[Any]) -> NDArray[Any]:
    """(cos, sin, cos, sin, …) as cos + i·sin."""
    return table.view(np.result_type(table.dtype, np.complex64))
