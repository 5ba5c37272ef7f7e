"""How long each wave is, against the contexts that it has to span: the picture that explains scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pecli.engine.arrays import Floats
from pecli.views.pictures.panels import Chart, Curve, Picture, Subject, Wish

if TYPE_CHECKING:
    from pecli.engine.schemes.scheme import Scheme


_TELLING = ("trained on", "extended to")


def picture(subjects: Sequence[Subject], wish: Wish) -> Picture:
    """A curve a subject, and a line for every context."""
    curves = []
    levels: dict[float, str] = {}
    for subject in subjects:
        frequencies = angles(subject.scheme)
        with np.errstate(divide="ignore"):
            lengths = 2 * math.pi / frequencies
        curves.append(Curve(subject.label, np.arange(len(lengths), dtype=np.float64), lengths))
        contexts = subject.scheme.contexts(subject.context) if subject.scheme is not None else {}
        for length, word in contexts.items():
            if word in _TELLING or length not in levels:
                levels[length] = word
    if set(levels.values()) & {*_TELLING, "context"}:  # the length of the table says nothing then
        levels = {length: word for length, word in levels.items() if word != "length"}
    shown = [(f"{word} {length:,.0f}", length) for length, word in sorted(levels.items())]
    chart = Chart("", curves, x="pair", y="wavelength, in positions", log_y=True, levels=shown, points=True)
    turned = all(subject.applied_as == "rotation" for subject in subjects)
    return Picture(f"wavelength of each {'rotary' if turned else 'sine and cosine'} pair", [chart])


def angles(scheme: Scheme | None) -> Floats:
    """Radians per position, pair by pair."""
    assert scheme is not None
    return np.array(scheme.angular_frequencies(), np.float64)


def telling(turning: Floats, length: int, most: int, turns: float) -> list[int]:
    """A few pairs that make between so many turns and half a turn over the length, the fastest first."""
    with np.errstate(divide="ignore"):
        places = np.log(turning * max(1, length - 1) / (2 * math.pi))
    wanted = np.linspace(math.log(turns), math.log(0.5), most)
    found: list[int] = []
    for place in wanted.tolist()[: len(turning)]:
        away = np.abs(places - place)
        away[found] = np.nan
        found.append(int(np.nanargmin(away)))
    found.sort(key=lambda pair: (-turning[pair], pair))
    return [pair for pair in found if places[pair] < math.log(1.6 * turns)] or found[-2:]  # more would be bands
