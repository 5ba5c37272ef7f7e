"""The end of a table too large to look at whole, held against the scheme that its beginning suggests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.rounding import widened

if TYPE_CHECKING:
    from pecli.checks.identify.match import Match
    from pecli.engine.table import Table

_ROWS = 64
_FAR = 0.05
"""Errors of other programs grow with the position; what is further off than this share is another table."""


def confirmed(match: Match, tables: Sequence[Table]) -> tuple[Match | None, str]:
    """The match with the errors at the end of the tables counted in; or None, and what is wrong, in words."""
    if not _wide_enough(match, tables):
        return None, "is too wide to be looked at whole"
    made = [*match.scheme.tensors(), match.scheme.plain()]
    error = match.max_abs_error
    for table in tables:
        like = [each for each in made if each.shape == table.shape]
        if len(tables) > 1:
            like = [each for each in like if each.name == ("cos" if table is tables[0] else "sin")]
        if not like or like[0].in_order or table.dtype != like[0].dtype:
            continue
        start = max(0, table.rows - _ROWS)
        found = widened(table.read(start, table.rows))
        off = min(_distance(widened(each.read(start, table.rows)), found) for each in like)
        if off > _FAR * max(float(np.abs(found[np.isfinite(found)]).max(initial=0.0)), error):
            return None, f"begins as `{match.command}` does, but ends otherwise"
        error = max(error, off)
    return replace(match, max_abs_error=error), ""


def _wide_enough(match: Match, tables: Sequence[Table]) -> bool:
    """Whether the channels of the scheme, or its pairs, fill an axis of every table: the sample may have cut it."""
    dim = int(getattr(match.scheme, "dim", 1))
    widths = {dim, dim // 2 if dim % 2 == 0 else dim}
    return all(any(axis % width == 0 for axis in table.shape for width in widths) for table in tables)


def _distance(expected: np.ndarray, found: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        off = np.abs(expected - found)
    finite = np.isfinite(expected) & np.isfinite(found)
    return float(off[finite].max(initial=0.0))
