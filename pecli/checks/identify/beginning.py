"""As much of a tensor as it takes to recognise it, however large the file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pecli.checks.compare.ulp import widest
from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS, numpy_dtype
from pecli.engine.table import Table

MOST = 1 << 22
"""Elements of a sample."""
MOST_ROWS = 1 << 13
"""Positions of a sample."""
WIDE_ROWS = 128
"""Positions of a sample that has all channels of a wide table."""
_READ = 1 << 22
"""Elements that are read at once."""


@dataclass(frozen=True)
class Beginning:
    """The beginning of a tensor along every axis, with the tensor's true shape and dtype.

    `array` is float64, or complex128 where the tensor is complex; `array.shape[k] < shape[k]` where axis k was cut.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    array: Array

    @property
    def whole(self) -> bool:
        return self.array.shape == self.shape

    @property
    def floating(self) -> bool:
        """Whether its dtype is one that schemes make."""
        return self.dtype in SIGNIFICAND_BITS

    @property
    def not_finite(self) -> int:
        """How many of the elements at hand are infinite or not numbers."""
        return int(self.array.size - np.count_nonzero(np.isfinite(self.array)))

    def first(self, rows: int) -> Beginning:
        """The same with fewer positions; they run along the last axis but one, or the first of pairs."""
        axes = self.array.ndim
        axis = 0 if axes == 3 and self.array.shape[-1] == 2 < self.array.shape[0] else axes - 2
        if axes < 2 or self.array.shape[axis] <= rows:
            return self
        return replace(self, array=np.take(self.array, np.arange(rows), axis))


def beginning(table: Table, wide: bool = False) -> Beginning:
    """Read the beginning of a tensor; of a wide one all channels, if that is asked for, and few rows."""
    shape = (min(WIDE_ROWS, table.shape[0]), table.shape[1]) if wide else _cut(table.shape)
    if not table.size or not shape:
        array = table.array() if not table.size or table.size == 1 else np.empty(0)
        return Beginning(table.name, table.dtype, table.shape, widest(array))
    width, many = (shape[-1], shape[:-1]) if len(shape) > 1 else (1, shape)
    out = np.empty((math.prod(many), width), numpy_dtype(table.dtype))
    done = 0
    for start, stop in _runs(table.shape if len(shape) == 1 else table.shape[:-1], many):
        step = max(1, _READ // table.width)
        for row in range(start, stop, step):
            last = min(row + step, stop)
            out[done : done + last - row] = table.read(row, last)[:, :width]
            done += last - row
    return Beginning(table.name, table.dtype, table.shape, widest(out.reshape(shape)))


def is_wide(table: Table) -> bool:
    """Whether a matrix has more channels than the sample of a large one, and few enough to look at some rows whole."""
    fits = len(table.shape) == 2 and MOST_ROWS < table.shape[1] <= MOST // WIDE_ROWS
    return fits and table.shape[0] >= WIDE_ROWS and table.size > MOST


def _cut(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A smaller shape that fits: the longest axis is cut until it does."""
    cut = [min(size, MOST_ROWS) if len(shape) > 1 else min(size, MOST) for size in shape]
    if shape and math.prod(cut[:-1]) * shape[-1] <= MOST:  # channels cannot be left out, as rows can
        cut[-1] = shape[-1]
    while math.prod(cut) > MOST:
        longest = cut.index(max(cut))
        cut[longest] -= -(-cut[longest] // 8)
    return tuple(cut)


def _runs(shape: tuple[int, ...], part: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The rows of a part of an array's leading axes, as ranges of the rows of the whole."""
    if shape == part:
        yield 0, math.prod(shape)
        return
    inner = math.prod(shape[1:])
    if shape[1:] == part[1:]:
        yield 0, part[0] * inner
        return
    for index in range(part[0]):
        for start, stop in _runs(shape[1:], part[1:]):
            yield index * inner + start, index * inner + stop
