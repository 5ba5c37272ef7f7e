"""Colours that people of every colour vision can distinguish.

A palette is a small table of colours; colours in between are interpolated.
"""

from functools import cache

import numpy as np

from pecli.engine.arrays import AnyArray

Colour = tuple[int, int, int]  #: Red, green and blue, each from 0 to 255.
Palette = tuple[Colour, ...]


def from_hex(digits: str) -> Colour:
    """Return a colour that is written as in HTML.

    >>> from_hex("#ff8000")
    (255, 128, 0)
    """
    red, green, blue = bytes.fromhex(digits.removeprefix("#"))
    return red, green, blue


def as_hex(colour: Colour) -> str:
    """Return a colour as HTML writes it.

    >>> as_hex((255, 128, 0))
    '#ff8000'
    """
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _palette(text: str) -> Palette:
    """Return colours that are separated by blanks."""
    return tuple(map(from_hex, text.split()))


DIVERGING = _palette("143a78 3068ac 6a9ed0 aecde6 f6f6f4 f6cea4 e89656 c45c24 80300e")
"""Blue below the middle, orange above it, and as light as paper in it."""

SEQUENTIAL = _palette("12103a 2e2a70 325692 288296 3aac8a 88d06c f8ec60")
"""From dark blue to bright yellow; the lightness rises all the way."""

CURVES = _palette("0072b2 d55e00 009e73 cc79a7 56b4e9 e69f00 6644aa 7a5230 b21848 708400")
"""One colour per curve on light paper.

The first six are from Okabe and Ito (2008). Four more follow, so that each of the ten precision
recipes of an audit has its own.
"""

BRIGHT = _palette("56b4e9 e69f00 009e73 cc79a7 d55e00 0072b2 b09cf0 c49c70 f4708c bed054")
"""One colour per curve on dark paper and in terminals: those of `CURVES`, the lightest first."""

UNKNOWN: Colour = (128, 128, 128)
"""The colour of values that are not finite: no palette has a plain grey of this lightness."""

# The same palettes for terminals of 256 colours. They are picked by hand: the nearest colours of
# the terminal's coarse cube would change in hue at every step.
DIVERGING_256 = (17, 18, 25, 32, 74, 110, 153, 189, 255, 230, 223, 216, 215, 208, 202, 166, 130)
SEQUENTIAL_256 = (17, 18, 24, 31, 37, 36, 72, 71, 113, 149, 191, 227)
BRIGHT_256 = (74, 178, 35, 175, 166, 25, 147, 179, 204, 149)
UNKNOWN_256 = 244

# `SEQUENTIAL` from end to end is too dark for dark paper and too light for light paper, so curves
# take only the part of it that can be seen: it starts at this share and spans that share.
_DARK_START, _DARK_SPAN = 0.36, 0.64
_LIGHT_START, _LIGHT_SPAN = 0.14, 0.74


def palette(*, centred: bool) -> Palette:
    """Return the colours of a heatmap; a centred one has zero in the middle of its scale."""
    return DIVERGING if centred else SEQUENTIAL


@cache
def steps(palette: Palette) -> AnyArray:
    """Return a palette in 256 steps, an array of shape (256, 3)."""
    stops = np.arange(len(palette))
    places = np.linspace(0, len(palette) - 1, 256)
    channels = np.array(palette, float).T
    interpolated = [np.interp(places, stops, channel) for channel in channels]
    return np.asarray(np.rint(np.stack(interpolated, axis=1)), np.uint8)


MIN_CONTRAST = 4.5
"""Contrast of a text with its paper that WCAG 2 (level AA) requires of small letters."""

_SHADES = 50  #: Steps in which a colour is made darker or lighter.


def contrast(first: Colour, second: Colour) -> float:
    """Return the contrast of two colours by WCAG 2: 1 if they are equal, 21 for black on white.

    >>> contrast((0, 0, 0), (255, 255, 255))
    21.0
    """
    darker, lighter = sorted((_luminance(first), _luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: Colour) -> float:
    """Return the relative luminance of an sRGB colour, from 0 to 1."""
    shares = np.array(colour) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def legible(colour: Colour, paper: Colour) -> Colour:
    """Return the colour of letters that name a curve: darker or lighter, so that they can be read.

    On white paper, the colour is mixed with ever more black, and on dark paper with white, until
    its contrast is enough. Orange has a contrast of only 2.25 with white:

    >>> legible((230, 159, 0), paper=(255, 255, 255))
    (156, 108, 0)
    """
    black_or_white = 255 if _luminance(paper) < 0.5 else 0
    for shade in range(_SHADES + 1):
        share = shade / _SHADES
        red, green, blue = (round(part + (black_or_white - part) * share) for part in colour)
        if contrast((red, green, blue), paper) >= MIN_CONTRAST:
            return red, green, blue
    return black_or_white, black_or_white, black_or_white


def step(number: int, count: int, *, dark: bool) -> Colour:
    """Return the colour of curve `number` of `count` curves that are steps of one quantity.

    They are evenly spaced in a palette: of 3 curves, curve 1 has the colour in the middle.
    """
    share = number / max(1, count - 1)
    if dark:
        place = _DARK_START + _DARK_SPAN * share
    else:
        place = _LIGHT_START + _LIGHT_SPAN * share
    red, green, blue = steps(SEQUENTIAL)[int(place * 255)].tolist()
    return red, green, blue
