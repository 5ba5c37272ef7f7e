"""Which tensors of two files belong together."""

from __future__ import annotations

from collections.abc import Sequence

from pecli.engine.reshape import stacked
from pecli.engine.table import Table

Pair = tuple[Table, Table]


def pair(a: Sequence[Table], b: Sequence[Table]) -> list[Pair]:
    """Which tensors belong together: those of one name, or the only ones; cos and sin with both in one array."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    for alone, others in ((a, b), (b, a)):
        both = stacked_tables(others)
        if len(alone) == 1 and both is not None and alone[0].shape == both.shape:
            return [(alone[0], both) if alone is a else (both, alone[0])]
    named = {table.name: table for table in b}
    return [(table, named[table.name]) for table in a if table.name in named]


def stacked_tables(tables: Sequence[Table]) -> Table | None:
    """cos and sin, one after the other, as files that hold one array have them."""
    named = {table.name: table for table in tables}
    if not {"cos", "sin"} <= {*named} or named["cos"].shape != named["sin"].shape:
        return None
    return stacked("cos_sin", [named["cos"], named["sin"]])


def alone(a: Sequence[Table], b: Sequence[Table], pairs: Sequence[Pair], may_miss: frozenset[str]) -> list[str]:
    """What only one of the files has, in words; of schemes, what follows from the others may be absent."""
    if any(table.name == "cos_sin" for each in pairs for table in each):
        return []  # what follows from them may be absent
    paired = [{id(one[side]) for one in pairs} for side in (0, 1)]
    lines = []
    for tables, known, here, there in ((a, paired[0], "A", "B"), (b, paired[1], "B", "A")):
        left = [table.name for table in tables if id(table) not in known and not (pairs and table.name in may_miss)]
        lines += [f"{name}: only {here} has it, {there} does not" for name in left]
    return lines
