"""Pairs of channels, turning with the position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pecli.errors import ParameterError
from pecli.views.pictures.kinds.wavelengths import angles, telling
from pecli.views.pictures.panels import Circle, Picture, Subject, Wish, check_room, chosen

_POSITIONS = 2000
_MOST_TURNS = 8.0


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A spiral a pair: where it points over the table, from the first to the last."""
    if len(subjects) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (subject,) = subjects
    turning = angles(subject.scheme)
    length = int(getattr(subject.scheme, "seq_len", 1))
    positions = subject.first + np.linspace(0, length - 1, min(length, _POSITIONS))
    pairs = chosen(wish, len(turning), 6, "pairs") if wish.channels else telling(turning, length, 6, _MOST_TURNS)
    check_room(len(pairs))
    panels = []
    for pair in pairs:
        turns = float(turning[pair]) * max(1, length - 1) / (2 * np.pi)
        words = f"{turns:,.0f} turns" if turns >= 100 else f"{turns:.2g} turns" if turns else "never turns"
        panels.append(Circle(f"pair {pair}: {words}", positions * turning[pair], positions))
    return Picture("pairs turning with the position", panels, across=min(3, len(panels)))
