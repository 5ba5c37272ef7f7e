"""Tables of waves that no scheme makes as they are, and one makes once a slip is undone.

Position 0 shows itself: all its sines are zero, and all its cosines the same. Where that row is not the first, or
the sines after it fall, something was turned round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pecli.checks.identify.beginning import Beginning
from pecli.engine.arrays import Flags, Floats
from pecli.engine.numerics.dtypes import SIGNIFICAND_BITS
from pecli.engine.numerics.rounding import round_to, widened

if TYPE_CHECKING:
    from pecli.checks.identify.match import Match


_FEWEST = 8
"""Rows that a table must have."""
_NEAR = 1e-3
_SHORT = {"int8": "bfloat16", "int16": "float16", "int32": "float32"}
"""Dtypes that have no more digits than fixed point of as many bits."""


@dataclass(frozen=True)
class Undone:
    """What was wrong, and the tensors without it."""

    words: str
    samples: list[Beginning]
    fixed_point: bool = False

    def told(self, match: Match) -> Match:
        """A match of the tensors without it: fixed point has no dtype of its own, and is as large as can be."""
        if not self.fixed_point or not hasattr(match.scheme, "dtype"):
            return match
        changes: dict[str, Any] = {"dtype": "float32", "recipe": "exact"}
        if abs(getattr(match.scheme, "amplitude", 1.0) - 1) < _NEAR:
            changes["amplitude"] = 1.0
        changes = {name: value for name, value in changes.items() if hasattr(match.scheme, name)}
        return replace(match, scheme=replace(match.scheme, **changes))


def undone(samples: Sequence[Beginning]) -> Undone | None:
    """The tensors with a slip undone; None where there is no sign of one."""
    if not 1 <= len(samples) <= 2 or not all(one.whole and one.array.ndim == 2 for one in samples):
        return None
    if any(one.array.dtype.kind == "c" or not np.isfinite(one.array).all() for one in samples):
        return None
    table = np.concatenate([one.array for one in samples], axis=1) if _alike(samples) else np.empty((0, 0))
    whole = samples[0].dtype in _SHORT
    if len(table) < _FEWEST or not (whole or samples[0].dtype in SIGNIFICAND_BITS):
        return None
    for row in (0, 1, len(table) - 1):
        sines = _sines(table[row])
        if sines is not None:
            height = float(np.abs(table[row]).max())
            words, moved = _turned(table, row, sines)
            if whole:
                words = [f"as {samples[0].dtype}, {height:g} times the values", *words]
                moved = widened(round_to(moved / height, _SHORT[samples[0].dtype]))
            return Undone(", ".join(words), _split(moved, samples), whole) if words else None
    return None


def _alike(samples: Sequence[Beginning]) -> bool:
    return len({(one.shape, one.dtype) for one in samples}) == 1


def _sines(row: Floats) -> Flags | None:
    """Which columns are sines, by the row of position 0: all zero, where the cosines are all one number."""
    top = float(row.max())
    sines = np.asarray(row == 0)
    if not top > 0 or not np.isin(row, (0.0, top)).all() or abs(2 * int(sines.sum()) - len(row)) > 1:
        return None
    return sines


def _turned(table: Floats, row: int, sines: Flags) -> tuple[list[str], Floats]:
    """What is turned round in a table whose position 0 is in that row, and the table from there on, as it should be."""
    if row == 1 and (table[0, ~sines] == table[2, ~sines]).all() and (table[0, sines] == -table[2, sines]).all():
        return ["from position -1 on, which the command leaves out"], table[1:]
    if row > 1:
        return ["with the rows in reverse order"], table[::-1]
    slow = np.abs(table[1]) < 0.5 * float(table[0].max())
    if row == 0 and (sines & slow).any() and (table[1, sines & slow] <= 0).all() and table[1, sines & slow].any():
        return ["with the sines negated: it turns the other way"], np.where(sines, -table, table)
    return [], table


def _split(table: Floats, samples: Sequence[Beginning]) -> list[Beginning]:
    """The tensors of one table again."""
    parts = np.split(table, len(samples), axis=1)
    return [
        replace(one, array=part, shape=part.shape, dtype=_SHORT.get(one.dtype, one.dtype))
        for one, part in zip(samples, parts, strict=True)
    ]
