"""Pairs of channels that turn with the position, as spirals."""

import math
from collections.abc import Sequence

import numpy as np

from pecli.engine.arrays import Floats
from pecli.errors import ParameterError
from pecli.views.pictures.kinds.frequencies import angular_frequencies, informative_pairs
from pecli.views.pictures.kinds.kind import PictureKind, check_panels, shows_some
from pecli.views.pictures.panels import Chart, Curve, Picture
from pecli.views.pictures.plot_sources import PlotRequest, PlotSource

MAX_POSITIONS = 2000  #: Positions of a spiral.
MAX_TURNS = 8.0  #: Turns of the pairs that are chosen; more would be a disc.
CHOSEN_PAIRS = 6
MAX_ACROSS = 3


def circle(sources: Sequence[PlotSource], request: PlotRequest) -> Picture:
    """Return a picture with a spiral per pair of channels: its angle at each position.

    The first position is in the middle. A pair that turns fast has many windings.
    """
    if len(sources) > 1:
        raise ParameterError("kind", "circle", "it shows one scheme", "draw them apart")
    (source,) = sources
    frequencies = angular_frequencies(source)
    length = source.scheme.tensors()[0].rows
    pairs = _drawn_pairs(frequencies, length, request)
    check_panels(len(pairs))
    panels = []
    for pair in pairs:
        frequency = float(frequencies[pair])
        title = f"pair {pair}: {_turns(frequency, length)}"
        panels.append(_spiral(title, source.first, frequency, length))
    picture_title = f"pairs turning over {length:,} positions"
    return Picture(picture_title, panels, min(MAX_ACROSS, len(panels)), "Radius = position")


def _spiral(title: str, first_position: int, frequency: float, length: int) -> Chart:
    """Return the angle of a pair at each position, or at some of them if they are many."""
    positions = first_position + np.linspace(0, length - 1, min(length, MAX_POSITIONS))
    dots = Curve("", x=positions * frequency, y=positions)
    return Chart(title, [dots], "angle", "position", joined=False, polar=True)


def _drawn_pairs(frequencies: Floats, length: int, request: PlotRequest) -> list[int]:
    """Return the requested pairs, or a few whose spirals can be seen."""
    if request.channels:
        return request.choose(len(frequencies), CHOSEN_PAIRS, "pairs")
    return informative_pairs(frequencies, length, CHOSEN_PAIRS, MAX_TURNS)


CIRCLE = PictureKind(
    "circle",
    "pairs of channels turning with the position; they move in a .gif",
    circle,
    takes_channels=shows_some,
    moves=True,
)


def _turns(frequency: float, length: int) -> str:
    """Return how often a pair turns from the first to the last position: «0.25 turns», «1,304 turns»."""
    turns = frequency * max(1, length - 1) / (2 * math.pi)
    if not turns:
        return "does not rotate"
    if turns >= 100:
        return f"{turns:,.0f} turns"
    return f"{turns:.2g} turns"
