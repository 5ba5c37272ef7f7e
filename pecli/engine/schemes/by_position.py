"""The numbers of a scheme as rows by position, whatever they mean: what an audit runs over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pecli.engine.arrays import Array, Indices
from pecli.engine.table import Table


@dataclass(frozen=True, eq=False, repr=False)
class ByPosition:
    """`read(start, stop)` gives rows, the first of them at the position `first`; a column belongs to a frequency, or
    to a head.
    """

    first: int
    count: int
    kind: str
    """What the columns go by: frequencies, slopes or columns."""
    values: list[float]
    """Those frequencies or slopes, or the numbers of the columns."""
    groups: Indices
    """Which of them each column belongs to."""
    names: tuple[str, ...]
    """What each column is: sin, cos, bias, or the tensor's name."""
    read: Callable[[int, int], Array]


def by_column(table: Table, first: int) -> ByPosition:
    """A matrix whose columns stand for themselves."""
    columns = np.arange(table.width)
    values, names = columns.astype(np.float64).tolist(), (table.name,) * table.width
    return ByPosition(first, table.rows, "columns", values, columns, names, table.read)
