"""Some positions of a large tensor, enough to recognise it by."""

from __future__ import annotations

import math

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.table import Table

MOST_POSITIONS = 2048
MOST_ELEMENTS = 1 << 18


def positions(length: int, width: int) -> Indices:
    """Which of so many positions to look at: all, or the first ones in a row and others spread over the rest.

    >>> positions(5, 4).tolist()
    [0, 1, 2, 3, 4]
    """
    count = min(MOST_POSITIONS, max(8, MOST_ELEMENTS // max(1, width)))
    if length <= count:
        return np.arange(length)
    spread = np.linspace(count // 2, length - 1, count - count // 2)  # steps of 1 or more: no position comes twice
    return np.concatenate([np.arange(count // 2), spread.astype(np.intp)])


def run(places: Indices) -> int:
    """How many of the positions follow each other from 0 on."""
    return int(np.count_nonzero(places == np.arange(len(places))))


def length_of(table: Table) -> int:
    """How many positions a tensor has."""
    return table.shape[-2] if len(table.shape) > 1 else table.size


def positions_of(shape: tuple[int, ...]) -> Indices:
    """Which positions of a tensor to look at. They run along the last axis but one, or along a vector."""
    if len(shape) < 2:
        return positions(math.prod(shape), 1)
    return positions(shape[-2], math.prod(shape[:-2]) * shape[-1])


def take(table: Table, places: Indices) -> Array:
    """The tensor at these positions only."""
    if len(table.shape) < 2:
        return table.pick(places).reshape(-1)[: table.size].reshape((len(places),) if table.shape else ())
    length, width = table.shape[-2:]
    leading = math.prod(table.shape[:-2])
    rows = (np.arange(leading)[:, None] * length + places).reshape(-1)
    return table.pick(rows).reshape(*table.shape[:-2], len(places), width)


def take_across(table: Table, places: Indices) -> Array:
    """A matrix at these places of its last axis, transposed; all of it is read, in blocks."""
    out = np.empty((len(places), table.shape[0]), numpy_dtype(table.dtype))
    row = 0
    for block in table.blocks():
        out[:, row : row + len(block)] = block[:, places].T
        row += len(block)
    return out
