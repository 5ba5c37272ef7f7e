"""What can be said of a table without any hypothesis: what is not a number in it, or that nothing was written to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pecli.checks.compare import compare
from pecli.checks.diagnose.sample import picks, rows_of
from pecli.checks.tolerance import Tolerance
from pecli.engine.alibi import Alibi
from pecli.engine.learned import LearnedInit
from pecli.engine.rope import Rope
from pecli.engine.rounding import widened
from pecli.engine.scheme import Scheme
from pecli.engine.table import Table, table_of

if TYPE_CHECKING:
    from pecli.engine.arrays import Array, Flags

_MOST = 1 << 24
"""Elements that are looked at one by one; of a larger table, its first ones."""


def passes(own: Table, table: Table, tolerance: Tolerance) -> bool:
    """Whether all rows that are looked at are right."""
    if own.shape != table.shape or own.dtype != table.dtype:
        return False
    ours, theirs = (table_of(own.name, rows_of(each, picks(table.rows))) for each in (own, table))
    return compare(ours, theirs, tolerance).passed


def plain_words(scheme: Scheme, name: str, table: Table) -> str:
    """What a table is that holds no encoding at all; nothing about others."""
    if name == "inv_freq" or not table.size:
        return ""
    masks = isinstance(scheme, Alibi) and name == "bias"
    bad, first, low, high = 0, None, np.inf, -np.inf
    rows = max(1, _MOST // max(1, table.width))
    for start in range(0, min(table.rows, rows), table.block_rows()):
        block = table.read(start, min(start + table.block_rows(), table.rows))
        wrong = _not_finite(block, masks)
        if wrong.any() and first is None:
            row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
            first = np.unravel_index((start + int(row)) * table.width + int(column), table.shape)
        bad += int(np.count_nonzero(wrong))
        if block.dtype.kind != "c" and not bad:
            values = widened(block)
            low, high = min(low, float(values.min())), max(high, float(values.max()))
    if first is not None:
        place = ", ".join(str(int(k)) for k in first)
        return f"{bad} of {table.size} values are NaN or infinite, the first at [{place}]"
    return _constant(scheme, name, table, low) if low == high and table.size > 1 else ""


def _not_finite(block: Array, masks: bool) -> Flags:
    if block.dtype.kind == "c":
        return np.asarray(~np.isfinite(block.real) | ~np.isfinite(block.imag))
    values = widened(block)
    return np.asarray(np.isnan(values) | (values == np.inf) | (~np.isfinite(values) & (not masks)))


def _constant(scheme: Scheme, name: str, table: Table, value: float) -> str:
    rows = getattr(scheme, "seq_len", None) or table.rows
    if isinstance(scheme, LearnedInit) and scheme.init == "zeros" and value == 0:
        return ""
    if isinstance(scheme, Rope) and rows > 1 and value == (0 if name == "sin" else scheme.attention_factor_value()):
        return f"is {value:g} everywhere: inv_freq is zero, as if it was never initialised"
    if rows < 2 and value in (0.0, 1.0):
        return ""
    return f"is {value:g} everywhere: nothing was written to it"
