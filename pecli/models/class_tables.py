"""Tables of positions by model_type, as classes of transformers have them: data in class_tables.json beside this file.

A row is a tensor with the rule for its rows and its width, [name, key, more, key]: as many rows as a key says and some
more, or as an image has patches where that key is empty. Or it is a tensor that no scheme describes, [name, shape at
class defaults].
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from pecli.models.families import plain_name
from pecli.models.table_kinds import Kind, Learned, Several, Unsupported


@cache
def _tables() -> dict[str, list[list[Any]]]:
    found: dict[str, list[list[Any]]] = json.loads((Path(__file__).parent / "class_tables.json").read_text("utf-8"))
    return found


def tables_of(model_type: str | None) -> Kind | None:
    """The tables of a model_type; None where its class has none, or is not known."""
    rows = _tables().get(plain_name(model_type), [])
    ruled, others = [row for row in rows if len(row) == 4], [row for row in rows if len(row) == 2]
    several = len(ruled) > 1
    parts = tuple(
        Learned(rows=(key,) if key else (), more=more, dim=(dim,), name=tensor if several else "", offset=0)
        for tensor, key, more, dim in ruled
    )
    named = ", ".join(f"{tensor} ({shape})" for tensor, shape in others)
    note = f"it has tables of positions that are none of pecli's schemes, at class defaults: {named}" if named else ""
    if parts:
        return Several(note, parts=parts)
    return Unsupported(note) if note else None
