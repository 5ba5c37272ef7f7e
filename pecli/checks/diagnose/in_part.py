"""Tables that are right but for a few rows or columns, and what these hold instead."""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.beside import beside
from pecli.checks.diagnose.precision import places
from pecli.engine.arrays import Floats, Indices
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table

_FEW = 3
"""Rows, or columns, that are named."""
_WRONG = 0.5
"""Of a row or a column, that must be off before it is the row that is wrong, and not some of its elements."""


def wrong_in_part(scheme: Scheme, name: str, table: Table) -> str:
    """Which rows or columns are wrong where all others are right; nothing where that is not so."""
    for each in beside(scheme, name, table) if name != "inv_freq" else ():
        if each.own.shape != each.raw.shape or not (np.isfinite(each.own).all() and np.isfinite(each.found).all()):
            continue
        coarse = 2.0 ** -min(places(each.dtype), 24) * np.abs(each.own)
        off = np.abs(each.found - each.own) > each.allowed() + coarse
        if not off.any():
            return ""
        words = _of(each.found, each.own, off, "row") or _of(each.found.T, each.own.T, off.T, "column")
        if words:
            return words + each.layout
    return ""


def _of(found: Floats, own: Floats, off: np.ndarray, kind: str) -> str:
    wrong = np.flatnonzero(off.any(axis=1))
    if not 0 < wrong.size <= min(_FEW, len(off) // 4) or off[wrong].mean() < _WRONG:
        return ""
    what = ", ".join(f"{kind} {k}, which {_holds(found, own, int(k), kind, wrong)}" for k in wrong)
    return f"all is right but {what}"


def _holds(found: Floats, own: Floats, row: int, kind: str, wrong: Indices) -> str:
    values = found[row]
    if not values.any():
        return "is zero"
    if np.ptp(values) == 0:
        return f"is {values[0]:.6g} everywhere"
    close = 1e-3 * float(np.abs(own).max())
    for other in (row - 1, row + 1, *range(len(own))):
        if other != row and 0 <= other < len(own) and np.abs(own[other] - values).max() <= close:
            return f"is {kind} {other}"
    return "is none of the table's"
