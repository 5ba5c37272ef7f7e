"""The frequencies of pairs of channels, and a choice of pairs that are worth drawing."""

import math
from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from pecli.engine.arrays import Floats
from pecli.engine.schemes.rope import Rope
from pecli.engine.schemes.scheme import Scheme
from pecli.views.pictures.plot_sources import PlotSource

SLOWEST_TURNS = 0.5  #: Turns of the slowest pair that is chosen: less would be a flat line.
TURNS_TOLERANCE = 1.6  #: Pairs faster than the fastest wanted by this factor would be bands.


def angular_frequencies(source: PlotSource) -> Floats:
    """Return the radians per position of each pair."""
    return np.array(source.scheme.angular_frequencies(), np.float64)


def scaled_rope(source: PlotSource) -> Rope | None:
    """Return the scheme of a source if it has a scaling; only RoPE has one."""
    return _scaled_rope(source.scheme)


@singledispatch
def _scaled_rope(scheme: Scheme) -> Rope | None:
    return None


@_scaled_rope.register
def _(scheme: Rope) -> Rope | None:
    return None if scheme.scaling == "none" else scheme


def informative_pairs(frequencies: Floats, length: int, max_pairs: int, turns: float) -> list[int]:
    """Return a few rotary pairs whose curves are worth drawing, the fastest first.

    A curve with less than half a turn over the table looks flat, and one with a hundred turns like a
    band. The pairs are spread evenly between these on a logarithmic scale. Of 4 curves up to 8
    turns, they are those nearest to 8, 3.2, 1.3 and 0.5 turns.

    Args:
        frequencies: Radians per position, one per pair.
        length: The rows of the table.
        max_pairs: The number of pairs, at most.
        turns: The turns over the table that the fastest of them should about have.
    """
    log_turns = _log_turns(frequencies, length)  # one per pair
    wanted = np.linspace(math.log(turns), math.log(SLOWEST_TURNS), max_pairs).tolist()
    # No pair is chosen twice. A table with fewer pairs than wanted gives only the first ones.
    nearest = _nearest_pairs(log_turns, wanted[: len(frequencies)])
    fastest_first = sorted(nearest, key=lambda pair: (-frequencies[pair], pair))
    # The pair nearest to 8 turns may have 100 of them, if the table has no slower one.
    log_turns_of_band = math.log(TURNS_TOLERANCE * turns)
    drawable = [pair for pair in fastest_first if log_turns[pair] < log_turns_of_band]
    if drawable:
        return drawable
    return fastest_first[-2:]  # All are bands: the two slowest are drawn nevertheless.


def _log_turns(frequencies: Floats, length: int) -> Floats:
    """Return the logarithm of the turns that each pair makes over a table; −inf if it makes none.

    Over 101 rows, a pair of 2π / 50 radians per position makes 2 turns: log 2.
    """
    last_position = max(1, length - 1)
    with np.errstate(divide="ignore"):  # A pair may have the frequency 0.
        return np.asarray(np.log(frequencies * last_position / (2 * math.pi)))


def _nearest_pairs(log_turns: Floats, wanted: Sequence[float]) -> list[int]:
    """Return the pair that is nearest to each wanted number of turns; none is chosen twice.

    Args:
        log_turns: The logarithm of each pair's turns over the table.
        wanted: Logarithms of numbers of turns, at most as many as there are pairs.
    """
    chosen: list[int] = []
    for wanted_log_turns in wanted:
        distances = np.abs(log_turns - wanted_log_turns)
        distances[chosen] = np.nan  # These are not available any more.
        chosen.append(int(np.nanargmin(distances)))
    return chosen
