"""Lines of text as the tables that they may be: a .csv file says neither dtype nor axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pecli.engine.reshape import reshaped
from pecli.engine.table import Table, cast
from pecli.files.float_text import numerals

_DTYPES = ("float32", "float16", "bfloat16")
"""The likeliest first; float64 is what is left."""
_LOOKED_AT = 4096


def tables_of(lines: Table) -> Iterator[Table]:
    """The lines in every dtype that their decimals are the shortest of, and in the shapes whose rows they can be."""
    for dtype in (*_DTYPES, "float64"):
        table = cast(lines, dtype)
        if dtype == "float64" or _is_spelt_in(lines, table):
            yield table
            rows, width = table.rows, table.width
            if rows % 2 == 0:  # cosines, then sines
                yield reshaped(table, (2, rows // 2, width))
            if rows % width == 0:  # the biases of heads
                yield reshaped(table, (rows // width, width, width))


def _is_spelt_in(lines: Table, table: Table) -> bool:
    """Whether decimals are those that pecli, or NumPy, would write for the dtype of the table."""
    some = min(lines.rows, max(1, _LOOKED_AT // max(1, lines.width)))
    again = [float(text) for text in numerals(table.read(0, some))]
    return np.array_equal(again, lines.read(0, some).reshape(-1), equal_nan=True)
