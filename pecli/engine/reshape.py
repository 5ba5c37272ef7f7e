"""Tables seen with other axes, complex numbers as pairs, several tables as one: nothing is read for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.dtypes import COMPLEX
from pecli.engine.table import Table


def reshaped(table: Table, shape: tuple[int, ...]) -> Table:
    """The same elements in the same order, with axes that multiply to as many."""
    if shape == table.shape:
        return table
    seen = replace(table, shape=shape)
    if seen.width == table.width:
        return seen

    def fill(start: int, out: Array) -> None:
        begin, end = start * seen.width, start * seen.width + out.size
        first = begin // table.width
        rows = table.read(first, -(-end // table.width)).reshape(-1)
        out[...] = rows[begin - first * table.width :][: out.size].reshape(out.shape)

    return replace(seen, fill=fill)


def rows_of(table: Table, expected: Table) -> Table:
    """Lines of a .csv, which has no other axes, as the table whose rows they may be; else as they are."""
    alike = (table.rows, table.width) == (expected.rows, expected.width)
    return reshaped(table, expected.shape) if alike else table


def as_pairs(table: Table) -> Table:
    """Complex numbers as (…, 2): the real part, then the imaginary one."""
    seen = replace(table, dtype=COMPLEX[table.dtype], shape=(*table.shape, 2))

    def fill(start: int, out: Array) -> None:  # a row of the new table is one number of the old
        width = table.width
        first = start // width
        rows = table.read(first, -(-(start + len(out)) // width)).reshape(-1)
        numbers = np.ascontiguousarray(rows[start - first * width :][: len(out)])
        out[...] = numbers.view(out.dtype).reshape(out.shape)

    return replace(seen, fill=fill)


def stacked(name: str, parts: Sequence[Table]) -> Table:
    """Tables of one shape and dtype, one after the other along a new first axis."""
    first = parts[0]

    def fill(start: int, out: Array) -> None:
        for k, part in enumerate(parts):
            begin, end = max(start, k * part.rows), min(start + len(out), (k + 1) * part.rows)
            if begin < end:
                part.fill(begin - k * part.rows, out[begin - start : end - start])

    in_order = any(part.in_order for part in parts)
    return Table(name, first.dtype, (len(parts), *first.shape), fill, in_order)


def views(table: Table) -> Iterator[Table]:
    """The table, and the table with fewer axes of length 1, as batch and head axes often are."""
    shapes = [table.shape]
    while shapes[-1][:1] == (1,) and len(shapes[-1]) > 1:
        shapes.append(shapes[-1][1:])
    shapes.append(tuple(length for length in table.shape if length != 1) or (1,))
    for shape in dict.fromkeys(shapes):
        yield reshaped(table, shape)
