"""Which tensors of two files belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pecli.checks.same_table import fitted
from pecli.checks.tensor_roles import role_of
from pecli.engine.table import Table, stacked

Pair = tuple[Table, Table]


def pair(a: Sequence[Table], b: Sequence[Table]) -> list[Pair]:
    """Which tensors belong together: those of one name, or the only ones; cos and sin with both in one array."""
    if len(a) == len(b) == 1:
        return [(a[0], b[0])]
    for alone, others in ((a, b), (b, a)):
        both = stacked_tables(others)
        if len(alone) == 1 and both is not None and fitted(alone[0], both) is not None:
            return [(alone[0], both) if alone is a else (both, alone[0])]
    named = {table.name: table for table in b}
    pairs = [(table, named[table.name]) for table in a if table.name in named]
    known = {table.name for each in pairs for table in each}
    ours, theirs = (_by_role(table for table in side if table.name not in known) for side in (a, b))
    return pairs + [(ours[role], theirs[role]) for role in ours if role in theirs]


def _by_role(tables: Iterable[Table]) -> dict[str, Table]:
    """The tensors that are the only ones of their file whose names mean the same."""
    found: dict[str, list[Table]] = {}
    for table in tables:
        if (role := role_of(table.name)) in ("cos", "sin", "inv_freq", "slopes", "bias"):
            found.setdefault(role, []).append(table)
    return {role: each[0] for role, each in found.items() if len(each) == 1}


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
