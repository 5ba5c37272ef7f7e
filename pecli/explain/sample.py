"""Some rows of a tensor, enough to measure it by: a run from the beginning, and rows spread over the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import AnyArray, Array, Indices
from pecli.engine.numerics.dtypes import COMPLEX
from pecli.engine.table import Table

MAX_FULL_READ = 1 << 21
"""Elements of a tensor that is read whole."""
MAX_ELEMENTS = 1 << 18
"""Elements that are measured."""
RUN, SPREAD = 1024, 256


@dataclass(frozen=True)
class Sample:
    """A tensor, or some places of its last axis but one; values in float64 or complex128."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: AnyArray
    rows: Indices
    """Which places of the last axis but one."""

    @property
    def whole(self) -> bool:
        return self.values.shape == self.shape


def sample(table: Table) -> Sample:
    """The values to look at."""
    shape = table.shape
    if table.size <= MAX_FULL_READ or len(shape) < 2:
        rows = np.arange(shape[-2] if len(shape) > 1 else table.size)
        return Sample(table.name, table.dtype, shape, _wide(table.array(), table.dtype), rows)
    length, leading = shape[-2], math.prod(shape[:-2])
    rows = chosen(length, leading * shape[-1])
    every = (np.arange(leading)[:, None] * length + rows).reshape(-1)
    values = table.pick(every).reshape(*shape[:-2], len(rows), shape[-1])
    return Sample(table.name, table.dtype, shape, _wide(values, table.dtype), rows)


def chosen(length: int, width: int, start: int = 0) -> Indices:
    """Which of so many rows to look at: a run from `start` on, and later ones ever further apart.

    >>> chosen(5, 4).tolist()
    [0, 1, 2, 3, 4]
    """
    run = max(32, min(RUN, MAX_ELEMENTS // max(1, width)))
    if length - start <= run + 16:
        return np.arange(start, length)
    far = np.geomspace(start + run, length - 1, min(SPREAD, run)).astype(np.intp)
    even = np.linspace(start + run, length - 1, min(SPREAD, run) // 2).astype(np.intp)
    return np.unique(np.concatenate([np.arange(start, start + run), far, even]))


def _wide(values: Array, dtype: str) -> AnyArray:
    with np.errstate(invalid="ignore"):
        return values.astype(np.complex128 if dtype in COMPLEX else np.float64)
