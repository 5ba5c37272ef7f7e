"""A table held against the scheme that a sample of it suggests: all of it, or the end of one too large for that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Array
from pecli.engine.numerics.rounding import widened

if TYPE_CHECKING:
    from pecli.checks.identify.match import Match
    from pecli.engine.table import Table


_ROWS = 64
"""Rows of the end."""
_WHOLE = 1 << 22
"""Elements of a table that is looked at whole."""
_FAR = 0.05
"""Errors of other programs grow with the position; what is further off than this share is another table."""


def confirmed(match: Match, tables: Sequence[Table]) -> tuple[Match | None, str]:
    """The match with the errors in the tables counted in; or None, and what is wrong at their end, in words."""
    if not _wide_enough(match, tables):
        return None, "is too wide to be looked at whole"
    made = [*match.scheme.tensors(), match.scheme.single_array()]
    error = match.max_abs_error
    for table in tables:
        like = [each for each in made if each.shape == table.shape]
        if len(tables) > 1:
            like = [each for each in like if each.name == ("cos" if table is tables[0] else "sin")]
        if not like or like[0].in_order or table.dtype != like[0].dtype:
            continue
        start = max(0, table.rows - _ROWS)
        found = widened(table.read(start, table.rows))
        off, best = min((_distance(each.read(start, table.rows), found), k) for k, each in enumerate(like))
        if off > _FAR * max(float(np.abs(found[np.isfinite(found)]).max(initial=0.0)), error):
            return None, f"begins as `{match.command}` does, but ends otherwise"
        error = max(error, off, _before(start, like[best], table) if table.size <= _WHOLE else 0.0)
    return replace(match, max_abs_error=error), ""


def _wide_enough(match: Match, tables: Sequence[Table]) -> bool:
    """Whether the channels of the scheme, or its pairs, fill an axis of every table: the sample may have cut it."""
    dim = int(getattr(match.scheme, "dim", 1))
    widths = {dim, dim // 2 if dim % 2 == 0 else dim}
    return all(any(axis % width == 0 for axis in table.shape for width in widths) for table in tables)


def _before(stop: int, made: Table, table: Table) -> float:
    """How far off a table is in all rows before one."""
    step = table.block_rows()
    blocks = ((start, min(start + step, stop)) for start in range(0, stop, step))
    return max((_distance(made.read(*rows), table.read(*rows)) for rows in blocks), default=0.0)


def _distance(expected: Array, found: Array) -> float:
    expected, found = widened(expected), widened(found)
    with np.errstate(invalid="ignore"):
        off = np.abs(expected - found)
    finite = np.isfinite(expected) & np.isfinite(found)
    return float(off[finite].max(initial=0.0))
