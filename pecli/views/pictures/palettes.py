"""Colours that people of every colour vision can tell apart, as small tables; what lies between is interpolated."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Colour = tuple[int, int, int]

DIVERGING: tuple[Colour, ...] = (
    (20, 58, 120),
    (48, 104, 172),
    (106, 158, 208),
    (174, 205, 230),
    (246, 246, 244),
    (246, 206, 164),
    (232, 150, 86),
    (196, 92, 36),
    (128, 48, 14),
)
"""Blue below the middle, orange above it, and as light as paper in it."""

SEQUENTIAL: tuple[Colour, ...] = (
    (18, 16, 58),
    (46, 42, 112),
    (50, 86, 146),
    (40, 130, 150),
    (58, 172, 138),
    (136, 208, 108),
    (248, 236, 96),
)
"""From dark blue to bright yellow; the lightness rises all the way."""

DIVERGING_256 = (17, 18, 25, 32, 74, 110, 153, 189, 255, 230, 223, 216, 215, 208, 202, 166, 130)
SEQUENTIAL_256 = (17, 18, 24, 31, 37, 36, 72, 71, 113, 149, 191, 227)
"""The same for 256 colours, picked by hand: the nearest ones of a coarse cube change in hue at every step."""

CURVES: tuple[Colour, ...] = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (204, 121, 167),
    (86, 180, 233),
    (230, 159, 0),
    (102, 68, 170),
    (122, 82, 48),
    (178, 24, 72),
    (112, 132, 0),
)
"""One after the other for curves: those of Okabe and Ito (2008), then four more, so that ten recipes have one each."""

BRIGHT: tuple[Colour, ...] = (
    *(CURVES[4], CURVES[5], CURVES[2], CURVES[3], CURVES[1], CURVES[0]),
    *((176, 156, 240), (196, 156, 112), (244, 112, 140), (190, 208, 84)),
)
"""The same for dark grounds, terminals included: the lightest first."""

UNKNOWN: Colour = (128, 128, 128)
"""What is no finite number; no other table has a plain grey of this lightness."""

STEPS = 256


@cache
def steps(palette: tuple[Colour, ...]) -> NDArray[np.uint8]:
    """A palette in 256 steps: (256, 3)."""
    import numpy as np

    places = np.linspace(0, len(palette) - 1, STEPS)
    table = np.array(palette, float)
    channels = [np.interp(places, np.arange(len(palette)), table[:, k]) for k in range(3)]
    found: NDArray[np.uint8] = np.rint(np.stack(channels, axis=1)).astype(np.uint8)
    return found


def step(number: int, count: int, *, dark: bool) -> Colour:
    """One of so many colours that are steps of one thing, without the end that is like the paper."""
    share = number / max(1, count - 1)
    table = steps(SEQUENTIAL)
    red, green, blue = table[int((0.36 + 0.64 * share if dark else 0.1 + 0.78 * share) * (STEPS - 1))].tolist()
    return red, green, blue


def nearest_256(colour: Colour) -> int:
    """The closest of the 240 colours that terminals of 256 colours agree on: a cube of 6 × 6 × 6, and 24 greys.

    >>> nearest_256((255, 0, 0)), nearest_256((128, 128, 128))
    (196, 244)
    """
    levels = (0, 95, 135, 175, 215, 255)
    cube = [min(range(6), key=lambda k: abs(levels[k] - part)) for part in colour]
    grey = min(23, max(0, round((sum(colour) / 3 - 8) / 10)))
    in_cube = _distance(colour, (levels[cube[0]], levels[cube[1]], levels[cube[2]]))
    if _distance(colour, (8 + 10 * grey,) * 3) < in_cube:
        return 232 + grey
    return 16 + 36 * cube[0] + 6 * cube[1] + cube[2]


def _distance(one: Colour, other: Colour) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
