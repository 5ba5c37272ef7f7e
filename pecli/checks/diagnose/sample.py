"""A few rows of a table, read forwards and once: enough to tell which mistake made it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.reshape import reshaped
from pecli.engine.table import Table

_SMALL = 1 << 16
"""Tables of no more elements are read whole."""

FIRST = 16
"""So many rows from the beginning are always there."""


@dataclass(frozen=True)
class SomeRows:
    """Rows of a table with the positions along one axis: (rows, …), or (2, rows, …) where two arrays are stacked."""

    array: Array
    rows: Indices
    length: int
    """How many rows there are in all."""
    transposed: bool


def picks(length: int, also: Iterable[int] = ()) -> Indices:
    """Which rows are looked at: the first, around the powers of two, some between, the last, and those asked for."""
    rows = {*range(min(length, FIRST)), *range(max(0, length - 3), length)}
    rows |= {(length * k) // 13 for k in range(13)}
    for power in range(4, max(5, length.bit_length())):
        rows |= {2**power, 2**power + 1}
    rows |= {row + step for row in also for step in (-1, 0, 1)}
    return np.array(sorted(row for row in rows if 0 <= row < length), np.intp)


def samples(table: Table, length: int, also: Iterable[int] = ()) -> Iterator[SomeRows]:
    """The table seen with its positions along each axis they may lie on; only those of the right length, if any."""
    shape = [size for size in table.shape if size != 1]
    while len(shape) < min(2, len(table.shape)):
        shape.append(1) if table.shape[-1] == 1 else shape.insert(0, 1)
    if not table.size or len(shape) not in (2, 3):
        return
    axes = [(0, False), (1, True)]
    if len(shape) == 3:
        axes = [(1, False), (2, True)] if shape[0] == 2 else [(0, False), (1, True)] if shape[2] == 2 else []
    right = [each for each in axes if shape[each[0]] == length] or axes
    for axis, transposed in right:
        rows = picks(shape[axis], also)
        array = _taken(table, tuple(shape), axis, rows)
        if transposed:
            array = np.swapaxes(array, axis - 1, axis)
        yield SomeRows(array, rows, shape[axis], transposed)


def _taken(table: Table, shape: tuple[int, ...], axis: int, rows: Indices) -> Array:
    """Only these indices along an axis of the table, which is seen in another shape."""
    if table.size <= _SMALL:
        return np.asarray(np.take(table.array().reshape(shape), rows, axis))
    seen = reshaped(table, shape)
    if axis == len(shape) - 1:
        blocks = [block[:, rows] for block in seen.blocks()]
        return np.concatenate(blocks).reshape(*shape[:-1], len(rows))
    each = math.prod(shape[axis + 1 : -1])
    places = (np.arange(math.prod(shape[:axis]))[:, None] * shape[axis] + rows).reshape(-1, 1)
    found = seen.pick((places * each + np.arange(each)).reshape(-1))
    return found.reshape(*shape[:axis], len(rows), *shape[axis + 1 :])


def few(count: int, most: int) -> Indices:
    """At most so many columns: the first, the last, and some between."""
    if count <= most:
        return np.arange(count)
    between = np.linspace(most // 4, count - 1, most - most // 4).astype(np.intp)
    return np.union1d(np.arange(most // 4), between)
