"""Where a tensor is wrong: what was expected, what was found, and how far apart they are, as small matrices.

A cell stands for several rows and columns where there are many, and shows the one of its elements that is farthest off,
so that the three matrices belong together and no single wrong element is lost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pecli.checks.compare import READ_BYTES, Comparison, Part, absolute_errors, slabs, widest
from pecli.checks.tensor_roles import role_of
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import AnyArray, Floats, Indices

MAX_ROWS = MAX_COLUMNS = 192
"""Of a map; a picture has as many pixels for each of three."""
MAX_POINTS = 4096  #: of a vector


@dataclass(frozen=True, eq=False)
class ErrorMap:
    """A table of a tensor, or a vector (one row), cell by cell."""

    name: str
    shape: tuple[int, int]  #: rows and columns of the table
    expected: Floats
    found: Floats
    errors: Floats  #: |expected − found|; relative where the tolerance is
    allowed: Tolerance
    is_relative: bool  #: where the size of what is expected is what the tolerance goes by
    rows: str
    columns: str
    layers: int = 1  #: matrices over which a cell is the worst: heads, copies

    @property
    def tolerance(self) -> float:
        """The largest error that passes, where it is the same for all elements; else 0."""
        mixed = self.allowed.atol > 0 < self.allowed.rtol or self.allowed.max_ulp > 0
        return 0.0 if mixed else self.allowed.atol or self.allowed.rtol


def error_maps(result: Comparison, rows: int = MAX_ROWS, columns: int = MAX_COLUMNS) -> Iterator[ErrorMap]:
    """The tables of a tensor that has errors: one, or cosines and sines."""
    parts: dict[str, list[Part]] = {}
    for part in result.parts if result.worst_index is not None else ():
        parts.setdefault(part.name or result.name, []).append(part)
    for name, some in parts.items():
        label = result.name if len(parts) == 1 else f"{result.name}: {name}"
        yield _error_map(label, some, result, (rows, columns))


def _error_map(label: str, parts: list[Part], result: Comparison, most: tuple[int, int]) -> ErrorMap:
    shape = parts[0].expected.shape
    flat = len(shape) < 2
    height, width = (math.prod(shape), 1) if flat else shape[-2:]
    down, across = min(height, MAX_POINTS if flat else most[0]), min(width, most[1])
    cells = np.full((3, down, across), -1.0)
    relative = result.allowed.rtol > 0 and not result.allowed.atol
    for part in parts:
        for index, start, count in slabs(shape[:-1] or shape, max(1, READ_BYTES // (8 * width))):
            ours = widest(part.rows(index, start, count)).reshape(count, width)
            lines = np.arange(start, start + count) % height * down // height
            for at in np.ndindex(part.copies):
                theirs = widest(part.decoded(part.found[(*at, *index)])).reshape(count, width)
                _keep_worst(cells, lines, ours, theirs, relative)
    cells = cells.swapaxes(1, 2) if flat else cells
    expected, found, errors = cells if not result.sides_swapped else cells[[1, 0, 2]]
    layers = len(parts) * math.prod(parts[0].copies + shape[:-2])
    size = (1, height) if flat else (height, width)
    axes = _axes(label, expected, shape)
    return ErrorMap(label, size, expected, found, errors, result.allowed, relative, *axes, layers)


def _keep_worst(cells: Floats, lines: Indices, ours: AnyArray, theirs: AnyArray, relative: bool) -> None:
    """Put elements into their cells that are farther off than those which are there; `lines` are the cells of rows."""
    width, across = ours.shape[1], cells.shape[2]
    errors = absolute_errors(ours, theirs)[1]
    if relative:
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = np.where(errors == 0, 0.0, errors / np.abs(ours))
    columns = np.arange(width) * across // width
    worst = np.full(cells.shape[1:], -1.0)
    np.maximum.at(worst, lines, np.maximum.reduceat(errors, np.flatnonzero(np.diff(columns, prepend=-1)), axis=1))
    worst[worst <= cells[2]] = np.nan  # nothing new
    row, column = np.nonzero(errors == worst[lines][:, columns])
    for values, cell in zip((ours.real, theirs.real, errors), cells, strict=True):
        cell[lines[row], columns[column]] = values[row, column]


def _axes(name: str, expected: Floats, shape: tuple[int, ...]) -> tuple[str, str]:
    """What rows and columns are, going by what the tensor is called and whether its columns are doubled."""
    role = role_of(name.rpartition(": ")[2])
    if len(shape) < 2:
        return "", {"inv_freq": "pair", "slopes": "head"}.get(role or "", "element")
    if len(shape) > 2 and (role == "bias" or shape[-2] == shape[-1]):
        return "query", "key"
    half, row = shape[-1] // 2, expected[-1]
    whole = expected.shape[1] == shape[-1] and not shape[-1] % 2
    doubled = whole and any(map(np.array_equal, (row[:half], row[::2]), (row[half:], row[1::2])))
    return "position", "pair" if role in ("cos", "sin") and not doubled else "channel"
