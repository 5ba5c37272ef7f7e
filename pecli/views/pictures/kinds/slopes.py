"""ALiBi's slopes, head by head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.numerics.rounding import widened
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish, chosen

_MANY, _FEW = 8, 3
"""Heads that are chosen of one subject, and of each of several."""
_KEYS = 1024
"""Keys that a query sees where nobody says how many."""


class Head(NamedTuple):
    """A head, under the name that tells it from the others."""

    label: str
    slope: float
    keys: int


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A curve a subject."""
    curves = []
    for subject in subjects:
        slopes = _slopes(subject)
        label = subject.label if len(subjects) > 1 else ""
        curves.append(Curve(label, np.arange(len(slopes), dtype=np.float64), slopes))
    return Picture("slope of each head", [Chart("", curves, x="head", y="slope", log_y=True, points=True)])


def heads_of(subjects: Sequence[Subject], wish: Wish) -> Iterator[Head]:
    """The heads that were asked for, or a few of every subject."""
    for subject in subjects:
        slopes = _slopes(subject)
        prefix = f"{subject.label}, " if len(subjects) > 1 else ""
        for head in chosen(wish, len(slopes), _MANY if len(subjects) == 1 else _FEW, "heads"):
            yield Head(f"{prefix}head {head}", float(slopes[head]), getattr(subject.scheme, "seq_len", None) or _KEYS)


def _slopes(subject: Subject) -> Floats:
    return widened(next(table for table in subject.tables if table.name == "slopes").array())
