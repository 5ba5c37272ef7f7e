"""Pairs of channels, turning with the position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.errors import ParameterError
from pecli.views.figures.wavelengths import angles
from pecli.views.panels import Circle, Picture, Subject, Wish, chosen

_POSITIONS = 64


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A circle a pair: where it points at each of the first positions."""
    if len(subjects) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (subject,) = subjects
    turning = angles(subject.scheme)
    count = min(_POSITIONS, int(getattr(subject.scheme, "seq_len", 1)))
    positions = subject.first + np.arange(count, dtype=np.float64)
    panels = []
    for pair in chosen(wish, len(turning), 6, "pairs"):
        angle = float(turning[pair])
        length = f"a turn in {2 * np.pi / angle:,.4g} positions" if angle else "never turns"
        panels.append(Circle(f"pair {pair}: {length}", positions * angle, subject.first))
    return Picture("", panels, across=min(3, len(panels)))
