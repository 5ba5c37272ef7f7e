"""Right tables whose bytes are swapped."""

from __future__ import annotations

import numpy as np

from pecli.checks.diagnose.beside import beside
from pecli.checks.diagnose.precision import places
from pecli.engine.arrays import Array
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.table import Table, table_of

_WHOLE = 1 << 24
"""Elements of a tensor that is looked at whole."""


def bytes_turned(scheme: Scheme, name: str, table: Table) -> str:
    """Whether the values are right once the bytes of each are put in the other order."""
    if table.size > _WHOLE or table.dtype not in ("float64", "float32", "float16"):
        return ""
    right = _right(scheme, name, table.array().byteswap())
    return "" if right is None else f"the bytes of every value are in the other order (big-endian, unsaid){right}"


def _right(scheme: Scheme, name: str, array: Array) -> str | None:
    """Words about the layout of an array that is right, perhaps none; None where it is not right."""
    for each in beside(scheme, name, table_of(name, np.ascontiguousarray(array))):
        if each.own.shape == each.raw.shape and np.isfinite(each.found).all():
            coarse = 2.0 ** -min(places(each.dtype), 24) * np.abs(each.own) + 2.0**-25
            if (np.abs(each.found - each.own) <= each.allowed() + coarse).all():
                return each.layout
    return None
