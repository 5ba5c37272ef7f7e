"""Where two tables differ, seen from afar: the largest error of every cell of a coarse grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pecli.checks.compare.ulp import widest
from pecli.engine.arrays import Array, Floats, Indices
from pecli.engine.table import Table

MOST_ROWS, MOST_COLUMNS = 512, 512


@dataclass(frozen=True)
class ErrorMap:
    """The largest |A − B| by position and channel; all axes before those are seen through. A vector is one line."""

    name: str
    positions: int
    channels: int
    cells: Floats


def error_map(one: Table, other: Table) -> ErrorMap:
    """Read two tables of one shape, block by block, into a map; no more than the map is held."""
    positions = one.shape[-2] if len(one.shape) > 1 else one.rows
    down, across = min(positions, MOST_ROWS), min(one.width, MOST_COLUMNS)
    cells = np.zeros((down, across))
    columns = _starts(one.width, across)
    row, step = 0, max(1, min(one.block_rows(), other.block_rows()) // 4)
    for ours, theirs in zip(one.blocks(step), other.blocks(step), strict=True):
        lines = np.arange(row, row + len(ours)) % positions * down // positions
        error = np.maximum.reduceat(_errors(ours, theirs), columns, axis=1)
        firsts = np.concatenate([[0], np.flatnonzero(np.diff(lines)) + 1])
        np.maximum.at(cells, lines[firsts], np.maximum.reduceat(error, firsts, axis=0))
        row += len(ours)
    if len(one.shape) < 2:
        return ErrorMap(one.name, 1, positions, cells.T)
    return ErrorMap(one.name, positions, one.width, cells)


def _starts(length: int, groups: int) -> Indices:
    """Where each group of elements begins."""
    return np.unique(-(-np.arange(groups) * length // groups))


def _errors(ours: Array, theirs: Array) -> Floats:
    """Absolute errors; infinite where only one side is finite, or is a number."""
    a, b = widest(ours), widest(theirs)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        error: Floats = np.abs(a - b)
    error[same] = 0
    error[np.isnan(error)] = np.inf
    return error
