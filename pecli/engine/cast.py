"""A table in another dtype, every element rounded once."""

from __future__ import annotations

from dataclasses import replace

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened
from pecli.engine.table import Table


def cast(table: Table, dtype: str) -> Table:
    """The table in one of the floating dtypes; what is not a real floating number stays as it is."""
    if dtype == table.dtype or not is_floating(table):
        return table

    def fill(start: int, out: Array) -> None:
        out[...] = round_to(widened(table.read(start, start + len(out))), dtype)

    return replace(table, dtype=dtype, fill=fill)


def is_floating(table: Table) -> bool:
    """Whether a table's elements are real floating numbers; the eight-bit ones, which come with scales, are not."""
    return table.dtype in SIGNIFICAND_BITS
