"""Tables that are right at first: rows that come again or stand still, and columns that nobody wrote."""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.sample import picks
from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table

_MOST = 1 << 22
"""Elements that are looked at, from the first row on."""
_SHORTEST = 4
"""Rows that tell something by being the same."""


def again(scheme: Scheme, name: str, table: Table) -> str:
    """What to say of waves that do not go on."""
    waves = (isinstance(scheme, Rope) and name in ("cos", "sin")) or (isinstance(scheme, Sinusoidal) and name == "pe")
    if not waves or len(table.shape) != 2 or table.dtype.startswith("complex") or min(table.shape) < _SHORTEST:
        return ""
    rows = widened(table.read(0, min(table.rows, max(_SHORTEST, _MOST // table.width))))
    still = isinstance(scheme, Rope) and scheme.scaling == "proportional"  # whose last sines are zero
    return ("" if still else _written_in_part(name, table)) or _stands_still(rows, table) or _starts_again(rows)


def _written_in_part(name: str, table: Table) -> str:
    """Of cosines, which are never zero for so long; sines of slow waves are, in short dtypes."""
    if name == "sin" and table.dtype not in ("float32", "float64"):
        return ""
    written = np.flatnonzero(widened(table.pick(picks(table.rows))).any(axis=0))
    left = table.width - int(written[-1]) - 1 if written.size else 0
    return f"the last {left:,} of {table.width:,} columns are zero: nothing was written there" if left > 1 else ""


def _stands_still(rows: Floats, table: Table) -> str:
    if len(rows) < table.rows:
        return ""
    same = (rows == rows[-1]).all(axis=1)
    first = len(rows) - int(np.argmin(same[::-1]))
    return f"positions stop at row {first:,}: all from there on are the same" if len(rows) - first >= _SHORTEST else ""


def _starts_again(rows: Floats) -> str:
    for row in np.flatnonzero((rows[1:] == rows[0]).all(axis=1)) + 1:
        count = min(_SHORTEST, len(rows) - int(row))
        if count == _SHORTEST and (rows[row : row + count] == rows[:count]).all():
            return f"positions start again: row {row:,} is row 0, and so on"
    return ""
