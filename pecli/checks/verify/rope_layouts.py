"""Rotary tables laid out in any of the ways that programs have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.table import Table, reshaped, stacked
from pecli.explain.forms import ARRANGEMENTS, Form, columns

if TYPE_CHECKING:
    from pecli.engine.schemes.rope import Rope


_PLURALS = {"cos": "cosines", "sin": "sines"}
ORDERS = {"both": (("cos", "sin"),), None: (("cos", "sin"), ("sin", "cos"))}
"""Which function may come first, by what a name says: where it says nothing, either, as GPT-J has sines first."""


@dataclass(frozen=True)
class Layout:
    """A form, and the functions in it: one, or both in their order."""

    form: Form
    functions: tuple[str, ...]

    def words(self) -> str:
        if len(self.functions) == 1:
            return columns(self.form.doubled)
        both = ARRANGEMENTS[self.form.arrangement].named.format(*(_PLURALS[each] for each in self.functions))
        return f"{both}, {columns(self.form.doubled)}" if self.form.doubled else both


def layouts(shape: tuple[int, ...], half: int, role: str | None, *, pairs_are_complex: bool) -> Iterator[Layout]:
    """The layouts of cos and sin over positions × `half` frequencies that have such a shape and such a name."""
    singles = [function for function in ("cos", "sin") if role in (function, None)]
    orders = ORDERS.get(role, ())
    if pairs_are_complex:
        if len(shape) == 3 and shape[1:] == (half, 2) and orders:
            yield Layout(Form("complex"), ("cos", "sin"))
        return
    if len(shape) == 2 and shape[1] == half:
        yield from (Layout(Form("alone"), (each,)) for each in singles)
    if len(shape) == 2 and shape[1] == 2 * half:
        for doubled in ("halves", "interleaved"):
            yield from (Layout(Form("alone", doubled), (each,)) for each in singles)
        for arrangement in ("halves", "interleaved"):
            yield from (Layout(Form(arrangement), order) for order in orders)
    if len(shape) == 3 and shape[0] == 2 and shape[2] in (half, 2 * half):
        for doubled in ("",) if shape[2] == half else ("halves", "interleaved"):
            yield from (Layout(Form("stacked", doubled), order) for order in orders)
    if len(shape) == 3 and shape[1:] == (half, 2):
        yield from (Layout(Form("pairs"), order) for order in orders)


def positions_in(shape: tuple[int, ...], layout: Layout) -> int:
    """How many positions a table of that shape and layout covers."""
    return shape[1] if layout.form.arrangement == "stacked" else shape[0]


def laid_out(rope: Rope, layout: Layout, shape: tuple[int, ...]) -> Table:
    """The table of a compact rope in a layout that gives it this shape."""
    parts = {table.name: table for table in rope.tensors()}
    tables = [parts[function] for function in layout.functions]
    form = layout.form
    if form.arrangement == "stacked":
        alone = replace(form, arrangement="alone")
        return stacked(tables[0].name, [_joined([table], alone, shape[1:]) for table in tables])
    return _joined(tables, replace(form, arrangement="pairs") if form.arrangement == "complex" else form, shape)


def _joined(parts: list[Table], form: Form, shape: tuple[int, ...]) -> Table:
    """Parts of (positions, frequencies) joined position by position."""
    table = replace(parts[0], shape=shape)
    each = math.prod(shape[1:])

    def fill(start: int, out: Array) -> None:
        begin, end = start * table.width, start * table.width + out.size
        first = begin // each
        block = form.join(*(part.read(first, -(-end // each)) for part in parts))
        out[...] = np.asarray(block).reshape(-1)[begin - first * each :][: out.size].reshape(out.shape)

    return replace(table, fill=fill)


def taken_apart(table: Table, layout: Layout) -> dict[str, Table]:
    """The functions of a table in that layout, each a table of its own: a row a position."""
    positions = positions_in(table.shape, layout)
    if len(layout.functions) == 1:
        return {layout.functions[0]: table}
    if layout.form.arrangement == "stacked":
        rows = reshaped(table, (2 * positions, table.shape[-1]))
        starts = zip(layout.functions, (0, positions), strict=True)
        return {name: _cut(name, rows, range(start, start + positions), slice(None)) for name, start in starts}
    rows = reshaped(table, (positions, table.size // positions))
    half = rows.width // 2
    in_turn = slice(0, None, 2), slice(1, None, 2)
    columns = (slice(0, half), slice(half, None)) if layout.form.arrangement == "halves" else in_turn
    parts = zip(layout.functions, columns, strict=True)
    return {name: _cut(name, rows, range(positions), part) for name, part in parts}


def _cut(name: str, table: Table, rows: range, columns: slice) -> Table:
    """Some rows and columns of a table."""
    width = len(range(*columns.indices(table.width)))

    def fill(start: int, out: Array) -> None:
        out[...] = table.read(rows.start + start, rows.start + start + len(out))[:, columns]

    return Table(name, table.dtype, (len(rows), width), fill, table.in_order)
