"""Writing what an encoding was applied to, and saying what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pecli.cli import options
from pecli.cli.exits import Exit

if TYPE_CHECKING:
    from pecli.engine.table import Table

_MOST_SHOWN = 4
"""Tensors that a line of text names."""


@dataclass(frozen=True)
class Applied:
    """The result, still to be made; the parameters behind it, and the same in a few words."""

    tables: Sequence[Table]
    parameters: Mapping[str, Any]
    words: str


def positions(low: int, high: int) -> str:
    """The positions from low to below high, for people."""
    return f"{low} … {high - 1}" if high - low > 1 else str(low) if high > low else "none"


def write(scheme: str, applied: Applied, metadata: Mapping[str, str], values: Mapping[str, Any]) -> int:
    """Write the tables block by block, and say so."""
    from pecli.cli.block_observer import Watch
    from pecli.files.save import save_tables
    from pecli.views import screen

    path: str = values["output"]
    options.check_output(path, json=values["json"], example="y.npy")
    watch = Watch(scheme, applied.tables, values)
    with watch:
        save_tables(path, applied.tables, None, metadata=metadata, on_block=watch.see)
    if values["json"]:
        data = {"scheme": scheme, "parameters": dict(applied.parameters), "tensors": watch.tensors(), "output": path}
        screen.say_json(data)
    elif not values["quiet"]:
        shown = [f"{table.name} {screen.shape(table.shape)} {table.dtype}" for table in applied.tables[:_MOST_SHOWN]]
        if len(applied.tables) > _MOST_SHOWN:
            shown.append(f"and {len(applied.tables) - _MOST_SHOWN} more")
        screen.say_written(path, f"{', '.join(shown)}, ", f"; {scheme}: {applied.words}")
    return Exit.DONE
