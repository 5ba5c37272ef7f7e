"""Writing what an encoding was applied to, and saying what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pecli.cli import options
from pecli.cli.exits import Exit

if TYPE_CHECKING:
    from pecli.engine.table import Table

MAX_LISTED = 4
"""Tensors that a line of text names."""


@dataclass(frozen=True)
class Applied:
    """The result, still to be made; the parameters behind it, and the same in a few words."""

    tables: Sequence[Table]
    parameters: Mapping[str, Any]
    words: str
    seq_axis: int | None = -2
    """The axis of positions in every tensor; None where a tensor has no such axis, or no position matters."""


def positions(low: int, high: int) -> str:
    """The positions from low to below high, for people."""
    return f"{low} … {high - 1}" if high - low > 1 else str(low) if high > low else "none"


def along(table: Table, seq_axis: int = -2) -> str:
    """Which axis of a tensor was taken for positions, for people."""
    return f"along axis {seq_axis % len(table.shape)} of {table.shape}"


def write(scheme: str, applied: Applied, metadata: Mapping[str, str], values: Mapping[str, Any]) -> int:
    """Write the tables block by block, and say so."""
    from pecli.files.save import save_tables
    from pecli.views import screen
    from pecli.views.progress import BlockObserver

    path: str = values["output"]
    options.check_output(path, json=values["json"], example="y.npy")
    observer = BlockObserver(scheme, applied.tables, values)
    with observer:
        save_tables(path, applied.tables, None, metadata=metadata, on_block=observer.see)
    if values["json"]:
        tensors = observer.tensors()
        if applied.seq_axis is not None:
            for table in applied.tables:
                tensors[table.name]["seq_axis"] = applied.seq_axis % len(table.shape)
        screen.say_json({"scheme": scheme, "parameters": dict(applied.parameters), "tensors": tensors, "output": path})
    elif not values["quiet"]:
        shown = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in applied.tables[:MAX_LISTED]]
        if len(applied.tables) > MAX_LISTED:
            shown.append(f"and {len(applied.tables) - MAX_LISTED} more")
        screen.say_written(path, f"{', '.join(shown)}, ", f"; {scheme}: {applied.words}")
    return Exit.DONE
