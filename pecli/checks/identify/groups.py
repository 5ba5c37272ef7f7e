"""Which tensors of a file to look at, and which of them belong together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pecli.engine.table import Table

FEW = 8
"""A file of so many tensors is looked at whole; of more, only those whose names speak of positions."""
MOST = 256
"""Tensors that are looked at in one file."""

_POSITIONAL = re.compile(
    r"(^|[^a-z])(pos|pe|wpe|rope|rotary|alibi|slopes?|inv_?freqs?|freqs?|cos|sin|relative|time_?embed\w*)([^a-z]|$)"
    r"|pos_?emb|position|rotary|rope_|alibi|inv_freq|freqs_cis|rel_pos|relative_attention_bias|time_proj",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Group:
    """Tensors that are explained together: one alone, or cosines and sines, perhaps with their frequencies."""

    tables: tuple[Table, ...]
    inv_freq: Table | None = None

    @property
    def all_tables(self) -> tuple[Table, ...]:
        return self.tables if self.inv_freq is None else (*self.tables, self.inv_freq)

    @property
    def names(self) -> str:
        return ", ".join(table.name for table in self.tables)


def groups(tables: Sequence[Table]) -> list[Group]:
    """The tensors to look at, in the order of the file; none where many are there and no name speaks of positions."""
    chosen = list(tables)
    if len(tables) > FEW:
        chosen = [table for table in tables if _POSITIONAL.search(table.name)][:MOST]
    left = {table.name: table for table in chosen}
    found = []
    for table in chosen:
        if table.name not in left:
            continue
        partner = _partner(table, left)
        if partner is None:
            continue
        cosines, sines = left.pop(partner[0]), left.pop(partner[1])
        found.append(Group((cosines, sines), _beside(cosines, left)))
    taken = {group.inv_freq.name for group in found if group.inv_freq}
    return found + [Group((table,)) for table in left.values() if table.name not in taken]


def _partner(table: Table, left: dict[str, Table]) -> tuple[str, str] | None:
    """The names of cosines and sines of one shape, one of which is the table's."""
    for mine, other in (("cos", "sin"), ("sin", "cos")):
        at = table.name.lower().rfind(mine)
        if at < 0:
            continue
        word = other if table.name[at : at + 3].islower() else other.upper()
        name = table.name[:at] + word + table.name[at + 3 :]
        if name in left and left[name].shape == table.shape and left[name].dtype == table.dtype:
            return (table.name, name) if mine == "cos" else (name, table.name)
    return None


def _beside(cosines: Table, left: dict[str, Table]) -> Table | None:
    """The inverse frequencies under the same prefix, or the only ones there are."""
    prefix = cosines.name.rpartition(".")[0]
    all_of_them = [table for table in left.values() if "inv_freq" in table.name.lower()]
    near = [table for table in all_of_them if table.name.rpartition(".")[0] == prefix]
    return near[0] if near else all_of_them[0] if len(all_of_them) == 1 else None
