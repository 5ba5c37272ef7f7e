"""Colours that people of every colour vision can tell apart, as small tables; what lies between is interpolated."""

from functools import cache

import numpy as np

from pecli.engine.arrays import AnyArray

Colour = tuple[int, int, int]


def _colours(text: str) -> tuple[Colour, ...]:
    """Colours as HTML writes them."""
    return tuple((red, green, blue) for red, green, blue in map(bytes.fromhex, text.split()))


DIVERGING = _colours("143a78 3068ac 6a9ed0 aecde6 f6f6f4 f6cea4 e89656 c45c24 80300e")
"""Blue below the middle, orange above it, and as light as paper in it."""
SEQUENTIAL = _colours("12103a 2e2a70 325692 288296 3aac8a 88d06c f8ec60")
"""From dark blue to bright yellow; the lightness rises all the way."""
CURVES = _colours("0072b2 d55e00 009e73 cc79a7 56b4e9 e69f00 6644aa 7a5230 b21848 708400")
"""One after the other for curves: those of Okabe and Ito (2008), then four more, so that ten recipes have one each."""
BRIGHT = _colours("56b4e9 e69f00 009e73 cc79a7 d55e00 0072b2 b09cf0 c49c70 f4708c bed054")
"""The same for dark grounds, terminals included: the lightest first."""
UNKNOWN: Colour = (
    128,
    128,
    128,
)  #: What is no finite number; no other table has a plain grey of this lightness

DIVERGING_256 = (17, 18, 25, 32, 74, 110, 153, 189, 255, 230, 223, 216, 215, 208, 202, 166, 130)
SEQUENTIAL_256 = (17, 18, 24, 31, 37, 36, 72, 71, 113, 149, 191, 227)
BRIGHT_256 = (74, 178, 35, 175, 166, 25, 147, 179, 204, 149)
UNKNOWN_256 = 244
"""The same for 256 colours, picked by hand: the nearest ones of a coarse cube change in hue at every step."""


@cache
def steps(palette: tuple[Colour, ...]) -> AnyArray:
    """A palette in 256 steps: (256, 3)."""
    places = np.linspace(0, len(palette) - 1, 256)
    channels = [
        np.interp(places, np.arange(len(palette)), channel)
        for channel in np.array(palette, float).T
    ]
    return np.asarray(np.rint(np.stack(channels, axis=1)), np.uint8)


def step(number: int, count: int, *, dark: bool) -> Colour:
    """One of so many colours that are steps of one thing, without the end that is like the paper."""
    share = number / max(1, count - 1)
    red, green, blue = steps(SEQUENTIAL)[
        int((0.36 + 0.64 * share if dark else 0.1 + 0.78 * share) * 255)
    ].tolist()
    return red, green, blue
