"""A rectangle of a table, chosen as Python chooses slices, and read alone."""

from __future__ import annotations

import re

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import numpy_dtype
from pecli.engine.table import Table
from pecli.errors import ParameterError

MOST = 100_000
"""Elements shown at once."""


def indices(name: str, text: str, count: int) -> range:
    """The rows or columns that `3`, `0:8`, `-4:` or `:` stand for, of `count`.

    >>> indices("rows", "-2:", 10)
    range(8, 10)
    """
    match = re.fullmatch(r"(-?[0-9]{1,18})|(-?[0-9]{1,18})?:(-?[0-9]{1,18})?", text.strip())
    if not match:
        raise ParameterError(name, repr(text), "it must be a number or a range, such as 0:8, -4: or :")
    if match[1] is not None:
        place = int(match[1]) + (count if int(match[1]) < 0 else 0)
        if not 0 <= place < count:
            raise ParameterError(name, text, f"there are {count}")
        return range(place, place + 1)
    start, stop = (None if each is None else int(each) for each in match.groups()[1:])
    return range(count)[slice(start, stop)]


def rectangle(table: Table, rows: range, columns: range) -> Array:
    """Those elements, as (rows, columns); only their rows are read."""
    if max(1, len(rows)) * max(1, len(columns)) > MOST:  # of rows without elements, their numbers are shown
        raise ParameterError("rows", f"{len(rows)} × {len(columns)}", f"at most {MOST:,} elements are shown at once")
    if not rows or not columns:
        return np.empty((len(rows), len(columns)), numpy_dtype(table.dtype))
    return table.read(rows.start, rows.stop)[:, columns.start : columns.stop]
