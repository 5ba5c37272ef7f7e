"""Channels over positions; for ALiBi, biases over distances."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.alibi import Alibi
from pecli.engine.rounding import widened
from pecli.engine.table import Table
from pecli.errors import ParameterError
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish, chosen

if TYPE_CHECKING:
    from pecli.engine.arrays import Floats

LONGEST = 1 << 20
"""Positions that are drawn; more would be a band."""
_MOST = 5


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """One chart; with several subjects each curve says whose it is."""
    if all(isinstance(subject.scheme, Alibi) for subject in subjects):
        return Picture("", [_biases(subjects, wish)])
    most = max(1, _MOST // len(subjects))
    curves: list[Curve] = []
    for subject in subjects:
        for table in _matrices(subject):
            if subject.kind == "rope" and table.name.endswith("sin"):
                continue
            prefix = f"{subject.label} " if len(subjects) > 1 else f"{table.name} " if len(subject.tables) > 1 else ""
            picked = chosen(wish, table.width, most) if wish.channels else _between(table.width, most)
            rows = _columns(table, picked)
            x = subject.first + np.arange(len(rows), dtype=np.float64)
            curves += [Curve(f"{prefix}channel {k}", x, rows[:, j]) for j, k in enumerate(picked)]
    if not curves:
        raise ParameterError("kind", "curves", "there is no table with rows and columns")
    return Picture("", [Chart("", curves[:12])])


def _matrices(subject: Subject) -> list[Table]:
    return [table for table in subject.tables if len(table.shape) == 2 and table.size]


def _between(count: int, most: int) -> list[int]:
    """A few channels, neither the fastest, which would be a band, nor the slowest, which would be a line."""
    return [(k + 1) * count // (most + 1) for k in range(most)] if count > most else list(range(count))


def _columns(table: Table, picked: Sequence[int]) -> Floats:
    """Some columns of a table, read block by block."""
    length, parts, seen = min(table.rows, LONGEST), [], 0
    for block in table.blocks():
        parts.append(widened(block[: length - seen, list(picked)]))
        seen += len(block)
        if seen >= length:
            break
    return np.concatenate(parts)


def _biases(subjects: Sequence[Subject], wish: Wish) -> Chart:
    curves = []
    for subject in subjects:
        scheme = subject.scheme
        assert isinstance(scheme, Alibi)
        slopes = widened(next(table for table in scheme.tensors() if table.name == "slopes").array())
        distances = np.linspace(0, (scheme.seq_len or 1024) - 1, 200)
        prefix = f"{subject.label} " if len(subjects) > 1 else ""
        heads = chosen(wish, scheme.heads, 8 if len(subjects) == 1 else 3, "heads")
        curves += [Curve(f"{prefix}head {head}", distances, -slopes[head] * distances) for head in heads]
    return Chart("", curves, x="distance", y="bias")
