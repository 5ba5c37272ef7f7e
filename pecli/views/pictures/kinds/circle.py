"""Pairs of channels, turning with the position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.errors import ParameterError
from pecli.views.pictures.kinds.wavelengths import angles
from pecli.views.pictures.panels import Circle, Picture, Subject, Wish, chosen, spread

_POSITIONS = 97


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A circle a pair: where it points at positions spread over the table."""
    if len(subjects) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (subject,) = subjects
    turning = angles(subject.scheme)
    length = int(getattr(subject.scheme, "seq_len", 1))
    positions = subject.first + np.array(spread(length, _POSITIONS), np.float64)
    panels = []
    for pair in chosen(wish, len(turning), 6, "pairs"):
        angle = float(turning[pair])
        turn = 2 * np.pi / angle if angle else np.inf
        words = f"a turn in {turn:,.0f} positions" if 100 <= turn < np.inf else f"a turn in {turn:.3g} positions"
        panels.append(Circle(f"pair {pair}: {words if angle else 'never turns'}", positions * angle, positions))
    return Picture("", panels, across=min(3, len(panels)))
