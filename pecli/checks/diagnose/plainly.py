"""What can be said of a table without any hypothesis: what is not a number in it, or that nothing was written to it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from pecli.checks.compare import compare
from pecli.checks.diagnose.sample import picks
from pecli.checks.tolerance import Tolerance
from pecli.engine.arrays import Array, Flags
from pecli.engine.numerics.rounding import widened
from pecli.engine.schemes.alibi import Alibi
from pecli.engine.schemes.learned import LearnedInit
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.engine.schemes.sinusoidal import Sinusoidal
from pecli.engine.table import Table, table_of

_WHOLE = 1 << 22
"""Elements of a table that is read as a whole."""
_ABOUT = 0.02
"""How far elements may be off that are the right ones, but for precision."""
_SMALL, _MOST = 1 << 18, 1 << 24
"""Elements that are all looked at; and if the sample is suspicious: of a larger table, its first ones."""


def passes(own: Table, table: Table, tolerance: Tolerance) -> bool:
    """Whether all rows that are looked at are right."""
    if own.shape != table.shape or own.dtype != table.dtype:
        return False
    ours, theirs = (table_of(own.name, each.pick(picks(table.rows))) for each in (own, table))
    return compare(ours, theirs, tolerance).passed


def not_finite(scheme: Scheme, name: str, table: Table) -> str:
    """How many values are not finite, and where the first one is; nothing where all are, or all may be."""
    if name == "inv_freq":  # where it says something about its memory
        return ""
    masks = isinstance(scheme, Alibi) and name == "bias"
    if table.size > _SMALL and not _wrong(table.pick(picks(table.rows)), masks).any():
        return ""
    bad, first = 0, ""
    for start, block in _blocks(table):
        wrong = _wrong(block, masks)
        if wrong.any() and not first:
            place = np.unravel_index(start * table.width + int(wrong.argmax()), table.shape)
            first = ", ".join(str(int(k)) for k in place)
        bad += int(np.count_nonzero(wrong))
    return f"{bad} of {table.size} values are NaN or infinite, the first at [{first}]" if bad else ""


def _blocks(table: Table) -> Iterator[tuple[int, Array]]:
    rows, step = max(1, _MOST // table.width), table.block_rows()
    for start in range(0, min(table.rows, rows), step):
        yield start, table.read(start, min(start + step, table.rows))


def _wrong(block: Array, masks: bool) -> Flags:
    if block.dtype.kind == "c":
        return np.asarray(~np.isfinite(block.real) | ~np.isfinite(block.imag))
    values = widened(block)
    return np.asarray(np.isnan(values) | (values == np.inf)) if masks else np.asarray(~np.isfinite(values))


def unwritten(scheme: Scheme, name: str, table: Table) -> str:
    """What to say of rows at the end that are all zero, where there should be waves or draws."""
    made = isinstance(scheme, (LearnedInit, Rope, Sinusoidal)) and name != "cos_sin"  # whose last half are sines
    if not made or len(table.shape) < 2 or table.rows < 4:
        return ""
    end = written_rows(table)
    zeros = table.rows - end
    if not end or zeros < (2 if isinstance(scheme, LearnedInit) else 1):
        return ""
    which = "the last row is zero" if zeros == 1 else f"the last {zeros:,} of {table.rows:,} rows are zero"
    return f"{which}: nothing was written there"


def written_rows(table: Table) -> int:
    """How many rows there are without those at the end that are zero."""
    end, step = table.rows, table.block_rows()
    while end:
        start = max(0, end - step)
        written = np.flatnonzero(table.read(start, end).any(axis=1))
        if written.size:
            return start + int(written[-1]) + 1
        end = start
    return 0


def misread(scheme: Scheme, name: str, table: Table) -> str:
    """What to say of a right table whose memory was taken for that of its rows."""
    real = len(table.shape) == 2 and not table.dtype.startswith("complex")
    if not isinstance(scheme, (Rope, Sinusoidal)) or not real or not 1 < min(table.shape) <= table.size <= _WHOLE:
        return ""
    rows, width = table.shape
    columns, some = widened(table.array()).reshape(width, rows), picks(rows)
    layouts = (scheme.layout, *(("compact", "halves", "interleaved") if isinstance(scheme, Rope) else ()))
    for own in (each for layout in layouts for each in replace(scheme, layout=layout).tensors()):
        if own.name != name or own.shape != table.shape:
            continue
        if np.abs(widened(own.pick(some)) - columns[:, some].T).max() < _ABOUT:
            return "it was written column by column, and read row by row"
    return ""


def bare_angles(scheme: Scheme, name: str, table: Table) -> str:
    """What to say of angles whose cosine or sine nobody took."""
    if not isinstance(scheme, Rope) or name not in ("cos", "sin") or len(table.shape) != 2:
        return ""
    own, rows = np.array(scheme.frequencies().floats()), picks(table.rows)
    if table.dtype.startswith("complex") or table.width != len(own) or len(rows) < 4:
        return ""
    if np.allclose(widened(table.pick(rows)), np.outer(rows + scheme.offset, own), rtol=1e-2, atol=1e-6):
        return "it holds the angles themselves; take their cosine and sine"
    return ""


def constant(scheme: Scheme, name: str, table: Table) -> str:
    """What to say of a table that is the same everywhere."""
    if table.size < 2 or table.dtype.startswith("complex"):
        return ""
    seen = widened(table.pick(picks(table.rows)))
    value = float(seen[0, 0])
    if (seen != value).any() or any((widened(block) != value).any() for _, block in _blocks(table)):
        return ""
    rows = getattr(scheme, "seq_len", None) or table.rows
    if rows < 2 and value in (0.0, 1.0):
        return ""
    if isinstance(scheme, Rope) and math.isclose(value, _still(scheme, name), rel_tol=0.01):
        return f"is {value:g} everywhere: inv_freq is zero, as if it was never initialised"
    return f"is {value:g} everywhere: nothing was written to it"


def _still(rope: Rope, name: str) -> float:
    """The value of waves that do not turn."""
    return 0.0 if name == "sin" else rope.attention_factor_value()
